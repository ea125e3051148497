//! Compressing the segments of one append on cores that have nothing else to do.

use std::collections::VecDeque;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::zstd::Encoder;

/// Whoever waits for what is about to come looks out for it so long before it sleeps: to fall asleep and be woken takes half as long.
const AWAKE: Duration = Duration::from_micros(100);

/// A helper without work for so long ends.
const PATIENCE: Duration = if cfg!(test) { Duration::from_millis(200) } else { Duration::from_secs(5) };

/// A frame of each of `contents`, in order: what `encoder` makes of it.
///
/// This thread makes all that no helper has begun when it comes to it, so that a busy machine costs no more than a copy of what was
/// offered. There is a helper for each core but one, started when it is wanted; those that are busy are offered nothing.
pub(super) fn encode_each(encoder: Encoder, contents: &[&[u8]]) -> Vec<Vec<u8>> {
    HELPERS.encode_each(encoder, contents)
}

/// Wakes a helper that has nothing to do, for work that [`encode_each`] is about to bring: it comes as long before it as a row check
/// takes, which is how long waking takes.
pub(super) fn rouse() {
    HELPERS.rouse();
}

static HELPERS: LazyLock<Arc<Helpers>> = LazyLock::new(|| Arc::new(Helpers::new(other_processors())));

/// Processors besides the one that asks. Asked once: the system's answer stands in several files.
pub(super) fn other_processors() -> usize {
    static OTHERS: LazyLock<usize> =
        LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from).saturating_sub(1));
    *OTHERS
}

/// Threads that compress.
#[derive(Debug)]
struct Helpers {
    max: usize,
    state: Mutex<State>,
    offered: Condvar,
    /// How often work was offered.
    offers: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Arc<Job>>,
    /// Threads that run.
    started: usize,
    /// Those of them that make a frame.
    busy: usize,
    /// Work is about to be offered.
    is_roused: bool,
}

/// Content that becomes a frame, here or on another thread.
#[derive(Debug)]
struct Job {
    encoder: Encoder,
    content: Vec<u8>,
    progress: Mutex<Progress>,
    done: Condvar,
}

#[derive(Debug)]
enum Progress {
    Offered,
    Taken,
    Done(Vec<u8>),
    /// The thread that took it did not come to an end.
    Failed,
}

impl Helpers {
    const fn new(max: usize) -> Self {
        let state = State { queue: VecDeque::new(), started: 0, busy: 0, is_roused: false };
        Self { max, state: Mutex::new(state), offered: Condvar::new(), offers: AtomicUsize::new(0) }
    }

    fn encode_each(self: &Arc<Self>, encoder: Encoder, contents: &[&[u8]]) -> Vec<Vec<u8>> {
        let encode = |content: &[u8]| {
            let mut frame = Vec::new();
            encoder.encode(content, &mut frame);
            frame
        };
        // What is offered is what comes last: this thread begins with the first.
        let offered = contents.len().saturating_sub(1).min(self.idle().saturating_mul(4));
        let own = contents.len().saturating_sub(offered);
        let (own, offered) = contents.split_at_checked(own).unwrap_or((contents, &[]));
        let jobs: Vec<_> = offered.iter().map(|content| Job::new(encoder, content)).collect();
        self.offer(&jobs);
        let mut frames: Vec<_> = own.iter().map(|content| encode(content)).collect();
        for job in &jobs {
            job.run();
        }
        self.withdraw(&jobs);
        frames.extend(jobs.iter().map(|job| job.wait().unwrap_or_else(|| encode(&job.content))));
        frames
    }

    /// Helpers that could begin now.
    fn idle(&self) -> usize {
        let state = self.state.lock();
        self.max.saturating_sub(state.busy.max(state.queue.len()))
    }

    fn offer(self: &Arc<Self>, jobs: &[Arc<Job>]) {
        if jobs.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        state.queue.extend(jobs.iter().cloned());
        let wanted = jobs.len().saturating_add(state.busy).min(self.max);
        while state.started < wanted {
            let helpers = Arc::clone(self);
            let thread = thread::Builder::new().name("seslog-zstd".to_owned());
            // Without a thread the work is done where it was wanted.
            if thread.spawn(move || helpers.help()).is_err() {
                break;
            }
            state.started = state.started.saturating_add(1);
        }
        drop(state);
        self.offers.fetch_add(1, Ordering::Release);
        self.offered.notify_all();
    }

    fn rouse(&self) {
        let mut state = self.state.lock();
        if state.queue.is_empty() && state.busy < state.started {
            state.is_roused = true;
            drop(state);
            self.offered.notify_one();
        }
    }

    /// Returns once more work was offered than `before`, or does not seem to come.
    fn look_out(&self, before: usize) {
        let began = Instant::now();
        while self.offers.load(Ordering::Acquire) == before && began.elapsed() < AWAKE {
            spin_loop();
        }
    }

    /// Takes back what no helper has come for.
    fn withdraw(&self, jobs: &[Arc<Job>]) {
        if !jobs.is_empty() {
            let is_ours = |queued: &Arc<Job>| jobs.iter().any(|job| Arc::ptr_eq(job, queued));
            self.state.lock().queue.retain(|queued| !is_ours(queued));
        }
    }

    /// Makes frames until none has been wanted for a while.
    fn help(&self) {
        let mut state = self.state.lock();
        loop {
            let Some(job) = state.queue.pop_front() else {
                if std::mem::take(&mut state.is_roused) {
                    let before = self.offers.load(Ordering::Acquire);
                    drop(state);
                    self.look_out(before);
                    state = self.state.lock();
                } else if self.offered.wait_for(&mut state, PATIENCE).timed_out() && state.queue.is_empty() {
                    break;
                }
                continue;
            };
            state.busy = state.busy.saturating_add(1);
            drop(state);
            job.run();
            drop(job);
            state = self.state.lock();
            state.busy = state.busy.saturating_sub(1);
        }
        state.started = state.started.saturating_sub(1);
    }
}

