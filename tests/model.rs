//! Does a random run of create, append, reopen, read, tear, recover, power loss and interference match a plain list of
//! events?
//!
//! `PROPTEST_CASES` (default 60) is the number of runs per encoding.

mod common;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use seslog::Error;
use seslog::container::Encoding;
use seslog::container::disk::fault::{FaultDisk, FileLoss};
use seslog::container::disk::{Access, Disk};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::store::{
    Durability, FileHandle, FileStore, LogFile, ReadMode, ScanOptions, SessionAccess, State, Verdict,
    recover, scan,
};

use common::sessions::{append, fat_rows_by, header, options, read, read_all, row_by};

const ROOT: &str = "/store";

/// One step. Numbers are taken modulo what is there.
#[derive(Clone, Debug)]
enum Step {
    Append {
        events: u8,
        noise: u16,
    },
    AppendLarge {
        noise: u8,
    },
    AppendOutOfOrder,
    Flush,
    Close,
    Drop,
    NewReader,
    Read {
        from: u16,
        length: u8,
    },
    Look,
    /// Cuts the log at a byte behind its header.
    Tear {
        at: u16,
    },
    /// Adds zeros, as a lost write leaves them.
    Zeros {
        count: u16,
    },
    Recover,
    Kill,
    PowerLoss {
        seed: u64,
    },
    Backup,
    RestoreBackup {
        in_place: bool,
    },
    ForeignAppend,
    ForeignTruncate {
        bytes: u16,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (1..5_u8, 0..900_u16).prop_map(|(events, noise)| Step::Append { events, noise }),
        1 => any::<u8>().prop_map(|noise| Step::AppendLarge { noise }),
        1 => Just(Step::AppendOutOfOrder),
        2 => Just(Step::Flush),
        3 => Just(Step::Close),
        1 => Just(Step::Drop),
        1 => Just(Step::NewReader),
        4 => (any::<u16>(), any::<u8>()).prop_map(|(from, length)| Step::Read { from, length }),
        2 => Just(Step::Look),
        3 => any::<u16>().prop_map(|at| Step::Tear { at }),
        2 => (1..2000_u16).prop_map(|count| Step::Zeros { count }),
        2 => Just(Step::Recover),
        1 => Just(Step::Kill),
        2 => any::<u64>().prop_map(|seed| Step::PowerLoss { seed }),
        1 => Just(Step::Backup),
        1 => any::<bool>().prop_map(|in_place| Step::RestoreBackup { in_place }),
        1 => Just(Step::ForeignAppend),
        1 => (1..300_u16).prop_map(|bytes| Step::ForeignTruncate { bytes }),
    ];
    prop::collection::vec(step, 1..40)
}

/// A log as a list, and the store that must agree with it.
struct Model {
    disk: FaultDisk,
    encoding: Encoding,
    durability: Durability,
    writer: Option<Arc<FileHandle>>,
    reader: Option<Arc<FileHandle>>,
    events: Vec<String>,
    /// Length of the file and of the list behind each append: where a cut leaves whole records.
    borders: Vec<(usize, usize)>,
    /// Events that a power loss must leave.
    durable: usize,
    /// Somebody else wrote since the writer did.
    is_foreign: bool,
    /// The writer appended or flushed. One that did neither answers for nothing that it found, and closing it syncs nothing.
    has_written: bool,
    backup: Option<Vec<u8>>,
    tag: u32,
}

impl Model {
    fn new(encoding: Encoding, durability: Durability) -> Self {
        Self {
            disk: FaultDisk::new(),
            encoding,
            durability,
            writer: None,
            reader: None,
            events: Vec::new(),
            borders: Vec::new(),
            durable: 0,
            is_foreign: false,
            has_written: false,
            backup: None,
            tag: 0,
        }
    }

    fn store(&self) -> FileStore {
        let mut options = options(self.encoding);
        options.durability = self.durability;
        FileStore::on_disk(Arc::new(self.disk.clone()), ROOT, options)
    }

    fn log(&self) -> PathBuf {
        Path::new(ROOT).join("_no-cwd/s").join(format!("session.v2{}", self.encoding.suffix()))
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        self.disk.content(self.log())
    }

    fn is_stored(&self) -> bool {
        self.bytes().is_some()
    }

