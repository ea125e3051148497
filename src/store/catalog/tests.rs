use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use super::super::store::{FileStore, StoreOptions};
use super::entry::{self, Entry};
use super::table::{Identity, Table, TableWriter, hash_of};
use super::*;
use crate::container::disk::fault::{FaultDisk, FileLoss, OpKind};
use crate::json::Text;
use crate::row::Header;
use crate::store::layout::session_path;
use crate::store::{Durability, SessionAccess, State};
use crate::units::{Generation, UnixMs};

const ROOT: &str = "/root";
const CACHE: &str = "/cache/seslog";
const SECOND_NS: i128 = 1_000_000_000;

/// A disk on which time passes when a test says so.
struct Machine {
    disk: FaultDisk,
}

impl Machine {
    fn new() -> Self {
        let disk = FaultDisk::new();
        disk.plant_dir(ROOT);
        Self { disk }
    }

    fn of(disk: FaultDisk) -> Self {
        Self { disk }
    }

    fn wait(&self, seconds: i128) {
        self.disk.set_clock_ns(self.disk.now_ns() + seconds * SECOND_NS);
    }

    fn store(&self) -> FileStore {
        FileStore::on_disk(Arc::new(self.disk.clone()), ROOT, StoreOptions::default())
    }

    fn listed(&self) -> FileStore {
        self.store().with_catalog(Catalog::in_folder(CACHE))
    }

    fn create(&self, id: &str) {
        let header = Header::new(Generation::V2, Text::from(id), UnixMs::new(5)).unwrap();
        let handle = self.store().create(header.with_cwd(Text::from("/p")).unwrap(), None).unwrap();
        handle.append(&[row(0).as_bytes()]).unwrap();
        handle.close().unwrap();
    }

    fn append(&self, id: &str) {
        let handle = self.store().open(&Text::from(id), SessionAccess::Write).unwrap();
        let next = handle.read(0, u64::MAX).unwrap().iter().count() as u64;
        handle.append(&[row(next).as_bytes()]).unwrap();
        handle.close().unwrap();
    }

    fn folder(&self, id: &str) -> PathBuf {
        session_path(Path::new(ROOT), Some(&Text::from("/p")), &Text::from(id)).unwrap()
    }

    fn log(&self, id: &str) -> PathBuf {
        self.folder(id).join("session.v2.jsonl.zst")
    }

    /// Logs that a listing with the catalog opened. It says what one without says.
    fn opened(&self) -> usize {
        self.disk.forget_trace();
        let with = shown(&self.listed());
        let opens = self.disk.trace();
        let opens = opens.iter().filter(|op| op.kind == OpKind::Open && op.path.starts_with(ROOT)).count();
        assert_eq!(with, shown(&self.store()));
        opens
    }

    fn catalogs(&self) -> Vec<PathBuf> {
        let paths = self.disk.paths();
        paths.into_iter().filter(|path| path.starts_with(CACHE) && path != Path::new(CACHE)).collect()
    }
}

