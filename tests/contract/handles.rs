//! C6: read, append, flush, close.

use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use seslog::container::Encoding;
use seslog::container::disk::fault::{Failure, FileLoss, OpKind};
use seslog::json::Text;
use seslog::store::{Admission, FileHandle, SessionAccess};
use seslog::{Error, Result};

use crate::common::sessions::{append, header, options, read, read_all, row_by, row_of, rows_by};
use crate::seam::{EIO, ENOSPC, Seam, once_per_encoding};

once_per_encoding! {
    r062_reads_are_exact_slices,
    r064_a_write_handle_reads_its_own_appends_at_once,
    r065_a_batch_that_does_not_continue_the_log_is_refused_whole,
    r066_a_batch_with_what_is_no_event_is_refused_whole,
    r067_an_empty_batch_changes_nothing,
    r068_append_and_flush_on_a_read_handle_are_refused,
    r069_appends_of_several_threads_are_each_stored_whole,
    r069_an_append_that_waits_goes_before_one_that_is_called_later,
    r070_a_batch_whose_write_failed_can_be_appended_again,
    r070_a_batch_whose_sync_failed_can_be_appended_after_reopening,
    r071_after_a_failed_write_or_sync_the_log_has_its_bytes_back,
    r071_a_failed_rollback_is_told_with_the_failure,
    r072_flush_is_repeatable_and_stores_an_empty_session,
    r073_what_a_flush_covered_survives_a_power_loss,
    r073_a_flush_covers_what_an_earlier_handle_had_accepted,
    r074_without_a_flush_a_power_loss_leaves_a_prefix,
    r075_close_ends_once_and_for_all_callers,
    r076_close_lets_the_running_operation_finish_and_refuses_the_queued,
    r077_closing_a_session_that_was_never_written_erases_it,
    r078_a_reader_of_an_erased_session_finds_nothing,
    r079_close_frees_the_session_whatever_fails,
    r080_an_unknown_event_that_must_be_understood_is_refused_at_append,
    r080_without_admission_it_is_stored_and_then_refused_to_readers,
    r081_an_unknown_event_that_may_be_ignored_keeps_its_place,
    r082_payloads_come_back_byte_for_byte,
}

fn created(seam: &Seam, events: u64) -> Arc<FileHandle> {
    let handle = seam.instance().create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..events)).unwrap();
    handle
}

fn r062_reads_are_exact_slices(seam: &Seam) {
    let rows = rows_by("a", 0..7);
    seam.store("s", &[rows[..3].to_vec(), rows[3..4].to_vec(), rows[4..].to_vec()]);
    for access in [SessionAccess::Read, SessionAccess::Write] {
        let handle = seam.open("s", access).unwrap();
        for from in 0..=8_u64 {
            for length in (0..=8).chain([u64::MAX]) {
                let start = (from as usize).min(7);
                let end = from.saturating_add(length).min(7).max(start as u64) as usize;
                assert_eq!(read(&handle, from, length).unwrap(), rows[start..end], "{from} {length}");
            }
        }
        assert!(read(&handle, u64::MAX, u64::MAX).unwrap().is_empty());
    }
}

fn r064_a_write_handle_reads_its_own_appends_at_once(seam: &Seam) {
    let handle = created(seam, 2);
    for seq in 2..6 {
        append(&handle, &rows_by("a", seq..seq + 1)).unwrap();
        assert_eq!(read_all(&handle).unwrap(), rows_by("a", 0..seq + 1));
    }
}

fn r065_a_batch_that_does_not_continue_the_log_is_refused_whole(seam: &Seam) {
    let handle = created(seam, 2);
    let before = seam.bytes();
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
        assert_eq!(seam.bytes(), before);
        assert_eq!(handle.next_seq(), Some(2));
    }
    append(&handle, &rows_by("a", 2..4)).unwrap();
}

