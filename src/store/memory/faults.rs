//! What a test may do to a storage behind the backs of its instances.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::hooks::Step;
use super::log::Log;
use super::rows::Rows;
use super::storage::{MemoryStorage, Stored};
use crate::json::{Number, Tape, Text};
use crate::limits::Limits;
use crate::units::Generation;

/// What is stored of one log, as it stands there: any bytes at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawLog {
    /// The generation that its name states, if it were a file. `None` for that of its header, if this build knows it, else the
    /// current one.
    pub generation: Option<Generation>,
    /// The header line without its newline.
    pub header: Vec<u8>,
    /// The whole lines behind it, without their newlines.
    pub rows: Vec<Vec<u8>>,
    /// How many of them belong to appends that have an end. The others are served, and the next append takes them over.
    pub committed: usize,
    /// Half a line behind the whole ones, never served: nothing, or what an append left that was cut short.
    pub fragment: Vec<u8>,
}

impl RawLog {
    /// A log of complete records, nothing of which is checked.
    #[must_use]
    pub fn new(header: &[u8], rows: &[&[u8]]) -> Self {
        let rows: Vec<Vec<u8>> = rows.iter().map(|row| row.to_vec()).collect();
        let (generation, committed, fragment) = (None, rows.len(), Vec::new());
        Self { generation, header: header.to_vec(), committed, rows, fragment }
    }

    fn of(log: &Log) -> Self {
        let mut rows = Vec::with_capacity(log.lines);
        log.rows.each(0, log.lines, &mut |line| {
            rows.push(line.to_vec());
            ControlFlow::Continue(())
        });
        let (generation, committed) = (Some(log.generation), log.committed);
        let (header, fragment) = (log.header.to_vec(), log.fragment.to_vec());
        Self { generation, header, rows, committed, fragment }
    }
}

/// Hooks of the feature `fault`.
impl MemoryStorage {
    /// What is stored of a session: the log of its newest generation. `None` if nothing is.
    #[must_use]
    pub fn raw(&self, id: &Text) -> Option<RawLog> {
        self.view(id).map(|view| RawLog::of(&view.log))
    }

    /// Puts `raw` in the place of all that is stored of a session, whoever has it open. Nothing is checked.
    pub fn plant(&self, id: &Text, raw: &RawLog) {
        self.place(id, raw, true);
    }

    /// As [`MemoryStorage::plant`], but beside the logs of other generations.
    pub fn plant_beside(&self, id: &Text, raw: &RawLog) {
        self.place(id, raw, false);
    }

    /// Makes a stored session vanish, as if somebody had removed it. Handles stay open, and find that out.
    pub fn remove(&self, id: &Text) {
        let mut sessions = self.0.sessions.lock();
        if let Some(stored) = sessions.get_mut(id) {
            stored.logs.clear();
        }
        sessions.retain(|_, stored| !stored.is_nothing());
    }

    /// Cuts the last append of a stored session as a crash in the middle of it would: its first `rows` rows stay, and
    /// `fragment_bytes` bytes of the one that follows, as far as there are so many.
    ///
    /// Gives whether there is an append that has more rows than that.
    pub fn tear(&self, id: &Text, rows: usize, fragment_bytes: usize) -> bool {
        self.tear_if(id, |of_append| (rows < of_append).then_some((rows, fragment_bytes)))
    }

    /// Makes the next step of a kind fail once, in whatever instance, with `error`. Called twice, the next two fail.
    pub fn fail_next(&self, step: Step, error: io::Error) {
        self.0.hooks.fail_next(step, error);
    }

    /// Runs `action` once, inside the next step of a kind and before its effect. No lock of the storage is held meanwhile,
    /// only that of the handle that is at the step.
    pub fn before_next(&self, step: Step, action: impl FnOnce() + Send + 'static) {
        self.0.hooks.before_next(step, Box::new(action));
    }

    /// A storage with what would be found if all instances were killed now: everything that was accepted, owned by nobody.
    #[must_use]
    pub fn kill_image(&self) -> Self {
        self.image(|log| (log.lines, log.durable))
    }

