//! What is kept is used only where it is true.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seslog::container::Encoding;
use seslog::container::disk::fault::{Failure, FileLoss, OpKind};
use seslog::container::disk::{Access, Disk as _};
use seslog::json::{Node, Text, write_u64};
use seslog::row::{Header, Seeding};
use seslog::session::{Counts, Occurrence, Projection, Projections, Title};
use seslog::store::{
    Catalog, CompactOptions, FileStore, MigrateOptions, SessionAccess, StoreOptions, compact, migrate,
    rehome, remove,
};
use seslog::units::{Generation, UnixMs};

use crate::common::sessions::{append, header, options_on_flush};
use crate::machine::{CACHE, Machine, ROOT, json, listed};
use crate::rows::{Dice, rows};

/// Overwrites the log's bytes in place, and cuts or extends it to the same length: its inode stays.
fn overwrite(machine: &Machine, path: &Path, bytes: &[u8]) {
    let file = machine.disk.open(path, Access::Repair).unwrap();
    file.truncate(0).unwrap();
    file.write_at(0, bytes).unwrap();
}

/// Does something to the log of session `id`. What, in words.
fn change(machine: &Machine, dice: &mut Dice, id: &str) -> String {
    let path = machine.log(id);
    let bytes = machine.disk.content(&path).unwrap();
    let disk: Arc<dyn seslog::container::disk::Disk> = Arc::new(machine.disk.clone());
    let next = machine
        .bare()
        .open(&Text::from(id), SessionAccess::Read)
        .ok()
        .map(|handle| handle.read(0, u64::MAX).map_or(0, |events| events.len() as u64));
    match (dice.below(12), next) {
        (0..=4, Some(next)) => {
            let count = 1 + dice.below(20) as u64;
            let rows = rows(dice, next, count);
            let handle = match machine.bare().open(&Text::from(id), SessionAccess::Write) {
                Ok(handle) => handle,
                Err(_) => return "nothing, it cannot be written".to_owned(),
            };
            for batch in rows.chunks(1 + dice.below(8)) {
                append(&handle, batch).unwrap();
            }
            handle.close().unwrap();
            format!("append {count}")
        }
        (5, _) => {
            let cut = 1 + dice.below(60).min(bytes.len() - 1);
            overwrite(machine, &path, &bytes[..bytes.len() - cut]);
            format!("cut {cut} bytes off in place")
        }
        (6, _) => {
            machine.disk.remove_file(&path).unwrap();
            machine.disk.plant(&path, &bytes);
            "put a copy in its place".to_owned()
        }
        (7, _) => {
            // Another session of the same id and the same length, as far as it goes, in the same file.
            let twin = Machine::new(machine.encoding);
            twin.create(id, &rows(&mut Dice::new(dice.below(1000) as u64), 0, 30));
            overwrite(machine, &path, &twin.disk.content(twin.log(id)).unwrap());
            "write another session over it".to_owned()
        }
        (8, _) => {
            let _refused = compact(&disk, &path, &CompactOptions::default(), &mut |_| {});
            "compact".to_owned()
        }
        (9, _) => {
            let at = bytes.len() - 1 - dice.below(bytes.len().min(40));
            let mut bad = bytes;
            bad[at] ^= 1;
            overwrite(machine, &path, &bad);
            format!("flip a bit at {at}")
        }
        (10, _) => {
            machine.wait(dice.below(5) as i128);
            "wait".to_owned()
        }
        _ => {
            for kept in machine.kept() {
                machine.disk.remove_file(&kept).unwrap();
            }
            "forget what is kept".to_owned()
        }
    }
}

#[test]
fn whatever_happens_to_a_log_its_states_are_those_of_a_fold_from_the_start() {
    for encoding in Encoding::ALL {
        for seed in 0..6 {
            let (machine, mut dice) = (Machine::new(encoding), Dice::new(seed));
            machine.create("s", &rows(&mut dice, 0, 25));
            machine.create("other", &rows(&mut dice, 0, 25));
            let mut done = format!("{encoding}, seed {seed}");
            for _ in 0..30 {
                machine.check("s", &done);
                let what = change(&machine, &mut dice, "s");
                done.push_str(&format!("; {what}"));
                // A listing shows the same, or nothing.
                let sessions = machine.store().list_with_overviews().unwrap();
                let path = machine.log("s");
                if let Some(shown) = listed(&sessions, "s") {
                    let scratch = machine.scratch(&path, &Projections::built_in());
                    let scratch = seslog::session::Overview::of(&scratch.unwrap()).unwrap();
                    assert_eq!(shown, scratch, "listed after {done}");
                }
                machine.wait(dice.below(2) as i128 * 3);
            }
        }
    }
}

