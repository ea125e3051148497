//! Who writes which session in this process.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::layout::printable;
use crate::json::Text;
use crate::row::Header;

/// Claims of one store instance, by session id. The lock between processes is another one, in the session's folder.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    by_id: Mutex<HashMap<Text, ClaimState>>,
}

#[derive(Debug)]
struct ClaimState {
    /// A session that is created and not yet stored.
    pending: Option<Pending>,
}

/// A session of which nothing is on disk yet, as this instance shows it.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) header: Header,
    pub(crate) inherited: u64,
}

/// The right to write one session in this process. Dropping it frees the session.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Arc<Claims>,
    id: Text,
    shown_id: String,
}

impl Claims {
    /// Takes the claim on `id`, or `None` if somebody has it. `pending` describes a session that is not stored yet.
    pub(crate) fn take(self: &Arc<Self>, id: &Text, pending: Option<Pending>) -> Option<Claim> {
        let mut by_id = self.by_id.lock();
        if by_id.contains_key(id) {
            return None;
        }
        by_id.insert(id.clone(), ClaimState { pending });
        Some(Claim { claims: Arc::clone(self), id: id.clone(), shown_id: printable(id) })
    }

    /// The session `id`, if it is created and not yet stored.
    pub(crate) fn pending(&self, id: &Text) -> Option<Pending> {
        self.by_id.lock().get(id).and_then(|claim| claim.pending.clone())
    }

    /// All sessions that are created and not yet stored.
    pub(crate) fn all_pending(&self) -> Vec<Pending> {
        self.by_id.lock().values().filter_map(|claim| claim.pending.clone()).collect()
    }
}

impl Claim {
    /// The session is created, and not stored yet.
    pub(crate) fn created(&self, pending: Pending) {
        self.set(Some(pending));
    }

    /// The session is stored from now on.
    pub(crate) fn materialised(&self) {
        self.set(None);
    }

    fn set(&self, pending: Option<Pending>) {
        if let Some(claim) = self.claims.by_id.lock().get_mut(&self.id) {
            claim.pending = pending;
        }
    }

    /// The id.
    pub(crate) const fn id(&self) -> &Text {
        &self.id
    }

    /// The id, printable.
    pub(crate) fn shown_id(&self) -> &str {
        &self.shown_id
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.by_id.lock().remove(&self.id);
    }
}
