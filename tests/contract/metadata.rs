//! C10: stat, list, revision.

use std::path::Path;

use seslog::Error;
use seslog::container::Encoding;
use seslog::container::disk::fault::{Failure, OpKind};
use seslog::json::Text;
use seslog::store::{FileStore, SessionAccess, Snapshot, State};

use crate::common::sessions::{append, fat_rows_by, header, read_all, row_by, rows_by};
use crate::seam::{EIO, ROOT, Seam, once_per_encoding};

once_per_encoding! {
    r125_the_revision_is_that_of_the_file,
    r126_the_event_count_comes_from_the_last_row,
    r128_looking_does_not_read_the_rows,
    r129_a_session_is_listed_once_and_never_missing,
    r130_what_vanishes_is_none_and_other_faults_are_told,
    r131_one_id_in_two_places_is_refused,
    r132_hostile_ids_stay_inside_and_apart,
    r133_the_flat_layout_and_two_files_of_a_generation_are_refused,
}

fn stat(store: &FileStore, id: &str) -> Snapshot {
    store.stat(&Text::from(id)).unwrap().unwrap()
}

fn r125_the_revision_is_that_of_the_file(seam: &Seam) {
    seam.store_small(2);
    let revision = stat(&seam.instance(), "s").revision;
    assert_eq!(stat(&seam.instance(), "s").revision, revision);
    seam.disk.plant("/other/_no-cwd/s/x", b"");
    let copy = Path::new("/other/_no-cwd/s").join(seam.log().file_name().unwrap());
    seam.disk.plant(copy, &seam.bytes());
    let other =
        FileStore::on_disk(std::sync::Arc::new(seam.disk.clone()), "/other", *seam.instance().options());
    let other = stat(&other, "s");
    assert_eq!(other.state, State::Ok);
    assert_ne!(other.revision, revision);
}

fn r126_the_event_count_comes_from_the_last_row(seam: &Seam) {
    let handle = seam.instance().create(header("s"), None).unwrap();
    handle.flush().unwrap();
    assert_eq!(stat(&seam.instance(), "s").event_count, Some(0));
    let log = seam.log();
    let mut reads = Vec::new();
    let mut seq = 0;
    for batch in 0..40 {
        let rows = match batch % 10 {
            9 => fat_rows_by("a", seq..seq + 3, 3000),
            _ => (seq..seq + 5).map(|seq| row_by("a", seq, 400)).collect(),
        };
        seq += rows.len() as u64;
        append(&handle, &rows).unwrap();
        append(&handle, &rows_by("a", seq..seq + 1)).unwrap();
        seq += 1;
        seam.disk.forget_trace();
        let snapshot = stat(&seam.instance(), "s");
        assert_eq!(snapshot.event_count, Some(seq), "{snapshot:?}");
        reads.push(seam.disk.bytes_read(&log));
    }
    // However long the log is.
    assert!(seam.bytes().len() > 40_000);
    assert!(reads.iter().all(|&bytes| bytes < 20_000), "{reads:?}");
}

fn r128_looking_does_not_read_the_rows(seam: &Seam) {
    let batches: Vec<Vec<String>> = (0..20).map(|seq| vec![row_by("a", seq, 1000)]).collect();
    seam.store("s", &batches);
    let mut bytes = seam.bytes();
    let middle = bytes.len() / 2;
    bytes[middle - 200..middle + 200].fill(b'#');
    seam.replace(&bytes);
    let listed = seam.instance().list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].state, listed[0].event_count), (State::Ok, Some(20)));
    let read = seam.open("s", SessionAccess::Read).and_then(|reader| read_all(&reader));
    assert!(read.is_err(), "reading tells");
}

