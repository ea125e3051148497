//! The store in memory and the file store, side by side: every call goes to both, and what comes back is compared, errors
//! included.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use seslog::container::Encoding;
use seslog::container::disk::fault::{Failure, FaultDisk, FileLoss, OpKind};
use seslog::json::Text;
use seslog::row::{Header, Seeding};
use seslog::store::memory::{RawLog, Step as MemoryStep};
use seslog::store::{
    Admission, Cancel, Durability, FileStore, MemoryOptions, MemoryStorage, MemoryStore, SessionAccess,
    SessionHandle, SessionPersistence, Snapshot, StoreOptions,
};
use seslog::units::Generation;
use seslog::{Error, Result};

use crate::common::sessions::{CREATED_AT, header, row_by, row_of};

const ROOT: &str = "/store";
const IDS: [&str; 2] = ["s", "t"];
const INSTANCES: usize = 2;
const EIO: i32 = 5;

/// One step. Numbers are taken modulo what is there.
#[derive(Clone, Debug)]
enum Step {
    Create {
        instance: usize,
        id: usize,
        kind: u8,
    },
    Open {
        instance: usize,
        id: usize,
        writes: bool,
    },
    Append {
        handle: usize,
        kind: u8,
        events: u8,
    },
    Read {
        handle: usize,
        from: u8,
        length: u8,
    },
    ReadAll {
        handle: usize,
    },
    Flush {
        handle: usize,
    },
    Close {
        handle: usize,
    },
    Drop {
        handle: usize,
    },
    Look,
    FlushInstance {
        instance: usize,
    },
    CloseInstance {
        instance: usize,
    },
    /// Makes a step fail in a call that is sure to come to it.
    Fail {
        handle: usize,
        kind: u8,
    },
    FailToLock {
        instance: usize,
        id: usize,
    },
    Kill,
    LosePower,
    /// Changes the text of a plain log.
    Tear {
        id: usize,
        bytes: u16,
    },
    Damage {
        id: usize,
        line: u8,
        kind: u8,
    },
    PlantOlder {
        id: usize,
        generation: u8,
        rows: u8,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (instance, id) = (0..INSTANCES, 0..IDS.len());
    let handle = any::<usize>();
    let step = prop_oneof![
        5 => (instance.clone(), id.clone(), 0..10_u8)
            .prop_map(|(instance, id, kind)| Step::Create { instance, id, kind }),
        8 => (instance.clone(), id.clone(), any::<bool>())
            .prop_map(|(instance, id, writes)| Step::Open { instance, id, writes }),
        14 => (handle, 0..24_u8, 1..4_u8)
            .prop_map(|(handle, kind, events)| Step::Append { handle, kind, events }),
        6 => (handle, 0..12_u8, 0..8_u8)
            .prop_map(|(handle, from, length)| Step::Read { handle, from, length }),
        4 => handle.prop_map(|handle| Step::ReadAll { handle }),
        3 => handle.prop_map(|handle| Step::Flush { handle }),
        5 => handle.prop_map(|handle| Step::Close { handle }),
        2 => handle.prop_map(|handle| Step::Drop { handle }),
        2 => Just(Step::Look),
        1 => instance.clone().prop_map(|instance| Step::FlushInstance { instance }),
        1 => instance.clone().prop_map(|instance| Step::CloseInstance { instance }),
        3 => (handle, any::<u8>()).prop_map(|(handle, kind)| Step::Fail { handle, kind }),
        1 => (instance, id.clone()).prop_map(|(instance, id)| Step::FailToLock { instance, id }),
        1 => Just(Step::Kill),
        2 => Just(Step::LosePower),
        2 => (id.clone(), 1..400_u16).prop_map(|(id, bytes)| Step::Tear { id, bytes }),
        2 => (id.clone(), any::<u8>(), 0..6_u8).prop_map(|(id, line, kind)| Step::Damage { id, line, kind }),
        1 => (id, 0..2_u8, 0..4_u8)
            .prop_map(|(id, generation, rows)| Step::PlantOlder { id, generation, rows }),
    ];
    prop::collection::vec(step, 1..50)
}

/// Two of everything: a file's and its twin in memory.
struct Twins {
    encoding: Encoding,
    durability: Durability,
    admission: Admission,
    disk: FaultDisk,
    storage: MemoryStorage,
    stores: Vec<(FileStore, MemoryStore)>,
    handles: Vec<Pair>,
    /// Of each session, what both said when it was looked at last.
    seen: Vec<Option<Seen>>,
    tag: u32,
}

struct Pair {
    file: Arc<dyn SessionHandle>,
    memory: Arc<dyn SessionHandle>,
    instance: usize,
    id: usize,
    /// The last append or flush that stored went well, so the next meets the steps of an append only.
    is_settled: bool,
}

/// What a look at a session gave.
struct Seen {
    file_revision: Option<String>,
    memory_revision: Option<String>,
    rest: String,
}

impl Twins {
    fn new(encoding: Encoding, durability: Durability, admission: Admission) -> Self {
        let mut twins = Self {
            encoding,
            durability,
            admission,
            disk: FaultDisk::new(),
            storage: MemoryStorage::new(),
            stores: Vec::new(),
            handles: Vec::new(),
            seen: Vec::new(),
            tag: 0,
        };
        twins.restart();
        twins
    }

