//! C7: who sees what, and when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::contract::backend::{Backend, Crash, Settings};
use crate::contract::stage::{
    Outcome, Stage, append, create, entries, flush, header, list, open, open_and_read, read_all, rows_by,
    stat,
};
use crate::error::Error;
use crate::store::SessionAccess::{Read, Write};

pub(crate) fn r083_a_created_session_is_visible_to_its_instance_without_counts(
    backend: &dyn Backend,
) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    let _writer = create(&store, "s");
    let listed = list(&store);
    assert_eq!(listed.len(), 1);
    for seen in listed.iter().chain(&stat(&store, "s")) {
        assert_eq!(seen.header.as_ref(), Some(&header("s")));
        assert_eq!((seen.event_count, seen.size_bytes), (None, None));
    }
    assert!(stat(&store, "s").is_some());
    assert!(open_and_read(&store, "s").unwrap().is_empty());
    Ok(())
}

pub(crate) fn r084_a_pending_session_is_invisible_elsewhere(backend: &dyn Backend) -> Outcome {
    for flushes in [true, false] {
        let stage = Stage::new(backend);
        let handle = create(&stage.instance(), "s");
        let other = stage.instance();
        assert!(stat(&other, "s").is_none());
        assert!(list(&other).is_empty());
        let absent = open(&other, "s", Read);
        assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");

        if flushes {
            flush(&handle).unwrap();
            assert!(open_and_read(&other, "s").unwrap().is_empty());
        } else {
            append(&handle, &rows_by("a", 0..2)).unwrap();
            assert_eq!(open_and_read(&other, "s").unwrap(), rows_by("a", 0..2));
        }
        assert!(stat(&other, "s").is_some());
        assert_eq!(entries(&list(&other), "s"), 1);
    }
    Ok(())
}

pub(crate) fn r084_a_pending_session_is_gone_after_a_crash(backend: &dyn Backend) -> Outcome {
    for crash in [Crash::Killed, Crash::PowerLoss { seed: 0 }] {
        let stage = Stage::new(backend);
        let _pending = create(&stage.instance(), "s");
        let after = stage.after(crash)?;
        let store = after.instance();
        assert!(stat(&store, "s").is_none());
        assert!(list(&store).is_empty());
        create(&store, "s");
    }
    Ok(())
}

fn freshness(stage: &Stage<'_>, settings: Settings) -> Outcome {
    let store = stage.with(settings)?;
    let writer = create(&store, "s");
    let old = open(&store, "s", Read).unwrap();
    let other = stage.instance();
    for seq in 0..5 {
        append(&writer, &rows_by("a", seq..seq + 1)).unwrap();
        let expected = rows_by("a", 0..seq + 1);
        let (new, foreign) = (open(&store, "s", Read).unwrap(), open(&other, "s", Read).unwrap());
        for handle in [&old, &new, &foreign, &writer] {
            assert_eq!(read_all(handle).unwrap(), expected);
        }
        for seen in list(&store).into_iter().chain(stat(&store, "s")).chain(stat(&other, "s")) {
            assert!(seen.event_count.is_none_or(|count| count == seq + 1), "{seen:?}");
        }
    }
    flush(&writer).unwrap();
    assert_eq!(stage.read(), rows_by("a", 0..5));
    Ok(())
}

pub(crate) fn r085_what_was_appended_or_flushed_is_seen_by_everybody(backend: &dyn Backend) -> Outcome {
    freshness(&Stage::new(backend), Settings::default())
}

pub(crate) fn r085_what_was_appended_is_seen_before_it_is_durable(backend: &dyn Backend) -> Outcome {
    freshness(&Stage::new(backend), Settings::ON_FLUSH)
}

pub(crate) fn r086_a_reader_of_a_pending_session_sees_it_once_it_is_written(
    backend: &dyn Backend,
) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    let writer = create(&store, "s");
    let reader = open(&store, "s", Read).unwrap();
    assert_eq!(reader.header(), &header("s"));
    assert!(read_all(&reader).unwrap().is_empty());
    append(&writer, &rows_by("a", 0..3)).unwrap();
    assert_eq!(read_all(&reader).unwrap(), rows_by("a", 0..3));
    Ok(())
}