fn r129_a_session_is_listed_once_and_never_missing(seam: &Seam) {
    let store = seam.instance();
    let handle = store.create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..1)).unwrap();
    let _pending = store.create(header("t"), None).unwrap();
    let listed = store.list().unwrap();
    let mut ids: Vec<(String, Option<u64>)> = listed
        .iter()
        .map(|one| (one.header.as_ref().unwrap().id().to_string_lossy().into_owned(), one.event_count))
        .collect();
    ids.sort();
    assert_eq!(ids, [("s".to_owned(), Some(1)), ("t".to_owned(), None)]);

    // Stored between any two calls of a listing.
    for at in 0..8 {
        let seam = Seam::new(seam.encoding);
        seam.store("other", &[rows_by("a", 0..1)]);
        let store = seam.instance();
        let handle = store.create(header("s"), None).unwrap();
        seam.disk.before(seam.disk.ops() + at, move |_| append(&handle, &rows_by("a", 0..2)).unwrap());
        let listed = store.list().unwrap();
        let id = Text::from("s");
        let of_s = |one: &&Snapshot| one.header.as_ref().is_some_and(|header| *header.id() == id);
        assert_eq!(listed.iter().filter(of_s).count(), 1, "call {at}: {listed:?}");
    }
}

fn r130_what_vanishes_is_none_and_other_faults_are_told(seam: &Seam) {
    for at in 0..10 {
        let seam = Seam::new(seam.encoding);
        seam.store("s", &[rows_by("a", 0..1)]);
        seam.store("t", &[rows_by("a", 0..1)]);
        let log = seam.log();
        let store = seam.instance();
        let vanish = {
            let log = log.clone();
            move |disk: &seslog::container::disk::fault::FaultDisk| {
                use seslog::container::disk::Disk as _;
                // It may be gone by now.
                let _gone = disk.remove_file(&log);
            }
        };
        seam.disk.before(seam.disk.ops() + at, vanish.clone());
        let found = store.stat(&Text::from("s")).unwrap();
        assert!(found.is_none_or(|found| matches!(found.state, State::Ok | State::Empty)), "call {at}");
        seam.disk.plant(&log, b"{}");
        seam.disk.before(seam.disk.ops() + at, vanish);
        let listed = store.list().unwrap();
        let ids = listed.iter().filter(|one| one.path.starts_with(log.with_file_name("").parent().unwrap()));
        assert!(ids.count() >= 1, "call {at}: the other one is there");
    }
    // A fault that is no absence.
    seam.store("s", &[rows_by("a", 0..1)]);
    for kind in [OpKind::Open, OpKind::ReadAt, OpKind::ReadDir] {
        let seam = seam.killed();
        // A bad sector stays bad, however often it is asked.
        for _ in 0..if kind == OpKind::ReadAt { 20 } else { 1 } {
            seam.disk.fail_next(kind, Failure::Error(EIO));
        }
        let refused = seam.instance().stat(&Text::from("s"));
        assert!(matches!(refused, Err(Error::Io { .. })), "{kind:?}: {refused:?}");
    }
    // Listed with it, without stopping the list (README).
    seam.store("t", &[rows_by("a", 0..1)]);
    seam.disk.fail_next(OpKind::Open, Failure::Error(EIO));
    let listed = seam.instance().list().unwrap();
    assert_eq!(listed.len(), 2);
    let faults = listed.iter().filter(|one| matches!(one.error.as_deref(), Some(Error::Io { .. })));
    assert_eq!(faults.count(), 1);
    seam.disk.fail_next(OpKind::ReadDir, Failure::Error(EIO));
    assert!(matches!(seam.instance().list(), Err(Error::Io { .. })));
}