#[test]
fn a_checkpoint_with_any_byte_changed_is_not_used() {
    let machine = Machine::new(Encoding::Indexed);
    machine.create("s", &rows(&mut Dice::new(3), 0, 40));
    machine.wait(3);
    let (set, path) = (Projections::built_in(), machine.log("s"));
    let whole = json(&machine.store().project_log(&path, &set).unwrap());
    let [kept] = &machine.kept()[..] else { panic!("{:?}", machine.kept()) };
    let bytes = machine.disk.content(kept).unwrap();
    machine.disk.forget_trace();
    assert_eq!(json(&machine.store().project_log(&path, &set).unwrap()), whole);
    assert_eq!(machine.logs_opened(), 0, "it is used when it is whole");
    let refused = |bad: &[u8], what: &str| {
        let file = machine.disk.open(kept, Access::Repair).unwrap();
        file.truncate(0).unwrap();
        file.write_at(0, bad).unwrap();
        machine.disk.forget_trace();
        assert_eq!(json(&machine.store().project_log(&path, &set).unwrap()), whole, "{what}");
        assert!(machine.logs_opened() > 0, "{what} was used");
        assert_eq!(machine.disk.content(kept).unwrap().len(), bytes.len(), "{what}: it is written anew");
    };
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        refused(&bad, &format!("byte {at}"));
    }
    for cut in (0..bytes.len()).step_by(7) {
        refused(&bytes[..cut], &format!("cut at {cut}"));
    }
    refused(&[&bytes[..], b"x"].concat(), "a byte more");
}

#[test]
fn a_checkpoint_of_another_session_root_or_user_is_not_used() {
    let machine = Machine::new(Encoding::Indexed);
    let set = Projections::built_in();
    machine.create("a", &rows(&mut Dice::new(3), 0, 40));
    machine.wait(3);
    machine.check("a", "created");
    let [of_a] = &machine.kept()[..] else { panic!("{:?}", machine.kept()) };
    machine.create("b", &rows(&mut Dice::new(4), 0, 40));
    machine.wait(3);
    machine.check("b", "created");
    let of_b = machine.kept().into_iter().find(|path| path != of_a).unwrap();
    // The file of one under the name of the other.
    let bytes = machine.disk.content(of_a).unwrap();
    machine.disk.remove_file(&of_b).unwrap();
    let place = |path: &Path, bytes: &[u8]| machine.disk.create_new(path).unwrap().append_all(bytes).unwrap();
    place(&of_b, &bytes);
    machine.check("b", "the checkpoint of another session");
    // The same in another root: its path and inode are part of what a checkpoint is of.
    machine.disk.rename(Path::new(ROOT), Path::new("/elsewhere")).unwrap();
    machine.disk.plant_dir(ROOT);
    let moved = FileStore::on_disk(Arc::new(machine.disk.clone()), "/elsewhere", StoreOptions::default())
        .with_catalog(Catalog::in_folder(CACHE));
    machine.disk.forget_trace();
    moved.project(&Text::from("a"), &set).unwrap();
    let log_opens = |root: &str| {
        machine.disk.trace().iter().filter(|op| op.kind == OpKind::Open && op.path.starts_with(root)).count()
    };
    assert!(log_opens("/elsewhere") > 0);
    let theirs = machine.kept().into_iter().find(|path| *path != *of_a && *path != of_b).unwrap();
    // One that others may read, or a link to it, is none of ours.
    let bytes = machine.disk.content(&theirs).unwrap();
    machine.disk.remove_file(&theirs).unwrap();
    machine.disk.plant("/away", &bytes);
    machine.disk.plant_symlink(&theirs, "/away");
    machine.disk.forget_trace();
    moved.project(&Text::from("a"), &set).unwrap();
    assert!(log_opens("/elsewhere") > 0);
    assert_eq!(machine.disk.content("/away").unwrap(), bytes, "nothing is written through a link");
}

