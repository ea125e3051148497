//! Do released logs migrate, or refuse, the way the original says, with the source untouched even on failure?

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seslog::container::Encoding;
use seslog::container::disk::{Disk, OsDisk};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::Header;
use seslog::store::{
    FileStore, MigrateOptions, MigrationOutcome, SessionAccess, StoreOptions, layout, migrate,
};
use seslog::{Error, format};

fn disk() -> Arc<dyn Disk> {
    Arc::new(OsDisk::new())
}

/// Puts a plain log where its header says, below `root`, and returns the log's path.
fn plant(root: &Path, bytes: &[u8]) -> PathBuf {
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap();
    let header = Header::parse(line, &Limits::DEFAULT).unwrap();
    let folder = layout::session_path(root, header.cwd(), header.id()).unwrap();
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(layout::log_name(header.generation(), Encoding::Plain));
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn the_corpus_migrates_or_refuses_as_the_original_says() {
    let Some(shared) = common::shared() else { return };
    let folder = shared.join("corpus/dsh-v0-restored");
    let index: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("index.json")).unwrap()).unwrap();
    let (mut published, mut refused) = (0, 0);
    for file in index["files"].as_array().unwrap() {
        let name = file["file"].as_str().unwrap();
        let wanted = file["migrates"]["v2"] == serde_json::Value::Bool(true);
        let root = tempfile::tempdir().unwrap();
        let bytes = fs::read(folder.join(name)).unwrap();
        let path = plant(root.path(), &bytes);
        let inode = fs::metadata(&path).unwrap().ino();
        let session = path.parent().unwrap();

        let mut dry = MigrateOptions::default();
        dry.dry_run = true;
        let before = fs::read_dir(session).unwrap().count();
        let rehearsed = migrate(&disk(), session, &dry).unwrap();
        assert_eq!(matches!(rehearsed.outcome, MigrationOutcome::Convertible { .. }), wanted, "{name}");
        assert_eq!(fs::read_dir(session).unwrap().count(), before, "a dry run leaves nothing");

        let migrated = migrate(&disk(), session, &MigrateOptions::default()).unwrap();
        match migrated.outcome {
            MigrationOutcome::Published { path: successor, .. } => {
                assert!(wanted, "{name}");
                published += 1;
                let twin = shared.join("corpus/migrated/v2").join(name);
                assert_eq!(fs::read(&successor).unwrap(), fs::read(twin).unwrap(), "{name}");
                let again = migrate(&disk(), session, &MigrateOptions::default()).unwrap();
                assert!(matches!(again.outcome, MigrationOutcome::Current), "{name}");
            }
            MigrationOutcome::Refused(_) => {
                assert!(!wanted, "{name}");
                refused += 1;
                let left: Vec<_> =
                    fs::read_dir(session).unwrap().map(|entry| entry.unwrap().file_name()).collect();
                assert!(
                    left.iter().all(|name| name == "session.jsonl" || name == "session.lock"),
                    "{left:?}"
                );
            }
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(fs::read(&path).unwrap(), bytes, "{name}: the source keeps its bytes");
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode, "{name}: the source keeps its inode");
    }
    assert_eq!((published, refused), (60, 25));
}

const V0: &str = "{\"type\":\"session\",\"version\":0,\"id\":\"old\",\"createdAt\":5,\"delegationDepth\":0}
{\"type\":\"turn/start\",\"seq\":0,\"time\":6,\"data\":{\"turn\":1}}
{\"type\":\"turn/end\",\"seq\":1,\"time\":7,\"data\":{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}}
";

#[test]
fn reading_an_older_log_converts_in_memory_and_writing_publishes_first() {
    for encoding in Encoding::ALL {
        let root = tempfile::tempdir().unwrap();
        let path = plant(root.path(), V0.as_bytes());
        let source = if encoding == Encoding::Plain {
            path
        } else {
            let session = path.parent().unwrap().to_path_buf();
            let target = session.join(layout::log_name(seslog::units::Generation::V0, encoding));
            convert(&path, &target, encoding);
            fs::remove_file(&path).unwrap();
            target
        };
        let before = fs::read(&source).unwrap();
        let session = source.parent().unwrap();
        let store = FileStore::with_options(root.path(), StoreOptions::default());
        let id = Text::from("old");
        let reader = store.open(&id, SessionAccess::Read).unwrap();
        assert_eq!(reader.header().generation().get(), 2);
        assert_eq!(reader.read(0, 10).unwrap().len(), 2);
        assert_eq!(fs::read_dir(session).unwrap().count(), 1, "reading publishes nothing");

        let writer = store.open(&id, SessionAccess::Write).unwrap();
        assert_eq!(writer.next_seq(), Some(2));
        writer.append(&[b"{\"type\":\"turn/start\",\"seq\":2,\"time\":8,\"data\":{\"turn\":2}}"]).unwrap();
        writer.close().unwrap();
        let snapshot = store.stat(&id).unwrap().unwrap();
        assert_eq!(snapshot.encoding, Some(encoding), "a successor keeps its source's encoding");
        assert_eq!(snapshot.event_count, Some(3));
        assert_eq!(snapshot.older, [source.as_path()]);
        assert_eq!(fs::read(&source).unwrap(), before);
        assert_eq!(reader.read(0, 10).unwrap().len(), 3, "an open reader sees the successor");
    }
}

fn convert(from: &Path, to: &Path, encoding: Encoding) {
    use seslog::store::{Item, LogFile, LogWriter, ReadMode, ScanOptions, scan};
    let disk = disk();
    let log = LogFile::open(&disk, from, Limits::DEFAULT, ReadMode::Map).unwrap();
    let header = log.header_line().unwrap();
    let mut writer =
        LogWriter::create(&*disk, to, encoding, 3, &header, seslog::units::UnixMs::new(5)).unwrap();
    scan(&log, ScanOptions::STRICT, &mut |item| {
        if let Item::Row { row, .. } = item {
            writer.push(&row)?;
        }
        Ok(std::ops::ControlFlow::Continue(()))
    })
    .unwrap();
    writer.publish(&[]).unwrap();
}

#[test]
fn a_refused_log_opens_for_nobody_and_stays_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let bytes = V0.replace("turn/end", "acme/unknown");
    let path = plant(root.path(), bytes.as_bytes());
    let store = FileStore::new(root.path());
    let id = Text::from("old");
    for _ in 0..2 {
        let error = store.open(&id, SessionAccess::Write).unwrap_err();
        let Error::Refused { source, .. } = error else { panic!("{error:?}") };
        assert_eq!(
            (source.class(), source.code()),
            (format::Class::Unsupported, format::Code::V0UnknownEvent)
        );
    }
    assert!(matches!(store.open(&id, SessionAccess::Read), Err(Error::Refused { .. })));
    assert_eq!(fs::read(&path).unwrap(), bytes.as_bytes());
}

#[test]
fn a_successor_that_holds_something_else_is_never_replaced() {
    let root = tempfile::tempdir().unwrap();
    let path = plant(root.path(), V0.as_bytes());
    let other = path.with_file_name("session.v2.jsonl");
    fs::write(&other, "not a log\n").unwrap();
    let result = migrate(&disk(), path.parent().unwrap(), &MigrateOptions::default());
    assert!(matches!(result, Err(Error::Corruption { .. })), "the highest generation decides: {result:?}");
    assert_eq!(fs::read(&other).unwrap(), b"not a log\n");
}