    /// The writer, opened if need be: it must continue the list.
    fn writer(&mut self) -> Arc<FileHandle> {
        if self.writer.is_none() {
            let store = self.store();
            let handle = if self.is_stored() {
                assert!(matches!(store.create(header("s"), None), Err(Error::AlreadyExists { .. })));
                store.open(&Text::from("s"), SessionAccess::Write).unwrap()
            } else {
                store.create(header("s"), None).unwrap()
            };
            assert_eq!(handle.next_seq(), Some(self.events.len() as u64));
            assert_eq!(read_all(&handle).unwrap(), self.events);
            self.writer = Some(handle);
            self.is_foreign = false;
            self.has_written = false;
        }
        Arc::clone(self.writer.as_ref().unwrap())
    }

    fn append(&mut self, rows: Vec<String>) {
        let handle = self.writer();
        let before = self.bytes();
        let outcome = append(&handle, &rows);
        if self.is_foreign {
            // What somebody else wrote is never written over, and nothing is added to it.
            assert!(matches!(outcome, Err(Error::Foreign { .. })), "{outcome:?}");
            assert_eq!(self.bytes(), before);
            self.close();
            return;
        }
        let is_first = before.is_none();
        outcome.unwrap();
        self.has_written = true;
        self.events.extend(rows);
        self.borders.retain(|&(_, events)| events < self.events.len());
        self.borders.push((self.bytes().unwrap().len(), self.events.len()));
        if self.durability == Durability::Sync || is_first {
            self.durable = self.events.len();
        }
        assert_eq!(handle.next_seq(), Some(self.events.len() as u64));
    }

    fn rows(&mut self, events: u8, noise: u16) -> Vec<String> {
        self.tag += 1;
        let (by, next) = (format!("w{}", self.tag), self.events.len() as u64);
        (next..next + u64::from(events)).map(|seq| row_by(&by, seq, noise.into())).collect()
    }

    fn close(&mut self) {
        if let Some(writer) = self.writer.take() {
            let closed = writer.close();
            assert!(closed.is_ok() || self.is_foreign, "{closed:?}");
            if closed.is_ok() && !self.is_foreign && self.has_written {
                self.durable = self.events.len();
            }
        }
        self.is_foreign = false;
    }

    /// Puts other bytes into the file, as a program would that knows no lock.
    fn overwrite(&mut self, bytes: &[u8], in_place: bool) {
        if !in_place {
            self.disk.plant(self.log(), bytes);
            return;
        }
        let file = self.disk.open(&self.log(), Access::Append).unwrap();
        file.truncate(0).unwrap();
        file.append_all(bytes).unwrap();
        file.sync_all().unwrap();
    }