    /// New processes.
    fn restart(&mut self) {
        self.handles.clear();
        self.seen = IDS.map(|_| None).into();
        let mut options = StoreOptions::default();
        (options.encoding, options.durability, options.admission) =
            (self.encoding, self.durability, self.admission);
        let mut in_memory = MemoryOptions::default();
        (in_memory.durability, in_memory.admission) = (self.durability, self.admission);
        self.stores = (0..INSTANCES)
            .map(|_| {
                let disk = Arc::new(self.disk.clone());
                let files = FileStore::on_disk(disk, ROOT, options);
                (files, MemoryStore::with_options(&self.storage, in_memory))
            })
            .collect();
    }

    fn open(&mut self, instance: usize, id: usize, access: SessionAccess) {
        let (files, memory) = &self.stores[instance];
        let text = Text::from(IDS[id]);
        let file = SessionPersistence::open(files, &text, access, &Cancel::never());
        let memory = SessionPersistence::open(memory, &text, access, &Cancel::never());
        self.keep(instance, id, file, memory);
    }

    fn keep(
        &mut self,
        instance: usize,
        id: usize,
        file: Result<Arc<dyn SessionHandle>>,
        memory: Result<Arc<dyn SessionHandle>>,
    ) {
        let all = |handle: &Result<Arc<dyn SessionHandle>>| match handle {
            Ok(handle) => match handle.read(0, u64::MAX, &Cancel::never()) {
                // A log may be refused at open or at the first read.
                Err(error) => Err(self.shape(&error)),
                Ok(events) => {
                    let mut header = Vec::new();
                    handle.header().write(&mut header);
                    let text = String::from_utf8(events.as_bytes().to_vec()).unwrap();
                    let next = handle.next_seq();
                    Ok((String::from_utf8(header).unwrap(), handle.inherited_event_count(), next, text))
                }
            },
            Err(error) => Err(self.shape(error)),
        };
        assert_eq!(all(&memory), all(&file));
        assert_eq!(memory.is_ok(), file.is_ok());
        if let (Ok(file), Ok(memory)) = (file, memory) {
            self.handles.push(Pair { file, memory, instance, id, is_settled: false });
        }
    }

    fn pair(&self, handle: usize) -> Option<(usize, &Pair)> {
        let at = handle.checked_rem(self.handles.len())?;
        Some((at, &self.handles[at]))
    }

    /// Makes the same call on both handles and compares what they give.
    fn both<T: PartialEq + std::fmt::Debug>(
        &mut self,
        handle: usize,
        call: impl Fn(&dyn SessionHandle) -> Result<T>,
    ) -> Option<bool> {
        let (at, pair) = self.pair(handle)?;
        let (memory, file) = (call(&*pair.memory), call(&*pair.file));
        let words = |result: &Result<T>| match result {
            Ok(value) => format!("{value:?}"),
            Err(error) => self.shape(error),
        };
        assert_eq!(words(&memory), words(&file));
        let next = |handle: &Arc<dyn SessionHandle>| handle.next_seq();
        assert_eq!(next(&pair.memory), next(&pair.file));
        let is_ok = memory.is_ok();
        self.handles[at].is_settled &= is_ok;
        Some(is_ok)
    }