impl Job {
    fn new(encoder: Encoder, content: &[u8]) -> Arc<Self> {
        let (progress, done) = (Mutex::new(Progress::Offered), Condvar::new());
        Arc::new(Self { encoder, content: content.to_vec(), progress, done })
    }

    /// Makes the frame, unless another thread has begun to.
    fn run(&self) {
        /// Tells whoever waits that it waits in vain.
        struct Unfinished<'a>(&'a Job);
        impl Drop for Unfinished<'_> {
            fn drop(&mut self) {
                let Self(job) = *self;
                let mut progress = job.progress.lock();
                if matches!(*progress, Progress::Taken) {
                    *progress = Progress::Failed;
                }
                job.done.notify_all();
            }
        }
        {
            let mut progress = self.progress.lock();
            if !matches!(*progress, Progress::Offered) {
                return;
            }
            *progress = Progress::Taken;
        }
        let finished = Unfinished(self);
        let mut frame = Vec::new();
        self.encoder.encode(&self.content, &mut frame);
        *self.progress.lock() = Progress::Done(frame);
        drop(finished);
    }

    /// The frame, once it is made. `None` if it never will be.
    fn wait(&self) -> Option<Vec<u8>> {
        let began = Instant::now();
        let mut progress = self.progress.lock();
        while matches!(*progress, Progress::Taken) && began.elapsed() < AWAKE {
            drop(progress);
            spin_loop();
            progress = self.progress.lock();
        }
        self.done.wait_while(&mut progress, |progress| matches!(progress, Progress::Taken));
        match std::mem::replace(&mut *progress, Progress::Failed) {
            Progress::Done(frame) => Some(frame),
            Progress::Offered | Progress::Taken | Progress::Failed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{LEVEL_DEFAULT, LEVEL_STORE};

    fn alone(encoder: Encoder, contents: &[&[u8]]) -> Vec<Vec<u8>> {
        let encode = |content: &&[u8]| {
            let mut frame = Vec::new();
            encoder.encode(content, &mut frame);
            frame
        };
        contents.iter().map(encode).collect()
    }

    #[test]
    fn frames_made_side_by_side_are_those_made_one_after_the_other() {
        let contents: Vec<Vec<u8>> =
            (0..9).map(|n| format!("row {n}\n").into_bytes().repeat(n * 3000)).collect();
        let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        for max in [0, 1, 3] {
            let helpers = Arc::new(Helpers::new(max));
            for level in [LEVEL_STORE, 1, LEVEL_DEFAULT] {
                let encoder = Encoder::new(level);
                let expected = alone(encoder, &contents);
                thread::scope(|scope| {
                    for _ in 0..4 {
                        scope.spawn(|| {
                            for _ in 0..20 {
                                assert_eq!(helpers.encode_each(encoder, &contents), expected);
                            }
                        });
                    }
                });
            }
            assert!(helpers.state.lock().started <= max);
            assert!(helpers.encode_each(Encoder::new(1), &[]).is_empty());
        }
    }

    #[test]
    fn a_helper_that_was_roused_takes_part_or_falls_asleep_again() {
        let helpers = Arc::new(Helpers::new(1));
        let contents: [&[u8]; 3] = [b"a\n", b"b\n", b"c\n"];
        let encoder = Encoder::new(LEVEL_DEFAULT);
        helpers.rouse();
        assert!(!helpers.state.lock().is_roused, "there is none yet");
        for _ in 0..100 {
            helpers.rouse();
            assert_eq!(helpers.encode_each(encoder, &contents), alone(encoder, &contents));
            helpers.rouse();
        }
        let began = Instant::now();
        while helpers.state.lock().started > 0 {
            assert!(began.elapsed() < 20 * PATIENCE, "roused for nothing, it ends as ever");
            thread::sleep(PATIENCE / 20);
        }
    }

    #[test]
    fn a_helper_that_never_comes_is_not_waited_for() {
        let helpers = Arc::new(Helpers::new(1));
        // As if it were there, and had not been scheduled yet.
        helpers.state.lock().started = 1;
        let contents: [&[u8]; 3] = [b"a\n", b"b\n", b"c\n"];
        let encoder = Encoder::new(LEVEL_DEFAULT);
        assert_eq!(helpers.encode_each(encoder, &contents), alone(encoder, &contents));
        assert!(helpers.state.lock().queue.is_empty(), "it comes, and finds nothing left to do");
    }

    #[test]
    fn a_helper_that_has_nothing_to_do_ends() {
        let helpers = Arc::new(Helpers::new(2));
        let contents: [&[u8]; 3] = [b"a\n", b"b\n", b"c\n"];
        helpers.encode_each(Encoder::new(1), &contents);
        assert!((1..=2).contains(&helpers.state.lock().started));
        let began = Instant::now();
        while helpers.state.lock().started > 0 {
            assert!(began.elapsed() < 20 * PATIENCE);
            thread::sleep(PATIENCE / 20);
        }
    }

    #[test]
    fn a_thread_that_breaks_off_leaves_its_job_to_the_one_that_wants_it() {
        let job = Job::new(Encoder::new(1), b"a\n");
        *job.progress.lock() = Progress::Taken;
        let waiting = {
            let job = Arc::clone(&job);
            thread::spawn(move || job.wait())
        };
        *job.progress.lock() = Progress::Failed;
        job.done.notify_all();
        assert_eq!(waiting.join().unwrap(), None);
    }
}
