//! C5: create, open, ownership.

use std::sync::Barrier;
use std::thread;

use seslog::Error;
use seslog::container::disk::fault::{Failure, OpKind};
use seslog::json::Text;
use seslog::row::{Header, Seeding};
use seslog::store::{SessionAccess, State};
use seslog::units::{Generation, UnixMs};

use crate::common::sessions::{append, header, read_all, row_of, rows_by};
use crate::seam::{EIO, Seam, once_per_encoding};

once_per_encoding! {
    r045_create_returns_a_write_handle_on_an_empty_log,
    r046_a_create_that_is_refused_leaves_the_id_free,
    r047_of_two_creates_one_succeeds,
    r048_create_finds_a_stored_id_in_any_project,
    r049_opening_an_absent_id_is_not_found_and_leaves_nothing,
    r050_one_write_handle_at_a_time_in_an_instance,
    r051_readers_open_beside_a_writer,
    r052_a_write_open_that_fails_fails_alike_the_next_time,
    r053_one_write_handle_at_a_time_across_instances,
    r054_a_crash_of_the_holder_frees_the_session_at_once,
    r055_another_instance_reads_beside_a_writer,
    r056_of_two_pending_sessions_of_one_id_the_first_to_write_stays,
    r057_a_flushed_empty_session_is_owned_until_close,
    r058_a_pending_session_leaves_no_trace_and_looking_takes_no_lock,
    r059_the_lock_file_stays_and_ids_are_independent,
    r060_a_refusal_while_locking_is_told_as_one,
    r061_a_failed_open_and_a_failed_release_are_both_told,
}

fn r045_create_returns_a_write_handle_on_an_empty_log(seam: &Seam) {
    let handle = seam.instance().create(header("s"), None).unwrap();
    assert_eq!(handle.access(), SessionAccess::Write);
    assert_eq!((handle.header(), handle.inherited_event_count()), (&header("s"), 0));
    assert_eq!(handle.next_seq(), Some(0));
    assert!(read_all(&handle).unwrap().is_empty());

    let seeded = header("t").with_seeding(Generation::V2, Seeding::Marked).unwrap();
    let handle = seam.instance().create(seeded.clone(), Some(7)).unwrap();
    assert_eq!((handle.header(), handle.inherited_event_count()), (&seeded, 7));
}

// A header that is not lossless, or has no valid time, cannot be made at all here.
fn r046_a_create_that_is_refused_leaves_the_id_free(seam: &Seam) {
    assert!(Header::new(Generation::V2, Text::from("s"), UnixMs::new(i64::MAX)).is_err());
    let store = seam.instance();
    let seeded = header("s").with_seeding(Generation::V2, Seeding::Marked).unwrap();
    for (header, cut) in [(seeded, None), (header("s"), Some(3))] {
        let refused = store.create(header, cut);
        assert!(matches!(refused, Err(Error::InvalidArgument { .. })), "{refused:?}");
    }
    store.create(header("s"), Some(0)).unwrap();
}

