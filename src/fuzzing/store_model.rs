//! Target `store_model`: one session through a store on a disk that fails, against a list.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::choices::Choices;
use crate::container::Encoding;
use crate::container::disk::Disk;
use crate::container::disk::fault::{CrashPolicy, Failure, FaultDisk, FileLoss, NameLoss, OpKind};
use crate::error::{Error, Result};
use crate::json::Text;
use crate::limits::Limits;
use crate::row::Header;
use crate::store::{
    Durability, FileHandle, FileStore, LogFile, MigrateOptions, MigrationOutcome, ReadMode, ScanOptions,
    SessionAccess, State, StoreOptions, Verdict, migrate, recover, scan,
};
use crate::units::{Generation, UnixMs};

const ROOT: &str = "/store";
const ID: &str = "s";
/// Steps of one run.
const STEPS_MAX: usize = 48;
/// Events after which appends stop, so that a run stays a matter of milliseconds.
const EVENTS_MAX: usize = 200;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// Takes `data` for an encoding, a durability, and steps.
///
/// # Panics
/// If an acknowledged event is missing, moved or doubled, if one is served that was never handed over, if an image that a
/// crash left is judged corrupt, or if work does not go on behind it.
pub fn fuzz_store_model(data: &[u8]) {
    let mut choices = Choices::new(data);
    let mut model = Model::new(&mut choices);
    for _ in 0..STEPS_MAX {
        if choices.is_empty() {
            break;
        }
        model.step(&mut choices);
    }
    model.settle();
    model.reopen();
    let rows = model.rows(2, 3);
    model.append(rows);
    model.close();
    model.look();
    assert_eq!(model.verdict(), Some(Verdict::Sound), "work went on, and the log is sound");
}

/// A log as a list, and the store that must agree with it.
struct Model {
    disk: FaultDisk,
    encoding: Encoding,
    durability: Durability,
    writer: Option<Arc<FileHandle>>,
    /// The writer has stored something: closing it makes the log durable.
    has_written: bool,
    /// Acknowledged, in order.
    events: Vec<String>,
    /// Events that a power loss must leave.
    durable: usize,
    /// Handed over and refused by a failing disk: a beginning of these may stand behind `events`.
    maybe: Vec<String>,
    /// The log was published and synced, even if it has no events.
    is_stored: bool,
    /// Length of the file and of the list behind each append since the log was last changed from outside.
    borders: Vec<(usize, usize)>,
    tag: u32,
}

impl Model {
    fn new(choices: &mut Choices<'_>) -> Self {
        let setup = choices.byte();
        let mut model = Self {
            disk: FaultDisk::new(),
            encoding: *choices.pick(&Encoding::ALL),
            durability: if setup & 1 == 0 { Durability::Sync } else { Durability::OnFlush },
            writer: None,
            has_written: false,
            events: Vec::new(),
            durable: 0,
            maybe: Vec::new(),
            is_stored: false,
            borders: Vec::new(),
            tag: 0,
        };
        if setup & 0x0e == 0x0e {
            model.start_from_v1(usize::from(setup >> 4));
        }
        model
    }

    /// The session begins as a log of generation 1, which is converted before it can be written.
    fn start_from_v1(&mut self, events: usize) {
        let mut log =
            b"{\"type\":\"session\",\"version\":1,\"id\":\"s\",\"createdAt\":1,\"delegationDepth\":0}\n"
                .to_vec();
        self.events = (0..events)
            .map(|seq| {
                format!(
                    "{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":{seq},\"data\":{{\"active\":true}}}}"
                )
            })
            .collect();
        for event in &self.events {
            log.extend_from_slice(event.as_bytes());
            log.push(b'\n');
        }
        let bytes = match self.encoding {
            Encoding::Plain => log,
            _ => {
                self.encoding = Encoding::Zstd;
                let header =
                    log.iter().position(|&byte| byte == b'\n').map_or(0, |end| end.saturating_add(1));
                let (header, rows) = log.split_at(header);
                let mut bytes = Vec::new();
                let encoder = crate::container::parts::Encoder::new(1);
                encoder.encode(header, &mut bytes);
                if !rows.is_empty() {
                    encoder.encode(rows, &mut bytes);
                }
                bytes
            }
        };
        let source = folder().join(format!("session.v1{}", self.encoding.suffix()));
        self.disk.plant(&source, &bytes);
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let migrated = migrate(&disk, &folder(), &MigrateOptions::default()).expect("a sound log converts");
        assert!(matches!(migrated.outcome, MigrationOutcome::Published { .. }), "{migrated:?}");
        assert_eq!(self.disk.content(&source), Some(bytes), "the source of a migration changed");
        self.durable = self.events.len();
        self.is_stored = true;
        self.look();
        assert!(
            self.disk.crash_image(0, FileLoss::DropUnsynced).content(self.log()).is_some(),
            "published and lost"
        );
    }