    fn append(&mut self, handle: usize, rows: &[String]) -> Option<bool> {
        let rows: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
        let is_ok = self.both(handle, |handle| handle.append(&rows, &Cancel::never()))?;
        let (at, _) = self.pair(handle)?;
        self.handles[at].is_settled |= is_ok && !rows.is_empty();
        Some(is_ok)
    }

    /// Rows of which most can be stored.
    fn rows(&mut self, handle: usize, kind: u8, events: u8) -> Vec<String> {
        self.tag += 1;
        let next = self.pair(handle).and_then(|(_, pair)| pair.file.next_seq()).unwrap_or(0);
        let mut rows: Vec<String> = (next..next + u64::from(events))
            .map(|seq| row_by(&format!("w{}", self.tag), seq, usize::from(events) * 40))
            .collect();
        let last = next + u64::from(events) - 1;
        let odd = match kind {
            0 => row_of("plan/mode", last + 1, "{}"),
            1 => row_of("plan/mode", last, "{}").replace("\"data\"", "\"more\":1,\"data\""),
            2 => "{\"type\":".to_owned(),
            3 => row_of("vendor/novelty", last, "{}"),
            4 => row_of("vendor/novelty", last, "{\"surfaceOp\":1},\"ignorable\":true"),
            5 => row_of("session/end-seed", last, "{\"inherited\":true}"),
            6 => row_of("session/end-seed", last, "5"),
            7 => row_of("turn/end", last, "{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}"),
            8 => format!("{}\n", row_of("plan/mode", last, "{}")),
            9 => row_of("plan/mode", last, "{\"t\":\"\\ud800 \\/ é 🔑\",\"n\":[1.0,1e2,-0,1e400]}"),
            10 => {
                rows.clear();
                return rows;
            }
            _ => return rows,
        };
        *rows.last_mut().unwrap() = odd;
        rows
    }

    fn id(id: usize) -> Text {
        Text::from(IDS[id])
    }

    fn log(&self, id: usize) -> PathBuf {
        Path::new(ROOT).join("_no-cwd").join(IDS[id]).join(format!("session.v2{}", self.encoding.suffix()))
    }

    fn is_open_for_writing(&self, instance: Option<usize>, id: usize) -> bool {
        self.handles.iter().any(|pair| {
            pair.id == id
                && instance.is_none_or(|instance| pair.instance == instance)
                && pair.memory.access() == SessionAccess::Write
                && pair.memory.next_seq().is_some()
        })
    }

    /// Gives both the same text as the log of a session that nobody writes.
    fn plant(&mut self, id: usize, text: &[u8], name: &str) {
        let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        let fragment = lines.pop().unwrap_or_default();
        let Some((header, rows)) = lines.split_first() else { return };
        let mut raw = RawLog::new(header, rows);
        raw.fragment = fragment.to_vec();
        let folder = self.log(id);
        for other in self.disk.paths().iter().filter(|path| path.parent() == folder.parent()) {
            use seslog::container::disk::Disk as _;
            self.disk.remove_file(other).unwrap();
        }
        self.disk.plant(folder.with_file_name(name), text);
        self.storage.plant(&Self::id(id), &raw);
        self.seen[id] = None;
    }

