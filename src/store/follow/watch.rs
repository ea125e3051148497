//! Waiting until a look at a followed log is worth it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

#[cfg(feature = "follow")]
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

/// Waits for changes in folders: told by the system with the feature `follow` (inotify, kqueue), and at intervals in any case.
///
/// The interval is what serves where the system tells nothing: on network file systems, of changes that another machine made,
/// and when its watches are used up.
#[derive(Debug)]
pub struct Watch {
    woken: Receiver<()>,
    waker: Waker,
    interval: Duration,
    armed: Vec<Armed>,
    #[cfg(feature = "follow")]
    watcher: Option<RecommendedWatcher>,
}

/// Ends a wait early, from any thread.
#[derive(Clone, Debug)]
pub struct Waker(SyncSender<()>);

/// A folder, and which one it was when it began to be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Armed {
    path: PathBuf,
    folder: Option<(u64, u64)>,
}

impl Waker {
    /// Ends the wait that is under way, or the next one.
    pub fn wake(&self) {
        // A wake-up that is not yet consumed does for this one too.
        let _full = self.0.try_send(());
    }
}

impl Watch {
    /// The interval where the system tells of changes, or is believed to.
    pub const INTERVAL: Duration = Duration::from_secs(1);
    /// The interval where it does not.
    pub const INTERVAL_UNTOLD: Duration = Duration::from_millis(100);

    /// A watch on nothing yet. `interval` is the longest wait; `None`: [`Watch::INTERVAL`], or [`Watch::INTERVAL_UNTOLD`] where
    /// the system tells nothing.
    #[must_use]
    pub fn new(interval: Option<Duration>) -> Self {
        let (sender, woken) = sync_channel(1);
        let waker = Waker(sender);
        #[cfg(feature = "follow")]
        let watcher = watcher(waker.clone());
        #[cfg(feature = "follow")]
        let is_told = watcher.is_some();
        #[cfg(not(feature = "follow"))]
        let is_told = false;
        let default = if is_told { Self::INTERVAL } else { Self::INTERVAL_UNTOLD };
        Self {
            woken,
            waker,
            interval: interval.unwrap_or(default),
            armed: Vec::new(),
            #[cfg(feature = "follow")]
            watcher,
        }
    }

    /// Ends waits of this watch.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Returns when something changed in one of `folders`, when somebody wakes it, or when the interval is over.
    ///
    /// Returns at once when other folders are to be watched than before, or another folder has the name: what happened before the
    /// watch stood is for the caller to look for.
    pub fn wait(&mut self, folders: Vec<PathBuf>) {
        let wanted: Vec<Armed> = folders.into_iter().map(Armed::now).collect();
        if wanted != self.armed {
            self.arm(wanted);
            return;
        }
        // Over either way; the other end of the channel is ours, so it is never closed.
        let _over = self.woken.recv_timeout(self.interval);
    }

    #[cfg(feature = "follow")]
    fn arm(&mut self, wanted: Vec<Armed>) {
        if let Some(watcher) = &mut self.watcher {
            for old in &self.armed {
                // Of a folder that is gone the system has dropped the watch itself.
                let _gone = watcher.unwatch(&old.path);
            }
            for new in &wanted {
                // What cannot be watched is looked at when the interval is over.
                let _refused = watcher.watch(&new.path, RecursiveMode::NonRecursive);
            }
        }
        self.armed = wanted;
    }

    #[cfg(not(feature = "follow"))]
    fn arm(&mut self, wanted: Vec<Armed>) {
        self.armed = wanted;
    }
}

impl Armed {
    fn now(path: PathBuf) -> Self {
        let folder = fs::metadata(&path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        Self { path, folder }
    }
}

#[cfg(feature = "follow")]
fn watcher(waker: Waker) -> Option<RecommendedWatcher> {
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Our own reading is no change.
        if !matches!(event, Ok(notify::Event { kind: EventKind::Access(_), .. })) {
            waker.wake();
        }
    })
    .ok()
}