// Payload text is kept byte for byte (README): -0 and 1e400 are no reason to refuse. What is no event is.
fn r066_a_batch_with_what_is_no_event_is_refused_whole(seam: &Seam) {
    let handle = created(seam, 2);
    let before = seam.bytes();
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
        assert_eq!(seam.bytes(), before);
    }
    let not_text = [&b"{\"type\":\"plan/mode\",\"seq\":2,\"time\":1,\"data\":\"\xff\"}"[..]];
    assert!(matches!(handle.append(&not_text), Err(Error::InvalidRow { index: 0, .. })));
    append(&handle, &rows_by("a", 2..4)).unwrap();
    assert_eq!(seam.read(), rows_by("a", 0..4));
}

fn r067_an_empty_batch_changes_nothing(seam: &Seam) {
    let store = seam.instance();
    let handle = store.create(header("s"), None).unwrap();
    append(&handle, &[]).unwrap();
    assert!(seam.disk.paths().is_empty());
    append(&handle, &rows_by("a", 0..1)).unwrap();
    let before = seam.bytes();
    append(&handle, &[]).unwrap();
    assert_eq!(seam.bytes(), before);
}

fn r068_append_and_flush_on_a_read_handle_are_refused(seam: &Seam) {
    seam.store_small(1);
    let before = seam.bytes();
    let reader = seam.open("s", SessionAccess::Read).unwrap();
    for refused in [append(&reader, &rows_by("a", 1..2)), append(&reader, &[]), reader.flush()] {
        assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
    }
    assert_eq!(reader.next_seq(), None);
    assert_eq!(seam.bytes(), before);
}

fn r069_appends_of_several_threads_are_each_stored_whole(seam: &Seam) {
    let handle = created(seam, 0);
    let start = Barrier::new(4);
    let stored = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for by in ["one", "two", "three", "four"] {
            let (handle, start, stored) = (&handle, &start, &stored);
            scope.spawn(move || {
                start.wait();
                let mut left = 10;
                while left > 0 {
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
            });
        }
    });
    let mut stored = stored.into_inner().unwrap();
    stored.sort_unstable();
    let expected: Vec<String> = stored.iter().flat_map(|&(next, by)| rows_by(by, next..next + 3)).collect();
    assert_eq!(expected.len(), 120);
    assert_eq!(read_all(&handle).unwrap(), expected);
}

fn r069_an_append_that_waits_goes_before_one_that_is_called_later(seam: &Seam) {
    let handle = created(seam, 1);
    for round in 0..5 {
        let next = handle.next_seq().unwrap();
        let (inside, (sent, threads)) = (Arc::clone(&handle), std::sync::mpsc::channel());
        // While this thread is in the middle of an append, another one calls the next.
        seam.disk.before(seam.disk.ops() + 1, move |_| {
            let waiting = thread::spawn(move || append(&inside, &rows_by("waiting", next + 1..next + 2)));
            thread::sleep(std::time::Duration::from_millis(20));
            sent.send(waiting).unwrap();
        });
        append(&handle, &rows_by("running", next..next + 1)).unwrap();
        append(&handle, &rows_by("later", next + 2..next + 3))
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        threads.recv().unwrap().join().unwrap().unwrap();
    }
}

fn r070_a_batch_whose_write_failed_can_be_appended_again(seam: &Seam) {
    for failure in [
        Failure::Error(ENOSPC),
        Failure::Partial(1, ENOSPC),
        Failure::Partial(70, EIO),
        Failure::Partial(usize::MAX, EIO),
    ] {
        let seam = Seam::new(seam.encoding);
        let handle = created(&seam, 2);
        append(&handle, &rows_by("a", 2..3)).unwrap();
        let before = seam.bytes();
        seam.disk.fail_next(OpKind::Append, failure);
        let failed = append(&handle, &rows_by("a", 3..5));
        assert!(matches!(failed, Err(Error::Io { action: "writing", .. })), "{failed:?}");
        assert_eq!(seam.bytes(), before);
        assert_eq!(handle.next_seq(), Some(3));
        append(&handle, &rows_by("a", 3..5)).unwrap();
        assert_eq!(seam.read(), rows_by("a", 0..5));
        assert_eq!(seam.durable().read(), rows_by("a", 0..5));
    }
    // Short writes are no failure.
    let handle = created(seam, 1);
    for _ in 0..3 {
        seam.disk.fail_next(OpKind::Append, Failure::Short(5));
    }
    append(&handle, &rows_by("a", 1..3)).unwrap();
    assert_eq!(seam.durable().read(), rows_by("a", 0..3));
}