fn row(seq: u64) -> String {
    format!(r#"{{"type":"plan/mode","seq":{seq},"time":{},"data":{{"text":"some words"}}}}"#, 1000 + seq)
}

/// Everything that a listing says, in one text.
fn shown(store: &FileStore) -> String {
    let mut sessions = store.list().unwrap();
    sessions.sort_by(|a, b| a.path.cmp(&b.path));
    sessions.iter().fold(String::new(), |mut text, one| {
        writeln!(text, "{one:?}").unwrap();
        text
    })
}

#[test]
fn a_second_listing_looks_at_each_session_twice_and_opens_none() {
    let machine = Machine::new();
    for id in 0..40 {
        machine.create(&format!("s{id}"));
    }
    machine.wait(3);
    assert_eq!(machine.opened(), 40);
    let [catalog] = &machine.catalogs()[..] else { panic!("{:?}", machine.catalogs()) };
    assert_eq!(machine.disk.stamp(catalog).unwrap().unwrap().mode, 0o600);
    assert_eq!(machine.disk.stamp(Path::new(CACHE)).unwrap().unwrap().mode, 0o700);
    machine.disk.forget_trace();
    assert_eq!(machine.listed().list().unwrap().len(), 40);
    let looks = machine.disk.trace();
    assert_eq!(looks.iter().filter(|op| op.path.starts_with(machine.folder("s7"))).count(), 2);
    assert_eq!(machine.opened(), 0);
}

#[test]
fn a_session_that_was_changed_within_two_seconds_is_read_again_until_it_is_quiet() {
    let machine = Machine::new();
    machine.create("quiet");
    machine.wait(3);
    machine.create("busy");
    assert_eq!(machine.opened(), 2);
    assert_eq!(machine.opened(), 1, "what changed a moment ago is not kept");
    machine.wait(3);
    assert_eq!(machine.opened(), 1);
    assert_eq!(machine.opened(), 0);
}

/// The case that the rule is for: the clock does not move between the listing and the change, and the length stays.
#[test]
fn a_change_that_leaves_every_stamp_as_it_was_is_seen_if_it_came_soon() {
    let machine = Machine::new();
    machine.create("s");
    let log = machine.log("s");
    let moment = machine.disk.stamp(&log).unwrap().unwrap().changed_ns;
    machine.listed().list().unwrap();
    let torn = {
        let mut bytes = machine.disk.content(&log).unwrap();
        let at = bytes.len() - 20;
        bytes[at] ^= 1;
        bytes
    };
    let file = machine.disk.open(&log, Access::Repair).unwrap();
    machine.disk.set_clock_ns(moment - 1_000_000);
    file.write_at(0, &torn).unwrap();
    assert_eq!(machine.disk.stamp(&log).unwrap().unwrap().changed_ns, moment, "the test's own premise");
    machine.wait(10);
    assert_eq!(machine.listed().list().unwrap()[0].state, State::Corrupt);
    machine.opened();
}

/// A log may come out of a power loss as long as it was and with the times that it had, and with holes in what nobody synced.
#[test]
fn what_the_power_took_is_not_shown_though_the_log_looks_as_it_did() {
    let options = StoreOptions { durability: Durability::OnFlush, ..StoreOptions::default() };
    let mut changed = 0;
    for seed in 0..40 {
        let machine = Machine::new();
        machine.create("s");
        let store = FileStore::on_disk(Arc::new(machine.disk.clone()), ROOT, options);
        let handle = store.open(&Text::from("s"), SessionAccess::Write).unwrap();
        let rows: Vec<String> = (1..200).map(row).collect();
        for rows in rows.chunks(20) {
            handle.append(&rows.iter().map(String::as_bytes).collect::<Vec<_>>()).unwrap();
        }
        machine.wait(3);
        machine.listed().list().unwrap();
        let [catalog] = &machine.catalogs()[..] else { panic!("{:?}", machine.catalogs()) };
        let kept = machine.disk.content(catalog).unwrap();
        let before = machine.disk.stamp(&machine.log("s")).unwrap().unwrap();

        let after = Machine::of(machine.disk.crash_image(seed, FileLoss::RandomSectors));
        after.disk.plant_dir(CACHE);
        after.disk.plant(catalog, &kept);
        let looks_the_same = after.disk.stamp(&after.log("s")).unwrap() == Some(before);
        changed += u32::from(looks_the_same && shown(&after.store()) != shown(&machine.store()));
        after.opened();
    }
    assert!(changed > 0, "the test's own premise");
}

#[test]
fn a_clock_that_went_back_keeps_nothing_that_it_may_stamp_again() {
    let machine = Machine::new();
    machine.wait(100);
    machine.create("s");
    machine.wait(-50);
    assert_eq!(machine.opened(), 1);
    assert_eq!(machine.opened(), 1);
    machine.wait(60);
    assert_eq!((machine.opened(), machine.opened()), (1, 0));
}

#[test]
fn a_successor_beside_a_log_that_did_not_change_is_seen() {
    let machine = Machine::new();
    let folder = machine.folder("s");
    let header = r#"{"type":"session","version":1,"id":"s","createdAt":5,"cwd":"/p","delegationDepth":0}"#;
    machine.disk.plant(folder.join("session.v1.jsonl"), format!("{header}\n").as_bytes());
    machine.wait(3);
    assert_eq!((machine.opened(), machine.opened()), (1, 0));
    let successor = r#"{"type":"session","version":2,"id":"s","createdAt":5,"cwd":"/p","isSeeded":false,"delegationDepth":0}"#;
    machine.disk.plant(folder.join("session.v2.jsonl"), format!("{successor}\n").as_bytes());
    assert_eq!(machine.opened(), 1);
    machine.wait(3);
    assert_eq!((machine.opened(), machine.opened()), (1, 0));
    let listed = machine.listed().list().unwrap();
    assert_eq!(listed[0].older, [folder.join("session.v1.jsonl")]);
}

#[test]
fn torn_ends_are_kept_and_damage_is_judged_each_time() {
    let machine = Machine::new();
    ["torn", "corrupt", "sound"].iter().for_each(|id| machine.create(id));
    let bytes = machine.disk.content(machine.log("torn")).unwrap();
    machine.disk.plant(machine.log("torn"), &bytes[..bytes.len() - 5]);
    let mut bytes = machine.disk.content(machine.log("corrupt")).unwrap();
    bytes[30] ^= 1;
    machine.disk.plant(machine.log("corrupt"), &bytes);
    machine.wait(3);
    machine.opened();
    machine.disk.forget_trace();
    assert_eq!(machine.opened(), 1, "only the damaged one");
    let listed = machine.listed().list().unwrap();
    let state = |id: &str| listed.iter().find(|one| one.path == machine.log(id)).unwrap().state;
    assert_eq!((state("torn"), state("corrupt"), state("sound")), (State::Torn, State::Corrupt, State::Ok));
}

#[test]
fn an_entry_is_gone_with_its_session() {
    let machine = Machine::new();
    (0..100).for_each(|id| machine.create(&format!("secret-{id}")));
    machine.wait(3);
    machine.opened();
    machine.disk.remove_file(&machine.log("secret-42")).unwrap();
    machine.disk.remove_file(&machine.folder("secret-42").join("session.lock")).unwrap();
    machine.disk.remove_dir(&machine.folder("secret-42")).unwrap();
    machine.opened();
    let bytes = machine.disk.content(&machine.catalogs()[0]).unwrap();
    let holds = |name: &str| bytes.windows(name.len()).any(|window| window == name.as_bytes());
    assert!(holds("secret-41") && !holds("secret-42"));
}

#[test]
fn few_changes_among_many_sessions_do_not_write_the_catalog_anew() {
    let machine = Machine::new();
    (0..100).for_each(|id| machine.create(&format!("s{id}")));
    machine.wait(3);
    machine.opened();
    let catalog = machine.catalogs().remove(0);
    let inode = || machine.disk.stamp(&catalog).unwrap().unwrap().inode;
    let first = inode();
    ["s1", "s2"].iter().for_each(|id| machine.append(id));
    machine.wait(3);
    assert_eq!(machine.opened(), 2);
    assert_eq!(inode(), first);
    ["s3", "s4"].iter().for_each(|id| machine.append(id));
    machine.wait(3);
    assert_eq!(machine.opened(), 4);
    assert_ne!(inode(), first);
    assert_eq!(machine.opened(), 0);
}

#[test]
fn a_catalog_is_never_used_for_another_root_nor_if_others_may_write_where_it_lies() {
    let machine = Machine::new();
    machine.create("s");
    machine.wait(3);
    assert_eq!((machine.opened(), machine.opened()), (1, 0));
    // The same path, and another folder in its place.
    machine.disk.rename(Path::new(ROOT), Path::new("/other")).unwrap();
    machine.disk.plant_dir(ROOT);
    machine.disk.rename(Path::new("/other/--p--"), Path::new("/root/--p--")).unwrap();
    machine.wait(3);
    assert_eq!(machine.opened(), 1);
    assert_eq!(machine.opened(), 0);
    let catalog = machine.catalogs().remove(0);
    // Other bounds.
    let mut options = StoreOptions::default();
    options.limits.row_bytes_max = 10;
    let strict = FileStore::on_disk(Arc::new(machine.disk.clone()), ROOT, options);
    assert_eq!(shown(&strict.clone().with_catalog(Catalog::in_folder(CACHE))), shown(&strict));
    // A link in the place of the folder, or of the catalog.
    let bytes = machine.disk.content(&catalog).unwrap();
    machine.disk.plant("/elsewhere", &bytes);
    machine.disk.remove_file(&catalog).unwrap();
    machine.disk.plant_symlink(&catalog, "/elsewhere");
    assert_eq!(machine.opened(), 1);
    assert_eq!(machine.disk.content("/elsewhere").unwrap(), bytes, "nothing was written through the link");
    let linked = machine.store().with_catalog(Catalog::in_folder("/link"));
    machine.disk.plant_symlink("/link", CACHE);
    machine.disk.forget_trace();
    linked.list().unwrap();
    assert!(!machine.disk.trace().iter().any(|op| op.path.parent() == Some(Path::new("/link"))));
    // In the root itself.
    let inside = machine.store().with_catalog(Catalog::in_folder("/root/cache"));
    inside.list().unwrap();
    assert!(!machine.disk.paths().iter().any(|path| path.starts_with("/root/cache")));
}

#[test]
fn a_listing_goes_on_whatever_the_catalogs_disk_refuses() {
    let machine = Machine::new();
    machine.create("s");
    machine.wait(3);
    machine.disk.forget_trace();
    let before = machine.disk.ops();
    machine.listed().list().unwrap();
    let calls: Vec<_> = machine.disk.trace().into_iter().filter(|op| op.path.starts_with("/cache")).collect();
    assert!(calls.len() > 6, "{calls:?}");
    for call in calls {
        let machine = Machine::new();
        machine.create("s");
        machine.wait(3);
        assert_eq!(machine.disk.ops(), before);
        machine.disk.fail_at(call.call, crate::container::disk::fault::Failure::Error(28));
        assert_eq!(machine.listed().list().unwrap().len(), 1, "{call:?}");
        machine.opened();
        assert_eq!(machine.opened(), 0);
        let left: Vec<_> = machine.catalogs();
        assert!(left.len() <= 2, "{left:?}");
        machine.wait(4000);
        machine.create("t");
        machine.wait(3);
        machine.opened();
        assert_eq!(machine.catalogs().len(), 1, "what a dead writer left is taken away");
    }
}

#[test]
fn after_a_power_loss_at_any_moment_the_catalog_is_whole_or_not_used() {
    let build = || {
        let machine = Machine::new();
        (0..30).for_each(|id| machine.create(&format!("s{id}")));
        machine.wait(3);
        machine
    };
    let machine = build();
    let start = machine.disk.ops();
    machine.listed().list().unwrap();
    let end = machine.disk.ops();
    for calls in start..=end {
        let machine = build();
        machine.disk.crash_after(calls);
        let _ = machine.listed().list();
        for seed in 0..4 {
            let after = Machine::of(machine.disk.crash_image(seed, FileLoss::RandomSectors));
            after.wait(3);
            after.opened();
            assert_eq!(after.opened(), 0, "rebuilt");
        }
    }
}

fn identity() -> Identity {
    Identity::new(OsStr::new(ROOT), 1, 2, &Limits::DEFAULT)
}

/// A catalog of `count` sessions, and the names in it.
fn catalog(count: usize) -> (Vec<u8>, Vec<String>) {
    let disk = FaultDisk::new();
    let file = disk.create_new(Path::new("/c")).unwrap();
    let mut writer = TableWriter::new(&*file, count);
    let names: Vec<String> = (0..count).map(|index| format!("s{index}")).collect();
    for name in &names {
        let path = Path::new("/root/--p--").join(name).join("session.v2.jsonl.zst");
        let mut snapshot = Snapshot::at(&path);
        snapshot.header = Header::new(Generation::V2, Text::from(name.as_str()), UnixMs::new(5)).ok();
        snapshot.state = State::Ok;
        snapshot.encoding = Some(crate::container::Encoding::Indexed);
        snapshot.event_count = Some(7);
        let revision = FileRevision { device: 1, inode: 9, size: 100, modified_ns: 1, changed_ns: 2 };
        (snapshot.size_bytes, snapshot.revision) = (Some(100), Some(revision.into()));
        snapshot.older = vec![path.with_file_name("session.v1.jsonl")];
        let names = (OsStr::new("--p--"), OsStr::new(name.as_str()));
        writer.add(hash_of(names), |out| entry::write(names, &revision, &snapshot, out)).unwrap();
    }
    writer.finish(&identity()).unwrap();
    (disk.content("/c").unwrap(), names)
}

/// The names that a catalog still knows, with what it says of them.
fn known(bytes: &[u8], names: &[String]) -> Vec<(String, String)> {
    let Some(table) = Table::of_bytes(bytes, &identity()) else { return Vec::new() };
    let look = |name: &String| {
        let names = (OsStr::new("--p--"), OsStr::new(name.as_str()));
        let (_, bytes) = table
            .find(hash_of(names))
            .find(|(_, bytes)| Entry::read(bytes).is_some_and(|entry| entry.is_of(names)))?;
        let folder = Path::new("/root/--p--").join(name);
        let snapshot = Entry::read(&bytes)?.snapshot(&folder, &Limits::DEFAULT)?;
        Some((name.clone(), format!("{snapshot:?}")))
    };
    names.iter().filter_map(look).collect()
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let (bytes, names) = catalog(3);
    let whole = known(&bytes, &names);
    assert_eq!(whole.len(), 3);
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let left = known(&bad, &names);
        assert!(left.iter().all(|one| whole.contains(one)), "bit {bit}");
        // Each bit is covered; those of one entry cost that entry alone.
        assert!(left.len() < 3, "bit {bit}");
        assert!(left.len() == 2 || bit / 8 >= bytes.len() - 64 - 60 - ROOT.len(), "bit {bit}");
    }
    for cut in 0..bytes.len() {
        assert_eq!(known(&bytes[..cut], &names), []);
        assert_eq!(known(&bytes[bytes.len() - cut..], &names), []);
    }
}

