//! C5: create, open, ownership.

use std::sync::Barrier;
use std::thread;

use crate::contract::backend::{Backend, Crash, Step};
use crate::contract::stage::{
    Outcome, Stage, append, create, flush, header, is_owned, list, never, open, read_all, rows_by, stat,
};
use crate::error::Error;
use crate::json::Text;
use crate::row::{Header, Seeding};
use crate::store::SessionAccess::{Read, Write};
use crate::units::Generation;

fn seeded(id: &str) -> Header {
    header(id).with_seeding(Generation::CURRENT, Seeding::Marked).unwrap()
}

pub(crate) fn r045_create_returns_a_write_handle_on_an_empty_log(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    let handle = create(&store, "s");
    assert_eq!(handle.access(), Write);
    assert_eq!((handle.header(), handle.inherited_event_count()), (&header("s"), 0));
    assert_eq!(handle.next_seq(), Some(0));
    assert!(read_all(&handle).unwrap().is_empty());

    let handle = store.create(seeded("t"), Some(7), &never()).unwrap();
    assert_eq!((handle.header(), handle.inherited_event_count()), (&seeded("t"), 7));
    Ok(())
}

// A header that is not lossless, or has no valid time, cannot be made at all here.
pub(crate) fn r046_a_create_that_is_refused_leaves_the_id_free(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    for (header, cut) in [(seeded("s"), None), (header("s"), Some(3))] {
        let refused = store.create(header, cut, &never());
        assert!(matches!(refused, Err(Error::InvalidArgument { .. })), "{refused:?}");
    }
    store.create(header("s"), Some(0), &never()).unwrap();
    Ok(())
}