    /// A storage with what would be found after a power loss now: what is durable, owned by nobody. Of the rest, seed 0 keeps
    /// nothing; any other chooses a beginning of it, which may end inside an append or a row.
    #[must_use]
    pub fn crash_image(&self, seed: u64) -> Self {
        let mut random = seed;
        self.image(|log| {
            // Xorshift: 0 stays 0.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let lost = log.lines.saturating_sub(log.durable).saturating_add(1) as u64;
            let kept = usize::try_from(random.checked_rem(lost).unwrap_or(0)).unwrap_or(0);
            let lines = log.durable.saturating_add(kept);
            (lines, lines)
        })
    }

    /// A copy in which each log has as many lines as `survive` says, and so many of these durable.
    fn image(&self, mut survive: impl FnMut(&Log) -> (usize, usize)) -> Self {
        let sessions = self.0.sessions.lock();
        let copies = sessions.iter().filter(|(_, stored)| !stored.logs.is_empty()).map(|(id, stored)| {
            let logs = stored.logs.iter().map(|log| {
                let (lines, durable) = survive(log);
                let mut copy = log.clone();
                if lines < log.lines {
                    // Whoever wrote the first line that is gone had not come to the end of its append.
                    let committed = log.rows.batch_start(lines);
                    let torn = log.rows.line(lines).filter(|_| committed < lines).unwrap_or_default();
                    copy.cut(lines, committed, torn.get(..torn.len().div_euclid(2)).unwrap_or_default());
                    self.changed(&mut copy);
                } else {
                    copy.rows = Arc::new(log.rows.prefix(lines));
                }
                (copy.durable, copy.accepted_by) = (durable, None);
                copy
            });
            (id.clone(), Stored { logs: logs.collect(), holder: None })
        });
        let copies = copies.collect();
        Self::with(self.number(), self.next_change(), copies)
    }

    fn place(&self, id: &Text, raw: &RawLog, alone: bool) {
        let lines: Vec<&[u8]> = raw.rows.iter().map(Vec::as_slice).collect();
        let rows = Rows::of_lines(&lines);
        let bytes = rows.bytes();
        let stated = || stated_generation(&raw.header).filter(|generation| generation.is_supported());
        let generation = raw.generation.or_else(stated).unwrap_or(Generation::CURRENT);
        let mut log = Log::whole(generation, raw.header.clone(), rows, lines.len(), bytes);
        log.committed = raw.committed.min(lines.len());
        log.fragment = raw.fragment.as_slice().into();
        self.changed(&mut log);
        let mut sessions = self.0.sessions.lock();
        let stored = sessions.entry(id.clone()).or_default();
        stored.logs.retain(|other| !alone && other.generation != generation);
        stored.logs.push(log);
        stored.logs.sort_by_key(|log| log.generation);
    }

    /// Cuts the last append behind as many of its rows, and bytes of the next, as `cut` answers to the number of its rows.
    pub(crate) fn tear_if(&self, id: &Text, cut: impl FnOnce(usize) -> Option<(usize, usize)>) -> bool {
        let mut sessions = self.0.sessions.lock();
        let Some(log) = sessions.get_mut(id).and_then(|stored| stored.logs.last_mut()) else { return false };
        let Some(last) = log.lines.checked_sub(1) else { return false };
        let start = log.rows.batch_start(last);
        let Some((rows, bytes)) = cut(log.lines.saturating_sub(start)) else { return false };
        let lines = start.saturating_add(rows);
        let Some(torn) = log.rows.line(lines).filter(|_| lines < log.lines) else { return false };
        // With all of its bytes it would be a row that lacks its newline only, and is cut short all the same.
        let fragment = torn.get(..bytes.min(torn.len())).unwrap_or_default();
        log.cut(lines, start, fragment);
        self.changed(log);
        true
    }
}

/// The generation that a header line names, whatever else is wrong with it.
fn stated_generation(header: &[u8]) -> Option<Generation> {
    let mut tape = Tape::default();
    let version = tape.parse(header, Limits::DEFAULT.nesting_max).ok()?.get("version")?;
    version.as_number().and_then(Number::as_count).map(Generation::new)
}
