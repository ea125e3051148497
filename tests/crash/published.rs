//! Runs that publish a whole file: conversions, imports, migrations and salvages. It is there whole, or not at all.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seslog::container::disk::Disk;
use seslog::container::disk::fault::FaultDisk;
use seslog::container::{Batch, Encoding, LogId, RowMark, create};
use seslog::limits::Limits;
use seslog::row::Header;
use seslog::store::{
    Item, LogFile, LogWriter, MigrateOptions, MigrationOutcome, ReadMode, ScanOptions, Verdict, migrate,
    restore, salvage, scan,
};
use seslog::{Error, Result};

use crate::common::sessions::{CREATED_AT, fat_rows_by, header, row_by, rows_by};
use crate::harness::{Run, Scenario, fail_each_call, kill_then_lose_power, lose_power_everywhere};
use crate::image::{Content, ID, Journal, Output, fresh};
use crate::scenarios::{empty, older_generation, session_folder, stored};

/// Copies every row of the log at `from` behind the header of `writer`.
fn copy(disk: &FaultDisk, from: &Path, into: impl FnOnce(&[u8], &Header) -> Result<()>) -> Result<()> {
    let log = open(disk, from)?;
    let line = log.header_line()?;
    let header = Header::parse(&line, &Limits::DEFAULT).expect("a header of this generation");
    into(&line, &header)
}

fn open(disk: &FaultDisk, path: &Path) -> Result<LogFile> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    LogFile::open(&disk, path, Limits::DEFAULT, ReadMode::Read)
}

