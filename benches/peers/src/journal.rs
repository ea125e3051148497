//! Whether one journal that all sessions of a root share would beat a sync of each session's own log.
//!
//! Both sides put the same bytes into the same files. One syncs each log behind each append. The other writes an append to a
//! journal as well, waits for a sync of that which covers whatever came meanwhile, and syncs the logs only when the journal is full.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Result;

/// What was measured with so many sessions that append at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Finding {
    pub sessions: usize,
    /// Durable appends a second, a sync of its own each.
    pub own: f64,
    /// The same through a journal.
    pub shared: f64,
}

/// Bytes of an append: a compressed row of a few KB.
const APPEND: usize = 2 << 10;
/// The journal is emptied when it has so many bytes.
const JOURNAL: u64 = 64 << 20;

/// Measures both with 1, 8, 64 and 200 sessions, in turns, below `folder`.
pub fn run(folder: &Path, is_quick: bool) -> Result<Vec<Finding>> {
    let (rounds, time) = if is_quick { (1, 200) } else { (5, 1000) };
    let time = Duration::from_millis(time);
    let mut found = Vec::new();
    for sessions in [1, 8, 64, 200] {
        let (mut own, mut shared) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let dir = tempfile::tempdir_in(folder)?;
            own.push(rate(dir.path(), sessions, time, None)?);
            let dir = tempfile::tempdir_in(folder)?;
            let journal = Journal::create(&dir.path().join("journal"))?;
            shared.push(rate(dir.path(), sessions, time, Some(&journal))?);
        }
        let median = |values| crate::stats::median(values).unwrap_or_default();
        found.push(Finding { sessions, own: median(own), shared: median(shared) });
    }
    Ok(found)
}

/// Durable appends a second of `sessions` threads, each to a log of its own.
fn rate(dir: &Path, sessions: usize, time: Duration, journal: Option<&Journal>) -> Result<f64> {
    let logs: Vec<File> =
        (0..sessions).map(|n| append_to(&dir.join(format!("{n}.log")))).collect::<Result<_>>()?;
    let (is_over, appends) = (AtomicBool::new(false), AtomicU64::new(0));
    let bytes: Vec<u8> = (0..APPEND).map(|n| (n * 31 % 251 + 1) as u8).collect();
    let start = Instant::now();
    let outcome = std::thread::scope(|scope| {
        let work = |mut log: &File| -> std::io::Result<()> {
            while !is_over.load(Ordering::Relaxed) {
                log.write_all(&bytes)?;
                match journal {
                    None => log.sync_data()?,
                    Some(journal) => journal.commit(&bytes, &logs)?,
                }
                appends.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let threads: Vec<_> = logs.iter().map(|log| scope.spawn(move || work(log))).collect();
        std::thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    });
    outcome?;
    Ok(appends.into_inner() as f64 / start.elapsed().as_secs_f64())
}

/// Appends of all sessions in one file, synced together.
#[derive(Debug)]
struct Journal {
    file: File,
    state: Mutex<State>,
    synced: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// Number of the group that takes what comes now, and of those that are on the disk.
    group: u64,
    done: u64,
    is_syncing: bool,
    written: u64,
}

impl Journal {
    fn create(path: &Path) -> Result<Self> {
        let state = State { group: 1, ..State::default() };
        Ok(Self { file: append_to(path)?, state: Mutex::new(state), synced: Condvar::new() })
    }

    /// Returns when `bytes` are on the disk: whoever finds no sync on its way makes one for all that wait.
    fn commit(&self, bytes: &[u8], logs: &[File]) -> std::io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.extend_from_slice(bytes);
        let group = state.group;
        while state.done < group {
            if state.is_syncing {
                state = self.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_syncing = true;
            let (taken, mine) = (std::mem::take(&mut state.waiting), state.group);
            state.group += 1;
            state.written += taken.len() as u64;
            let is_full = state.written >= JOURNAL;
            if is_full {
                state.written = 0;
            }
            drop(state);
            (&self.file).write_all(&taken)?;
            self.file.sync_data()?;
            if is_full {
                logs.iter().try_for_each(File::sync_data)?;
                self.file.set_len(0)?;
            }
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.done, state.is_syncing) = (mine, false);
            self.synced.notify_all();
        }
        Ok(())
    }
}

fn append_to(path: &Path) -> Result<File> {
    Ok(OpenOptions::new().create(true).append(true).open(path)?)
}
