//! The sessions that are open for writing through one instance.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::sync::Mutex;
use super::live::Live;
use crate::json::Text;

/// The active write handle of each id, of which there is at most one.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<BTreeMap<Text, Arc<Live>>>);

impl Registry {
    pub(super) fn get(&self, id: &Text) -> Option<Arc<Live>> {
        self.0.lock().get(id).map(Arc::clone)
    }

    /// All of them, in order of their ids.
    pub(super) fn all(&self) -> Vec<Arc<Live>> {
        self.0.lock().values().map(Arc::clone).collect()
    }

    pub(super) fn enter(&self, live: &Arc<Live>) {
        self.0.lock().insert(live.id().clone(), Arc::clone(live));
    }

    /// Removes `live`, and never a later one of its id.
    pub(super) fn leave(&self, live: &Live) {
        let mut by_id = self.0.lock();
        let left = match by_id.get(live.id()) {
            Some(known) if std::ptr::eq(Arc::as_ptr(known), live) => by_id.remove(live.id()),
            _ => None,
        };
        // What it owns is dropped without the lock.
        drop(by_id);
        drop(left);
    }
}
