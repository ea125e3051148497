//! C6: read, append, flush, close.

use std::sync::Arc;

use seslog::Error;
use seslog::container::Encoding;
use seslog::container::disk::fault::{Failure, FileLoss, OpKind};
use seslog::json::Text;
use seslog::store::{FileHandle, SessionAccess};

use crate::common::sessions::{append, header, read, read_all, row_by, row_of, rows_by};
use crate::seam::{EIO, ENOSPC, Seam, once_per_encoding};

once_per_encoding! {
    r070_a_batch_whose_write_failed_can_be_appended_again,
    r070_a_batch_whose_sync_failed_can_be_appended_after_reopening,
    r071_after_a_failed_write_or_sync_the_log_has_its_bytes_back,
    r071_a_failed_rollback_is_told_with_the_failure,
    r073_a_flush_covers_what_an_earlier_handle_had_accepted,
    r074_without_a_flush_a_power_loss_leaves_a_prefix,
    r079_close_frees_the_session_whatever_fails,
    r080_an_unknown_event_that_must_be_understood_is_refused_at_append,
}

fn created(seam: &Seam, events: u64) -> Arc<FileHandle> {
    let handle = seam.instance().create(header("s"), None).unwrap();
    append(&handle, &rows_by("a", 0..events)).unwrap();
    handle
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
