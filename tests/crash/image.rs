//! One disk as a power loss left it: what it must hold, and that work goes on there.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seslog::container::Encoding;
use seslog::container::disk::Disk;
use seslog::container::disk::fault::{FaultDisk, FileLoss};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::store::{
    FileStore, Item, LogFile, ReadMode, Report, ScanOptions, SessionAccess, State, Verdict, recover, scan,
};
use seslog::{Error, Result};

use crate::common::sessions::{append, options, read, read_all, row_by};

pub(crate) const ROOT: &str = "/store";
pub(crate) const ID: &str = "s";

/// What may be found: `acked` must be there, a beginning of `inflight` may follow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    pub(crate) acked: Vec<String>,
    pub(crate) inflight: Vec<String>,
    /// The log itself was acknowledged, even if it has no events.
    pub(crate) is_stored: bool,
    /// Bytes that a repair cuts off; they must stand in a file beside the log once they are not in it any more.
    pub(crate) torn: Option<(u64, Vec<u8>)>,
    /// A file that nothing may change: the source of a migration.
    pub(crate) source: Option<(PathBuf, Vec<u8>)>,
    /// The log was damaged before, not only cut: no verdict is demanded until it was recovered.
    pub(crate) was_damaged: bool,
    /// The system took a write in two pieces.
    pub(crate) was_split: bool,
    /// Files that a run publishes beside the log of the store.
    pub(crate) outputs: Vec<Output>,
}

/// A file that is published whole or not at all.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
    /// Its publication was acknowledged.
    pub(crate) is_there: bool,
}

/// What a published file holds.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// A sound log that begins with these rows.
    Rows(Vec<String>),
    /// Exactly these bytes.
    Bytes(Vec<u8>),
}

impl Output {
    fn check(&self, image: &FaultDisk, what: &str) {
        let path = self.path.display();
        let Some(bytes) = image.content(&self.path) else {
            assert!(!self.is_there, "{what}: {path} was acknowledged and is gone");
            return;
        };
        match &self.content {
            Content::Bytes(whole) => assert!(*whole == bytes, "{what}: {path} is not whole"),
            Content::Rows(rows) => {
                let found = rows_of(image, &self.path);
                assert!(found.starts_with(rows), "{what}: {path} has {} of {} rows", found.len(), rows.len());
            }
        }
    }
}

/// The rows of the log at `path`, which must be sound.
pub(crate) fn rows_of(disk: &FaultDisk, path: &Path) -> Vec<String> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let log = LogFile::open(&disk, path, Limits::DEFAULT, ReadMode::Read).expect("the log opens");
    let mut rows = Vec::new();
    let report = scan(&log, ScanOptions::STRICT, &mut |item| {
        if let Item::Row { row, .. } = item {
            rows.push(row.line().to_owned());
        }
        Ok(ControlFlow::Continue(()))
    });
    assert_eq!(report.expect("the log can be read").verdict, Verdict::Sound, "{}", path.display());
    rows
}

impl Journal {
    /// Everything that was ever handed to the store.
    fn offered(&self) -> Vec<String> {
        [&self.acked[..], &self.inflight].concat()
    }
}

/// How an image was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) served: Vec<String>,
    /// `None` where no log is.
    pub(crate) verdict: Option<Verdict>,
}

pub(crate) fn store_on(disk: &FaultDisk, encoding: Encoding) -> FileStore {
    FileStore::on_disk(Arc::new(disk.clone()), ROOT, options(encoding))
}

/// A machine of its own with the same disk, everything on it durable.
pub(crate) fn fresh(disk: &FaultDisk) -> FaultDisk {
    disk.crash_image(0, FileLoss::KeepAll)
}

/// Path of the one log on a disk.
pub(crate) fn log_path(disk: &FaultDisk) -> Option<PathBuf> {
    disk.paths().into_iter().find(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        ["session.v2.jsonl.zst", "session.v2.jsonl.zstd", "session.v2.jsonl"].contains(&name.as_str())
    })
}

/// Walks the log at `path` from the head.
pub(crate) fn judge(disk: &FaultDisk, path: &Path) -> Report {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let log = LogFile::open(&disk, path, Limits::DEFAULT, ReadMode::Read).expect("the log opens");
    scan(&log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(()))).expect("the log can be read")
}

