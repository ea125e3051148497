//! C5: create, open, ownership.

use seslog::Error;
use seslog::container::disk::fault::OpKind;
use seslog::json::Text;
use seslog::store::SessionAccess;

use crate::common::sessions::{header, rows_by};
use crate::seam::{Seam, once_per_encoding};

once_per_encoding! {
    r053_one_write_handle_at_a_time_across_instances,
    r058_a_pending_session_leaves_no_trace_and_looking_takes_no_lock,
    r059_the_lock_file_stays_and_ids_are_independent,
}

fn r053_one_write_handle_at_a_time_across_instances(seam: &Seam) {
    seam.store_small(2);
    let first = seam.open("s", SessionAccess::Write).unwrap();
    let owned = seam.open("s", SessionAccess::Write).unwrap_err();
    assert!(matches!(owned, Error::AlreadyOwned { owner: Some(_), .. }), "{owned:?}");
    first.close().unwrap();
    seam.open("s", SessionAccess::Write).unwrap();
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
