//! The seam as a host sees it: trait objects, and the caller's own cancellation.

use std::sync::Arc;

use seslog::Error;
use seslog::json::Text;
use seslog::row::Header;
use seslog::store::{Cancel, CancelReason, FileStore, SessionAccess, SessionPersistence};
use seslog::units::{Generation, UnixMs};

#[derive(Debug, thiserror::Error)]
#[error("the user closed the window")]
struct Closed;

fn header() -> Header {
    Header::new(Generation::CURRENT, Text::from("s"), UnixMs::new(1)).unwrap()
}

fn cancelled() -> (Cancel, CancelReason) {
    let reason: CancelReason = Arc::new(Closed);
    let cancel = Cancel::new();
    cancel.cancel(Arc::clone(&reason));
    (cancel, reason)
}

const ROW: &[u8] = b"{\"type\":\"turn/start\",\"seq\":0,\"time\":1,\"data\":{\"turn\":1}}";

#[test]
fn r134_a_cancelled_call_fails_with_the_very_reason_and_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let store: Box<dyn SessionPersistence> = Box::new(FileStore::new(root.path()));
    let (cancel, reason) = cancelled();
    let is_reason = |error: Error| match error {
        Error::Cancelled { reason: found } => Arc::ptr_eq(&found, &reason),
        _ => false,
    };
    let id = Text::from("s");
    assert!(is_reason(store.create(header(), None, &cancel).unwrap_err()));
    let handle = store.create(header(), None, &Cancel::never()).expect("nothing was reserved");
    assert!(is_reason(handle.append(&[ROW], &cancel).unwrap_err()));
    assert!(is_reason(handle.flush(&cancel).unwrap_err()));
    assert!(is_reason(handle.read(0, 1, &cancel).unwrap_err()));
    assert!(is_reason(store.stat(&id, &cancel).unwrap_err()));
    assert!(is_reason(store.list(&cancel).unwrap_err()));
    assert!(std::fs::read_dir(root.path()).unwrap().next().is_none(), "nothing is on disk");
    handle.append(&[ROW], &Cancel::never()).expect("the seq stayed free");
    handle.close().unwrap();
    assert!(is_reason(store.open(&id, SessionAccess::Write, &cancel).unwrap_err()));
    let handle = store.open(&id, SessionAccess::Write, &Cancel::never()).expect("nothing stayed claimed");
    assert_eq!(handle.read(0, 10, &Cancel::never()).unwrap().len(), 1);
}

#[test]
fn closing_the_instance_closes_every_handle() {
    let root = tempfile::tempdir().unwrap();
    let store: Arc<dyn SessionPersistence> = Arc::new(FileStore::new(root.path()));
    let handle = store.create(header(), None, &Cancel::never()).unwrap();
    handle.append(&[ROW], &Cancel::never()).unwrap();
    let reader = store.open(&Text::from("s"), SessionAccess::Read, &Cancel::never()).unwrap();
    store.flush().unwrap();
    store.close().unwrap();
    let closed = reader.read(0, 1, &Cancel::never());
    assert!(matches!(closed, Err(Error::HandleClosed { operation: "read", .. })), "{closed:?}");
    let closed = handle.append(&[ROW], &Cancel::never());
    assert!(matches!(closed, Err(Error::HandleClosed { operation: "append", .. })), "{closed:?}");
}