// A failed sync poisons the handle (design, "Crash rules"): the same batch goes to a handle that was opened anew.
fn r070_a_batch_whose_sync_failed_can_be_appended_after_reopening(seam: &Seam) {
    let handle = created(seam, 2);
    append(&handle, &rows_by("a", 2..3)).unwrap();
    seam.disk.fail_next(OpKind::SyncData, Failure::Error(EIO));
    let failed = append(&handle, &rows_by("a", 3..5));
    assert!(matches!(failed, Err(Error::Io { action: "syncing", .. })), "{failed:?}");
    for refused in [append(&handle, &rows_by("a", 3..5)), handle.flush()] {
        assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    }
    handle.close().unwrap();
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    assert_eq!(handle.next_seq(), Some(3));
    append(&handle, &rows_by("a", 3..5)).unwrap();
    assert_eq!(seam.read(), rows_by("a", 0..5));
    assert_eq!(seam.durable().read(), rows_by("a", 0..5));
}

fn r071_after_a_failed_write_or_sync_the_log_has_its_bytes_back(seam: &Seam) {
    for (kind, failure) in
        [(OpKind::Append, Failure::Partial(33, ENOSPC)), (OpKind::SyncData, Failure::Error(EIO))]
    {
        let seam = Seam::new(seam.encoding);
        let handle = created(&seam, 2);
        let before = seam.bytes();
        seam.disk.fail_next(kind, failure);
        append(&handle, &[row_by("a", 2, 3000)]).unwrap_err();
        assert_eq!(seam.bytes(), before);
        // What was cut off stays cut off.
        for seed in 0..20 {
            assert_eq!(seam.after_loss(seed, FileLoss::RandomSectors).bytes(), before);
        }
    }
    // The first batch of a session: nothing is there again, and the handle is as new.
    for kind in [OpKind::Append, OpKind::SyncAll, OpKind::Link, OpKind::SyncDir, OpKind::CreateNew] {
        let seam = Seam::new(seam.encoding);
        let handle = seam.instance().create(header("s"), None).unwrap();
        seam.disk.fail_next(kind, Failure::Error(EIO));
        append(&handle, &rows_by("a", 0..2)).unwrap_err();
        assert!(!seam.disk.paths().contains(&seam.log()));
        assert!(read_all(&handle).unwrap().is_empty());
        append(&handle, &rows_by("a", 0..2)).unwrap();
        assert_eq!(seam.durable().read(), rows_by("a", 0..2), "{kind:?}");
    }
}