    /// Only a plain log is its own text.
    fn plain_text(&self, id: usize) -> Option<Vec<u8>> {
        let can = self.encoding == Encoding::Plain && !self.is_open_for_writing(None, id);
        self.disk.content(self.log(id)).filter(|_| can)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Create { instance, id, kind } => self.create(instance, id, kind),
            Step::Open { instance, id, writes } => {
                let access = if writes { SessionAccess::Write } else { SessionAccess::Read };
                self.open(instance, id, access);
            }
            Step::Append { handle, kind, events } => {
                let rows = self.rows(handle, kind, events);
                self.append(handle, &rows);
            }
            Step::Read { handle, from, length } => self.read(handle, from.into(), length.into()),
            Step::ReadAll { handle } => {
                self.both(handle, |handle| handle.read(0, u64::MAX, &Cancel::never()));
            }
            Step::Flush { handle } => {
                self.both(handle, |handle| handle.flush(&Cancel::never()));
            }
            Step::Close { handle } => {
                self.both(handle, |handle| handle.close());
                self.both(handle, |handle| handle.close());
            }
            Step::Drop { handle } => {
                if let Some(at) = handle.checked_rem(self.handles.len()) {
                    self.handles.swap_remove(at);
                }
            }
            Step::Look => self.look(),
            Step::FlushInstance { instance } => self.both_stores(instance, |store| store.flush()),
            Step::CloseInstance { instance } => self.both_stores(instance, |store| store.close()),
            Step::Fail { handle, kind } => self.fail(handle, kind),
            Step::FailToLock { instance, id } => {
                let is_stored = self.storage.raw(&Self::id(id)).is_some();
                if is_stored && !self.is_open_for_writing(Some(instance), id) {
                    self.disk.fail_next(OpKind::Lock, Failure::Error(EIO));
                    self.storage.fail_next(MemoryStep::Lock, std::io::Error::from_raw_os_error(EIO));
                    self.open(instance, id, SessionAccess::Write);
                }
            }
            Step::Kill => {
                (self.disk, self.storage) = (self.disk.kill_image(), self.storage.kill_image());
                self.restart();
            }
            // Without trailers a file syncs more often than it was asked to, so that more of it stays.
            Step::LosePower
                if self.durability == Durability::OnFlush && self.encoding != Encoding::Indexed => {}
            Step::LosePower => {
                self.disk = self.disk.crash_image(0, FileLoss::DropUnsynced);
                self.storage = self.storage.crash_image(0);
                self.restart();
            }
            Step::Tear { id, bytes } => {
                let Some(mut text) = self.plain_text(id) else { return };
                let header = text.iter().position(|&byte| byte == b'\n').unwrap() + 1;
                text.truncate(text.len().saturating_sub(bytes.into()).max(header));
                self.plant(id, &text, "session.v2.jsonl");
            }
            Step::Damage { id, line, kind } => self.damage(id, line.into(), kind),
            Step::PlantOlder { id, generation, rows } => self.plant_older(id, generation, rows),
        }
    }

    fn create(&mut self, instance: usize, id: usize, kind: u8) {
        let plain = header(IDS[id]);
        let seeded = || plain.clone().with_seeding(Generation::V2, Seeding::Marked).unwrap();
        let (header, cut): (Header, _) = match kind {
            0 => (seeded(), Some(2)),
            1 => (seeded(), None),
            2 => (plain, Some(3)),
            3 => (header(""), None),
            4 => {
                (plain.with_seeding(Generation::V1, Seeding::Counted(1)).unwrap_or_else(|_| header("")), None)
            }
            _ => (plain, None),
        };
        let (files, memory) = &self.stores[instance];
        let file = SessionPersistence::create(files, header.clone(), cut, &Cancel::never());
        let memory = SessionPersistence::create(memory, header, cut, &Cancel::never());
        self.keep(instance, id, file, memory);
    }

    fn read(&mut self, handle: usize, from: u64, length: u64) {
        let Some((_, pair)) = self.pair(handle) else { return };
        // An encoding begins to read at its own borders, so whether it meets an event that lies before `from` and that it
        // does not know, or bad lines there, is up to it.
        let whole = pair.file.read(0, u64::MAX, &Cancel::never());
        if matches!(
            whole,
            Err(Error::FormatUnsupported { .. } | Error::Corruption { .. } | Error::DamagedTail { .. })
        ) {
            return;
        }
        self.both(handle, |handle| handle.read(from, length, &Cancel::never()));
    }

    fn both_stores(&mut self, instance: usize, call: impl Fn(&dyn SessionPersistence) -> Result<()>) {
        let (files, memory) = &self.stores[instance];
        let words = |result: Result<()>| result.map_err(|error| self.shape(&error));
        assert_eq!(words(call(memory)), words(call(files)));
    }

