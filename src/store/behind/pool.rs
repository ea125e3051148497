//! One timer and a few threads that drain, for all sessions of an instance.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::super::sync::{Condvar, Mutex, MutexGuard, Thread};
use super::live::Live;
use super::options::BehindOptions;
use crate::error::{Error, Result};

/// Threads that drain what is due. They start with the first thing to do, and end with [`Pool::stop`].
pub(super) struct Pool {
    options: BehindOptions,
    state: Mutex<PoolState>,
    /// For the timer: the first deadline is another one, or the clock jumped.
    timer: Condvar,
    /// For the threads that drain: there is something to do.
    work: Condvar,
    /// Nothing is due any more.
    idle: Condvar,
}

#[derive(Default)]
struct PoolState {
    /// All windows are equally long, so the first to end is the first that was opened.
    deadlines: VecDeque<Deadline>,
    ready: VecDeque<Job>,
    running: usize,
    threads: Vec<Thread>,
    /// Threads of an earlier generation end as soon as nothing is ready.
    generation: u64,
}

struct Deadline {
    at: Duration,
    window: Window,
}

/// One window of one session.
pub(super) struct Window {
    pub(super) live: Weak<Live>,
    pub(super) number: u64,
}

enum Job {
    Drain(Window),
    Call(Box<dyn FnOnce() + Send>),
}

impl Pool {
    pub(super) fn new(options: BehindOptions) -> Arc<Self> {
        let pool = Arc::new(Self {
            options,
            state: Mutex::default(),
            timer: Condvar::default(),
            work: Condvar::default(),
            idle: Condvar::default(),
        });
        let clock = Arc::clone(&pool.options.clock);
        let weak = Arc::downgrade(&pool);
        clock.on_step(Box::new(move || {
            if let Some(pool) = weak.upgrade() {
                let _asleep_or_not_yet_looking = pool.state.lock();
                pool.timer.notify_all();
            }
        }));
        pool
    }

    pub(super) const fn options(&self) -> &BehindOptions {
        &self.options
    }

    /// Begins the window's time.
    pub(super) fn arm(self: &Arc<Self>, window: Window) {
        let mut state = self.state.lock();
        let at = self.options.clock.now().saturating_add(self.options.window);
        state.deadlines.push_back(Deadline { at, window });
        if state.deadlines.len() == 1 {
            self.timer.notify_one();
        }
        self.start(state);
    }

    /// Ends the window now.
    pub(super) fn hurry(self: &Arc<Self>, window: Window) {
        self.enqueue([Job::Drain(window)]);
    }

    /// Calls `run` for each of `lives`, several at a time, and returns what failed, in their order.
    pub(super) fn for_each(
        self: &Arc<Self>,
        lives: Vec<Arc<Live>>,
        run: fn(&Live) -> Result<()>,
    ) -> Vec<Error> {
        let count = lives.len();
        if count == 0 {
            return Vec::new();
        }
        let gathered = Arc::new((Mutex::new((0_usize, Vec::new())), Condvar::default()));
        self.enqueue(lives.into_iter().enumerate().map(|(index, live)| {
            let gathered = Arc::clone(&gathered);
            Job::Call(Box::new(move || {
                let failed = match catch_unwind(AssertUnwindSafe(|| run(&live))) {
                    Ok(done) => done.err(),
                    Err(_) => Some(live.poisoned()),
                };
                drop(live);
                let (state, done) = &*gathered;
                let mut state = state.lock();
                state.0 = state.0.saturating_add(1);
                state.1.extend(failed.map(|error| (index, error)));
                done.notify_all();
            }))
        }));
        // The caller is one more thread, and the only one where none could be started.
        let mut ready = self.state.lock();
        for _ in 0..count {
            (ready, _) = self.run_one(ready);
        }
        drop(ready);
        let (state, done) = &*gathered;
        let mut state = state.lock();
        while state.0 < count {
            state = done.wait(state);
        }
        let mut failed = std::mem::take(&mut state.1);
        failed.sort_by_key(|(index, _)| *index);
        failed.into_iter().map(|(_, error)| error).collect()
    }