/// Checks an image against the journal, and goes on in it. `what` names it.
pub(crate) fn check(image: &FaultDisk, encoding: Encoding, journal: &Journal, what: &str) -> Found {
    let found = look(image, encoding, journal, what);
    go_on(&fresh(image), encoding, &found, journal, what);
    found
}

/// Reads an image in every way, and changes nothing.
fn look(image: &FaultDisk, encoding: Encoding, journal: &Journal, what: &str) -> Found {
    let store = store_on(image, encoding);
    let id = Text::from(ID);
    let stat = store.stat(&id).unwrap();
    let listed = store.list().unwrap();
    check_set_aside(image, journal, what);
    if let Some((path, bytes)) = &journal.source {
        assert_eq!(image.content(path).as_ref(), Some(bytes), "{what}: the source of a migration changed");
    }
    journal.outputs.iter().for_each(|output| output.check(image, what));
    let Some(stat) = stat.filter(|stat| stat.state != State::Empty) else {
        assert!(journal.acked.is_empty() && !journal.is_stored, "{what}: the log is gone");
        assert!(listed.iter().all(|one| one.state == State::Empty), "{what}: {listed:?}");
        return Found { served: Vec::new(), verdict: None };
    };
    assert_eq!(listed.len(), 1, "{what}: {listed:?}");
    let report = judge(image, &stat.path);
    let verdict = report.verdict;
    // Nothing at the end of a plain log tells of lines before it that did not land.
    let is_hidden = encoding == Encoding::Plain && verdict == Verdict::DamagedTail && stat.state == State::Ok;
    assert!(is_hidden || stat.state == State::from(verdict), "{what}: {stat:?}, but {verdict:?}");
    if !is_possible(image, &stat.path, &report, encoding, journal) {
        panic!("{what}: {verdict:?}, {:?}, {:?}", report.tail, report.findings);
    }
    let reader = store.open(&id, SessionAccess::Read).unwrap();
    let served = match read_all(&reader) {
        // What is before the damage is served to those who ask for no more.
        Err(Error::DamagedTail { intact, .. }) if verdict == Verdict::DamagedTail => {
            read(&reader, 0, intact).unwrap()
        }
        all => all.unwrap_or_else(|error| panic!("{what}: {error}")),
    };
    let shown =
        |rows: &[String]| rows.iter().map(|row| &row[..row.len().min(90)]).collect::<Vec<_>>().join("\n");
    assert!(
        served.starts_with(&journal.acked),
        "{what}: {} acknowledged events, {} served:\n{}",
        journal.acked.len(),
        served.len(),
        shown(&served)
    );
    let offered = journal.offered();
    assert!(offered.starts_with(&served), "{what}: invented or twice:\n{}", shown(&served));
    assert!(is_hidden || stat.event_count == Some(served.len() as u64), "{what}: {stat:?}");
    let middle = served.len() / 2;
    let two = served.len().min(middle + 2) - middle;
    assert_eq!(read(&reader, middle as u64, two as u64).unwrap(), served[middle..middle + two], "{what}");
    // Nothing is behind what is served, wherever one begins to read.
    for behind in [0, 1, 9, 35] {
        let from = served.len() as u64 + behind;
        match read(&reader, from, 3) {
            Err(Error::DamagedTail { .. }) if verdict == Verdict::DamagedTail => {}
            // Nobody looks for damage before the place where a read begins.
            Ok(rows)
                if is_hidden && offered.get(from as usize..).is_some_and(|rest| rest.starts_with(&rows)) => {}
            rows => assert_eq!(rows.unwrap(), [""; 0], "{what}: event {from} of {}", served.len()),
        }
    }
    Found { served, verdict: Some(verdict) }
}