fn push_rows(log: &LogFile, writer: &mut LogWriter<'_>) -> Result<()> {
    let report = scan(log, ScanOptions::STRICT, &mut |item| {
        if let Item::Row { row, .. } = item {
            writer.push(&row)?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    assert_eq!(report.verdict, Verdict::Sound);
    Ok(())
}

/// The encoding that a conversion writes.
fn other(encoding: Encoding) -> Encoding {
    match encoding {
        Encoding::Indexed => Encoding::Zstd,
        Encoding::Zstd => Encoding::Plain,
        _ => Encoding::Indexed,
    }
}

fn copy_path(encoding: Encoding) -> PathBuf {
    PathBuf::from(format!("/elsewhere/copy{}", other(encoding).suffix()))
}

fn to_convert(encoding: Encoding) -> (FaultDisk, Journal) {
    let rows: Vec<String> =
        (0..25).map(|seq| row_by("base", seq, 300)).chain(fat_rows_by("base", 25..33, 10)).collect();
    let (disk, mut journal) = stored(encoding, std::slice::from_ref(&rows));
    disk.plant_dir("/elsewhere");
    let path = source_path(encoding);
    journal.source = Some((path.clone(), disk.content(&path).unwrap()));
    journal.outputs =
        vec![Output { path: copy_path(encoding), content: Content::Rows(rows), is_there: false }];
    (fresh(&disk), journal)
}

fn source_path(encoding: Encoding) -> PathBuf {
    session_folder().join(format!("session.v2{}", encoding.suffix()))
}

fn convert(run: &mut Run<'_>) -> Result<()> {
    let (from, to) = (source_path(run.encoding), copy_path(run.encoding));
    let encoding = other(run.encoding);
    copy(run.disk, &from, |line, header| {
        let mut writer = LogWriter::create(run.disk, &to, encoding, 3, line, header.created_at())?;
        push_rows(&open(run.disk, &from)?, &mut writer)?;
        writer.publish(&[]).map(|_| ())
    })?;
    run.journal.outputs[0].is_there = true;
    Ok(())
}

const CONVERT: Scenario = Scenario { name: "conversion", start: to_convert, run: convert };

#[test]
fn a_log_is_converted() {
    lose_power_everywhere(&CONVERT);
    fail_each_call(&CONVERT);
}

const EXPORTED: &str = "/elsewhere/exported.jsonl";

fn to_import(encoding: Encoding) -> (FaultDisk, Journal) {
    let (disk, journal) = empty(encoding);
    let mut text = Vec::new();
    header(ID).write(&mut text);
    text.push(b'\n');
    for row in imported() {
        text.extend(format!("{row}\n").as_bytes());
    }
    disk.plant(EXPORTED, &text);
    let source = Some((PathBuf::from(EXPORTED), text));
    (fresh(&disk), Journal { source, ..journal })
}

fn imported() -> Vec<String> {
    (0..12).map(|seq| row_by("exported", seq, 250)).chain(fat_rows_by("exported", 12..20, 10)).collect()
}

/// As the verbs `import` and `fork` do it: the place is reserved, the log is written and published there.
fn import(run: &mut Run<'_>) -> Result<()> {
    let from = Path::new(EXPORTED);
    let (store, encoding, disk) = (run.store(), run.encoding, run.disk);
    run.journal.inflight = imported();
    copy(disk, from, |line, header| {
        let place = store.reserve(header)?;
        let mut writer = LogWriter::create(disk, place.path(), encoding, 3, line, header.created_at())?;
        push_rows(&open(disk, from)?, &mut writer)?;
        place.publish(writer).map(|_| ())
    })?;
    run.acknowledge();
    Ok(())
}

const IMPORT: Scenario = Scenario { name: "import", start: to_import, run: import };

#[test]
fn a_log_is_imported() {
    lose_power_everywhere(&IMPORT);
    kill_then_lose_power(&IMPORT);
    fail_each_call(&IMPORT);
}

fn to_migrate(encoding: Encoding) -> (FaultDisk, Journal) {
    let (disk, mut journal) = older_generation(encoding);
    let content = Content::Rows(journal.acked.clone());
    journal.outputs = vec![Output { path: source_path(encoding), content, is_there: false }];
    (disk, journal)
}

fn migrate_it(run: &mut Run<'_>) -> Result<()> {
    let disk: Arc<dyn Disk> = Arc::new(run.disk.clone());
    let migrated = migrate(&disk, &session_folder(), &MigrateOptions::default())?;
    assert!(matches!(migrated.outcome, MigrationOutcome::Published { events: 40, .. }), "{migrated:?}");
    run.journal.outputs[0].is_there = true;
    Ok(())
}

const MIGRATE: Scenario = Scenario { name: "migration alone", start: to_migrate, run: migrate_it };

#[test]
fn an_older_generation_is_migrated_on_request() {
    lose_power_everywhere(&MIGRATE);
    fail_each_call(&MIGRATE);
}

/// A migration is for good, a restore is not: it reads an older log as one of today and leaves no trace.
#[test]
fn a_restore_changes_nothing_at_any_call() {
    for encoding in Encoding::ALL {
        let (disk, journal) = older_generation(encoding);
        let (path, bytes) = journal.source.clone().expect("it has a source");
        let mut rows = Vec::new();
        restore(&open(&disk, &path).unwrap(), &mut |row| {
            let mut line = Vec::new();
            row.write_to(&mut line);
            rows.push(String::from_utf8(line).unwrap());
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(rows, journal.acked, "{encoding}");
        let trace = disk.trace();
        assert!(!trace.is_empty() && trace.iter().all(|op| !op.kind.is_change()), "{encoding}: {trace:?}");
        assert_eq!(disk.content(&path), Some(bytes), "{encoding}");
    }
}

const SAVED: &str = "/elsewhere/saved.jsonl";

fn broken_path(encoding: Encoding) -> PathBuf {
    PathBuf::from(format!("/broken/broken{}", encoding.suffix()))
}

/// A log with damage in the middle and numbers that two writers used, and what a salvage makes of it.
fn to_salvage(encoding: Encoding) -> (FaultDisk, Journal) {
    let mut line = Vec::new();
    header(ID).write(&mut line);
    line.push(b'\n');
    let mut bytes = Vec::new();
    let mut writer = create(encoding, LogId::new(9).unwrap(), &line, CREATED_AT, 3, &mut bytes).unwrap();
    let mut damage = 0;
    for (by, seqs) in [("one", 0..3), ("lost", 3..5), ("one", 5..9), ("two", 8..12)] {
        let rows = rows_by(by, seqs);
        if by == "lost" {
            damage = bytes.len() + 40;
        }
        let mut content = Vec::new();
        let mut marks = Vec::new();
        for row in rows {
            content.extend(format!("{row}\n").as_bytes());
            marks.push(RowMark { end: content.len(), events: 1, last_time: CREATED_AT });
        }
        writer.stage(&Batch { content: &content, rows: &marks }, &mut bytes).unwrap();
        writer.accept(true);
    }
    // In plain text a byte that no UTF-8 has; elsewhere any will do.
    bytes[damage] ^= 0xff;
    let disk = FaultDisk::new();
    let path = broken_path(encoding);
    disk.plant(&path, &bytes);
    disk.plant_dir("/elsewhere");
    let uncut = fresh(&disk);
    let saved = salvage(&open(&uncut, &path).unwrap(), Path::new(SAVED)).unwrap();
    assert!(saved.other.is_some() && saved.damaged.is_some() && saved.events > 8, "{encoding}: {saved:?}");
    let outputs = [Some(saved.path), saved.other, saved.damaged].into_iter().flatten().map(|path| Output {
        content: Content::Bytes(uncut.content(&path).unwrap()),
        path,
        is_there: false,
    });
    let outputs = outputs.collect();
    (fresh(&disk), Journal { source: Some((path, bytes)), outputs, ..Journal::default() })
}

fn salvage_it(run: &mut Run<'_>) -> Result<()> {
    match salvage(&open(run.disk, &broken_path(run.encoding))?, Path::new(SAVED)) {
        Ok(_) => {
            run.journal.outputs.iter_mut().for_each(|output| output.is_there = true);
            Ok(())
        }
        Err(error @ (Error::Io { .. } | Error::Aggregate(_))) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

const SALVAGE: Scenario = Scenario { name: "salvage", start: to_salvage, run: salvage_it };

#[test]
fn a_damaged_log_is_salvaged() {
    lose_power_everywhere(&SALVAGE);
    fail_each_call(&SALVAGE);
}
