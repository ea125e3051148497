//! Ordered lists of callbacks whose failures stay their own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// An error of the host.
pub type HostError = Box<dyn std::error::Error + Send + Sync>;

/// A callback that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallFailure {
    /// It returned an error.
    #[error(transparent)]
    Failed(#[from] HostError),
    /// It panicked, with this message.
    #[error("panicked: {0}")]
    Panicked(String),
}

/// Runs a callback of the host; a panic in it ends here.
pub(crate) fn contained(call: impl FnOnce() -> Result<(), HostError>) -> Result<(), CallFailure> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(said) => said.map_err(CallFailure::Failed),
        Err(payload) => {
            let words = payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned());
            Err(CallFailure::Panicked(words.unwrap_or_default()))
        }
    }
}

/// Callbacks in the order in which they were added.
pub(crate) struct Listeners<F: ?Sized>(Arc<Mutex<List<F>>>);

struct List<F: ?Sized> {
    next: u64,
    /// Replaced as a whole, so that whoever is calling them goes on with what it has.
    calls: Arc<Vec<(u64, Arc<F>)>>,
}

impl<F: ?Sized> Default for Listeners<F> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(List { next: 0, calls: Arc::default() })))
    }
}

impl<F: ?Sized + Send + Sync + 'static> Listeners<F> {
    pub(crate) fn add(&self, call: Arc<F>) -> Subscription {
        let mut list = self.0.lock();
        let id = list.next;
        list.next = id.saturating_add(1);
        Arc::make_mut(&mut list.calls).push((id, call));
        let list: Weak<Mutex<List<F>>> = Arc::downgrade(&self.0);
        Subscription(Some(Box::new(move || {
            if let Some(list) = list.upgrade() {
                let removed = {
                    let mut list = list.lock();
                    let calls = Arc::make_mut(&mut list.calls);
                    calls.iter().position(|(known, _)| *known == id).map(|at| calls.remove(at))
                };
                // What the callback owns is dropped without the lock.
                drop(removed);
            }
        })))
    }

    /// The callbacks as they are now.
    pub(crate) fn now(&self) -> Calls<F> {
        Calls { calls: Arc::clone(&self.0.lock().calls), at: 0 }
    }
}

/// The callbacks of a list as they were at one moment, one after the other.
pub(crate) struct Calls<F: ?Sized> {
    calls: Arc<Vec<(u64, Arc<F>)>>,
    at: usize,
}

impl<F: ?Sized> Iterator for Calls<F> {
    type Item = Arc<F>;

    fn next(&mut self) -> Option<Arc<F>> {
        let (_, call) = self.calls.get(self.at)?;
        self.at = self.at.saturating_add(1);
        Some(Arc::clone(call))
    }
}

/// Keeps a callback registered; dropping it removes the callback. One that is running finishes, and what has begun to call
/// a list of them still calls it.
#[must_use = "a callback is removed when its subscription is dropped"]
pub struct Subscription(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Subscription {
    /// Leaves the callback registered for as long as there is anything to observe.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(remove) = self.0.take() {
            remove();
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Subscription")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Calls = Listeners<dyn Fn(&Mutex<Vec<u32>>) + Send + Sync>;

    fn heard(calls: &Calls) -> Vec<u32> {
        let heard = Mutex::new(Vec::new());
        calls.now().for_each(|call| call(&heard));
        heard.into_inner()
    }

    #[test]
    fn callbacks_are_called_in_order_until_their_subscription_ends() {
        let calls = Calls::default();
        let add = |n| calls.add(Arc::new(move |heard: &Mutex<Vec<u32>>| heard.lock().push(n)));
        let (first, second) = (add(1), add(2));
        add(3).keep();
        assert_eq!(heard(&calls), [1, 2, 3]);
        drop(first);
        assert_eq!(heard(&calls), [2, 3]);
        let begun = calls.now();
        drop(second);
        assert_eq!((begun.count(), calls.now().count()), (2, 1));
        let late = add(4);
        drop(calls);
        drop(late);
    }

    #[test]
    fn errors_and_panics_end_at_the_call() {
        assert!(contained(|| Ok(())).is_ok());
        assert!(matches!(contained(|| Err("no".into())), Err(CallFailure::Failed(_))));
        let loud = contained(|| panic!("at {}", 7)).unwrap_err();
        assert_eq!(loud.to_string(), "panicked: at 7");
    }
}