    fn store(&self) -> FileStore {
        let options = StoreOptions {
            encoding: self.encoding,
            durability: self.durability,
            level: 1,
            ..StoreOptions::default()
        };
        FileStore::on_disk(Arc::new(self.disk.clone()), ROOT, options)
    }

    fn log(&self) -> PathBuf {
        folder().join(format!("session.v2{}", self.encoding.suffix()))
    }

    fn len(&self) -> usize {
        self.disk.content(self.log()).map_or(0, |bytes| bytes.len())
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        let step = choices.byte();
        match step % 16 {
            0..=3 => {
                let rows = self.rows(usize::from(step >> 4).saturating_add(1), usize::from(choices.byte()));
                self.append(rows);
            }
            4 => {
                // Long rows: the append spans sectors, and with sixteen of them segments.
                let rows = self.rows(usize::from(step >> 4).saturating_add(1), 20_000);
                self.append(rows);
            }
            5 => self.flush(),
            6 => self.close(),
            7 => {
                self.close();
                self.look();
            }
            8 => self.read(choices),
            9 => self.append_out_of_order(),
            10 => {
                let (seed, policy) = policy(choices);
                self.lose_power(seed, policy);
            }
            11 => self.lose_power_within(choices),
            12 => self.fail_within(choices),
            13 => self.tear(choices),
            14 => self.recover(),
            _ => self.kill(),
        }
    }

    fn rows(&mut self, count: usize, noise: usize) -> Vec<String> {
        self.tag = self.tag.saturating_add(1);
        let by = self.tag.to_string();
        let next = self.events.len();
        (next..next.saturating_add(count)).map(|seq| row(seq as u64, &by, noise)).collect()
    }

    /// Opens the session for writing, or creates it.
    fn open(&self) -> Result<Arc<FileHandle>> {
        let store = self.store();
        match store.open(&Text::from(ID), SessionAccess::Write) {
            Err(Error::NotFound { .. }) if !self.is_stored => store.create(header(), None),
            opened => opened,
        }
    }

    /// The writer, which must continue the list.
    fn writer(&mut self) -> Arc<FileHandle> {
        if let Some(writer) = &self.writer {
            return Arc::clone(writer);
        }
        let handle = self.open().unwrap_or_else(|error| unreachable!("it cannot be opened: {error:?}"));
        assert_eq!(handle.next_seq(), Some(self.events.len() as u64), "another length than was read");
        self.writer = Some(Arc::clone(&handle));
        self.has_written = false;
        handle
    }

    fn append(&mut self, rows: Vec<String>) {
        if self.events.len().saturating_add(rows.len()) > EVENTS_MAX {
            return;
        }
        let handle = self.writer();
        append(&handle, &rows).unwrap_or_else(|error| unreachable!("a sound append is refused: {error:?}"));
        self.has_written = true;
        self.events.extend(rows);
        self.borders.push((self.len(), self.events.len()));
        // A session's first append publishes it, which no setting makes less durable.
        if self.durability == Durability::Sync || !self.is_stored {
            self.is_durable();
        }
        assert_eq!(handle.next_seq(), Some(self.events.len() as u64));
    }

    fn is_durable(&mut self) {
        self.is_stored = true;
        self.durable = self.events.len();
    }

    fn append_out_of_order(&mut self) {
        let handle = self.writer();
        let before = self.len();
        let wrong = row((self.events.len() as u64).saturating_add(1), "wrong", 0);
        let refused = append(&handle, &[wrong]);
        assert!(matches!(refused, Err(Error::SeqMismatch { .. })), "{refused:?}");
        assert_eq!(self.len(), before, "a refused append wrote");
    }

