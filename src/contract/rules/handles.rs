//! C6: read, append, flush, close.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use crate::contract::backend::{Backend, Crash, Settings, Step};
use crate::contract::stage::{
    Handle, Instance, Outcome, Stage, append, create, flush, is_owned, list, never, open, open_and_read,
    read, read_all, row_by, row_of, rows_by, stat,
};
use crate::error::{Error, Result};
use crate::store::SessionAccess::{Read, Write};

/// A new session with some events, open for writing.
fn created(stage: &Stage<'_>, events: u64) -> Handle {
    let handle = create(&stage.instance(), "s");
    append(&handle, &rows_by("a", 0..events)).unwrap();
    handle
}

pub(crate) fn r062_reads_are_exact_slices(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let rows = rows_by("a", 0..7);
    stage.store("s", &[rows[..3].to_vec(), rows[3..4].to_vec(), rows[4..].to_vec()]);
    for access in [Read, Write] {
        let handle = stage.open("s", access).unwrap();
        for from in 0..=8_u64 {
            for length in (0..=8).chain([u64::MAX]) {
                let wanted = from..from.saturating_add(length);
                let expected: Vec<String> = rows
                    .iter()
                    .zip(0..)
                    .filter(|(_, seq)| wanted.contains(seq))
                    .map(|(row, _)| row.clone())
                    .collect();
                assert_eq!(read(&handle, from, length).unwrap(), expected, "{from} {length}");
            }
        }
        assert!(read(&handle, u64::MAX, u64::MAX).unwrap().is_empty());
    }
    Ok(())
}

pub(crate) fn r064_a_write_handle_reads_its_own_appends_at_once(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = created(&stage, 2);
    for seq in 2..6 {
        append(&handle, &rows_by("a", seq..seq + 1)).unwrap();
        assert_eq!(read_all(&handle).unwrap(), rows_by("a", 0..seq + 1));
    }
    Ok(())
}