#[test]
fn r138_a_session_of_the_same_id_in_the_same_file_has_states_of_its_own() {
    for encoding in Encoding::ALL {
        // Another life: only the header tells, and both logs have the same events.
        let machine = Machine::new(encoding);
        let told = rows(&mut Dice::new(3), 0, 40);
        machine.create("s", &told);
        machine.wait(3);
        machine.check("s", "created");
        let twin = Machine::new(encoding);
        let header = Header::new(Generation::V2, Text::from("s"), UnixMs::new(1_700_000_000_001)).unwrap();
        let handle = twin.bare().create(header, None).unwrap();
        append(&handle, &rows(&mut Dice::new(9), 0, 40)).unwrap();
        handle.close().unwrap();
        overwrite(&machine, &machine.log("s"), &twin.disk.content(twin.log("s")).unwrap());
        machine.check("s", "another life");
        machine.wait(3);
        machine.check("s", "another life, quiet");
    }
}

/// The case that two seconds are for: the log changes, and neither its length nor a stamp of it.
#[test]
fn a_change_that_leaves_every_stamp_as_it_was_is_seen_if_it_came_soon() {
    let machine = Machine::new(Encoding::Plain);
    let told = rows(&mut Dice::new(3), 0, 10);
    machine.create("s", &told);
    let path = machine.log("s");
    let bytes = String::from_utf8(machine.disk.content(&path).unwrap()).unwrap();
    let changed = bytes.replacen("turn/start", "step/start", 1);
    assert_ne!(changed, bytes, "the test's own premise");
    let file = machine.disk.open(&path, Access::Repair).unwrap();
    // The clock of the file system does not tick in between.
    let moment = machine.disk.now_ns();
    let write = |text: &str| {
        machine.disk.set_clock_ns(moment);
        file.write_at(0, text.as_bytes()).unwrap();
        machine.disk.stamp(&path).unwrap().unwrap()
    };
    let before = write(&bytes);
    machine.check("s", "created");
    assert_eq!(write(&changed), before, "the test's own premise");
    machine.wait(10);
    machine.check("s", "changed at once");
}

/// Counts what it is given.
struct Given<const VERSION: u32>;

static GIVEN: AtomicU64 = AtomicU64::new(0);

impl<const VERSION: u32> Projection for Given<VERSION> {
    const KEY: &'static str = "test/given";
    const STATE_VERSION: u32 = VERSION;
    type State = u64;

    fn init() -> u64 {
        0
    }

    fn apply(state: &mut u64, event: &Occurrence<'_>) {
        assert_eq!(*state, event.event().seq().get(), "each once, in order");
        *state += 1;
        GIVEN.fetch_add(1, Ordering::Relaxed);
    }

    fn encode(state: &u64, out: &mut Vec<u8>) {
        write_u64(out, *state);
    }

    fn decode(json: Node<'_>) -> Option<u64> {
        json.as_number()?.as_count()
    }
}

/// As above, of another key.
struct Other;

static OTHERS: AtomicU64 = AtomicU64::new(0);

impl Projection for Other {
    const KEY: &'static str = "test/other";
    const STATE_VERSION: u32 = 1;
    type State = u64;

    fn init() -> u64 {
        0
    }

    fn apply(state: &mut u64, event: &Occurrence<'_>) {
        assert_eq!(*state, event.event().seq().get(), "each once, in order");
        *state += 1;
        OTHERS.fetch_add(1, Ordering::Relaxed);
    }

    fn encode(state: &u64, out: &mut Vec<u8>) {
        write_u64(out, *state);
    }

    fn decode(json: Node<'_>) -> Option<u64> {
        json.as_number()?.as_count()
    }
}