    fn flush(&mut self) {
        self.writer().flush().unwrap_or_else(|error| unreachable!("a flush fails: {error:?}"));
        self.has_written = true;
        self.is_durable();
    }

    fn close(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        writer.close().unwrap_or_else(|error| unreachable!("a close fails: {error:?}"));
        if self.has_written {
            self.is_durable();
        }
    }

    fn read(&self, choices: &mut Choices<'_>) {
        let from = choices.below(self.events.len().saturating_add(2));
        let length = usize::from(choices.byte());
        let expected = self.events.iter().skip(from).take(length);
        let handle = match &self.writer {
            Some(writer) => Arc::clone(writer),
            None if self.disk.content(self.log()).is_none() => return,
            None => self.reader(),
        };
        let events =
            handle.read(from as u64, length as u64).unwrap_or_else(|error| unreachable!("{error:?}"));
        let rows: Vec<&[u8]> = events.rows().collect();
        assert!(rows.iter().copied().eq(expected.map(String::as_bytes)), "{length} events from {from} on");
    }

    fn reader(&self) -> Arc<FileHandle> {
        let opened = self.store().open(&Text::from(ID), SessionAccess::Read);
        opened.unwrap_or_else(|error| unreachable!("it cannot be opened for reading: {error:?}"))
    }

    /// All events by a new reader. Of a damaged end, what is before it.
    fn served(&self) -> Vec<String> {
        let reader = self.reader();
        let events = match reader.read(0, u64::MAX) {
            Err(Error::DamagedTail { intact, .. }) => {
                assert!(self.may_be_damaged(), "damage without a cause at event {intact}");
                reader.read(0, intact)
            }
            all => all,
        };
        let events = events.unwrap_or_else(|error| unreachable!("a crash is judged so: {error:?}"));
        events.rows().map(|row| String::from_utf8(row.to_vec()).expect("rows are UTF-8")).collect()
    }

    /// Whether the end may be called damaged: only where zeros prove too little.
    fn may_be_damaged(&self) -> bool {
        let bytes = self.disk.content(self.log()).unwrap_or_default();
        let stub = bytes.len().checked_rem(512).unwrap_or(0);
        let ends_in_zeros = bytes.iter().rev().take(stub).all(|&byte| byte == 0);
        match self.encoding {
            Encoding::Plain => bytes.contains(&0),
            _ => (1..8).contains(&stub) && ends_in_zeros,
        }
    }

    /// What a store that has never seen the log says of it.
    fn look(&self) {
        let stat = self.store().stat(&Text::from(ID)).unwrap_or_else(|error| unreachable!("{error:?}"));
        let listed = self.store().list().unwrap_or_else(|error| unreachable!("{error:?}"));
        let Some(stat) = stat.filter(|stat| stat.state != State::Empty) else {
            assert!(!self.is_stored && self.events.is_empty(), "the log is gone");
            return;
        };
        assert_eq!(listed.len(), 1);
        assert!(matches!(stat.state, State::Ok | State::Torn), "{stat:?}");
        assert_eq!(stat.event_count, Some(self.events.len() as u64), "{stat:?}");
        assert_eq!(self.served(), self.events);
    }

