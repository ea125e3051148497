//! What a host decides about write-behind.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::clock::{Clock, SystemClock};
use crate::error::Error;
use crate::json::Text;

/// How long the first event that waits may wait. Later ones do not extend it.
///
/// A bound on intentional waiting only: how long the disk takes comes on top.
pub const WINDOW: Duration = Duration::from_millis(200);

/// Settings of a [`WriteBehind`](super::WriteBehind).
#[derive(Clone)]
pub struct BehindOptions {
    /// From the first event that waits to the drain that stores it; [`WINDOW`] unless there is a reason.
    pub window: Duration,
    /// Bytes of rows that may wait in one session, those being written included; 4 MiB. A row longer than that is taken
    /// when nothing waits. At half of it a drain begins before its window ends.
    pub queue_bytes_max: usize,
    /// Events that may wait in one session, those being written included; 8192. At half of it a drain begins at once.
    pub queue_events_max: usize,
    /// Threads that drain, which is how many syncs run side by side; 8.
    ///
    /// Syncs that run at the same time share a commit of the file system's journal. A flush of 200 sessions with an event each
    /// (`benches/live.rs`, ext4): 240 ms one after the other, 46 ms with 2, 20 ms with 4, 12 ms with 8, and no less with 16 or
    /// 32. One `syncfs` for all of them also waits for what others have to write, up to 800 ms, so it is not offered.
    pub drains: usize,
    /// What the window is measured with.
    pub clock: Arc<dyn Clock>,
    /// Hears of failures that no caller is there for: of a drain at its window's end, once until an explicit drain, and
    /// of a session that was disposed of or whose handle was dropped. Called without a lock.
    pub report: Option<Arc<BehindReport>>,
}

/// Hears of a session's failure in the background.
pub type BehindReport = dyn Fn(&Text, &Error) + Send + Sync;

impl Default for BehindOptions {
    fn default() -> Self {
        Self {
            window: WINDOW,
            queue_bytes_max: 4 << 20,
            queue_events_max: 8192,
            drains: 8,
            clock: Arc::new(SystemClock::new()),
            report: None,
        }
    }
}

impl BehindOptions {
    pub(super) fn tell(&self, id: &Text, error: &Error) {
        if let Some(report) = &self.report {
            report(id, error);
        }
    }
}

impl fmt::Debug for BehindOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BehindOptions")
            .field("window", &self.window)
            .field("queue_bytes_max", &self.queue_bytes_max)
            .field("queue_events_max", &self.queue_events_max)
            .field("drains", &self.drains)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