fn r071_a_failed_rollback_is_told_with_the_failure(seam: &Seam) {
    let handle = created(seam, 2);
    seam.disk.fail_next(OpKind::Append, Failure::Partial(33, ENOSPC));
    seam.disk.fail_next(OpKind::Truncate, Failure::Error(EIO));
    match append(&handle, &rows_by("a", 2..3)) {
        Err(Error::Aggregate(both)) => {
            let [Error::Io { action: "writing", .. }, Error::Io { action: cut, .. }] = &both[..] else {
                panic!("{both:?}");
            };
            assert!(cut.starts_with("taking"), "{cut}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(append(&handle, &rows_by("a", 2..3)), Err(Error::Poisoned { .. })));
    handle.close().unwrap();
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    assert_eq!(handle.next_seq(), Some(2));
    append(&handle, &rows_by("a", 2..3)).unwrap();
    assert_eq!(seam.read(), rows_by("a", 0..3));
}

fn r072_flush_is_repeatable_and_stores_an_empty_session(seam: &Seam) {
    let handle = seam.instance().create(header("s"), None).unwrap();
    handle.flush().unwrap();
    let before = seam.bytes();
    handle.flush().unwrap();
    assert_eq!(seam.bytes(), before);
    assert!(seam.read().is_empty());
    assert_eq!(seam.durable().bytes(), before);
    append(&handle, &rows_by("a", 0..1)).unwrap();
    handle.flush().unwrap();
    assert_eq!(seam.read(), rows_by("a", 0..1));
}

fn r073_what_a_flush_covered_survives_a_power_loss(seam: &Seam) {
    let store = seam.lazy_instance();
    let handle = store.create(header("s"), None).unwrap();
    for seq in 0..4 {
        append(&handle, &rows_by("a", seq..seq + 1)).unwrap();
    }
    handle.flush().unwrap();
    assert_eq!(seam.durable().read(), rows_by("a", 0..4));
    append(&handle, &rows_by("a", 4..5)).unwrap();
    append(&handle, &rows_by("a", 5..6)).unwrap();
    store.flush().unwrap();
    assert_eq!(seam.durable().read(), rows_by("a", 0..6), "the service's flush");
    append(&handle, &rows_by("a", 6..7)).unwrap();
    handle.close().unwrap();
    assert_eq!(seam.durable().read(), rows_by("a", 0..7), "closing");

    // By default an append is durable by itself.
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    append(&handle, &rows_by("a", 7..8)).unwrap();
    assert_eq!(seam.durable().read(), rows_by("a", 0..8));
}

// A handle that is opened on a log answers for all that it reads. Here its predecessor was dropped with an append that no sync
// had covered, and a flush that had nothing of its own to sync said that all was well (found by tests/model.rs).
fn r073_a_flush_covers_what_an_earlier_handle_had_accepted(seam: &Seam) {
    let handle = seam.lazy_instance().create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..1)).unwrap();
    append(&handle, &rows_by("a", 1..3)).unwrap();
    drop(handle);
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    let before = seam.bytes();
    assert_eq!(read_all(&handle).unwrap().len(), 3);
    handle.flush().unwrap();
    assert_eq!(seam.bytes(), before);
    assert_eq!(seam.durable().read(), rows_by("a", 0..3));

    // So does a failed sync: the bytes are written again before the next one is believed.
    if seam.encoding == Encoding::Plain {
        return;
    }
    handle.close().unwrap();
    let handle = seam.lazy_instance().open(&Text::from("s"), SessionAccess::Write).unwrap();
    append(&handle, &rows_by("a", 3..5)).unwrap();
    seam.disk.fail_next(OpKind::SyncData, Failure::Error(EIO));
    handle.flush().unwrap_err();
    drop(handle);
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    assert_eq!(handle.next_seq(), Some(5));
    handle.flush().unwrap();
    for seed in 0..20 {
        assert_eq!(seam.after_loss(seed, FileLoss::RandomSectors).read(), rows_by("a", 0..5));
    }
}

// In the plain encoding a lost sector before the end is refused and not cut (design): nothing is served behind it either.
fn r074_without_a_flush_a_power_loss_leaves_a_prefix(seam: &Seam) {
    let handle = seam.lazy_instance().create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..2)).unwrap();
    for seq in 2..9 {
        append(&handle, &[row_by("a", seq, 400)]).unwrap();
    }
    let all = read_all(&handle).unwrap();
    let mut lengths = Vec::new();
    for seed in 0..60 {
        let after = seam.after_loss(seed, FileLoss::RandomSectors);
        let reader = after.open("s", SessionAccess::Read).unwrap();
        let served = match read_all(&reader) {
            Err(Error::DamagedTail { intact, .. }) => read(&reader, 0, intact).unwrap(),
            all => all.unwrap(),
        };
        assert!(served.len() >= 2 && all.starts_with(&served), "seed {seed}");
        lengths.push(served.len());
    }
    assert!(lengths.iter().any(|&length| length < all.len()), "{lengths:?}");
}

