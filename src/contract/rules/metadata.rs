//! C10: stat, list, revision.

use std::sync::Barrier;
use std::thread;

use crate::contract::backend::{Backend, NotOffered, Step, Tear};
use crate::contract::stage::{
    Outcome, Stage, append, create, entries, flush, header, list, never, open, open_and_read, read_all,
    row_by, rows_by, stat,
};
use crate::error::Error;
use crate::json::Text;
use crate::row::Header;
use crate::store::SessionAccess::{Read, Write};
use crate::store::State;
use crate::units::{Generation, UnixMs};

pub(crate) fn r123_stat_list_and_a_reader_agree(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(3);
    let store = stage.instance();
    let (first, second) = (stat(&store, "s").unwrap(), stat(&store, "s").unwrap());
    let listed = list(&store).remove(0);
    assert_eq!(first.header.as_ref(), Some(stage.reader("s").header()));
    assert!(first.revision.is_some());
    for other in [second, listed] {
        assert_eq!(other.header, first.header);
        assert_eq!((other.revision, other.event_count), (first.revision, first.event_count));
        assert_eq!((other.size_bytes, other.state), (first.size_bytes, first.state));
    }
    Ok(())
}

pub(crate) fn r124_what_changes_the_log_changes_the_revision(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(3);
    let store = stage.instance();
    let revision = || stat(&store, "s").unwrap().revision.unwrap();
    let mut seen = vec![revision()];
    let handle = open(&store, "s", Write).unwrap();
    assert_eq!(revision(), seen[0], "opening");
    for seq in 3..6 {
        append(&handle, &rows_by("a", seq..seq + 1)).unwrap();
        assert!(!seen.contains(&revision()), "an append");
        seen.push(revision());
    }
    flush(&handle).unwrap();
    handle.close().unwrap();
    read_all(&open(&store, "s", Read).unwrap()).unwrap();
    assert_eq!(seen.last(), Some(&revision()), "flushing, closing, looking");
    let foreign = stage.writer("s");
    assert_eq!(seen.last(), Some(&revision()), "opening elsewhere");
    append(&foreign, &rows_by("a", 6..7)).unwrap();
    assert!(!seen.contains(&revision()), "a foreign append");
    Ok(())
}

pub(crate) fn r124_a_repair_changes_the_revision(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store("s", &[rows_by("a", 0..2), vec![row_by("a", 2, 1200)]]);
    stage.storage().tear(&Text::from("s"), Tear::LastRecord(1))?;
    let store = stage.instance();
    let revision = || stat(&store, "s").unwrap().revision.unwrap();
    let torn = revision();
    let handle = open(&store, "s", Write).unwrap();
    let next = handle.next_seq().unwrap();
    assert_eq!(revision(), torn);
    append(&handle, &rows_by("b", next..next + 1)).unwrap();
    assert_ne!(revision(), torn);
    Ok(())
}

pub(crate) fn r125_instances_agree_on_a_revision_and_storages_do_not(backend: &dyn Backend) -> Outcome {
    let (stage, twin) = (Stage::new(backend), Stage::new(backend));
    let artifacts = [stage.store_small(2), twin.store_small(2)];
    assert_eq!(artifacts[0], artifacts[1]);
    let revision = |stage: &Stage<'_>| stat(&stage.instance(), "s").unwrap().revision.unwrap();
    let artifact = stage.storage().artifact(&Text::from("s"))?.unwrap_or_default();
    let before = revision(&stage);
    assert_eq!(revision(&stage), before, "of another instance");
    // Only files are asked to be told apart.
    twin.storage().replace(&Text::from("s"), &artifact)?;
    assert_ne!(revision(&twin), before, "of an equal log elsewhere");
    Ok(())
}

pub(crate) fn r126_the_event_count_is_that_of_the_log(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = create(&stage.instance(), "s");
    flush(&handle).unwrap();
    let store = stage.instance();
    let count = || stat(&store, "s").unwrap().event_count;
    let Some(first) = count() else {
        return Err(NotOffered::because("no event count is offered"));
    };
    assert_eq!(first, 0, "a stored session without events");
    let mut seq = 0;
    for batch in 1..12 {
        append(&handle, &rows_by("a", seq..seq + batch)).unwrap();
        seq += batch;
        assert_eq!(count(), Some(seq));
        assert_eq!(list(&store)[0].event_count, Some(seq));
    }
    Ok(())
}

pub(crate) fn r127_the_size_is_that_of_the_artifact(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(3);
    let store = stage.instance();
    let seen = stat(&store, "s").unwrap();
    let Some(size) = seen.size_bytes else {
        return Err(NotOffered::because("no size is offered"));
    };
    assert_eq!(list(&store)[0].size_bytes, Some(size));
    let artifact = stage.storage().artifact(&Text::from("s"))?.unwrap_or_default();
    // Only of a file is it asked: other artifacts are dumps.
    stage.storage().replace(&Text::from("s"), &artifact)?;
    assert_eq!(size, artifact.len() as u64);
    assert_eq!(stat(&store, "s").unwrap().size_bytes, Some(size));
    Ok(())
}

pub(crate) fn r128_a_session_with_a_corrupt_body_is_listed(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let mut rows = rows_by("a", 0..20);
    rows[9] = "{\"type\":\"plan/mode\",\"seq\":9,#####".to_owned();
    stage.plant("s", &rows)?;
    let store = stage.instance();
    let seen = stat(&store, "s").unwrap();
    assert_eq!(seen.header, Some(header("s")));
    assert!(seen.event_count.is_none_or(|count| count == 20), "{seen:?}");
    assert_eq!(entries(&list(&store), "s"), 1);
    let read = open_and_read(&store, "s");
    assert!(read.is_err(), "reading tells: {read:?}");
    Ok(())
}