fn r047_of_two_creates_one_succeeds(seam: &Seam) {
    let store = seam.instance();
    let _pending = store.create(header("s"), None).unwrap();
    assert!(matches!(store.create(header("s"), None), Err(Error::AlreadyExists { .. })));
    for round in 0..20 {
        let id = format!("round-{round}");
        let start = Barrier::new(4);
        let created = thread::scope(|scope| {
            let create = || {
                start.wait();
                store.create(header(&id), None)
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(created.iter().filter(|created| created.is_ok()).count(), 1, "{created:?}");
        let others = created.iter().filter_map(|created| created.as_ref().err());
        assert!(others.into_iter().all(|error| matches!(error, Error::AlreadyExists { .. })));
    }
}

fn r048_create_finds_a_stored_id_in_any_project(seam: &Seam) {
    seam.store_small(1);
    let elsewhere = header("s").with_cwd(Text::from("/home/ann/project")).unwrap();
    let refused = seam.instance().create(elsewhere, None);
    assert!(matches!(refused, Err(Error::AlreadyExists { .. })), "{refused:?}");
}

fn r049_opening_an_absent_id_is_not_found_and_leaves_nothing(seam: &Seam) {
    seam.store_small(1);
    let before = seam.disk.paths();
    for access in [SessionAccess::Read, SessionAccess::Write] {
        let absent = seam.open("other", access);
        assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
    }
    assert_eq!(seam.disk.paths(), before);
    let store = seam.instance();
    assert!(store.open(&Text::from("other"), SessionAccess::Write).is_err());
    store.create(header("other"), None).unwrap();
}

fn r050_one_write_handle_at_a_time_in_an_instance(seam: &Seam) {
    let store = seam.instance();
    let id = Text::from("s");
    let open = || store.open(&id, SessionAccess::Write);
    let handle = store.create(header("s"), None).unwrap();
    assert!(matches!(open(), Err(Error::AlreadyOwned { .. })), "pending");
    append(&handle, &rows_by("a", 0..1)).unwrap();
    assert!(matches!(open(), Err(Error::AlreadyOwned { .. })), "stored");
    handle.close().unwrap();
    let handle = open().unwrap();
    assert!(matches!(open(), Err(Error::AlreadyOwned { .. })), "opened");
    // Dropping is as good as closing.
    drop(handle);
    open().unwrap();
}

fn r051_readers_open_beside_a_writer(seam: &Seam) {
    let store = seam.instance();
    let writer = store.create(header("s"), None).unwrap();
    let open = || store.open(&Text::from("s"), SessionAccess::Read).unwrap();
    let early = open();
    append(&writer, &rows_by("a", 0..2)).unwrap();
    assert_eq!(read_all(&early).unwrap(), rows_by("a", 0..2));
    assert_eq!(read_all(&open()).unwrap(), rows_by("a", 0..2));
    append(&writer, &rows_by("a", 2..3)).unwrap();
}

fn r052_a_write_open_that_fails_fails_alike_the_next_time(seam: &Seam) {
    seam.store("s", &[rows_by("a", 0..2), rows_by("a", 2..4)]);
    seam.replace(b"this is no log\n");
    let store = seam.instance();
    let open = || store.open(&Text::from("s"), SessionAccess::Write).unwrap_err();
    let (first, second) = (open(), open());
    assert!(!matches!(first, Error::AlreadyOwned { .. }), "{first:?}");
    assert_eq!(first.to_string(), second.to_string());
}

fn r053_one_write_handle_at_a_time_across_instances(seam: &Seam) {
    seam.store_small(2);
    let first = seam.open("s", SessionAccess::Write).unwrap();
    let owned = seam.open("s", SessionAccess::Write).unwrap_err();
    assert!(matches!(owned, Error::AlreadyOwned { owner: Some(_), .. }), "{owned:?}");
    first.close().unwrap();
    seam.open("s", SessionAccess::Write).unwrap();
}

fn r054_a_crash_of_the_holder_frees_the_session_at_once(seam: &Seam) {
    let rows = seam.store_small(2);
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    append(&handle, &rows_by("a", 2..3)).unwrap();
    let killed = seam.killed();
    let next = killed.open("s", SessionAccess::Write).unwrap();
    assert_eq!(read_all(&next).unwrap(), [rows, rows_by("a", 2..3)].concat());
}

fn r055_another_instance_reads_beside_a_writer(seam: &Seam) {
    let rows = seam.store_small(2);
    let writer = seam.open("s", SessionAccess::Write).unwrap();
    let reader = seam.open("s", SessionAccess::Read).unwrap();
    assert_eq!(read_all(&reader).unwrap(), rows);
    append(&writer, &rows_by("a", 2..3)).unwrap();
    assert_eq!(read_all(&reader).unwrap().len(), 3);
}

fn r056_of_two_pending_sessions_of_one_id_the_first_to_write_stays(seam: &Seam) {
    let elsewhere = || header("s").with_cwd(Text::from("/somewhere/else")).unwrap();
    for (id, second) in [("s", header("s")), ("s", elsewhere())] {
        let seam = Seam::new(seam.encoding);
        let (one, two) = (seam.instance(), seam.instance());
        let first = one.create(header(id), None).unwrap();
        let second = two.create(second, None).unwrap();
        append(&first, &rows_by("first", 0..2)).unwrap();
        let before = seam.bytes();
        for _ in 0..2 {
            let refused = append(&second, &rows_by("second", 0..2));
            assert!(
                matches!(refused, Err(Error::AlreadyOwned { .. } | Error::AlreadyExists { .. })),
                "{refused:?}"
            );
        }
        first.close().unwrap();
        let refused = append(&second, &rows_by("second", 0..2));
        assert!(matches!(refused, Err(Error::AlreadyExists { .. })), "{refused:?}");
        second.close().unwrap();
        assert_eq!(seam.bytes(), before);
        assert_eq!(seam.read(), rows_by("first", 0..2));
    }
}

fn r057_a_flushed_empty_session_is_owned_until_close(seam: &Seam) {
    let handle = seam.instance().create(header("s"), None).unwrap();
    handle.flush().unwrap();
    let open = || seam.open("s", SessionAccess::Write);
    assert!(matches!(open(), Err(Error::AlreadyOwned { .. })));
    handle.close().unwrap();
    assert_eq!(open().unwrap().next_seq(), Some(0));
}

fn r058_a_pending_session_leaves_no_trace_and_looking_takes_no_lock(seam: &Seam) {
    let store = seam.instance();
    let handle = store.create(header("s"), None).unwrap();
    handle.close().unwrap();
    assert!(seam.disk.paths().is_empty());
    drop(store.create(header("s"), None).unwrap());
    assert!(seam.disk.paths().is_empty());

    seam.store_small(3);
    seam.disk.forget_trace();
    seam.read();
    seam.instance().stat(&Text::from("s")).unwrap();
    seam.instance().list().unwrap();
    assert!(!seam.saw(OpKind::Lock) && !seam.saw(OpKind::Unlock));
    assert!(seam.disk.trace().iter().all(|op| !op.kind.is_change()), "{:?}", seam.disk.trace());
}

fn r059_the_lock_file_stays_and_ids_are_independent(seam: &Seam) {
    seam.store_small(1);
    seam.store("t", &[rows_by("a", 0..1)]);
    let lock = seam.log().with_file_name("session.lock");
    assert_eq!(seam.disk.content(&lock), Some(Vec::new()), "the note goes, the file stays");
    let _one = seam.open("s", SessionAccess::Write).unwrap();
    let _two = seam.open("t", SessionAccess::Write).unwrap();
}

// The first half, a lock file that is replaced meanwhile, is tested beside the real lock.
fn r060_a_refusal_while_locking_is_told_as_one(seam: &Seam) {
    seam.store_small(1);
    seam.disk.fail_next(OpKind::Lock, Failure::Error(EIO));
    let store = seam.instance();
    let refused = store.open(&Text::from("s"), SessionAccess::Write);
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    store.open(&Text::from("s"), SessionAccess::Write).unwrap();
}

fn r061_a_failed_open_and_a_failed_release_are_both_told(seam: &Seam) {
    let row = row_of("plan/mode", 5, "{}");
    seam.store("s", &[rows_by("a", 0..1)]);
    seam.replace(format!("no log\n{row}\n").as_bytes());
    let store = seam.instance();
    seam.disk.fail_next(OpKind::Unlock, Failure::Error(EIO));
    match store.open(&Text::from("s"), SessionAccess::Write) {
        Err(Error::Aggregate(both)) => {
            assert!(matches!(both[..], [_, Error::Io { action: "releasing", .. }]), "{both:?}");
        }
        other => panic!("{other:?}"),
    }
    let again = store.open(&Text::from("s"), SessionAccess::Write).unwrap_err();
    assert!(!matches!(again, Error::AlreadyOwned { .. } | Error::Aggregate(_)), "{again:?}");
    assert_ne!(store.stat(&Text::from("s")).unwrap().unwrap().state, State::Ok);
}
