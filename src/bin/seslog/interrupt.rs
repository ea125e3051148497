//! SIGINT as a request to end at a good place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use seslog::store::Waker;
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// Notes the first SIGINT, and wakes whoever waits. The second one ends the program where it is.
#[derive(Debug)]
pub(crate) struct Interrupt {
    is_asked: Arc<AtomicBool>,
}

/// What a shell reports of a program that SIGINT killed.
const KILLED: i32 = 130;

impl Interrupt {
    /// Takes SIGINT over for the rest of the program's life.
    ///
    /// # Errors
    /// [`Failure`] if the system refuses.
    pub(crate) fn wakes(waker: Waker) -> Result<Self, Failure> {
        let refused = |cause| Failure::io("SIGINT cannot be caught", cause, "report this as a bug");
        let mut signals = Signals::new([SIGINT]).map_err(refused)?;
        let is_asked = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&is_asked);
        thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(move || {
                for _ in signals.forever() {
                    if asked.swap(true, Ordering::Relaxed) {
                        std::process::exit(KILLED);
                    }
                    waker.wake();
                }
            })
            .map_err(refused)?;
        Ok(Self { is_asked })
    }

    /// Whether to end.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }
}
