//! Several sessions at once.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;

use super::super::cancel::Cancel;
use super::Query;
use super::fault::QueryFault;
use super::observation::Observation;
use crate::json::Text;

/// How many sessions [`Query::read_many`] is well asked to read at a time.
pub const BATCH_READS: NonZeroUsize = NonZeroUsize::new(4).expect("it is not 0");

impl Query {
    /// Reads those sessions, `concurrency` at a time: each id once, in the order of their first appearance, each with its own
    /// outcome. What is read is all in memory at once.
    ///
    /// The calling thread reads too, so it waits for nobody if no other thread can be started. Once `cancel` is cancelled, those
    /// that were not read yet are [`QueryFault::Aborted`].
    pub fn read_many(
        &self,
        ids: &[Text],
        concurrency: NonZeroUsize,
        cancel: &Cancel,
    ) -> Vec<(Text, Result<Arc<Observation>, QueryFault>)> {
        let mut seen = HashSet::with_capacity(ids.len());
        let ids: Vec<&Text> = ids.iter().filter(|id| seen.insert(*id)).collect();
        let next = AtomicUsize::new(0);
        let outcomes = Mutex::new(Vec::with_capacity(ids.len()));
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(id) = ids.get(index) else { break };
                let outcome = self.read(id, cancel);
                outcomes.lock().push((index, outcome));
            }
        };
        thread::scope(|scope| {
            for _ in 1..concurrency.get().min(ids.len()) {
                let started =
                    thread::Builder::new().name("seslog-query".to_owned()).spawn_scoped(scope, work);
                if started.is_err() {
                    break;
                }
            }
            work();
        });
        let mut outcomes = outcomes.into_inner();
        outcomes.sort_unstable_by_key(|(index, _)| *index);
        ids.into_iter().cloned().zip(outcomes.into_iter().map(|(_, outcome)| outcome)).collect()
    }
}
