//! C11, first part: cancellation.

use std::sync::Arc;

use crate::contract::backend::{Backend, Step};
use crate::contract::stage::{
    Outcome, Stage, append, create, flush, header, list, open, read_all, rows_by, stat,
};
use crate::error::{Error, Result};
use crate::json::Text;
use crate::store::SessionAccess::{Read, Write};
use crate::store::{Cancel, CancelReason};

#[derive(Debug, thiserror::Error)]
#[error("the user closed the window")]
struct Closed;

/// A token that was cancelled, and whether a call failed with its very reason.
fn cancelled() -> (Cancel, CancelReason) {
    let reason: CancelReason = Arc::new(Closed);
    let cancel = Cancel::new();
    cancel.cancel(Arc::clone(&reason));
    (cancel, reason)
}

fn is_for<T: std::fmt::Debug>(reason: &CancelReason, result: Result<T>) -> bool {
    matches!(result, Err(Error::Cancelled { reason: found }) if Arc::ptr_eq(&found, reason))
}

pub(crate) fn r134_a_cancelled_call_fails_with_the_very_reason_and_changes_nothing(
    backend: &dyn Backend,
) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    let id = Text::from("s");
    let (cancel, reason) = cancelled();
    let rows = rows_by("a", 0..2);
    let batch: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();

    assert!(is_for(&reason, store.create(header("s"), None, &cancel)), "create");
    // Nothing was reserved.
    let handle = create(&store, "s");
    assert!(is_for(&reason, handle.append(&batch, &cancel)), "append");
    assert!(is_for(&reason, handle.flush(&cancel)), "flush");
    assert!(is_for(&reason, handle.read(0, 1, &cancel)), "read");
    assert!(is_for(&reason, store.stat(&id, &cancel)), "stat");
    assert!(is_for(&reason, store.list(&cancel)), "list");
    assert!(stat(&stage.instance(), "s").is_none(), "it was not stored");
    assert_eq!(handle.next_seq(), Some(0));

    append(&handle, &rows).unwrap();
    let before = stage.stored("s");
    let next = rows_by("a", 2..3);
    assert!(is_for(&reason, handle.append(&[next[0].as_bytes()], &cancel)), "append to a stored session");
    assert!(is_for(&reason, handle.flush(&cancel)), "flush of a stored session");
    assert!(is_for(&reason, handle.read(0, 1, &cancel)), "read of a stored session");
    assert_eq!(stage.stored("s"), before);
    assert_eq!(read_all(&handle).unwrap(), rows);
    handle.close().unwrap();

    for access in [Read, Write] {
        assert!(is_for(&reason, store.open(&id, access, &cancel)), "open");
        // Nothing stayed claimed, here or elsewhere.
        open(&store, "s", Write).unwrap().close().unwrap();
        stage.writer("s").close().unwrap();
    }
    assert_eq!(list(&store).len(), 1);
    assert_eq!(stage.stored("s"), before);
    Ok(())
}

pub(crate) fn r134_cancelling_in_the_middle_undoes_no_durable_step(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store_small(2);
    let store = stage.instance();
    let handle = open(&store, "s", Write).unwrap();
    append(&handle, &rows_by("stored", 2..3)).unwrap();
    let cancel = Cancel::new();
    let late = cancel.clone();
    stage
        .storage()
        .before_next(Step::Write, Box::new(move || late.cancel(Arc::new(Closed) as CancelReason)))?;
    let rows = rows_by("stored", 3..4);
    let appended = handle.append(&[rows[0].as_bytes()], &cancel);
    // Either it was still left undone, or it is stored and says so.
    let expected = match appended {
        Ok(()) => rows_by("stored", 0..4),
        Err(Error::Cancelled { .. }) => rows_by("stored", 0..3),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(stage.read(), expected);
    assert_eq!(handle.next_seq(), Some(expected.len() as u64));
    flush(&handle).unwrap();
    handle.close().unwrap();

    // An open that is cancelled under way gives back what it took.
    let cancel = Cancel::new();
    let late = cancel.clone();
    stage
        .storage()
        .before_next(Step::Lock, Box::new(move || late.cancel(Arc::new(Closed) as CancelReason)))?;
    let opened = store.open(&Text::from("s"), Write, &cancel);
    assert!(matches!(opened, Err(Error::Cancelled { .. })), "{opened:?}");
    open(&store, "s", Write).unwrap().close().unwrap();
    assert_eq!(stage.writer("s").next_seq(), Some(expected.len() as u64));
    Ok(())
}
