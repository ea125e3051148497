//! C7: who sees what, and when.

use std::sync::{Arc, Mutex};

use seslog::Error;
use seslog::container::disk::fault::{FaultDisk, OpKind};
use seslog::json::Text;
use seslog::store::{FileHandle, FileStore, SessionAccess};

use crate::common::sessions::{append, header, options, read_all, row_by, rows_by};
use crate::seam::{ROOT, Seam, once_per_encoding};

once_per_encoding! {
    r083_a_created_session_is_visible_to_its_instance_without_counts,
    r084_a_pending_session_is_invisible_elsewhere_and_gone_after_a_crash,
    r085_what_was_appended_or_flushed_is_seen_by_everybody,
    r086_a_reader_of_a_pending_session_sees_it_once_it_is_written,
    r087_a_log_that_became_shorter_is_an_error,
    r088_another_instance_goes_on_at_the_stored_seq,
    r089_reads_before_the_first_append_read_nothing_again,
    r090_a_read_beside_appends_is_a_prefix_and_ends,
    r090_a_read_beside_a_repair_is_no_corruption,
}

fn r083_a_created_session_is_visible_to_its_instance_without_counts(seam: &Seam) {
    let store = seam.instance();
    let _writer = store.create(header("s"), None).unwrap();
    let stat = store.stat(&Text::from("s")).unwrap().unwrap();
    assert_eq!(stat.header.as_ref(), Some(&header("s")));
    assert_eq!((stat.event_count, stat.size_bytes), (None, None));
    let listed = store.list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].header.as_ref(), listed[0].event_count), (Some(&header("s")), None));
    assert!(read_all(&store.open(&Text::from("s"), SessionAccess::Read).unwrap()).unwrap().is_empty());
}

fn r084_a_pending_session_is_invisible_elsewhere_and_gone_after_a_crash(seam: &Seam) {
    let handle = seam.instance().create(header("s"), None).unwrap();
    let other = seam.instance();
    let id = Text::from("s");
    assert!(other.stat(&id).unwrap().is_none() && other.list().unwrap().is_empty());
    assert!(matches!(other.open(&id, SessionAccess::Read), Err(Error::NotFound { .. })));
    let crashed = seam.killed().instance();
    assert!(crashed.stat(&id).unwrap().is_none());
    crashed.create(header("s"), None).unwrap();

    handle.flush().unwrap();
    assert_eq!(other.stat(&id).unwrap().unwrap().event_count, Some(0));
    assert_eq!(other.list().unwrap().len(), 1);
    append(&handle, &rows_by("a", 0..2)).unwrap();
    assert_eq!(other.stat(&id).unwrap().unwrap().event_count, Some(2));
}

fn r085_what_was_appended_or_flushed_is_seen_by_everybody(seam: &Seam) {
    for store in [seam.instance(), seam.lazy_instance()] {
        let seam = Seam { disk: FaultDisk::new(), encoding: seam.encoding };
        let store = seam.with(*store.options());
        let id = Text::from("s");
        let writer = store.create(header("s"), None).unwrap();
        let old = store.open(&id, SessionAccess::Read).unwrap();
        for seq in 0..5 {
            append(&writer, &rows_by("a", seq..seq + 1)).unwrap();
            let expected = rows_by("a", 0..seq + 1);
            let new = store.open(&id, SessionAccess::Read).unwrap();
            for handle in [&old, &new, &writer] {
                assert_eq!(read_all(handle).unwrap(), expected);
            }
            assert_eq!(store.stat(&id).unwrap().unwrap().event_count, Some(seq + 1));
            assert_eq!(store.list().unwrap()[0].event_count, Some(seq + 1));
        }
        writer.flush().unwrap();
        assert_eq!(seam.read(), rows_by("a", 0..5));
    }
}

fn r086_a_reader_of_a_pending_session_sees_it_once_it_is_written(seam: &Seam) {
    let store = seam.instance();
    let writer = store.create(header("s"), None).unwrap();
    let reader = store.open(&Text::from("s"), SessionAccess::Read).unwrap();
    assert_eq!(reader.header(), &header("s"));
    assert!(read_all(&reader).unwrap().is_empty());
    append(&writer, &rows_by("a", 0..3)).unwrap();
    assert_eq!(read_all(&reader).unwrap(), rows_by("a", 0..3));
}

fn r087_a_log_that_became_shorter_is_an_error(seam: &Seam) {
    seam.store("s", &[rows_by("a", 0..3)]);
    let short = seam.bytes();
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    append(&handle, &rows_by("a", 3..5)).unwrap();
    handle.close().unwrap();
    let whole = seam.bytes();
    let reader = seam.open("s", SessionAccess::Read).unwrap();
    assert_eq!(read_all(&reader).unwrap().len(), 5);
    seam.replace(&short);
    let shrank = read_all(&reader);
    assert!(matches!(shrank, Err(Error::Shrank { seen: 5, found: 3, .. })), "{shrank:?}");
    seam.replace(&whole);
    assert_eq!(read_all(&reader).unwrap().len(), 5);
}