// Listed as refused instead of failing the list (README).
fn r131_one_id_in_two_places_is_refused(seam: &Seam) {
    let place = |cwd: &str| header("s").with_cwd(Text::from(cwd)).unwrap();
    let store = seam.instance();
    let handle = store.create(place("/one"), None).unwrap();
    append(&handle, &rows_by("a", 0..1)).unwrap();
    handle.close().unwrap();
    let log = stat(&store, "s").path;
    let bytes = seam.disk.content(&log).unwrap();

    // The same folder under another name.
    seam.disk.plant_symlink(Path::new(ROOT).join("--alias--"), "--one--");
    store.open(&Text::from("s"), SessionAccess::Read).unwrap();
    store.open(&Text::from("s"), SessionAccess::Write).unwrap().close().unwrap();
    assert_eq!(stat(&store, "s").state, State::Ok);

    let second = Path::new(ROOT).join("--two--").join("s").join(log.file_name().unwrap());
    seam.disk.plant(&second, &bytes);
    for access in [SessionAccess::Read, SessionAccess::Write] {
        let refused = store.open(&Text::from("s"), access).map(|_| ());
        assert!(matches!(refused, Err(Error::DuplicateId { .. })), "{refused:?}");
    }
    assert!(matches!(store.stat(&Text::from("s")), Err(Error::DuplicateId { .. })));
    let listed = store.list().unwrap();
    assert!(listed.iter().all(|one| one.state == State::Refused), "{listed:?}");
}

fn r132_hostile_ids_stay_inside_and_apart(seam: &Seam) {
    let mut lone = Text::from("lone");
    lone.push_unit(0xd800);
    let ids: Vec<Text> = [
        "..",
        ".",
        "../../etc",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "a\0b",
        "a~002Fb",
        "session.lock",
        "é",
        "\u{202e}x",
    ]
    .into_iter()
    .map(Text::from)
    .chain([lone])
    .collect();
    let store = seam.instance();
    for (number, id) in ids.iter().enumerate() {
        let header = seslog::row::Header::new(
            seslog::units::Generation::V2,
            id.clone(),
            seslog::units::UnixMs::new(5),
        );
        let handle = store.create(header.unwrap(), None).unwrap();
        append(&handle, &rows_by(&format!("by-{number}"), 0..1)).unwrap();
        handle.close().unwrap();
    }
    for path in seam.disk.paths() {
        let inside = path == Path::new(ROOT) || path.starts_with(Path::new(ROOT).join("_no-cwd"));
        assert!(inside && path.components().count() <= 5, "{}", path.display());
    }
    assert_eq!(store.list().unwrap().iter().filter(|one| one.state == State::Ok).count(), ids.len());
    for (number, id) in ids.iter().enumerate() {
        let reader = store.open(id, SessionAccess::Read).unwrap();
        assert_eq!(read_all(&reader).unwrap(), rows_by(&format!("by-{number}"), 0..1));
    }
    assert!(store.create(header("x").with_cwd(Text::new()).unwrap_or_else(|_| header("")), None).is_err());
}

// Other encodings in one root are read (README); these two are refused.
fn r133_the_flat_layout_and_two_files_of_a_generation_are_refused(seam: &Seam) {
    seam.store_small(1);
    let flat = Path::new(ROOT).join("_no-cwd").join(format!("old{}", seam.encoding.suffix()));
    seam.disk.plant(&flat, b"{}\n");
    let store = seam.instance();
    let refused = |one: &&Snapshot| {
        one.state == State::Refused && matches!(one.error.as_deref(), Some(Error::Layout { .. }))
    };
    let listed = store.list().unwrap();
    assert_eq!((listed.len(), listed.iter().filter(refused).count()), (2, 1));

    let others = Encoding::ALL.into_iter().filter(|&encoding| encoding != seam.encoding);
    for other in others {
        let twin = seam.log().with_file_name(format!("session.v2{}", other.suffix()));
        let seam = Seam { disk: seam.killed().disk, encoding: seam.encoding };
        seam.disk.plant(&twin, &seam.bytes());
        for access in [SessionAccess::Read, SessionAccess::Write] {
            let error = seam.open("s", access).unwrap_err();
            assert!(matches!(error, Error::Layout { .. }), "{error:?}");
            let both = [seam.log(), twin.clone()]
                .map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
            assert!(both.iter().all(|name| error.to_string().contains(name)), "{error}");
        }
        assert_eq!(stat(&seam.instance(), "s").state, State::Refused);
    }
}