pub(crate) fn r065_a_batch_that_does_not_continue_the_log_is_refused_whole(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = created(&stage, 2);
    let before = stage.stored("s");
    let gap_inside = [rows_by("a", 2..4), rows_by("a", 5..6)].concat();
    for (rows, at, due, got) in [
        (rows_by("a", 1..2), 0, 2, 1),
        (rows_by("a", 3..4), 0, 2, 3),
        (gap_inside, 2, 4, 5),
        ([rows_by("a", 2..3), rows_by("a", 2..3)].concat(), 1, 3, 2),
    ] {
        match append(&handle, &rows) {
            Err(Error::SeqMismatch { expected, index, actual, .. }) => {
                assert_eq!((index, expected, actual), (at, due, got));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(stage.stored("s"), before);
        assert_eq!(handle.next_seq(), Some(2));
    }
    append(&handle, &rows_by("a", 2..4)).unwrap();
    assert_eq!(stage.read(), rows_by("a", 0..4));
    Ok(())
}

// Payload text is kept byte for byte (README): -0 and 1e400 are no reason to refuse. What is no event is.
pub(crate) fn r066_a_batch_with_what_is_no_event_is_refused_whole(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = created(&stage, 2);
    let before = stage.stored("s");
    for bad in [
        "{\"type\":\"plan/mode\",\"seq\":3,\"time\":1,\"data\":{}",
        "[]",
        "{\"type\":\"plan/mode\",\"seq\":3,\"time\":1}",
        "{\"type\":\"plan/mode\",\"seq\":3,\"time\":1.5,\"data\":{}}",
        "{\"type\":\"plan/mode\",\"seq\":3,\"time\":1,\"data\":{},\"extra\":1}",
        "{\"type\":\"plan/mode\",\"seq\":3,\"time\":1,\"data\":{\"a\":01}}",
        "{\"type\":\"plan/mode\",\"seq\":3,\"time\":1,\"data\":{}}\n{}",
    ] {
        let rows = [rows_by("a", 2..3), vec![bad.to_owned()]].concat();
        let refused = append(&handle, &rows);
        assert!(matches!(refused, Err(Error::InvalidRow { index: 1, .. })), "{bad}: {refused:?}");
        assert_eq!(stage.stored("s"), before, "{bad}");
    }
    let not_text = [&b"{\"type\":\"plan/mode\",\"seq\":2,\"time\":1,\"data\":\"\xff\"}"[..]];
    let refused = handle.append(&not_text, &never());
    assert!(matches!(refused, Err(Error::InvalidRow { index: 0, .. })), "{refused:?}");
    append(&handle, &rows_by("a", 2..4)).unwrap();
    assert_eq!(stage.read(), rows_by("a", 0..4));
    Ok(())
}

pub(crate) fn r067_an_empty_batch_changes_nothing(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = create(&stage.instance(), "s");
    append(&handle, &[]).unwrap();
    assert!(stat(&stage.instance(), "s").is_none(), "it was not stored");
    append(&handle, &rows_by("a", 0..1)).unwrap();
    let before = stage.stored("s");
    append(&handle, &[]).unwrap();
    assert_eq!(stage.stored("s"), before);
    assert_eq!(handle.next_seq(), Some(1));
    Ok(())
}

pub(crate) fn r068_append_and_flush_on_a_read_handle_are_refused(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(1);
    let before = stage.stored("s");
    let reader = stage.reader("s");
    for refused in [append(&reader, &rows_by("a", 1..2)), append(&reader, &[]), flush(&reader)] {
        assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
    }
    assert_eq!(reader.next_seq(), None);
    assert_eq!(stage.stored("s"), before);
    Ok(())
}

pub(crate) fn r069_appends_of_several_threads_are_each_stored_whole(backend: &dyn Backend) -> Outcome {
    const TRIES_MAX: u32 = 1_000_000;
    let stage = Stage::new(backend);
    let handle = created(&stage, 0);
    let start = Barrier::new(4);
    let stored = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for by in ["one", "two", "three", "four"] {
            let (handle, start, stored) = (&handle, &start, &stored);
            scope.spawn(move || {
                start.wait();
                let mut left = 10;
                for _ in 0..TRIES_MAX {
                    if left == 0 {
                        return;
                    }
                    let next = handle.next_seq().unwrap();
                    match append(handle, &rows_by(by, next..next + 3)) {
                        Ok(()) => {
                            stored.lock().unwrap().push((next, by));
                            left -= 1;
                        }
                        // Another thread was faster, and nothing of this batch was stored.
                        Err(Error::SeqMismatch { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                panic!("{left} batches of thread {by} never fitted");
            });
        }
    });
    let mut stored = stored.into_inner().unwrap();
    stored.sort_unstable();
    let expected: Vec<String> = stored.iter().flat_map(|&(next, by)| rows_by(by, next..next + 3)).collect();
    assert_eq!(expected.len(), 120);
    assert_eq!(read_all(&handle).unwrap(), expected);
    assert_eq!(stage.read(), expected);
    Ok(())
}

pub(crate) fn r069_an_append_that_waits_goes_before_one_that_is_called_later(
    backend: &dyn Backend,
) -> Outcome {
    let stage = Stage::new(backend);
    let handle = created(&stage, 1);
    // Nothing tells that a call has begun to wait. Where it was given too little time for that, it is given more.
    for pause_ms in [50, 500, 4000] {
        let next = handle.next_seq().unwrap();
        let (inside, (sent, threads)) = (Arc::clone(&handle), channel());
        // While this thread is in the middle of an append, another one calls the next.
        let action = move || {
            let waiting = thread::spawn(move || append(&inside, &rows_by("waiting", next + 1..next + 2)));
            thread::sleep(Duration::from_millis(pause_ms));
            let _received = sent.send(waiting);
        };
        stage.storage().before_next(Step::Write, Box::new(action))?;
        append(&handle, &rows_by("running", next..next + 1)).unwrap();
        let later = append(&handle, &rows_by("later", next + 2..next + 3));
        threads.recv().unwrap().join().unwrap().unwrap();
        if later.is_ok() {
            return Ok(());
        }
        assert!(matches!(later, Err(Error::SeqMismatch { .. })), "{later:?}");
    }
    panic!("a later append went first, however long the earlier one had waited");
}

pub(crate) fn r070_a_batch_whose_write_failed_can_be_appended_again(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = created(&stage, 2);
    append(&handle, &rows_by("a", 2..3)).unwrap();
    for _ in 0..2 {
        stage.storage().fail_next(Step::Write)?;
        let failed = append(&handle, &rows_by("a", 3..5));
        assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
        assert_eq!(handle.next_seq(), Some(3));
        assert_eq!(stage.read(), rows_by("a", 0..3));
    }
    append(&handle, &rows_by("a", 3..5)).unwrap();
    assert_eq!(stage.read(), rows_by("a", 0..5));
    if let Ok(after) = stage.durable() {
        assert_eq!(after.read(), rows_by("a", 0..5));
    }
    Ok(())
}

// A handle may refuse to go on after a failed sync, since a second one proves nothing (design, "Crash rules"): then the same
// batch goes to one that is opened anew.
pub(crate) fn r070_a_batch_whose_sync_failed_can_be_appended_again(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let mut handle = created(&stage, 2);
    append(&handle, &rows_by("a", 2..3)).unwrap();
    stage.storage().fail_next(Step::Sync)?;
    let failed = append(&handle, &rows_by("a", 3..5));
    assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
    match append(&handle, &rows_by("a", 3..5)) {
        Err(Error::Poisoned { .. }) => {
            handle.close().unwrap();
            handle = stage.writer("s");
            assert_eq!(handle.next_seq(), Some(3));
            append(&handle, &rows_by("a", 3..5)).unwrap();
        }
        again => again.unwrap(),
    }
    assert_eq!(stage.read(), rows_by("a", 0..5));
    if let Ok(after) = stage.durable() {
        assert_eq!(after.read(), rows_by("a", 0..5));
    }
    Ok(())
}

pub(crate) fn r071_after_a_failed_write_or_sync_the_artifact_is_as_before(backend: &dyn Backend) -> Outcome {
    for step in [Step::Write, Step::Sync] {
        let stage = Stage::new(backend);
        let handle = created(&stage, 2);
        let artifact = |stage: &Stage<'_>| stage.storage().artifact(handle.header().id());
        let before = artifact(&stage)?;
        stage.storage().fail_next(step)?;
        append(&handle, &[row_by("a", 2, 3000)]).unwrap_err();
        assert_eq!(artifact(&stage)?, before, "{step:?}");
        // What was taken back does not come back.
        for seed in 0..10 {
            assert_eq!(artifact(&stage.after(Crash::PowerLoss { seed })?)?, before, "{step:?}, seed {seed}");
        }
    }
    Ok(())
}

pub(crate) fn r071_a_session_that_failed_to_appear_is_as_new(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = create(&stage.instance(), "s");
    stage.storage().fail_next(Step::Publish)?;
    append(&handle, &rows_by("a", 0..2)).unwrap_err();
    assert!(stat(&stage.instance(), "s").is_none());
    assert!(read_all(&handle).unwrap().is_empty());
    append(&handle, &rows_by("a", 0..2)).unwrap();
    assert_eq!(stage.read(), rows_by("a", 0..2));
    Ok(())
}

pub(crate) fn r072_flush_is_repeatable_and_stores_an_empty_session(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = create(&stage.instance(), "s");
    flush(&handle).unwrap();
    assert!(stat(&stage.instance(), "s").is_some(), "another instance sees it");
    let before = stage.stored("s");
    flush(&handle).unwrap();
    assert_eq!(stage.stored("s"), before);
    assert!(stage.read().is_empty());
    append(&handle, &rows_by("a", 0..1)).unwrap();
    flush(&handle).unwrap();
    assert_eq!(stage.read(), rows_by("a", 0..1));
    handle.close().unwrap();
    assert_eq!(stage.read(), rows_by("a", 0..1));
    Ok(())
}

pub(crate) fn r073_what_a_flush_covered_survives_a_crash(backend: &dyn Backend) -> Outcome {
    for flushes_service in [false, true] {
        for crash in [Crash::Killed, Crash::PowerLoss { seed: 0 }, Crash::PowerLoss { seed: 1 }] {
            let stage = Stage::new(backend);
            let store = stage.instance();
            let handle = create(&store, "s");
            for seq in 0..4 {
                append(&handle, &rows_by("a", seq..seq + 1)).unwrap();
            }
            if flushes_service { store.flush() } else { flush(&handle) }.unwrap();
            assert_eq!(stage.after(crash)?.read(), rows_by("a", 0..4), "{crash:?}");
        }
    }
    let stage = Stage::new(backend);
    flush(&create(&stage.instance(), "s")).unwrap();
    assert!(stage.durable()?.read().is_empty(), "the empty session");
    Ok(())
}

pub(crate) fn r073_appends_that_wait_for_a_flush_are_durable_from_it_on(backend: &dyn Backend) -> Outcome {
    type Cover = fn(&Instance, &Handle) -> Result<()>;
    let covers: [(&str, Cover); 3] = [
        ("the handle's flush", |_, handle| flush(handle)),
        ("the service's flush", |store, _| store.flush()),
        ("closing", |_, handle| handle.close()),
    ];
    for (what, cover) in covers {
        let stage = Stage::new(backend);
        let store = stage.with(Settings::ON_FLUSH)?;
        let handle = create(&store, "s");
        append(&handle, &rows_by("a", 0..1)).unwrap();
        append(&handle, &rows_by("a", 1..4)).unwrap();
        cover(&store, &handle).unwrap();
        assert_eq!(stage.durable()?.read(), rows_by("a", 0..4), "{what}");
    }
    Ok(())
}

// A handle that is opened on a log answers for all that it reads.
pub(crate) fn r073_a_flush_covers_what_an_earlier_handle_had_accepted(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = create(&stage.with(Settings::ON_FLUSH)?, "s");
    append(&handle, &rows_by("a", 0..1)).unwrap();
    append(&handle, &rows_by("a", 1..3)).unwrap();
    drop(handle);
    let handle = stage.writer("s");
    let read = read_all(&handle).unwrap();
    assert_eq!(read, rows_by("a", 0..3));
    flush(&handle).unwrap();
    assert_eq!(stage.durable()?.read(), read);
    Ok(())
}

// By default an append is durable by itself (README).
pub(crate) fn r073_an_append_is_durable_by_itself(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(2);
    append(&stage.writer("s"), &rows_by("stored", 2..3)).unwrap();
    assert_eq!(stage.durable()?.read(), rows_by("stored", 0..3));
    Ok(())
}

// A lost part before the end may be refused instead of cut (design): nothing is served behind it either.
pub(crate) fn r074_without_a_flush_a_crash_leaves_a_prefix(backend: &dyn Backend) -> Outcome {
    for seed in 0..60 {
        let stage = Stage::new(backend);
        let handle = create(&stage.with(Settings::ON_FLUSH)?, "s");
        append(&handle, &rows_by("a", 0..2)).unwrap();
        flush(&handle).unwrap();
        for seq in 2..9 {
            append(&handle, &[row_by("a", seq, 400)]).unwrap();
        }
        let all = read_all(&handle).unwrap();
        let after = stage.after(Crash::PowerLoss { seed })?;
        let reader = after.reader("s");
        let served = match read_all(&reader) {
            Err(Error::DamagedTail { intact, .. }) => read(&reader, 0, intact).unwrap(),
            all => all.unwrap(),
        };
        assert!(
            served.len() >= 2 && all.starts_with(&served),
            "seed {seed}: {} of {}",
            served.len(),
            all.len()
        );
    }
    Ok(())
}

pub(crate) fn r075_after_close_everything_is_refused_before_its_arguments(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = created(&stage, 1);
    let reader = stage.reader("s");
    for handle in [handle, reader] {
        let ends = thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| handle.close())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        for end in ends.into_iter().chain([handle.close()]) {
            end.unwrap();
        }
        let refused: [Result<()>; 4] = [
            read_all(&handle).map(|_| ()),
            append(&handle, &["no row".to_owned()]),
            append(&handle, &[]),
            flush(&handle),
        ];
        for refused in refused {
            assert!(matches!(refused, Err(Error::HandleClosed { .. })), "{refused:?}");
        }
    }
    assert_eq!(stage.read(), rows_by("a", 0..1));
    Ok(())
}

pub(crate) fn r075_every_caller_of_close_hears_the_one_failure(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = created(&stage, 1);
    stage.storage().fail_next(Step::Unlock)?;
    let ends = thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| handle.close())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for end in ends.into_iter().chain([handle.close()]) {
        assert!(matches!(end, Err(Error::Io { .. })), "{end:?}");
    }
    Ok(())
}

pub(crate) fn r075_a_second_close_frees_nothing(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    for stores in [false, true] {
        let id = format!("stored-{stores}");
        let first = create(&store, &id);
        if stores {
            flush(&first).unwrap();
        }
        first.close().unwrap();
        let _second = if stores { open(&store, &id, Write).unwrap() } else { create(&store, &id) };
        first.close().unwrap();
        drop(first);
        let third = open(&store, &id, Write);
        assert!(is_owned(&third), "{third:?}");
    }
    Ok(())
}

pub(crate) fn r076_close_lets_the_running_operation_finish_and_refuses_the_queued(
    backend: &dyn Backend,
) -> Outcome {
    let stage = Stage::new(backend);
    let handle = created(&stage, 1);
    let (sent, threads) = channel();
    let inside = Arc::clone(&handle);
    // Other threads queue an append and a close while this one is in the middle of its append.
    let action = move || {
        let [queued, closing] = [Arc::clone(&inside), Arc::clone(&inside)];
        let queued = thread::spawn(move || append(&queued, &rows_by("queued", 2..3)));
        let closing = thread::spawn(move || closing.close());
        let tries = (0..5000).find(|_| is_closing(&inside));
        assert!(tries.is_some(), "a handle that is being closed goes on taking calls");
        // They go on when the append is through.
        let _received = sent.send((queued, closing));
    };
    stage.storage().before_next(Step::Write, Box::new(action))?;
    append(&handle, &rows_by("running", 1..2)).unwrap();
    let (queued, closing) = threads.recv().unwrap();
    let queued = queued.join().unwrap();
    assert!(matches!(queued, Err(Error::HandleClosed { .. })), "{queued:?}");
    closing.join().unwrap().unwrap();
    assert_eq!(stage.read(), [rows_by("a", 0..1), rows_by("running", 1..2)].concat());
    Ok(())
}

/// Whether a close has begun; never waits for the operation that runs.
fn is_closing(handle: &Handle) -> bool {
    let (sent, received) = channel();
    let handle = Arc::clone(handle);
    thread::spawn(move || sent.send(matches!(flush(&handle), Err(Error::HandleClosed { .. }))));
    received.recv_timeout(Duration::from_millis(2)).unwrap_or(false)
}

pub(crate) fn r077_closing_a_session_that_was_never_written_erases_it(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    create(&store, "s").close().unwrap();
    for store in [&store, &stage.instance()] {
        assert!(stat(store, "s").is_none());
        assert!(list(store).is_empty());
        for access in [Read, Write] {
            let absent = open(store, "s", access);
            assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
        }
    }
    create(&store, "s");
    Ok(())
}

pub(crate) fn r078_a_reader_of_an_erased_session_finds_nothing(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    let writer = create(&store, "s");
    let reader = open(&store, "s", Read).unwrap();
    assert!(read_all(&reader).unwrap().is_empty());
    writer.close().unwrap();
    let erased = read_all(&reader);
    assert!(matches!(erased, Err(Error::NotFound { .. })), "{erased:?}");
    Ok(())
}

pub(crate) fn r079_close_frees_the_session_whatever_fails(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.with(Settings::ON_FLUSH)?;
    let handle = create(&store, "s");
    append(&handle, &rows_by("a", 0..1)).unwrap();
    append(&handle, &rows_by("a", 1..2)).unwrap();
    stage.storage().fail_next(Step::Sync)?;
    stage.storage().fail_next(Step::Unlock)?;
    match handle.close() {
        Err(Error::Aggregate(both)) => {
            assert!(matches!(both[..], [Error::Io { .. }, Error::Io { .. }]), "{both:?}");
        }
        other => panic!("{other:?}"),
    }
    // Here and elsewhere.
    open(&store, "s", Write).unwrap().close().unwrap();
    let handle = stage.writer("s");
    let next = handle.next_seq().unwrap();
    append(&handle, &rows_by("a", next..next + 1)).unwrap();
    Ok(())
}

// With admission opted out (README).
pub(crate) fn r080_an_unknown_event_that_was_stored_is_refused_to_readers(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = create(&stage.with(Settings::ANYTHING)?, "s");
    append(&handle, &rows_by("a", 0..1)).unwrap();
    append(&handle, &[row_of("vendor/novelty", 1, "{}")]).unwrap();
    handle.close().unwrap();
    let store = stage.instance();
    let refusals = [open(&store, "s", Write).map(|_| ()), open_and_read(&store, "s").map(|_| ())];
    for refused in refusals.into_iter().chain([open(&store, "s", Write).map(|_| ())]) {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::FormatUnsupported { .. }), "{error:?}");
        assert!(error.to_string().contains("vendor/novelty"), "{error}");
    }
    Ok(())
}