    fn fail(&mut self, handle: usize, kind: u8) {
        let Some((_, pair)) = self.pair(handle) else { return };
        let writes = pair.memory.access() == SessionAccess::Write && pair.memory.next_seq().is_some();
        let (id, is_settled) = (pair.id, pair.is_settled && writes);
        let arm = |call, step| {
            self.disk.fail_next(call, Failure::Error(EIO));
            self.storage.fail_next(step, std::io::Error::from_raw_os_error(EIO));
        };
        let others = self.handles.iter().filter(|other| other.id == id && other.memory.next_seq().is_some());
        match kind % 4 {
            0 if is_settled => {
                arm(OpKind::Append, MemoryStep::Write);
                let rows = self.rows(handle, 99, 2);
                assert_eq!(self.append(handle, &rows), Some(false));
            }
            1 if is_settled && self.durability == Durability::Sync => {
                arm(OpKind::SyncData, MemoryStep::Sync);
                let rows = self.rows(handle, 99, 2);
                assert_eq!(self.append(handle, &rows), Some(false));
            }
            2 if is_settled => {
                arm(OpKind::Unlock, MemoryStep::Unlock);
                assert_eq!(self.both(handle, |handle| handle.close()), Some(false));
                self.both(handle, |handle| handle.close());
            }
            3 if writes && others.count() == 1 && self.storage.raw(&Self::id(id)).is_none() => {
                arm(OpKind::Link, MemoryStep::Publish);
                let rows = self.rows(handle, 99, 2);
                assert_eq!(self.append(handle, &rows), Some(false));
                assert_eq!(self.append(handle, &rows), Some(true), "the seqs stayed free");
            }
            _ => {}
        }
    }

    fn damage(&mut self, id: usize, line: usize, kind: u8) {
        let Some(text) = self.plain_text(id) else { return };
        let mut lines: Vec<String> =
            String::from_utf8(text).unwrap().split_inclusive('\n').map(str::to_owned).collect();
        let at = line % lines.len();
        let seq = (at as u64).saturating_sub(1);
        let bad = match kind {
            0 => "{\"type\":\"plan/mode\",\"seq\":1".to_owned(),
            1 => "[1]".to_owned(),
            2 => row_of("plan/mode", seq + 1, "{}"),
            3 => row_of("turn/end", seq, "{}").replace("\"data\"", "\"more\":1,\"data\""),
            4 => row_of("vendor/novelty", seq, "{}"),
            _ => row_of("session/end-seed", seq, "{\"inherited\":true}"),
        };
        lines[at] = format!("{bad}\n");
        if kind % 2 == 1 {
            let next = lines.len() as u64 - 1;
            lines.push(format!(
                "{}\n",
                row_of("turn/end", next, "{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}")
            ));
        }
        self.plant(id, lines.concat().as_bytes(), "session.v2.jsonl");
    }

    /// A log of v0 or v1, in place of what is there.
    fn plant_older(&mut self, id: usize, generation: u8, rows: u8) {
        if self.encoding != Encoding::Plain || self.is_open_for_writing(None, id) {
            return;
        }
        let mut text = format!(
            "{{\"type\":\"session\",\"version\":{generation},\"id\":\"{}\",\"createdAt\":{CREATED_AT},\"delegationDepth\":0}}\n",
            IDS[id]
        );
        for (seq, row) in (0_u64..).zip(0..rows) {
            let row = match row {
                0 => row_of("turn/start", seq, "{\"turn\":1}"),
                1 => row_of("feedback/record", seq, "{\"text\":\"good\"}"),
                _ => row_of("acme/unknown", seq, "{}"),
            };
            text.push_str(&row);
            text.push('\n');
        }
        // Handles on the log before it may have seen more.
        self.handles.retain(|pair| pair.id != id);
        let name = if generation == 0 { "session.jsonl" } else { "session.v1.jsonl" };
        self.plant(id, text.as_bytes(), name);
    }

    /// Compares what both say of every session.
    fn look(&mut self) {
        for instance in 0..INSTANCES {
            let (files, memory) = self.stores[instance].clone();
            let all = |listed: Vec<Snapshot>| {
                let mut words: Vec<String> = listed.iter().map(|one| self.words(one)).collect();
                words.sort();
                words
            };
            assert_eq!(all(memory.list().unwrap()), all(files.list().unwrap()));
            for id in 0..IDS.len() {
                let (file, memory) =
                    (files.stat(&Self::id(id)).unwrap(), memory.stat(&Self::id(id)).unwrap());
                let words = |one: &Option<Snapshot>| one.as_ref().map(|one| self.words(one));
                assert_eq!(words(&memory), words(&file));
                let (Some(file), Some(memory)) = (file, memory) else { continue };
                if self.encoding == Encoding::Plain {
                    assert_eq!(memory.size_bytes, file.size_bytes, "a plain log is its own text");
                }
                self.compare_revisions(id, &file, &memory);
            }
        }
    }