fn r075_close_ends_once_and_for_all_callers(seam: &Seam) {
    let handle = created(seam, 1);
    let reader = seam.open("s", SessionAccess::Read).unwrap();
    seam.disk.fail_next(OpKind::Unlock, Failure::Error(EIO));
    let ends = thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| handle.close())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for end in ends.into_iter().chain([handle.close()]) {
        assert!(matches!(end, Err(Error::Io { action: "releasing", .. })), "{end:?}");
    }
    for handle in [handle, reader] {
        let _ended = handle.close();
        // Before the arguments are looked at.
        let refused: [Result<()>; 4] = [
            read_all(&handle).map(|_| ()),
            append(&handle, &["no row".to_owned()]),
            append(&handle, &[]),
            handle.flush(),
        ];
        for refused in refused {
            assert!(matches!(refused, Err(Error::HandleClosed { .. })), "{refused:?}");
        }
    }
}

fn r076_close_lets_the_running_operation_finish_and_refuses_the_queued(seam: &Seam) {
    let handle = created(seam, 1);
    let (sent, threads) = std::sync::mpsc::channel();
    let inside = Arc::clone(&handle);
    // Other threads queue an append and a close while this one is in the middle of its append.
    seam.disk.before(seam.disk.ops() + 1, move |_| {
        let [queued, closing] = [Arc::clone(&inside), Arc::clone(&inside)];
        let queued = thread::spawn(move || append(&queued, &rows_by("queued", 2..3)));
        let closing = thread::spawn(move || closing.close());
        while !is_closing(&inside) {
            thread::yield_now();
        }
        // They go on when the append is through.
        sent.send((queued, closing)).unwrap();
    });
    append(&handle, &rows_by("running", 1..2)).unwrap();
    let (queued, closing) = threads.recv().unwrap();
    let queued = queued.join().unwrap();
    assert!(matches!(queued, Err(Error::HandleClosed { .. })), "{queued:?}");
    closing.join().unwrap().unwrap();
    assert_eq!(seam.read(), [rows_by("a", 0..1), rows_by("running", 1..2)].concat());
}

/// Whether a close has begun; never waits for the operation that runs.
fn is_closing(handle: &Arc<FileHandle>) -> bool {
    let (sent, received) = std::sync::mpsc::channel();
    let handle = Arc::clone(handle);
    thread::spawn(move || sent.send(matches!(handle.flush(), Err(Error::HandleClosed { .. }))));
    received.recv_timeout(std::time::Duration::from_millis(2)).unwrap_or(false)
}

fn r077_closing_a_session_that_was_never_written_erases_it(seam: &Seam) {
    let store = seam.instance();
    let id = Text::from("s");
    store.create(header("s"), None).unwrap().close().unwrap();
    assert!(store.stat(&id).unwrap().is_none());
    assert!(store.list().unwrap().is_empty());
    assert!(matches!(store.open(&id, SessionAccess::Read), Err(Error::NotFound { .. })));
    store.create(header("s"), None).unwrap();
}

fn r078_a_reader_of_an_erased_session_finds_nothing(seam: &Seam) {
    let store = seam.instance();
    let writer = store.create(header("s"), None).unwrap();
    let reader = store.open(&Text::from("s"), SessionAccess::Read).unwrap();
    assert!(read_all(&reader).unwrap().is_empty());
    writer.close().unwrap();
    assert!(matches!(read_all(&reader), Err(Error::NotFound { .. })));
}