// The choice of seslog (README). A backend that judges no types at append has the rule above instead.
pub(crate) fn r080_by_default_an_event_that_no_reader_knows_is_not_stored(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    // Without the setting there is nothing that refuses.
    stage.with(Settings::ANYTHING)?;
    let handle = created(&stage, 1);
    let before = stage.stored("s");
    let strange = [rows_by("a", 1..2), vec![row_of("vendor/novelty", 2, "{}")]].concat();
    let refused = append(&handle, &strange);
    assert!(matches!(refused, Err(Error::UnknownType { index: 1, seq: 2, .. })), "{refused:?}");
    assert_eq!((handle.next_seq(), stage.stored("s")), (Some(1), before));
    append(&handle, &rows_by("a", 1..2)).unwrap();
    Ok(())
}

pub(crate) fn r081_an_unknown_event_that_may_be_ignored_keeps_its_place(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let handle = created(&stage, 1);
    let strange = row_of("vendor/novelty", 1, "{\"surfaceOp\":1},\"ignorable\":true");
    append(&handle, std::slice::from_ref(&strange)).unwrap();
    append(&handle, &rows_by("a", 2..3)).unwrap();
    handle.close().unwrap();
    let expected = [rows_by("a", 0..1), vec![strange], rows_by("a", 2..3)].concat();
    assert_eq!(stage.read(), expected);
    assert_eq!(read_all(&stage.writer("s")).unwrap(), expected);
    Ok(())
}