    /// A file's revision changes more often than its content; that in memory never does.
    fn compare_revisions(&mut self, id: usize, file: &Snapshot, memory: &Snapshot) {
        if file.size_bytes.is_none() {
            // Pending: the file store says nothing then.
            assert!(memory.revision.is_some());
            self.seen[id] = None;
            return;
        }
        let raw = self.storage.raw(&Self::id(id));
        let now = Seen {
            file_revision: file.revision.map(|revision| revision.to_string()),
            memory_revision: memory.revision.map(|revision| revision.to_string()),
            rest: format!("{raw:?}"),
        };
        assert!(now.memory_revision.as_ref().is_some_and(|text| text.starts_with("counted:")));
        if let Some(before) = &self.seen[id] {
            let has_changed = before.rest != now.rest;
            assert_eq!(before.memory_revision != now.memory_revision, has_changed);
            assert!(!has_changed || before.file_revision != now.file_revision);
        }
        self.seen[id] = Some(now);
    }

    fn words(&self, one: &Snapshot) -> String {
        let is_pending = one.size_bytes.is_none();
        let error = one.error.as_ref().map(|error| self.shape(error));
        let older = one.older.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
        format!(
            "{:?} {:?} {:?} {:?} {} {error:?} {:?} {is_pending}",
            one.header,
            one.generation,
            one.event_count,
            one.last_time,
            one.state,
            older.collect::<Vec<_>>(),
        )
    }

    /// An error without what differs by nature: paths, and offsets where text is compressed.
    fn shape(&self, error: &Error) -> String {
        let offset = |at: u64| if self.encoding == Encoding::Plain { at } else { 0 };
        match error {
            Error::AlreadyOwned { id, .. } => format!("AlreadyOwned {id}"),
            Error::Corruption { offset: at, intact, source, .. } => {
                format!("Corruption {} {intact} {source:?}", offset(*at))
            }
            Error::DamagedTail { offset: at, intact, source, .. } => {
                format!("DamagedTail {} {intact} {source:?}", offset(*at))
            }
            Error::TornTail { offset: at, torn, intact, .. } => {
                format!("TornTail {} {} {intact}", offset(*at), offset(*torn))
            }
            Error::FormatUnsupported { reason, .. } => format!("FormatUnsupported {reason:?}"),
            Error::Refused { source, .. } => format!("Refused {source:?}"),
            Error::IdentityMismatch { .. } => "IdentityMismatch".to_owned(),
            Error::Shrank { seen, found, .. } => format!("Shrank {seen} {found}"),
            Error::Foreign { .. } => "Foreign".to_owned(),
            Error::Io { action, source, .. } => format!("Io {action} {:?}", source.raw_os_error()),
            Error::Aggregate(errors) => {
                format!("{:?}", errors.iter().map(|error| self.shape(error)).collect::<Vec<_>>())
            }
            // Neither a path nor an offset in these.
            other => format!("{other:?}"),
        }
    }
}

fn run(encoding: Encoding, lazy: bool, open_doors: bool, steps: &[Step]) {
    let durability = if lazy { Durability::OnFlush } else { Durability::Sync };
    let admission = if open_doors { Admission::Anything } else { Admission::Readable };
    let mut twins = Twins::new(encoding, durability, admission);
    for step in steps {
        twins.step(step);
    }
    twins.look();
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100);
    ProptestConfig { cases, max_shrink_iters: 5000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn memory_answers_as_plain_files_do(steps in steps(), lazy in any::<bool>(), open_doors in any::<bool>()) {
        run(Encoding::Plain, lazy, open_doors, &steps);
    }

    #[test]
    fn memory_answers_as_indexed_files_do(steps in steps(), lazy in any::<bool>(), open_doors in any::<bool>()) {
        run(Encoding::Indexed, lazy, open_doors, &steps);
    }

    #[test]
    fn memory_answers_as_zstd_files_do(steps in steps(), lazy in any::<bool>(), open_doors in any::<bool>()) {
        run(Encoding::Zstd, lazy, open_doors, &steps);
    }
}
