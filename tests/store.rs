//! The store on the real file system, once per encoding.

use seslog::container::Encoding;
use seslog::json::Text;
use seslog::row::{Header, RowFault};
use seslog::store::{FileStore, SessionAccess, State, StoreOptions};
use seslog::units::{Generation, UnixMs};
use seslog::{Error, Result};

fn options(encoding: Encoding) -> StoreOptions {
    let mut options = StoreOptions::default();
    options.encoding = encoding;
    options
}

fn header(id: &str) -> Header {
    Header::new(Generation::V2, Text::from(id), UnixMs::new(1_700_000_000_000)).unwrap()
}

fn row(seq: u64) -> String {
    format!(
        "{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":{},\"data\":{{\"active\":true}}}}",
        1_700_000_000_000 + seq
    )
}

fn append(handle: &seslog::store::FileHandle, seqs: std::ops::Range<u64>) -> Result<()> {
    let rows: Vec<String> = seqs.map(row).collect();
    let rows: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
    handle.append(&rows)
}

#[test]
fn created_sessions_are_lazy_then_durable_then_reopened() {
    for encoding in Encoding::ALL {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let store = FileStore::with_options(&root, options(encoding));
        let handle = store.create(header("s-1"), None).unwrap();
        assert!(!root.exists(), "nothing is on disk before the first append");
        assert_eq!(handle.read(0, 10).unwrap().len(), 0);
        append(&handle, 0..3).unwrap();
        append(&handle, 3..4).unwrap();
        assert_eq!(
            handle.read(1, 2).unwrap().rows().collect::<Vec<_>>(),
            [row(1).as_bytes(), row(2).as_bytes()]
        );
        assert!(matches!(append(&handle, 7..8), Err(Error::SeqMismatch { expected: 4, actual: 7, .. })));
        let id = Text::from("s-1");
        assert!(matches!(store.open(&id, SessionAccess::Write), Err(Error::AlreadyOwned { .. })));
        let second = FileStore::with_options(&root, options(encoding));
        assert!(matches!(second.open(&id, SessionAccess::Write), Err(Error::AlreadyOwned { .. })));
        let reader = second.open(&id, SessionAccess::Read).unwrap();
        assert_eq!(reader.read(0, u64::MAX).unwrap().len(), 4);
        append(&handle, 4..600).unwrap();
        assert_eq!(reader.read(0, u64::MAX).unwrap().len(), 600);
        assert_eq!(reader.read(299, 2).unwrap().rows().next().unwrap(), row(299).as_bytes());
        handle.close().unwrap();
        assert!(matches!(append(&handle, 600..601), Err(Error::HandleClosed { .. })));
        let handle = second.open(&id, SessionAccess::Write).unwrap();
        assert_eq!(handle.next_seq(), Some(600));
        append(&handle, 600..601).unwrap();
        let snapshots = store.list().unwrap();
        assert_eq!(snapshots.len(), 1);
        assert_eq!((snapshots[0].state, snapshots[0].event_count), (State::Ok, Some(601)), "{encoding}");
        assert_eq!(snapshots[0].encoding, Some(encoding));
        handle.close().unwrap();
    }
}

#[test]
fn the_last_events_are_read_without_knowing_how_many_there_are() {
    let root = tempfile::tempdir().unwrap();
    for (encoding, cut) in Encoding::ALL.into_iter().flat_map(|encoding| [(encoding, 0), (encoding, 3)]) {
        let store = FileStore::with_options(root.path(), options(encoding));
        let id = format!("{encoding}-{cut}");
        let writer = store.create(header(&id), None).unwrap();
        assert!(writer.read_last(5).unwrap().is_empty());
        (0..40).step_by(4).for_each(|seq| append(&writer, seq..seq + 4).unwrap());
        assert_eq!(
            writer.read_last(1).unwrap().iter().map(|event| event.seq().get()).collect::<Vec<_>>(),
            [39]
        );
        writer.close().unwrap();
        let path = store.stat(&Text::from(id.as_str())).unwrap().unwrap().path;
        let log = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        log.set_len(log.metadata().unwrap().len() - cut).unwrap();

        for access in [SessionAccess::Read, SessionAccess::Write] {
            let handle = store.open(&Text::from(id.as_str()), access).unwrap();
            let all: Vec<Vec<u8>> = handle.read(0, u64::MAX).unwrap().rows().map(<[u8]>::to_vec).collect();
            assert!(if cut == 0 { all.len() == 40 } else { (36..40).contains(&all.len()) }, "{id}");
            for count in [0, 1, 3, 5, 39, 40, 41, u64::MAX] {
                let last: Vec<Vec<u8>> =
                    handle.read_last(count).unwrap().rows().map(<[u8]>::to_vec).collect();
                let from = all.len().saturating_sub(usize::try_from(count).unwrap());
                assert_eq!(last, all[from..], "{id}: the last {count}");
            }
        }
    }
}