    fn verdict(&self) -> Option<Verdict> {
        self.disk.content(self.log())?;
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let log = LogFile::open(&disk, &self.log(), Limits::DEFAULT, ReadMode::Read);
        let log = log.unwrap_or_else(|error| unreachable!("{error:?}"));
        let report = scan(&log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(())));
        Some(report.unwrap_or_else(|error| unreachable!("{error:?}")).verdict)
    }

    /// Takes the log for what it is after something happened to it: what had to stay is there, and nothing is invented.
    fn reopen(&mut self) {
        self.writer = None;
        if self.disk.content(self.log()).is_none() {
            assert!(!self.is_stored && self.durable == 0, "a log that was published is gone");
            (self.events, self.maybe) = (Vec::new(), Vec::new());
            self.borders.clear();
            return;
        }
        let served = self.served();
        assert!(served.len() >= self.durable, "{} of {} durable events", served.len(), self.durable);
        let mut offered = std::mem::take(&mut self.events);
        offered.append(&mut self.maybe);
        assert!(offered.starts_with(&served), "events that nobody wrote, or in another order");
        self.events = served;
        // Its name is there, and where names are dropped it would not be; a flush makes sure.
        let verdict = self.verdict();
        match verdict {
            Some(Verdict::Sound | Verdict::Torn | Verdict::Unfinished) => {}
            Some(Verdict::DamagedTail) => {
                assert!(self.may_be_damaged(), "damaged without a cause");
                self.recover();
            }
            verdict => unreachable!("a crash is judged {verdict:?}"),
        }
        let len = self.len();
        let count = self.events.len();
        self.borders.retain(|&(end, events)| end <= len && events <= count);
    }

    fn lose_power(&mut self, seed: u64, policy: CrashPolicy) {
        self.writer = None;
        self.disk = self.disk.crash_image(seed, policy);
        self.reopen();
        // All that an image holds is on its medium.
        self.durable = self.events.len();
        self.is_stored = self.disk.content(self.log()).is_some();
    }

    /// The power goes in the middle of an append, a flush or a close.
    fn lose_power_within(&mut self, choices: &mut Choices<'_>) {
        let calls = u64::from(choices.byte() % 24);
        let what = choices.byte();
        let (seed, policy) = policy(choices);
        let rows = self.rows(usize::from(what >> 4).saturating_add(1), if what & 8 == 0 { 10 } else { 3000 });
        self.disk.crash_after(self.disk.ops().saturating_add(calls));
        let outcome = self.open_and(what, &rows);
        if outcome.is_ok() && what & 3 < 2 {
            // It was acknowledged before the power went.
            self.events.extend(rows);
            if self.durability == Durability::Sync || !self.is_stored {
                self.is_durable();
            }
        } else if what & 3 < 2 {
            self.maybe = rows;
        } else if outcome.is_ok() && (what & 3 == 2 || self.has_written) {
            self.is_durable();
        }
        self.lose_power(seed, policy);
    }

    /// Does one thing with the writer, which is opened if need be, and keeps it.
    fn open_and(&mut self, what: u8, rows: &[String]) -> Result<()> {
        let handle = match &self.writer {
            Some(writer) => Arc::clone(writer),
            None => {
                self.has_written = false;
                self.open()?
            }
        };
        self.writer = Some(Arc::clone(&handle));
        match what & 3 {
            0 | 1 => append(&handle, rows),
            2 => handle.flush(),
            _ => {
                self.writer = None;
                handle.close()
            }
        }
    }

    /// One call fails or falls short while an append runs.
    fn fail_within(&mut self, choices: &mut Choices<'_>) {
        let kind = *choices.pick(&[
            OpKind::Append,
            OpKind::SyncData,
            OpKind::SyncAll,
            OpKind::Truncate,
            OpKind::SyncDir,
        ]);
        let taken = choices.below(600);
        let failure = match choices.byte() % 4 {
            0 => Failure::Error(EIO),
            1 => Failure::Error(ENOSPC),
            2 => Failure::Short(taken.saturating_add(1)),
            _ => Failure::Partial(taken, ENOSPC),
        };
        // A plain log cannot tell which lines a failed sync was to cover.
        let is_sync = matches!(kind, OpKind::SyncData | OpKind::SyncAll);
        if is_sync && self.encoding == Encoding::Plain {
            return;
        }
        let rows = self.rows(2, 200);
        if self.events.len().saturating_add(rows.len()) > EVENTS_MAX {
            return;
        }
        self.writer();
        let was_stored = self.is_stored;
        self.disk.fail_next(kind, failure);
        let outcome = self.open_and(0, &rows);
        self.has_written |= outcome.is_ok();
        // A plan that met no call must not meet a later one.
        self.disk = match &outcome {
            Ok(()) => {
                self.events.extend(rows);
                if self.durability == Durability::Sync || !was_stored {
                    self.is_durable();
                }
                self.close_failing();
                self.disk.kill_image()
            }
            Err(error) => {
                assert!(!matches!(error, Error::Corruption { .. } | Error::SeqMismatch { .. }), "{error:?}");
                self.maybe = rows;
                self.close_failing();
                self.disk.kill_image()
            }
        };
        self.reopen();
    }

    /// A close that may meet the failure that was planned for something else.
    fn close_failing(&mut self) {
        if let Some(writer) = self.writer.take()
            && writer.close().is_ok()
            && self.maybe.is_empty()
            && self.has_written
        {
            self.is_durable();
        }
    }

    /// Cuts the file anywhere behind its header, as no crash does to a synced log.
    fn tear(&mut self, choices: &mut Choices<'_>) {
        self.close();
        let Some(bytes) = self.disk.content(self.log()) else { return };
        let header = header_end(self.encoding, &bytes);
        let at = header.saturating_add(choices.below(bytes.len().saturating_sub(header).saturating_add(1)));
        // Planted, and so durable: a sync of the file would not write again what an earlier one failed to.
        self.disk.plant(self.log(), bytes.get(..at).unwrap_or_default());
        let least = self.borders.iter().rev().find(|&&(end, _)| end <= at).map_or(0, |&(_, events)| events);
        self.durable = least;
        self.reopen();
        self.durable = self.events.len();
    }

    fn recover(&mut self) {
        self.close();
        if self.disk.content(self.log()).is_none() {
            return;
        }
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        recover(&disk, &self.log(), Limits::DEFAULT).unwrap_or_else(|error| unreachable!("{error:?}"));
        assert_eq!(self.verdict(), Some(Verdict::Sound));
        assert_eq!(self.served(), self.events, "a recovery changes no event");
    }

    /// The process dies; what it wrote is still in the system's cache.
    fn kill(&mut self) {
        self.writer = None;
        self.disk = self.disk.kill_image();
        self.reopen();
    }

    /// Nothing is open or pending any more.
    fn settle(&mut self) {
        if self.writer.is_some() {
            self.close();
        }
    }
}

