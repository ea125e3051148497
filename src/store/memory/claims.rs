//! Who writes which session in one instance, and which sessions it has created and not stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::json::Text;
use crate::row::Header;

/// The claims of one instance, by session id.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<BTreeMap<Text, Option<Pending>>>);

/// A session that this instance has created, and of which nothing is stored.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) header: Header,
    pub(super) inherited: u64,
    /// Makes its revision.
    pub(super) change: u64,
}

/// The right to write one session in this instance. Dropping it frees the session, and erases one that was never stored.
#[derive(Debug)]
pub(super) struct Claim {
    claims: Arc<Claims>,
    id: Text,
}

impl Claims {
    /// Takes the claim on `id`, or `None` if somebody has it.
    pub(super) fn take(self: &Arc<Self>, id: &Text) -> Option<Claim> {
        let mut claims = self.0.lock();
        if claims.contains_key(id) {
            return None;
        }
        claims.insert(id.clone(), None);
        Some(Claim { claims: Arc::clone(self), id: id.clone() })
    }

    pub(super) fn pending(&self, id: &Text) -> Option<Pending> {
        self.0.lock().get(id).cloned().flatten()
    }

    pub(super) fn all_pending(&self) -> Vec<Pending> {
        self.0.lock().values().flatten().cloned().collect()
    }
}

impl Claim {
    /// Shows the session as one that is created and not stored; `None` once it is stored.
    pub(super) fn show(&self, pending: Option<Pending>) {
        self.claims.0.lock().insert(self.id.clone(), pending);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.0.lock().remove(&self.id);
    }
}