    /// The list after the file was changed behind our back: a beginning of `whole`, with all records before `len`.
    fn reread(&mut self, whole: &[String], len: usize) {
        // Where there was something to lose, a reader that saw more would say so.
        self.reader = None;
        let handle = self.store().open(&Text::from("s"), SessionAccess::Read).unwrap();
        let served = read_all(&handle).unwrap();
        assert!(whole.starts_with(&served));
        let least = self.borders.iter().rev().find(|(end, _)| *end <= len).map_or(0, |&(_, events)| events);
        assert!(served.len() >= least, "{} of {least}", served.len());
        self.events = served;
        self.borders.retain(|&(end, _)| end <= len);
        self.durable = self.events.len();
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Append { events, noise } => {
                let rows = self.rows(events, noise);
                self.append(rows);
            }
            Step::AppendLarge { noise } => {
                self.tag += 1;
                let next = self.events.len() as u64;
                let rows = fat_rows_by(&format!("w{}", self.tag), next..next + 30, noise.into());
                self.append(rows);
            }
            Step::AppendOutOfOrder => {
                let (handle, before) = (self.writer(), self.bytes());
                let wrong = row_by("wrong", self.events.len() as u64 + 1, 5);
                assert!(matches!(append(&handle, &[wrong]), Err(Error::SeqMismatch { .. })));
                assert_eq!(self.bytes(), before);
            }
            Step::Flush => {
                let handle = self.writer();
                let flushed = handle.flush();
                assert!(flushed.is_ok() || self.is_foreign, "{flushed:?}");
                if flushed.is_ok() && !self.is_foreign {
                    self.has_written = true;
                    self.durable = self.events.len();
                }
            }
            Step::Close => self.close(),
            Step::Drop => {
                self.writer = None;
                self.is_foreign = false;
            }
            Step::NewReader => {
                self.reader = self
                    .is_stored()
                    .then(|| self.store().open(&Text::from("s"), SessionAccess::Read).unwrap());
            }
            Step::Read { from, length } => {
                let from = usize::from(from) % (self.events.len() + 2);
                let to = (from + usize::from(length)).min(self.events.len());
                let expected = self.events.get(from..to).unwrap_or_default();
                let handles = [self.reader.as_ref(), self.writer.as_ref().filter(|_| !self.is_foreign)];
                for handle in handles.into_iter().flatten() {
                    assert_eq!(read(handle, from as u64, length.into()).unwrap(), expected);
                }
            }
            Step::Look => self.look(),
            Step::Tear { at } => {
                self.close();
                let Some(bytes) = self.bytes() else { return };
                let header = self.header_end(&bytes);
                let at = header + usize::from(at) % (bytes.len() - header + 1);
                self.overwrite(&bytes[..at], true);
                let whole = self.events.clone();
                self.reread(&whole, at);
            }
            Step::Zeros { count } => {
                self.close();
                let Some(mut bytes) = self.bytes() else { return };
                if self.verdict() != Verdict::Sound {
                    // No crash adds zeros in the middle of a sector that it cut before.
                    return;
                }
                let len = bytes.len();
                bytes.resize(len + usize::from(count), 0);
                self.overwrite(&bytes, true);
                self.look();
            }
            Step::Recover => {
                self.close();
                if self.is_stored() {
                    let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
                    recover(&disk, &self.log(), Limits::DEFAULT).unwrap();
                    assert_eq!(self.verdict(), Verdict::Sound);
                    self.look();
                }
            }
            Step::Kill => {
                self.disk = self.disk.kill_image();
                (self.writer, self.reader, self.is_foreign) = (None, None, false);
                self.look();
            }
            Step::PowerLoss { seed } => self.lose_power(seed),
            Step::Backup => self.backup = self.bytes(),
            Step::RestoreBackup { in_place } => {
                let (Some(backup), Some(now)) = (self.backup.clone(), self.bytes()) else { return };
                if backup == now {
                    return;
                }
                self.overwrite(&backup, in_place);
                self.after_foreign();
            }
            Step::ForeignAppend => self.append_as_somebody_else(),
            Step::ForeignTruncate { bytes } => {
                let Some(now) = self.bytes() else { return };
                let least = self.header_end(&now);
                let len = now.len().saturating_sub(bytes.into()).max(least);
                if len < now.len() {
                    self.overwrite(&now[..len], true);
                    self.after_foreign();
                }
            }
        }
    }

    /// Another program changed the log. An open writer must find that out by itself.
    fn after_foreign(&mut self) {
        self.reader = None;
        if self.writer.is_some() {
            self.is_foreign = true;
            let rows = self.rows(1, 20);
            self.append(rows);
        }
        let handle = self.store().open(&Text::from("s"), SessionAccess::Read).unwrap();
        self.events = read_all(&handle).unwrap();
        self.borders = vec![(self.bytes().unwrap().len(), self.events.len())];
        self.durable = self.events.len();
    }

    /// A continuation of the log that a program without a lock wrote: sound, and not ours.
    fn append_as_somebody_else(&mut self) {
        let Some(bytes) = self.bytes() else { return };
        let elsewhere = FaultDisk::new();
        elsewhere.plant(self.log(), &bytes);
        let store = FileStore::on_disk(Arc::new(elsewhere.clone()), ROOT, options(self.encoding));
        let handle = store.open(&Text::from("s"), SessionAccess::Write).unwrap();
        let next = handle.next_seq().unwrap();
        append(&handle, &[row_by("foreign", next, 60)]).unwrap();
        let theirs = elsewhere.content(self.log()).unwrap();
        if theirs.starts_with(&bytes) {
            let file = self.disk.open(&self.log(), Access::Append).unwrap();
            file.append_all(&theirs[bytes.len()..]).unwrap();
            file.sync_data().unwrap();
        } else {
            self.overwrite(&theirs, true);
        }
        self.after_foreign();
    }

    fn lose_power(&mut self, seed: u64) {
        self.writer = None;
        self.reader = None;
        self.is_foreign = false;
        let was_stored = self.is_stored();
        self.disk = self.disk.crash_image(seed, FileLoss::RandomSectors);
        if !was_stored {
            return;
        }
        let reader = self.store().open(&Text::from("s"), SessionAccess::Read).unwrap();
        let served = match read_all(&reader) {
            // Zeros in the middle of plain text, or less than eight at the end of a file: refused, not lost.
            Err(Error::DamagedTail { intact, .. }) => {
                let served = read(&reader, 0, intact).unwrap();
                let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
                recover(&disk, &self.log(), Limits::DEFAULT).unwrap();
                served
            }
            all => all.unwrap(),
        };
        assert!(self.events.starts_with(&served));
        assert!(served.len() >= self.durable, "{} of {}", served.len(), self.durable);
        self.events = served;
        self.durable = self.events.len();
        let len = self.bytes().unwrap().len();
        self.borders.retain(|&(end, events)| end <= len && events <= self.events.len());
    }

    fn verdict(&self) -> Verdict {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let log = LogFile::open(&disk, &self.log(), Limits::DEFAULT, ReadMode::Read).unwrap();
        scan(&log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(()))).unwrap().verdict
    }

    fn header_end(&self, bytes: &[u8]) -> usize {
        match self.encoding {
            Encoding::Plain => bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1,
            encoding => {
                let frame = seslog::container::walk_frame(&mut { bytes }, 0).unwrap().end as usize;
                frame + if encoding == Encoding::Indexed { 64 } else { 0 }
            }
        }
    }

    /// What a store that has never seen the log says of it.
    fn look(&self) {
        let store = self.store();
        let stat = store.stat(&Text::from("s")).unwrap();
        if !self.is_stored() {
            assert!(stat.is_none_or(|stat| stat.state == State::Empty));
            return;
        }
        let stat = stat.unwrap();
        assert!(matches!(stat.state, State::Ok | State::Torn), "{stat:?}");
        assert_eq!(stat.event_count, Some(self.events.len() as u64), "{stat:?}");
        assert_eq!(stat.size_bytes, Some(self.bytes().unwrap().len() as u64));
        assert_eq!(stat.state, State::from(self.verdict()));
        let listed = store.list().unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].event_count, listed[0].revision), (stat.event_count, stat.revision));
        let reader = store.open(&Text::from("s"), SessionAccess::Read).unwrap();
        assert_eq!(read_all(&reader).unwrap(), self.events);
    }
}