    fn enqueue(self: &Arc<Self>, jobs: impl IntoIterator<Item = Job>) {
        let mut state = self.state.lock();
        let before = state.ready.len();
        state.ready.extend(jobs);
        self.wake(state.ready.len().saturating_sub(before));
        self.start(state);
    }

    /// Wakes a thread for each of `jobs` that became ready. Those that are at work look for themselves before they wait.
    fn wake(&self, jobs: usize) {
        (0..jobs.min(self.options.drains.max(1))).for_each(|_| self.work.notify_one());
    }

    /// Returns when nothing is due by the clock, nothing waits for a thread, and no thread is at work.
    pub(super) fn settle(&self) {
        let mut state = self.state.lock();
        while !state.threads.is_empty() && !state.is_idle(self.options.clock.now()) {
            state = self.idle.wait(state);
        }
    }

    /// Ends the threads, after they have done what is ready, and waits for them. Others start when a window opens again.
    pub(super) fn stop(&self) {
        let threads = {
            let mut state = self.state.lock();
            state.generation = state.generation.wrapping_add(1);
            self.work.notify_all();
            self.timer.notify_all();
            std::mem::take(&mut state.threads)
        };
        threads.into_iter().for_each(Thread::join);
        self.idle.notify_all();
    }

    /// Starts the threads, unless they run.
    fn start(self: &Arc<Self>, mut state: MutexGuard<'_, PoolState>) {
        if !state.threads.is_empty() {
            return;
        }
        let generation = state.generation;
        let mut failed = None;
        for index in 0..=self.options.drains.max(1) {
            let pool = Arc::clone(self);
            let thread = if index == 0 {
                Thread::start("seslog timer", move || pool.keep_time(generation))
            } else {
                Thread::start("seslog drain", move || pool.drain(generation))
            };
            match thread {
                Ok(thread) => state.threads.push(thread),
                Err(error) => failed = Some(error),
            }
        }
        drop(state);
        // With one of each everything goes on, only slower; without, only explicit drains do.
        if let Some(error) = failed {
            let id = crate::json::Text::new();
            let action = "starting a thread";
            self.options.tell(&id, &Error::Io { path: Default::default(), action, source: error });
        }
    }

    fn keep_time(&self, generation: u64) {
        let mut state = self.state.lock();
        while state.generation == generation {
            let now = self.options.clock.now();
            let mut due = 0_usize;
            while let Some(first) = state.deadlines.pop_front_if(|first| first.at <= now) {
                state.ready.push_back(Job::Drain(first.window));
                due = due.saturating_add(1);
            }
            self.wake(due);
            let next = state.deadlines.front().map(|first| first.at.saturating_sub(now));
            state = match next {
                None => self.timer.wait(state),
                Some(wait) => self.timer.wait_for(state, wait),
            };
        }
    }

    fn drain(&self, generation: u64) {
        let mut state = self.state.lock();
        loop {
            let ran;
            (state, ran) = self.run_one(state);
            if ran {
                continue;
            }
            if state.generation != generation {
                return;
            }
            state = self.work.wait(state);
        }
    }

    /// Does the first thing that is ready, if anything is.
    fn run_one<'a>(&'a self, mut state: MutexGuard<'a, PoolState>) -> (MutexGuard<'a, PoolState>, bool) {
        let Some(job) = state.ready.pop_front() else { return (state, false) };
        state.running = state.running.saturating_add(1);
        drop(state);
        job.run();
        let mut state = self.state.lock();
        state.running = state.running.saturating_sub(1);
        if state.running == 0 && state.ready.is_empty() {
            self.idle.notify_all();
        }
        (state, true)
    }
}

impl PoolState {
    fn is_idle(&self, now: Duration) -> bool {
        let is_due = self.deadlines.front().is_some_and(|first| first.at <= now);
        !is_due && self.ready.is_empty() && self.running == 0
    }
}

impl Job {
    fn run(self) {
        match self {
            Self::Drain(Window { live, number }) => {
                if let Some(live) = live.upgrade() {
                    // What was being written is still queued, and the panic was printed; the thread serves others.
                    let _contained = catch_unwind(AssertUnwindSafe(|| live.window_ended(number)));
                }
            }
            Self::Call(call) => call(),
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("options", &self.options).finish_non_exhaustive()
    }
}