fn r088_another_instance_goes_on_at_the_stored_seq(seam: &Seam) {
    let mut expected = seam.store_small(3);
    for by in ["two", "three", "four"] {
        let handle = seam.open("s", SessionAccess::Write).unwrap();
        let next = handle.next_seq().unwrap();
        assert_eq!(next, expected.len() as u64);
        append(&handle, &rows_by(by, next..next + 2)).unwrap();
        handle.close().unwrap();
        expected.extend(rows_by(by, next..next + 2));
        assert_eq!(seam.read(), expected);
    }
}

fn r089_reads_before_the_first_append_read_nothing_again(seam: &Seam) {
    let rows = seam.store_small(5);
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    seam.disk.forget_trace();
    assert_eq!(read_all(&handle).unwrap(), rows);
    assert_eq!(read_all(&handle).unwrap(), rows);
    assert!(!seam.saw(OpKind::ReadAt) && !seam.saw(OpKind::Open), "{:?}", seam.disk.trace());
}

/// A writer that appends one event before every call of others, a number of times.
struct Restless {
    writer: Arc<FileHandle>,
    left: Mutex<u32>,
}

impl Restless {
    fn interfere(self: &Arc<Self>, disk: &FaultDisk, at: u64) {
        let this = Arc::clone(self);
        disk.before(at, move |disk| {
            // Not before its own calls.
            let Ok(mut left) = this.left.try_lock() else { return };
            if *left > 0 {
                *left -= 1;
                let next = this.writer.next_seq().unwrap();
                append(&this.writer, &[row_by("foreign", next, 40)]).unwrap();
                drop(left);
                // The call that is waiting for this one has the next number.
                this.interfere(disk, disk.ops() + 1);
            }
        });
    }
}

fn r090_a_read_beside_appends_is_a_prefix_and_ends(seam: &Seam) {
    for times in [1, 2, 3, 5, 8, 13, 21, 34, 100] {
        let seam = Seam::new(seam.encoding);
        seam.store("s", &[rows_by("foreign", 0..2)]);
        let writer = seam.open("s", SessionAccess::Write).unwrap();
        append(&writer, &[row_by("foreign", 2, 40)]).unwrap();
        let reader = seam.open("s", SessionAccess::Read).unwrap();
        let restless = Arc::new(Restless { writer, left: Mutex::new(times) });
        restless.interfere(&seam.disk, seam.disk.ops());
        let mut before = 3;
        for _ in 0..4 {
            let served = read_all(&reader).unwrap();
            assert!(served.len() >= before);
            before = served.len();
            let ours = (3..served.len() as u64).map(|seq| row_by("foreign", seq, 40));
            let expected = rows_by("foreign", 0..2).into_iter().chain([row_by("foreign", 2, 40)]).chain(ours);
            assert_eq!(served, expected.collect::<Vec<_>>());
        }
    }
}

// A writer that repairs makes the file shorter under a reader. That is neither damage nor the end of the log.
fn r090_a_read_beside_a_repair_is_no_corruption(seam: &Seam) {
    seam.store("s", &[rows_by("a", 0..2), vec![row_by("a", 2, 5000)]]);
    let mut torn = seam.bytes();
    torn.truncate(torn.len() - 1500);
    for at in 0..14 {
        for reads in [true, false] {
            let seam = Seam { disk: FaultDisk::new(), encoding: seam.encoding };
            seam.replace(&torn);
            let reader = seam.open("s", SessionAccess::Read).unwrap();
            let store = seam.instance();
            let options = options(seam.encoding);
            seam.disk.before(seam.disk.ops() + at, move |disk| {
                let store = FileStore::on_disk(Arc::new(disk.clone()), ROOT, options);
                let writer = store.open(&Text::from("s"), SessionAccess::Write).unwrap();
                append(&writer, &rows_by("b", 2..3)).unwrap();
                writer.close().unwrap();
            });
            if reads {
                let served = read_all(&reader).unwrap_or_else(|error| panic!("call {at}: {error}"));
                assert!(served.len() == 2 || served == [rows_by("a", 0..2), rows_by("b", 2..3)].concat());
                assert_eq!(served[..2], rows_by("a", 0..2));
            } else {
                let stat = store.stat(&Text::from("s")).unwrap().unwrap();
                let is_torn = matches!(stat.error.as_deref(), None | Some(Error::TornTail { .. }));
                assert!(is_torn, "call {at}: {:?}", stat.error);
            }
        }
    }
}
