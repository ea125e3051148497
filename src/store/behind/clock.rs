//! What the window is measured with.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::sync::Mutex;

/// A clock that only goes forward.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Time since an origin of the clock's own.
    fn now(&self) -> Duration;

    /// Asks to be called after each jump of a clock that does not go by itself. One that does never calls.
    fn on_step(&self, wake: Box<dyn Fn() + Send + Sync>) {
        drop(wake);
    }
}

/// The system's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// A clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that stands still until it is stepped: for tests that prove when something happens without sleeping.
///
/// Clones are one clock. After a step, [`WriteBehind::settle`](super::WriteBehind::settle) returns once everything that
/// became due has been done, so that "not yet" and "now" are both certain:
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use seslog::json::Text;
/// # use seslog::row::Header;
/// # use seslog::store::{BehindOptions, Cancel, FileStore, ManualClock, SessionAccess, SessionPersistence, WINDOW, WriteBehind};
/// # use seslog::units::{Generation, UnixMs};
/// # let root = tempfile::tempdir()?;
/// let clock = ManualClock::new();
/// let options = BehindOptions { clock: Arc::new(clock.clone()), ..BehindOptions::default() };
/// let behind = WriteBehind::with_options(Arc::new(FileStore::new(root.path())), options);
/// let id = Text::from("s-1");
/// let header = Header::new(Generation::CURRENT, id.clone(), UnixMs::new(1_767_225_600_000))?;
/// let handle = behind.create(header, None, &Cancel::never())?;
///
/// behind.try_route(&id, br#"{"type":"turn/start","seq":0,"time":1767225600001,"data":{"turn":1}}"#)?;
/// clock.step(WINDOW - Duration::from_millis(1));
/// behind.settle();
/// assert!(handle.read(0, 9, &Cancel::never())?.is_empty());
/// clock.step(Duration::from_millis(1));
/// behind.settle();
/// assert_eq!(handle.read(0, 9, &Cancel::never())?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Hand>);

#[derive(Default)]
struct Hand {
    now: Mutex<Duration>,
    wakes: Mutex<Vec<Arc<Wake>>>,
}

type Wake = dyn Fn() + Send + Sync;

impl ManualClock {
    /// A clock at its origin.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves it forward.
    pub fn step(&self, by: Duration) {
        {
            let mut now = self.0.now.lock();
            *now = now.saturating_add(by);
        }
        let wakes = self.0.wakes.lock().clone();
        wakes.iter().for_each(|wake| wake());
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.0.now.lock()
    }

    fn on_step(&self, wake: Box<dyn Fn() + Send + Sync>) {
        self.0.wakes.lock().push(wake.into());
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}