#[test]
fn a_section_of_a_later_build_is_passed_over_and_copied() {
    let machine = Machine::new();
    machine.create("s");
    machine.wait(3);
    machine.opened();
    let path = machine.catalogs().remove(0);
    let stamp = machine.disk.stamp(&Path::new(ROOT).join(".")).unwrap().unwrap();
    let identity = Identity::new(OsStr::new(ROOT), stamp.device, stamp.inode, &Limits::DEFAULT).since(0);
    let table = Table::of_bytes(&machine.disk.content(&path).unwrap(), &identity).unwrap();
    let (hash, bytes) = table.get(0).unwrap();
    let mut longer = bytes.to_vec();
    longer.extend_from_slice(&[99, 0, 7, 0, 5, 0, 0, 0]);
    longer.extend_from_slice(b"title");
    let len = u32::try_from(longer.len()).unwrap();
    longer[4..8].copy_from_slice(&len.to_le_bytes());
    let crc = crate::container::crc32(0, &longer[4..]);
    longer[..4].copy_from_slice(&crc.to_le_bytes());
    machine.disk.remove_file(&path).unwrap();
    let file = machine.disk.create_new(&path).unwrap();
    let mut writer = TableWriter::new(&*file, 1);
    writer
        .add(hash, |out| {
            out.extend_from_slice(&longer);
            true
        })
        .unwrap();
    writer.finish(&identity).unwrap();
    assert_eq!(machine.opened(), 0);
    machine.create("t");
    machine.wait(3);
    machine.opened();
    assert_eq!(machine.opened(), 0);
    let bytes = machine.disk.content(&path).unwrap();
    assert!(bytes.windows(5).any(|window| window == b"title"));
}

