//! Others at work on the same files: a writer that hangs, a second writer, and hands that replace, cut and remove.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Command;

use seslog::Error;
use seslog::container::Encoding;
use seslog::store::{FileStore, SessionAccess};

use crate::common::sessions::{append, header, options, read_all, rows_by};
use crate::program::{Root, row};

/// Sends a signal by name.
fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_writer_that_hangs_with_the_lock_keeps_others_out_at_once_and_readers_in() {
    for encoding in ["indexed", "zstd", "plain"] {
        let root = Root::new();
        root.session("s", encoding, 2);
        let mut hanging = root.spawn(&["append", "s", "--json"]);
        let mut stdin = hanging.stdin.take().unwrap();
        let mut stdout = BufReader::new(hanging.stdout.take().unwrap());
        stdin.write_all(row(2).as_bytes()).unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.contains("\"nextSeq\":3"), "{line}");
        signal("STOP", hanging.id());
        // It may be stopped in the middle of anything; here it waits for rows.
        let refused = root.run_with(&["append", "s"], row(3).as_bytes()).expect(1);
        let refused = refused.says("open for writing elsewhere").says(&hanging.id().to_string());
        assert!(refused.stdout.is_empty());
        root.run(&["recover", "s"]).expect(1).says("open for writing elsewhere");
        assert_eq!(root.events("s").len(), 3, "{encoding}: readers do not wait");
        root.run(&["stat", "s"]).expect(0);
        hanging.kill().unwrap();
        hanging.wait().unwrap();
        root.append("s", 3..4);
        assert_eq!(root.events("s").len(), 4, "{encoding}");
    }
}

/// Two writers in two processes over one folder, one of them past the lock: whoever wrote second is refused, and nothing of the
/// first is lost.
#[test]
fn a_second_writer_that_went_past_the_lock_is_noticed_before_a_row_is_at_stake() {
    for encoding in Encoding::ALL {
        let root = Root::new();
        let path = root.session("s", encoding.name(), 2);
        let store = FileStore::with_options(root.path(), options(encoding));
        let handle = store.open(&"s".into(), SessionAccess::Write).unwrap();
        append(&handle, &[row(2).trim_end().to_owned()]).unwrap();
        // Somebody takes the lock file away, which frees the way for a second process.
        fs::remove_file(path.with_file_name("session.lock")).unwrap();
        root.append("s", 3..6);
        let before = fs::read(&path).unwrap();
        match append(&handle, &[row(3).trim_end().to_owned()]) {
            Err(Error::Foreign { what, .. }) => assert!(what.contains("this writer left"), "{what}"),
            other => panic!("{encoding}: {other:?}"),
        }
        assert_eq!(fs::read(&path).unwrap(), before, "{encoding}");
        assert_eq!(root.events("s").len(), 6, "{encoding}");
    }
}

#[test]
fn a_log_that_is_replaced_or_removed_under_a_reader_is_read_or_refused_and_never_mixed() {
    for encoding in Encoding::ALL {
        let scratch = tempfile::tempdir().unwrap();
        let store = FileStore::with_options(scratch.path().join("root"), options(encoding));
        let write = |id: &str, by: &str, count: u64| {
            let handle = store.create(header(id), None).unwrap();
            append(&handle, &rows_by(by, 0..count)).unwrap();
            handle.close().unwrap();
            store.stat(&id.into()).unwrap().unwrap().path
        };
        let path = write("s", "first", 50);
        let reader = store.open(&"s".into(), SessionAccess::Read).unwrap();
        assert_eq!(read_all(&reader).unwrap(), rows_by("first", 0..50));

        // A restored backup of the same session, longer than what was seen.
        let kept = fs::read(&path).unwrap();
        let elsewhere = FileStore::with_options(scratch.path().join("elsewhere"), options(encoding));
        let handle = elsewhere.create(header("s"), None).unwrap();
        append(&handle, &rows_by("other", 0..70)).unwrap();
        handle.close().unwrap();
        fs::rename(elsewhere.stat(&"s".into()).unwrap().unwrap().path, &path).unwrap();
        let rows = read_all(&reader).unwrap();
        assert_eq!(rows, rows_by("other", 0..70), "{encoding}: one log or the other, whole");

        // A shorter one.
        fs::write(path.with_extension("tmp"), &kept).unwrap();
        fs::rename(path.with_extension("tmp"), &path).unwrap();
        match read_all(&reader) {
            Err(Error::Shrank { seen: 70, found: 50, .. }) => {}
            other => panic!("{encoding}: {other:?}"),
        }

        // Gone, while a read is held open and while the name is.
        let reader = store.open(&"s".into(), SessionAccess::Read).unwrap();
        let events = reader.read(0, 20).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(events.rows().count(), 20, "{encoding}: what was read stays");
        assert!(matches!(read_all(&reader), Err(Error::NotFound { .. })), "{encoding}");
    }
}