fn run(encoding: Encoding, durability: Durability, steps: &[Step]) {
    let mut model = Model::new(encoding, durability);
    for step in steps {
        model.step(step);
    }
    if !model.is_foreign {
        model.look();
    }
    // Whatever happened, work goes on.
    model.writer = None;
    model.is_foreign = false;
    let rows = model.rows(2, 30);
    model.append(rows);
    model.close();
    model.look();
    assert_eq!(model.verdict(), Verdict::Sound);
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    ProptestConfig { cases, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_indexed_log_is_a_list(steps in steps(), lazy in any::<bool>()) {
        run(Encoding::Indexed, if lazy { Durability::OnFlush } else { Durability::Sync }, &steps);
    }

    #[test]
    fn a_zstd_log_is_a_list(steps in steps(), lazy in any::<bool>()) {
        run(Encoding::Zstd, if lazy { Durability::OnFlush } else { Durability::Sync }, &steps);
    }

    #[test]
    fn a_plain_log_is_a_list(steps in steps(), lazy in any::<bool>()) {
        run(Encoding::Plain, if lazy { Durability::OnFlush } else { Durability::Sync }, &steps);
    }
}

// A host was killed before it flushed; another one opened the session, was refused an append, and closed it. Closing a handle
// that wrote nothing changes nothing (rule 98), so it makes nothing durable either: the model once took it for a flush.
#[test]
fn closing_a_handle_that_wrote_nothing_promises_nothing() {
    for encoding in Encoding::ALL {
        let mut model = Model::new(encoding, Durability::OnFlush);
        for step in [
            Step::Append { events: 1, noise: 0 },
            Step::Append { events: 1, noise: 49 },
            Step::Kill,
            Step::AppendOutOfOrder,
            Step::Close,
            Step::PowerLoss { seed: 4_373_956_921_030_657_772 },
        ] {
            model.step(&step);
        }
    }
}