pub(crate) fn r047_of_two_creates_one_succeeds(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    let _pending = create(&store, "s");
    let again = store.create(header("s"), None, &never());
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    for round in 0..20 {
        let id = format!("round-{round}");
        let start = Barrier::new(4);
        let created = thread::scope(|scope| {
            let create = || {
                start.wait();
                store.create(header(&id), None, &never())
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(created.iter().filter(|created| created.is_ok()).count(), 1, "{created:?}");
        let mut others = created.iter().filter_map(|created| created.as_ref().err());
        assert!(others.all(|error| matches!(error, Error::AlreadyExists { .. })), "{created:?}");
    }
    Ok(())
}

pub(crate) fn r048_create_finds_what_another_instance_stored_wherever(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(1);
    let elsewhere = header("s").with_cwd(Text::from("/home/ann/project")).unwrap();
    for header in [header("s"), elsewhere] {
        let refused = stage.instance().create(header, None, &never());
        assert!(matches!(refused, Err(Error::AlreadyExists { .. })), "{refused:?}");
    }
    Ok(())
}

pub(crate) fn r049_opening_an_absent_id_is_not_found_and_leaves_nothing(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(1);
    let store = stage.instance();
    for access in [Read, Write] {
        let absent = open(&store, "other", access);
        assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
    }
    assert!(stat(&store, "other").is_none());
    assert_eq!(list(&store).len(), 1);
    assert!(stage.storage().artifact(&Text::from("other")).unwrap_or_default().is_none());
    create(&store, "other");
    Ok(())
}

pub(crate) fn r050_one_write_handle_at_a_time_in_an_instance(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    let open = || open(&store, "s", Write);
    let handle = create(&store, "s");
    assert!(is_owned(&open()), "pending");
    append(&handle, &rows_by("a", 0..1)).unwrap();
    assert!(is_owned(&open()), "stored");
    handle.close().unwrap();
    let handle = open().unwrap();
    assert!(is_owned(&open()), "opened");
    // Dropping is as good as closing.
    drop(handle);
    open().unwrap();
    Ok(())
}

pub(crate) fn r051_readers_open_beside_a_writer(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    let writer = create(&store, "s");
    let early = open(&store, "s", Read).unwrap();
    append(&writer, &rows_by("a", 0..2)).unwrap();
    let late = open(&store, "s", Read).unwrap();
    for reader in [&early, &late] {
        assert_eq!(read_all(reader).unwrap(), rows_by("a", 0..2));
    }
    append(&writer, &rows_by("a", 2..3)).unwrap();
    Ok(())
}

pub(crate) fn r052_a_write_open_that_fails_fails_alike_the_next_time(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store("s", &[rows_by("a", 0..2), rows_by("a", 2..4)]);
    stage.plant_line("s", "this is no header", &rows_by("a", 0..2))?;
    let store = stage.instance();
    let open = || open(&store, "s", Write).unwrap_err();
    let (first, second) = (open(), open());
    assert!(!matches!(first, Error::AlreadyOwned { .. }), "{first:?}");
    assert_eq!(first.to_string(), second.to_string());
    // And nothing of the failure stays once the log is well.
    stage.plant("s", &rows_by("a", 0..2))?;
    self::open(&store, "s", Write).unwrap();
    Ok(())
}

pub(crate) fn r053_one_write_handle_at_a_time_across_instances(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(2);
    let first = stage.writer("s");
    let second = stage.open("s", Write);
    assert!(is_owned(&second), "{second:?}");
    first.close().unwrap();
    stage.writer("s");
    Ok(())
}

pub(crate) fn r054_a_crash_of_the_holder_frees_the_session_at_once(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let rows = stage.store_small(2);
    let handle = stage.writer("s");
    append(&handle, &rows_by("a", 2..3)).unwrap();
    let after = stage.after(Crash::Killed)?;
    assert_eq!(read_all(&after.writer("s")).unwrap(), [rows, rows_by("a", 2..3)].concat());
    Ok(())
}

pub(crate) fn r055_another_instance_reads_beside_a_writer(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let rows = stage.store_small(2);
    let writer = stage.writer("s");
    let reader = stage.reader("s");
    assert_eq!(read_all(&reader).unwrap(), rows);
    append(&writer, &rows_by("a", 2..3)).unwrap();
    assert_eq!(read_all(&reader).unwrap(), [rows, rows_by("a", 2..3)].concat());
    Ok(())
}

pub(crate) fn r056_of_two_pending_sessions_of_one_id_the_first_to_write_stays(
    backend: &dyn Backend,
) -> Outcome {
    let elsewhere = || header("s").with_cwd(Text::from("/somewhere/else")).unwrap();
    for second in [header("s"), elsewhere()] {
        let stage = Stage::new(backend);
        let first = create(&stage.instance(), "s");
        let second = stage.instance().create(second, None, &never()).unwrap();
        append(&first, &rows_by("first", 0..2)).unwrap();
        let before = stage.stored("s");
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
        assert_eq!(stage.stored("s"), before);
        assert_eq!(stage.read(), rows_by("first", 0..2));
    }
    Ok(())
}

pub(crate) fn r057_a_flushed_empty_session_is_owned_until_close(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = create(&stage.instance(), "s");
    flush(&handle).unwrap();
    let second = stage.open("s", Write);
    assert!(is_owned(&second), "{second:?}");
    handle.close().unwrap();
    assert_eq!(stage.writer("s").next_seq(), Some(0));
    Ok(())
}

pub(crate) fn r058_a_session_that_was_never_written_has_no_artifact(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    let artifact = || stage.storage().artifact(&Text::from("s"));
    let handle = create(&store, "s");
    assert!(artifact()?.is_none(), "pending");
    handle.close().unwrap();
    assert!(artifact()?.is_none(), "closed");
    drop(create(&store, "s"));
    assert!(artifact()?.is_none(), "dropped");
    Ok(())
}

pub(crate) fn r058_looking_and_reading_take_no_lock(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let rows = stage.store_small(3);
    let store = stage.instance();
    // Both failures are still to come when all of this is through.
    stage.storage().fail_next(Step::Lock)?;
    stage.storage().fail_next(Step::Unlock)?;
    let reader = open(&store, "s", Read).unwrap();
    assert_eq!(read_all(&reader).unwrap(), rows);
    assert!(stat(&store, "s").is_some());
    assert_eq!(list(&store).len(), 1);
    reader.close().unwrap();
    let refused = open(&store, "s", Write);
    assert!(matches!(refused, Err(Error::Io { .. })), "somebody else took the lock: {refused:?}");
    let released = open(&store, "s", Write).unwrap().close();
    assert!(matches!(released, Err(Error::Io { .. })), "somebody else gave it back: {released:?}");
    Ok(())
}

// That a lock file survives is a matter of files.
pub(crate) fn r059_sessions_are_owned_independently(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(1);
    stage.store("t", &[rows_by("a", 0..1)]);
    let store = stage.instance();
    let (one, two) = (open(&store, "s", Write).unwrap(), open(&store, "t", Write).unwrap());
    append(&one, &rows_by("a", 1..2)).unwrap();
    two.close().unwrap();
    let other = stage.writer("t");
    append(&one, &rows_by("a", 2..3)).unwrap();
    append(&other, &rows_by("a", 1..2)).unwrap();
    Ok(())
}

// That a lock file is replaced while it is taken is a matter of the real disk.
pub(crate) fn r060_a_refusal_while_locking_is_told_as_one(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(1);
    let store = stage.instance();
    stage.storage().fail_next(Step::Lock)?;
    let refused = open(&store, "s", Write);
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    open(&store, "s", Write).unwrap();
    Ok(())
}

pub(crate) fn r061_a_failed_open_and_a_failed_release_are_both_told(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(1);
    stage.plant_line("s", "no header", &rows_by("a", 0..1))?;
    let store = stage.instance();
    stage.storage().fail_next(Step::Unlock)?;
    match open(&store, "s", Write) {
        Err(Error::Aggregate(both)) => assert!(matches!(both[..], [_, Error::Io { .. }]), "{both:?}"),
        other => panic!("{other:?}"),
    }
    let again = open(&store, "s", Write).unwrap_err();
    assert!(!matches!(again, Error::AlreadyOwned { .. } | Error::Aggregate(_)), "{again:?}");
    Ok(())
}