pub(crate) fn r129_an_id_both_pending_and_stored_is_listed_once_as_stored(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    let _pending = create(&store, "t");
    let handle = create(&store, "s");
    // Pending here, and stored by another instance.
    let late = stage.instance();
    let _late = create(&late, "s");
    append(&handle, &rows_by("a", 0..1)).unwrap();
    let listed = list(&store);
    assert_eq!((listed.len(), entries(&listed, "s"), entries(&listed, "t")), (2, 1, 1), "{listed:?}");
    let listed = list(&late);
    assert_eq!((listed.len(), entries(&listed, "s")), (1, 1), "{listed:?}");
    assert!(listed[0].event_count.is_none_or(|count| count == 1), "{listed:?}");
    assert!(listed[0].revision.is_some(), "{listed:?}");
    Ok(())
}

pub(crate) fn r129_a_session_that_is_stored_during_a_list_is_never_missing(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store("other", &[rows_by("a", 0..1)]);
    let store = stage.instance();
    for round in 0..20 {
        let id = format!("round-{round}");
        let handle = create(&store, &id);
        let start = Barrier::new(2);
        thread::scope(|scope| {
            let storing = scope.spawn(|| {
                start.wait();
                append(&handle, &rows_by("a", 0..2))
            });
            start.wait();
            for _ in 0..3 {
                let listed = list(&store);
                assert_eq!(entries(&listed, &id), 1, "{listed:?}");
                assert_eq!(entries(&listed, "other"), 1, "{listed:?}");
            }
            storing.join().unwrap().unwrap();
        });
    }
    Ok(())
}

pub(crate) fn r130_what_vanished_is_none_and_not_listed_as_sound(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store("s", &[rows_by("a", 0..1)]);
    stage.store("t", &[rows_by("a", 0..1)]);
    let store = stage.instance();
    assert_eq!(list(&store).len(), 2);
    stage.storage().remove(&Text::from("s"))?;
    assert!(stat(&store, "s").is_none_or(|seen| seen.state == State::Empty));
    let listed = list(&store);
    assert_eq!((entries(&listed, "s"), entries(&listed, "t")), (0, 1), "{listed:?}");
    for access in [Read, Write] {
        let absent = open(&store, "s", access);
        assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
    }
    Ok(())
}

pub(crate) fn r130_what_vanishes_during_a_look_is_no_fault(backend: &dyn Backend) -> Outcome {
    for round in 0..10 {
        let stage = Stage::new(backend);
        stage.store("s", &[rows_by("a", 0..1)]);
        stage.store("t", &[rows_by("a", 0..1)]);
        let store = stage.instance();
        let start = Barrier::new(2);
        let removed = thread::scope(|scope| {
            let removing = scope.spawn(|| {
                start.wait();
                for _ in 0..round * 12 {
                    thread::yield_now();
                }
                stage.storage().remove(&Text::from("s"))
            });
            start.wait();
            let seen = stat(&store, "s");
            assert!(seen.is_none_or(|seen| matches!(seen.state, State::Ok | State::Empty)));
            assert_eq!(entries(&list(&store), "t"), 1, "the other one is there");
            removing.join().unwrap()
        });
        removed?;
    }
    Ok(())
}

// In a list, a session that cannot be looked at is shown with its error and hides no other (README).
pub(crate) fn r130_a_fault_is_told_as_one(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store("s", &[rows_by("a", 0..1)]);
    stage.store("t", &[rows_by("a", 0..1)]);
    let store = stage.instance();
    stage.storage().fail_next(Step::Look)?;
    let refused = store.stat(&Text::from("s"), &never());
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    stage.storage().fail_next(Step::Look)?;
    let listed = list(&store);
    assert_eq!(listed.len(), 2);
    let faults = listed.iter().filter(|one| matches!(one.error.as_deref(), Some(Error::Io { .. })));
    assert_eq!(faults.count(), 1, "{listed:?}");
    stage.storage().fail_next(Step::List)?;
    let refused = store.list(&never());
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    assert_eq!(list(&store).len(), 2);
    Ok(())
}

// That they name no path outside a root is a matter of files.
pub(crate) fn r132_hostile_ids_never_collide(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let mut lone = Text::from("lone");
    lone.push_unit(0xd800);
    let names = [
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
    ];
    let ids: Vec<Text> =
        names.into_iter().map(Text::from).chain([lone, Text::from("lone\u{fffd}")]).collect();
    let store = stage.instance();
    for (number, id) in ids.iter().enumerate() {
        let header = Header::new(Generation::CURRENT, id.clone(), UnixMs::new(5)).unwrap();
        let handle = store.create(header, None, &never()).unwrap();
        append(&handle, &rows_by(&format!("by-{number}"), 0..1)).unwrap();
        handle.close().unwrap();
    }
    let listed = list(&store);
    assert_eq!(listed.iter().filter(|one| one.state == State::Ok).count(), ids.len(), "{listed:?}");
    for (number, id) in ids.iter().enumerate() {
        let reader = store.open(id, Read, &never()).unwrap();
        assert_eq!(reader.header().id(), id);
        assert_eq!(read_all(&reader).unwrap(), rows_by(&format!("by-{number}"), 0..1));
    }
    Ok(())
}