#[test]
fn r138_each_event_is_folded_once_and_another_version_folds_its_own_anew() {
    let machine = Machine::new(Encoding::Indexed);
    let mut dice = Dice::new(5);
    machine.create("s", &rows(&mut dice, 0, 30));
    let given = |set: Projections| {
        GIVEN.store(0, Ordering::Relaxed);
        OTHERS.store(0, Ordering::Relaxed);
        let projected = machine.store().project(&Text::from("s"), &set).unwrap();
        (projected.folded(), GIVEN.load(Ordering::Relaxed), OTHERS.load(Ordering::Relaxed))
    };
    let first = || Projections::new().with::<Given<1>>().with::<Other>();
    let second = || Projections::new().with::<Given<2>>().with::<Other>();
    assert_eq!(given(first()), (30, 30, 30));
    assert_eq!(given(first()), (30, 0, 0));
    machine.append("s", &rows(&mut dice, 30, 7));
    assert_eq!(given(first()), (37, 7, 7));
    assert_eq!(given(second()), (37, 37, 0), "only the one of another version");
    assert_eq!(given(second()), (37, 0, 0));
    assert_eq!(given(first()), (37, 37, 0), "one key has one state");
    // A set that has others beside leaves them where they are, and finds them again.
    machine.append("s", &rows(&mut dice, 37, 3));
    assert_eq!(given(Projections::new().with::<Counts>().with::<Title>()), (40, 0, 0));
    assert_eq!(given(Projections::new().with::<Other>()), (40, 0, 3));
    assert_eq!(given(first()), (40, 3, 0), "the other one is ahead, and waits");
    assert_eq!(given(first()), (40, 0, 0));
}

#[test]
fn r138_a_generation_has_its_own_states() {
    let folder = Path::new(ROOT).join("_no-cwd").join("s");
    let v1 = concat!(
        r#"{"type":"session","version":1,"id":"s","createdAt":5,"delegationDepth":0}"#,
        "\n",
        r#"{"type":"turn/start","seq":0,"time":5,"data":{"turn":1}}"#,
        "\n",
        r#"{"type":"turn/end","seq":1,"time":9,"data":{"turn":1,"reason":{"kind":"completed"}}}"#,
        "\n"
    );
    let machine = Machine::new(Encoding::Plain);
    machine.disk.plant(folder.join("session.v1.jsonl"), v1.as_bytes());
    machine.wait(3);
    machine.check("s", "as v1");
    machine.disk.forget_trace();
    let sessions = machine.store().list_with_overviews().unwrap();
    assert_eq!(listed(&sessions, "s").unwrap().counts.turns, 1);
    // What is appended to it may change what all of it is converted to: here, whether it can be.
    let file = machine.disk.open(&folder.join("session.v1.jsonl"), Access::Append).unwrap();
    let skipped = br#"{"type":"turn/start","seq":2,"time":9,"data":{"turn":5}}"#;
    file.append_all(&[&skipped[..], b"\n"].concat()).unwrap();
    assert!(machine.scratch(&machine.log("s"), &Projections::built_in()).is_none());
    machine.check("s", "as v1, and refused");
    file.truncate(v1.len() as u64).unwrap();
    machine.check("s", "as v1 again");
    let disk: Arc<dyn seslog::container::disk::Disk> = Arc::new(machine.disk.clone());
    migrate(&disk, &folder, &MigrateOptions::default()).unwrap();
    assert!(machine.log("s").ends_with("session.v2.jsonl"));
    let sessions = machine.store().list_with_overviews().unwrap();
    assert_eq!(listed(&sessions, "s"), None, "what is kept is of the older one");
    machine.check("s", "as v2");
    machine.append("s", &rows(&mut Dice::new(1), 2, 5));
    machine.check("s", "as v2, and on");
    let sessions = machine.store().list_with_overviews().unwrap();
    assert!(listed(&sessions, "s").is_some());
}