fn folder() -> PathBuf {
    Path::new(ROOT).join("_no-cwd").join(ID)
}

fn header() -> Header {
    Header::new(Generation::V2, Text::from(ID), UnixMs::new(1)).expect("a header of this generation")
}

/// Event `seq`, written by `by`, with about `noise` bytes, half of which do not compress.
fn row(seq: u64, by: &str, noise: usize) -> String {
    let mut state = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::new();
    while text.len() < noise {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!("{state:016x}"));
        text.push_str("                ");
    }
    format!(
        "{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":{seq},\"data\":{{\"active\":true,\"by\":\"{by}\",\"noise\":\"{text}\"}}}}"
    )
}

fn append(handle: &FileHandle, rows: &[String]) -> Result<()> {
    let rows: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
    handle.append(&rows)
}

/// Bytes of a log before its first row.
fn header_end(encoding: Encoding, bytes: &[u8]) -> usize {
    if encoding == Encoding::Plain {
        return bytes.iter().position(|&byte| byte == b'\n').map_or(0, |end| end.saturating_add(1));
    }
    let frame = crate::container::walk_frame(&mut { bytes }, 0).map_or(0, |frame| frame.end);
    let trailer = if encoding == Encoding::Indexed { crate::container::TRAILER_LEN } else { 0 };
    usize::try_from(frame).unwrap_or(0).saturating_add(trailer)
}

fn policy(choices: &mut Choices<'_>) -> (u64, CrashPolicy) {
    let files = match choices.byte() % 6 {
        0 => FileLoss::DropUnsynced,
        1 => FileLoss::KeepAll,
        2 => FileLoss::RandomSectors,
        3 => FileLoss::RandomPages,
        4 => FileLoss::ZeroExtendedTail,
        _ => FileLoss::TornAt(choices.word().into()),
    };
    let names = *choices.pick(&[
        NameLoss::DropUnsynced,
        NameLoss::KeepAll,
        NameLoss::RandomPrefix,
        NameLoss::RandomSubset,
    ]);
    (choices.word().into(), CrashPolicy { files, names })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // A run takes milliseconds; the fuzz target makes more of them.
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_steps_match_a_list(data in prop::collection::vec(any::<u8>(), 0..90)) {
            fuzz_store_model(&data);
        }
    }
}
