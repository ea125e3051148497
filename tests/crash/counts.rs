//! What the runs of one scenario came to, printed when they are over.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use seslog::container::TailState;
use seslog::store::Verdict;

/// The counts of one scenario in all its encodings. Dropped, they are printed: one line, which `.ci/run lab` adds up.
#[derive(Debug)]
pub(crate) struct Counts {
    name: String,
    started: Instant,
    points: AtomicU64,
    images: AtomicU64,
    distinct: AtomicU64,
    unfinished: AtomicU64,
    torn: AtomicU64,
    damaged: AtomicU64,
    again: AtomicU64,
}

impl Counts {
    pub(crate) fn new(name: &str) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            name: name.to_owned(),
            started: Instant::now(),
            points: zero(),
            images: zero(),
            distinct: zero(),
            unfinished: zero(),
            torn: zero(),
            damaged: zero(),
            again: zero(),
        }
    }

    /// The power went, or a call failed, at one more place.
    pub(crate) fn point(&self) {
        add(&self.points);
    }

    /// One more image was made; whether it was new and has to be checked.
    pub(crate) fn image(&self, seen: &mut HashSet<u64>, print: u64) -> bool {
        add(&self.images);
        let is_new = seen.insert(print);
        if is_new {
            add(&self.distinct);
        }
        is_new
    }

    /// One more image was made and checked, of which only the container's end is known.
    pub(crate) fn forgery(&self, state: TailState) {
        add(&self.images);
        add(&self.distinct);
        match state {
            TailState::Torn => add(&self.torn),
            TailState::Unfinished => add(&self.unfinished),
            TailState::Damaged | TailState::Corrupt => add(&self.damaged),
            _ => {}
        }
    }

    /// One more image of a cut in the repair of an image was checked.
    pub(crate) fn second(&self) {
        add(&self.again);
    }

    pub(crate) fn verdict(&self, verdict: Option<Verdict>) {
        match verdict {
            Some(Verdict::Torn) => add(&self.torn),
            Some(Verdict::Unfinished) => add(&self.unfinished),
            Some(Verdict::DamagedTail) => add(&self.damaged),
            _ => {}
        }
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Drop for Counts {
    fn drop(&mut self) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        println!(
            "crash lab: {}: {} points, {} images, {} distinct, {} again; {} torn, {} unfinished, {} damaged; {}; {} s",
            self.name,
            get(&self.points),
            get(&self.images),
            get(&self.distinct),
            get(&self.again),
            get(&self.torn),
            get(&self.unfinished),
            get(&self.damaged),
            if std::thread::panicking() { "FAILED" } else { "no failure" },
            self.started.elapsed().as_secs(),
        );
    }
}