#[test]
fn r138_another_mark_of_what_was_inherited_makes_another_log_of_it() {
    for encoding in Encoding::ALL {
        let machine = Machine::new(encoding);
        let seeded = header("s").with_seeding(Generation::CURRENT, Seeding::Marked).unwrap();
        let mark = |seq: u64| {
            format!(r#"{{"type":"session/end-seed","seq":{seq},"time":5,"data":{{"inherited":true}}}}"#)
        };
        let mut told = rows(&mut Dice::new(2), 0, 20);
        told.push(mark(20));
        let handle = machine.bare().create(seeded, Some(20)).unwrap();
        append(&handle, &told).unwrap();
        handle.close().unwrap();
        machine.check("s", "seeded");
        machine.append("s", &rows(&mut Dice::new(3), 21, 10));
        machine.check("s", "gone on");
        machine.append("s", &[mark(31)]);
        machine.append("s", &rows(&mut Dice::new(4), 32, 3));
        machine.check("s", "marked again");
        // As 09 of the specification has it.
        let kept = machine.disk.content(&machine.kept()[0]).unwrap();
        assert_eq!(kept[24..32], 31_u64.to_le_bytes(), "what it inherited");
    }
}

#[test]
fn a_torn_end_is_no_part_of_a_state_and_repaired_logs_go_on() {
    for encoding in Encoding::ALL {
        let machine = Machine::new(encoding);
        let mut dice = Dice::new(8);
        machine.create("s", &rows(&mut dice, 0, 10));
        let whole = machine.disk.content(machine.log("s")).unwrap().len();
        machine.append("s", &rows(&mut dice, 10, 10));
        let bytes = machine.disk.content(machine.log("s")).unwrap();
        for cut in whole + 1..bytes.len() {
            overwrite(&machine, &machine.log("s"), &bytes[..cut]);
            machine.check("s", &format!("{encoding}, cut at {cut}"));
        }
        let next = machine.scratch(&machine.log("s"), &Projections::built_in()).unwrap().folded();
        machine.append("s", &rows(&mut dice, next, 4));
        machine.check("s", "repaired");
    }
}

#[test]
fn what_is_kept_goes_with_its_session() {
    let machine = Machine::new(Encoding::Indexed);
    let ids = ["a", "b", "c", "d"];
    let mut of: BTreeMap<&str, PathBuf> = BTreeMap::new();
    for (seed, id) in ids.into_iter().enumerate() {
        machine.create(id, &rows(&mut Dice::new(seed as u64), 0, 20));
        machine.wait(3);
        machine.check(id, "created");
        let new = machine.kept().into_iter().find(|path| !of.values().any(|known| known == path)).unwrap();
        of.insert(id, new);
    }
    let names = |id: &str| machine.log(id).parent().unwrap().to_path_buf();
    let titles = |id: &str| {
        let catalog =
            machine.disk.paths().into_iter().find(|path| path.extension().is_some_and(|e| e == "catalog"));
        let bytes = machine.disk.content(catalog.unwrap()).unwrap();
        let name = format!("\"id\":\"{id}\"");
        bytes.windows(name.len()).any(|window| window == name.as_bytes())
    };
    machine.store().list_with_overviews().unwrap();
    assert!(titles("a") && titles("b"));
    let there = |id: &str| machine.disk.content(&of[id]).is_some();
    // Told at once.
    let folder = names("a");
    remove(&machine.disk, &folder, false).unwrap();
    machine.store().forget(&[folder]);
    assert!(!there("a") && there("b") && !titles("a") && titles("b"));
    // Not told: the next listing sees it.
    remove(&machine.disk, &names("b"), false).unwrap();
    machine.store().list().unwrap();
    assert!(!there("b") && there("c") && !titles("b") && titles("c"));
    // Moved.
    let disk: Arc<dyn seslog::container::disk::Disk> = Arc::new(machine.disk.clone());
    let folder = names("c");
    rehome(&disk, Path::new(ROOT), &folder, &Text::from("/new/home"), false).unwrap();
    machine.store().forget(&[folder]);
    assert!(!there("c"));
    machine.check("c", "moved");
    // Left by a session that no catalog knew, or by a writer that died.
    let stray = of["d"].with_file_name("0123456789abcdef.states");
    let died = of["d"].with_file_name("0123456789abcdef.states.00ff00ff00ff.tmp");
    for path in [&stray, &died] {
        machine.disk.create_new(path).unwrap().append_all(b"x").unwrap();
    }
    machine.wait(4000);
    machine.create("e", &rows(&mut Dice::new(1), 0, 3));
    machine.wait(3);
    machine.store().list().unwrap();
    assert!(machine.disk.content(&stray).is_none() && machine.disk.content(&died).is_none() && there("d"));
}

#[test]
fn a_fold_goes_on_whatever_the_caches_disk_refuses() {
    let build = || {
        let machine = Machine::new(Encoding::Indexed);
        machine.create("s", &rows(&mut Dice::new(3), 0, 20));
        machine.wait(3);
        machine.store().project(&Text::from("s"), &Projections::built_in()).unwrap();
        machine.append("s", &rows(&mut Dice::new(4), 20, 5));
        machine.wait(3);
        machine.disk.forget_trace();
        machine
    };
    let machine = build();
    machine.check("s", "nothing refused");
    let calls: Vec<_> = machine.disk.trace().into_iter().filter(|op| op.path.starts_with("/cache")).collect();
    assert!(calls.len() > 6, "{calls:?}");
    for call in calls {
        let machine = build();
        machine.disk.fail_at(call.call, Failure::Error(28));
        machine.check("s", &format!("{call:?}"));
        assert!(machine.kept().len() == 1, "{call:?}");
    }
}

/// A writer has not synced what it wrote, somebody else folds and keeps it, and the power goes: it may take sectors out of the
/// middle of a log and leave its length, its times and its end. The kept state said what was in them, before it was synced.
#[test]
fn r138_events_that_nobody_synced_are_synced_before_they_are_kept() {
    for encoding in Encoding::ALL {
        let build = || {
            let machine = Machine::new(encoding);
            machine.create("s", &rows(&mut Dice::new(3), 0, 20));
            let store = FileStore::on_disk(Arc::new(machine.disk.clone()), ROOT, options_on_flush(encoding));
            let handle = store.open(&Text::from("s"), SessionAccess::Write).unwrap();
            append(&handle, &rows(&mut Dice::new(4), 20, 30)).unwrap();
            machine.wait(3);
            (machine, handle)
        };
        // Where that fails, nothing is kept.
        let (machine, _handle) = build();
        machine.disk.fail_next(OpKind::SyncData, Failure::Error(5));
        let folded = machine.store().project(&Text::from("s"), &Projections::built_in()).unwrap();
        assert_eq!((folded.folded(), machine.kept().len()), (50, 0));

        let (machine, handle) = build();
        machine.check("s", "not flushed");
        let [path] = &machine.kept()[..] else { panic!("{:?}", machine.kept()) };
        let kept = machine.disk.content(path).unwrap();
        append(&handle, &rows(&mut Dice::new(5), 50, 30)).unwrap();
        let mut taken = 0;
        for seed in 0..12 {
            let after = Machine { disk: machine.disk.crash_image(seed, FileLoss::RandomSectors), encoding };
            // The power spares the checkpoint, whatever else it takes.
            let keep = || {
                if after.disk.content(path).is_some() {
                    after.disk.remove_file(path).unwrap();
                }
                for folder in [Path::new("/cache"), Path::new(CACHE), path.parent().unwrap()] {
                    after.disk.create_dir(folder).unwrap();
                }
                after.disk.create_new(path).unwrap().append_all(&kept).unwrap();
            };
            keep();
            after.check("s", &format!("{encoding}, seed {seed}"));
            let Some(left) = after.scratch(&after.log("s"), &Projections::built_in()) else { continue };
            assert!(left.folded() >= 50, "{encoding}, seed {seed}");
            taken += u64::from(left.folded() < 80);
            // Others come in the place of those that are lost.
            after.append("s", &rows(&mut Dice::new(seed + 50), left.folded(), 7));
            keep();
            after.check("s", &format!("{encoding}, seed {seed}, gone on"));
        }
        assert!(taken > 0, "{encoding}: the test's own premise");
    }
}

#[test]
fn after_a_power_loss_at_any_moment_a_checkpoint_is_whole_or_not_used() {
    let build = || {
        let machine = Machine::new(Encoding::Indexed);
        machine.create("s", &rows(&mut Dice::new(3), 0, 20));
        machine.wait(3);
        machine.store().project(&Text::from("s"), &Projections::built_in()).unwrap();
        machine.append("s", &rows(&mut Dice::new(4), 20, 5));
        machine.wait(3);
        machine
    };
    let machine = build();
    let start = machine.disk.ops();
    machine.check("s", "no loss");
    let end = machine.disk.ops();
    for calls in start..=end {
        let machine = build();
        machine.disk.crash_after(calls);
        let _lost = machine.store().project(&Text::from("s"), &Projections::built_in());
        for seed in 0..4 {
            let disk = machine.disk.crash_image(seed, FileLoss::RandomSectors);
            let after = Machine { disk, encoding: Encoding::Indexed };
            after.check("s", &format!("after call {calls}"));
        }
    }
}