proptest! {
    #[test]
    fn any_bytes_are_a_catalog_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        known(&bytes, &["s0".to_owned()]);
        Entry::read(&bytes);
    }

    /// With every CRC made right again, as somebody would who wants to do harm.
    #[test]
    fn forged_numbers_are_bounded(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        in_entry in any::<bool>(),
    ) {
        let (mut bytes, names) = catalog(2);
        let len = bytes.len();
        let root_at = usize::try_from(u64::from_le_bytes(bytes[len - 24..len - 16].try_into().unwrap())).unwrap();
        let index_at = root_at + ROOT.len();
        for (at, value) in changes {
            let at = if in_entry { at.index(root_at) } else { root_at + at.index(len - root_at) };
            bytes[at] = value;
        }
        let first = usize::try_from(u32::from_le_bytes(bytes[4..8].try_into().unwrap())).unwrap();
        if (8..=root_at).contains(&first) {
            let crc = crate::container::crc32(0, &bytes[4..first]);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
        }
        let crc = crate::container::crc32(0, &bytes[index_at..len - 64]);
        bytes[len - 12..len - 8].copy_from_slice(&crc.to_le_bytes());
        let covered = [&bytes[root_at..index_at], &bytes[len - 64..len - 4]].concat();
        let crc = crate::container::crc32(0, &covered);
        bytes[len - 4..].copy_from_slice(&crc.to_le_bytes());
        known(&bytes, &names);
    }
}