fn r079_close_frees_the_session_whatever_fails(seam: &Seam) {
    let handle = seam.lazy_instance().create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..1)).unwrap();
    append(&handle, &rows_by("a", 1..2)).unwrap();
    seam.disk.fail_next(OpKind::SyncData, Failure::Error(EIO));
    seam.disk.fail_next(OpKind::Unlock, Failure::Error(EIO));
    match handle.close() {
        Err(Error::Aggregate(both)) => assert!(
            matches!(both[..], [Error::Io { action: "syncing", .. }, Error::Io { action: "releasing", .. }]),
            "{both:?}"
        ),
        other => panic!("{other:?}"),
    }
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    append(&handle, &rows_by("a", 2..3)).unwrap();
    handle.close().unwrap();

    // Events that were accepted and are not known to be durable are not passed over in silence.
    let handle = seam.lazy_instance().open(&Text::from("s"), SessionAccess::Write).unwrap();
    append(&handle, &rows_by("a", 3..4)).unwrap();
    seam.disk.fail_next(OpKind::SyncData, Failure::Error(EIO));
    handle.flush().unwrap_err();
    assert!(matches!(handle.flush(), Err(Error::Poisoned { .. })), "a second sync proves nothing");
    assert!(matches!(handle.close(), Err(Error::Poisoned { .. })));
    seam.open("s", SessionAccess::Write).unwrap();
}

fn r080_an_unknown_event_that_must_be_understood_is_refused_at_append(seam: &Seam) {
    // The choice of seslog: the rule as it is numbered runs with admission opted out, below.
    let handle = created(seam, 1);
    let before = seam.bytes();
    let strange = [rows_by("a", 1..3), vec![row_of("vendor/novelty\\u0007", 3, "{}")]].concat();
    match append(&handle, &strange) {
        Err(Error::UnknownType { index: 2, seq: 3, event_type }) => {
            assert_eq!(event_type, "vendor/novelty\\u{7}", "printable");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        (handle.next_seq(), seam.bytes()),
        (Some(1), before),
        "nothing was stored, and the seqs are free"
    );
    append(&handle, &rows_by("a", 1..3)).unwrap();
    handle.close().unwrap();
    // What the generation before this one had is no part of it.
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    let retired = append(&handle, &[row_of("assistant/chunk", 3, "{}")]);
    assert!(matches!(retired, Err(Error::UnknownType { index: 0, seq: 3, .. })), "{retired:?}");
}

fn r080_without_admission_it_is_stored_and_then_refused_to_readers(seam: &Seam) {
    let mut options = options(seam.encoding);
    options.admission = Admission::Anything;
    let handle = seam.with(options).create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..1)).unwrap();
    append(&handle, &[row_of("vendor/novelty", 1, "{}")]).unwrap();
    handle.close().unwrap();
    let named = |error: Error| {
        assert!(matches!(error, Error::FormatUnsupported { .. }), "{error:?}");
        assert!(error.to_string().contains("vendor/novelty"), "{error}");
    };
    named(seam.open("s", SessionAccess::Write).unwrap_err());
    let read = seam.open("s", SessionAccess::Read).and_then(|reader| read_all(&reader));
    named(read.unwrap_err());
}

fn r081_an_unknown_event_that_may_be_ignored_keeps_its_place(seam: &Seam) {
    let handle = created(seam, 1);
    let strange = row_of("vendor/novelty", 1, "{\"surfaceOp\":1},\"ignorable\":true");
    append(&handle, std::slice::from_ref(&strange)).unwrap();
    append(&handle, &rows_by("a", 2..3)).unwrap();
    handle.close().unwrap();
    let expected = [rows_by("a", 0..1), vec![strange], rows_by("a", 2..3)].concat();
    assert_eq!(seam.read(), expected);
    assert_eq!(read_all(&seam.open("s", SessionAccess::Write).unwrap()).unwrap(), expected);
}

fn r082_payloads_come_back_byte_for_byte(seam: &Seam) {
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
    seam.store("s", &[rows[..2].to_vec(), rows[2..].to_vec()]);
    assert_eq!(seam.read(), rows);
}