/// Whether a crash may leave a log that is judged so. No image of a mere crash is corrupt.
fn is_possible(
    image: &FaultDisk,
    path: &Path,
    report: &Report,
    encoding: Encoding,
    journal: &Journal,
) -> bool {
    match report.verdict {
        Verdict::Sound | Verdict::Torn => true,
        Verdict::Unfinished => encoding == Encoding::Indexed,
        Verdict::DamagedTail if journal.was_damaged => true,
        Verdict::DamagedTail => {
            let bytes = image.content(path).unwrap_or_default();
            let good_end = report.tail.map_or(0, |tail| tail.good_end as usize);
            match encoding {
                // A line feed behind zeros is on the medium, and so the line seems complete: refused, not lost.
                Encoding::Plain => bytes[good_end..].contains(&0),
                // Of the sector in which the good end lies the first piece of a write landed, and zeros are where the second was to
                // be: to the sector's end, or the file's.
                _ if journal.was_split
                    && bytes[good_end..bytes.len().min(good_end / 512 * 512 + 512)].ends_with(&[0]) =>
                {
                    true
                }
                // All is there but less than eight bytes of a last sector that the file's end cuts short: too few zeros to
                // prove anything.
                _ => {
                    let border = bytes.len() / 512 * 512;
                    border > good_end
                        && bytes.len() - border < 8
                        && bytes[border..].iter().all(|&byte| byte == 0)
                }
            }
        }
        _ => false,
    }
}

/// What was cut off the log must stand beside it.
fn check_set_aside(image: &FaultDisk, journal: &Journal, what: &str) {
    let Some((offset, torn)) = &journal.torn else { return };
    let path = log_path(image).expect("the log was there");
    let bytes = image.content(&path).unwrap_or_default();
    let in_place = bytes.get(*offset as usize..).is_some_and(|end| end.starts_with(torn));
    if in_place || torn.iter().all(|&byte| byte == 0) {
        return;
    }
    let name = format!("{}.torn-{offset}-{}-", path.file_name().unwrap().to_string_lossy(), torn.len());
    let is_kept = image.paths().into_iter().any(|path| {
        let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        file.starts_with(&name) && !file.ends_with(".tmp") && image.content(&path).as_ref() == Some(torn)
    });
    assert!(is_kept, "{what}: what was cut off was not kept: {:?}", image.paths());
}

/// Opens an image for writing, leaves it alone, opens it again and appends.
fn go_on(image: &FaultDisk, encoding: Encoding, found: &Found, journal: &Journal, what: &str) {
    let store = store_on(image, encoding);
    let before = log_path(image).map(|path| image.content(path).unwrap());
    if found.verdict == Some(Verdict::DamagedTail) {
        let id = Text::from(ID);
        let error = store.open(&id, SessionAccess::Write).unwrap_err();
        assert!(matches!(error, Error::DamagedTail { .. }), "{what}: {error}");
        let disk: Arc<dyn Disk> = Arc::new(image.clone());
        let path = log_path(image).unwrap();
        recover(&disk, &path, Limits::DEFAULT).unwrap();
    } else if found.verdict.is_some() {
        store.open(&Text::from(ID), SessionAccess::Write).unwrap().close().unwrap();
        let after = log_path(image).map(|path| image.content(path).unwrap());
        assert!(before.is_none() || after == before, "{what}: opening writes");
    }
    let mut expected = found.served.clone();
    let attempts = if expected.len() > 20 { 1 } else { 2 };
    for attempt in 0..attempts {
        append_more(&store, "after", 2, &mut expected)
            .unwrap_or_else(|error| panic!("{what}, {attempt}: {error}"));
        let reader = store.open(&Text::from(ID), SessionAccess::Read).unwrap();
        assert_eq!(read_all(&reader).unwrap(), expected, "{what}");
    }
    check_set_aside(image, journal, what);
    let path = log_path(image).unwrap();
    assert_eq!(judge(image, &path).verdict, Verdict::Sound, "{what}");
    let later = image.crash_image(0, FileLoss::DropUnsynced);
    let reader = store_on(&later, encoding).open(&Text::from(ID), SessionAccess::Read).unwrap();
    assert_eq!(read_all(&reader).unwrap(), expected, "{what}: acknowledged and not durable");
}

/// Opens the log, or creates it, and appends `count` rows of `by`, which go to `rows` too.
pub(crate) fn append_more(store: &FileStore, by: &str, count: u64, rows: &mut Vec<String>) -> Result<()> {
    let handle = match store.open(&Text::from(ID), SessionAccess::Write) {
        Err(Error::NotFound { .. }) => store.create(crate::common::sessions::header(ID), None)?,
        opened => opened?,
    };
    let next = handle.next_seq().expect("it writes");
    let more: Vec<String> = (next..next + count).map(|seq| row_by(by, seq, 24)).collect();
    append(&handle, &more)?;
    rows.extend(more);
    handle.close()
}