#[test]
fn a_torn_end_is_set_aside_by_the_next_append_and_nothing_before_it_changes() {
    for encoding in Encoding::ALL {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::with_options(dir.path(), options(encoding));
        let handle = store.create(header("s"), None).unwrap();
        append(&handle, 0..5).unwrap();
        append(&handle, 5..40).unwrap();
        handle.close().unwrap();
        let id = Text::from("s");
        let path = store.stat(&id).unwrap().unwrap().path;
        let whole = std::fs::read(&path).unwrap();
        for cut in 1..120 {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let snapshot = store.stat(&id).unwrap().unwrap();
            let on_border = encoding == Encoding::Plain && whole[whole.len() - cut - 1] == b'\n';
            assert_eq!(
                snapshot.state,
                if on_border { State::Ok } else { State::Torn },
                "{encoding} cut {cut}"
            );
            let kept = snapshot.event_count.unwrap();
            let handle = store.open(&id, SessionAccess::Write).unwrap();
            assert_eq!(handle.next_seq(), Some(kept));
            append(&handle, kept..kept + 2).unwrap();
            handle.close().unwrap();
            let snapshot = store.stat(&id).unwrap().unwrap();
            assert_eq!(
                (snapshot.state, snapshot.event_count),
                (State::Ok, Some(kept + 2)),
                "{encoding} cut {cut}"
            );
            let now = std::fs::read(&path).unwrap();
            let border = now.iter().zip(&whole).take_while(|(a, b)| a == b).count();
            assert!(border + 700 > whole.len().min(now.len()) || encoding == Encoding::Indexed);
            let aside = std::fs::read_dir(path.parent().unwrap())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| name.contains(".torn-"))
                .count();
            assert_eq!(aside, usize::from(!on_border), "{encoding} cut {cut}");
            for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
                let entry = entry.unwrap();
                if entry.file_name().to_string_lossy().contains(".torn-") {
                    std::fs::remove_file(entry.path()).unwrap();
                }
            }
        }
    }
}

/// A retried append behind half a row makes a line that begins and ends like an event.
#[test]
fn a_fused_line_of_a_plain_log_is_never_read_as_an_event() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileStore::with_options(dir.path(), options(Encoding::Plain));
    let handle = store.create(header("s"), None).unwrap();
    append(&handle, 0..2).unwrap();
    handle.close().unwrap();
    let id = Text::from("s");
    let path = store.stat(&id).unwrap().unwrap().path;
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"type\":\"plan/mode\",\"seq\":2,\"time\":5,\"data\":{\"text\":\"hal");
    text.push_str(&format!("{}\n{}\n", row(2), row(3)));
    std::fs::write(&path, text).unwrap();
    let reader = store.open(&id, SessionAccess::Read).unwrap();
    for (from, length) in [(0, u64::MAX), (0, 3), (2, 1)] {
        let read = reader.read(from, length);
        assert!(
            read.is_err()
                || read.as_ref().is_ok_and(|events| events.rows().all(|row| !row.ends_with(b"}}}}"))),
            "{read:?}"
        );
        if let Ok(events) = read {
            assert!(from + events.len() as u64 <= 2, "{events:?}");
        }
    }
}

#[test]
fn a_row_that_is_two_lines_is_refused_and_its_seq_stays_free() {
    // It was stored: the next open then found half a row, in a log whose append had been acknowledged.
    for encoding in Encoding::ALL {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::with_options(dir.path(), options(encoding));
        let handle = store.create(header("s-1"), None).unwrap();
        let two_lines = row(1).replacen(',', ",\n", 1);
        let refused = handle.append(&[row(0).as_bytes(), two_lines.as_bytes()]).unwrap_err();
        let Error::InvalidRow { index, source } = refused else { panic!("{refused}") };
        assert_eq!((index, source), (1, RowFault::LineFeed { offset: 20 }));
        append(&handle, 0..2).unwrap();
        handle.close().unwrap();
        let reader = store.open(&Text::from("s-1"), SessionAccess::Read).unwrap();
        assert_eq!(reader.read(0, 9).unwrap().len(), 2, "{encoding}");
    }
}

#[test]
fn an_older_log_whose_conversion_does_not_read_back_is_refused() {
    // Two sources became one event: reading went on, and the first look at its events panicked.
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("_no-cwd").join("x5g");
    std::fs::create_dir_all(&folder).unwrap();
    let vector = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/vectors/migration/refuse-verify-duplicate-sources/source.jsonl"
    );
    std::fs::copy(vector, folder.join("session.v1.jsonl")).unwrap();
    let read = FileStore::new(dir.path())
        .open(&Text::from("x5g"), SessionAccess::Read)
        .and_then(|reader| Ok(reader.read(0, u64::MAX)?.iter().count()));
    assert!(matches!(read, Err(Error::Refused { .. })), "{read:?}");
}