pub(crate) fn r082_payloads_come_back_byte_for_byte(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let deep = format!("{}1{}", "[".repeat(3000), "]".repeat(3000));
    let rows: Vec<String> = [
        ("turn/end", "{\"turn\":1,\"reason\":{\"kind\":\"vendor/odd\",\"why\":null}}".to_owned()),
        (
            "plan/mode",
            "{\"z\":1,\"a\":2,\"10\":3,\"9\":4,\"active\":true,\"more\":{\"b\":[],\"a\":{}}}".to_owned(),
        ),
        ("plan/mode", "null".to_owned()),
        ("plan/mode", "{\"n\":[1.0,1e2,-0,0.1e-7,12345678901234567890]}".to_owned()),
        ("plan/mode", "{\"t\":\"\\ud800 \\u0041 \\/ é 🔑 \\udc00\"}".to_owned()),
        ("plan/mode", "{ \"spaced\" : [ 1 , 2 ] }".to_owned()),
        ("plan/mode", format!("{{\"deep\":{deep}}}")),
    ]
    .iter()
    .zip(0..)
    .map(|((kind, data), seq)| row_of(kind, seq, data))
    .collect();
    stage.store("s", &[rows[..2].to_vec(), rows[2..].to_vec()]);
    assert_eq!(stage.read(), rows);
    assert_eq!(read_all(&stage.writer("s")).unwrap(), rows);
    Ok(())
}