pub(crate) fn r087_a_log_that_became_shorter_is_an_error(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let rows = rows_by("a", 0..5);
    stage.store("s", std::slice::from_ref(&rows));
    let reader = stage.reader("s");
    assert_eq!(read_all(&reader).unwrap(), rows);
    stage.plant("s", &rows[..3])?;
    let shrank = read_all(&reader);
    assert!(matches!(shrank, Err(Error::Shrank { seen: 5, found: 3, .. })), "{shrank:?}");
    stage.plant("s", &rows)?;
    assert_eq!(read_all(&reader).unwrap(), rows);
    Ok(())
}

pub(crate) fn r088_another_instance_goes_on_at_the_stored_seq(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let mut expected = stage.store_small(3);
    for by in ["two", "three", "four"] {
        let handle = stage.writer("s");
        let next = handle.next_seq().unwrap();
        assert_eq!(next, expected.len() as u64);
        append(&handle, &rows_by(by, next..next + 2)).unwrap();
        handle.close().unwrap();
        expected.extend(rows_by(by, next..next + 2));
        assert_eq!(stage.read(), expected);
    }
    Ok(())
}

pub(crate) fn r089_a_write_handle_reads_what_was_stored_before_its_first_append(
    backend: &dyn Backend,
) -> Outcome {
    let stage = Stage::new(backend);
    let rows = stage.store_small(5);
    let handle = stage.writer("s");
    let before = stage.storage().reads()?;
    for _ in 0..2 {
        assert_eq!(read_all(&handle).unwrap(), rows);
        assert_eq!(stage.storage().reads()?, before, "nothing is read again");
    }
    Ok(())
}

pub(crate) fn r090_a_read_beside_appends_is_a_prefix_and_ends(backend: &dyn Backend) -> Outcome {
    const EVENTS: u64 = 150;
    let stage = Stage::new(backend);
    stage.store_small(2);
    let writer = stage.writer("s");
    let readers = [stage.reader("s"), stage.reader("s")];
    let all = rows_by("stored", 0..EVENTS);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for reader in &readers {
            let (all, done) = (&all, &done);
            scope.spawn(move || {
                let mut before = 2;
                loop {
                    // Looked at first, so that the last read comes behind the last append.
                    let is_last = done.load(Ordering::Acquire);
                    let served = read_all(reader).unwrap();
                    assert!(served.len() >= before, "{} after {before}", served.len());
                    assert!(all.starts_with(&served), "{} events are no prefix", served.len());
                    before = served.len();
                    if is_last {
                        break;
                    }
                }
                assert_eq!(before, all.len());
            });
        }
        let appended = (2..EVENTS).try_for_each(|seq| append(&writer, &rows_by("stored", seq..seq + 1)));
        // Whatever came of it, so that the readers end.
        done.store(true, Ordering::Release);
        appended.unwrap();
    });
    Ok(())
}

// Keeping parsed logs is no duty: only a backend that counts them is asked.
pub(crate) fn r091_an_unchanged_log_is_parsed_at_most_once(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let rows = stage.store_small(5);
    let (store, other) = (stage.instance(), stage.instance());
    let parses = || stage.storage().parses();
    let before = parses()?;
    assert_eq!(open_and_read(&store, "s").unwrap(), rows);
    let handle = open(&store, "s", Write).unwrap();
    assert_eq!(read_all(&handle).unwrap(), rows);
    assert!(
        parses()? <= before + 1,
        "observing and opening for writing parsed it {} times",
        parses()? - before
    );
    append(&handle, &rows_by("stored", 5..6)).unwrap();
    handle.close().unwrap();
    assert_eq!(open_and_read(&store, "s").unwrap(), rows_by("stored", 0..6), "after its own append");
    let handle = open(&other, "s", Write).unwrap();
    append(&handle, &rows_by("stored", 6..7)).unwrap();
    handle.close().unwrap();
    assert_eq!(open_and_read(&store, "s").unwrap(), rows_by("stored", 0..7), "after a foreign append");
    Ok(())
}

pub(crate) fn r091_every_append_is_seen_by_what_is_opened_next(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(1);
    let instances = [stage.instance(), stage.instance()];
    // By turns, so that each append is local to one instance and foreign to the other.
    for (seq, writer) in (1..9).zip(instances.iter().cycle()) {
        for store in &instances {
            assert_eq!(open_and_read(store, "s").unwrap(), rows_by("stored", 0..seq));
        }
        let handle = open(writer, "s", Write).unwrap();
        assert_eq!(handle.next_seq(), Some(seq));
        append(&handle, &rows_by("stored", seq..seq + 1)).unwrap();
        handle.close().unwrap();
    }
    Ok(())
}
