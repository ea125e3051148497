//! The runs that are cut.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use seslog::Result;
use seslog::container::disk::Disk;
use seslog::container::disk::fault::FaultDisk;
use seslog::container::{Batch, Encoding, LogId, RowMark, create};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::{Check, PhysicalRow};
use seslog::store::{FileStore, LogWriter, SessionAccess, Verdict, recover};
use seslog::units::{Generation, UnixMs};

use crate::common::sessions::{
    CREATED_AT, append, fat_rows_by, header, options_on_flush, read_all, row_by, row_of, rows_by,
};
use crate::harness::{
    Run, Scenario, fail_each_call, fail_each_sync, kill_then_lose_power, lose_power_everywhere, torn_of,
};
use crate::image::{ID, Journal, ROOT, fresh, judge, log_path, store_on};

pub(crate) fn empty(_: Encoding) -> (FaultDisk, Journal) {
    (FaultDisk::new(), Journal::default())
}

/// A log of `batches`.
pub(crate) fn stored(encoding: Encoding, batches: &[Vec<String>]) -> (FaultDisk, Journal) {
    let disk = FaultDisk::new();
    let store = store_on(&disk, encoding);
    let handle = store.create(header(ID), None).unwrap();
    handle.flush().unwrap();
    for batch in batches {
        append(&handle, batch).unwrap();
    }
    handle.close().unwrap();
    (fresh(&disk), Journal { acked: batches.concat(), is_stored: true, ..Journal::default() })
}

/// A log of `before`, and `last` behind it as far as `cut` leaves it: its bytes, and where the last append starts.
fn cut_short(
    encoding: Encoding,
    before: &[Vec<String>],
    last: Vec<String>,
    cut: fn(&mut Vec<u8>, usize),
) -> (FaultDisk, Journal) {
    let (disk, mut journal) = stored(encoding, before);
    let path = log_path(&disk).unwrap();
    let start = disk.content(&path).unwrap().len();
    let store = store_on(&disk, encoding);
    let handle = store.open(&Text::from(ID), SessionAccess::Write).unwrap();
    append(&handle, &last).unwrap();
    handle.close().unwrap();
    let mut bytes = disk.content(&path).unwrap();
    cut(&mut bytes, start);
    disk.plant(&path, &bytes);
    let disk = fresh(&disk);
    let report = judge(&disk, &path);
    journal.acked.extend(last.into_iter().take(report.events as usize - journal.acked.len()));
    journal.torn = torn_of(&disk);
    journal.was_damaged = report.verdict == Verdict::DamagedTail;
    (disk, journal)
}

fn create_and_append(run: &mut Run<'_>) -> Result<()> {
    let handle = run.store().create(header(ID), None)?;
    run.append(&handle, rows_by("first", 0..3))?;
    handle.close()
}

pub(crate) const CREATE: Scenario =
    Scenario { name: "create and append", start: empty, run: create_and_append };

#[test]
fn a_session_is_created() {
    lose_power_everywhere(&CREATE);
}

#[test]
fn a_session_is_created_by_a_process_that_is_killed() {
    kill_then_lose_power(&CREATE);
}

fn one_log(encoding: Encoding) -> (FaultDisk, Journal) {
    stored(encoding, &[rows_by("base", 0..2)])
}

fn several_appends(run: &mut Run<'_>) -> Result<()> {
    let handle = run.store().open(&Text::from(ID), SessionAccess::Write)?;
    run.append(&handle, rows_by("first", 2..3))?;
    run.append(&handle, (3..6).map(|seq| row_by("first", seq, 700)).collect())?;
    run.append(&handle, vec![row_by("first", 6, 2600)])?;
    run.append(&handle, rows_by("first", 7..9))?;
    handle.close()
}

const SEVERAL: Scenario = Scenario { name: "several appends", start: one_log, run: several_appends };

#[test]
fn several_batches_are_appended() {
    lose_power_everywhere(&SEVERAL);
}

#[test]
fn several_batches_are_appended_by_a_process_that_is_killed() {
    kill_then_lose_power(&SEVERAL);
}

fn large_append(run: &mut Run<'_>) -> Result<()> {
    let handle = run.store().open(&Text::from(ID), SessionAccess::Write)?;
    run.append(&handle, fat_rows_by("first", 2..62, 60))?;
    run.append(&handle, rows_by("first", 62..63))?;
    handle.close()
}

#[test]
fn a_batch_of_several_segments_is_appended() {
    lose_power_everywhere(&Scenario { name: "large append", start: one_log, run: large_append });
}

fn append_behind(run: &mut Run<'_>) -> Result<()> {
    let handle = run.store().open(&Text::from(ID), SessionAccess::Write)?;
    let next = handle.next_seq().unwrap();
    run.append(&handle, rows_by("first", next..next + 2))?;
    run.append(&handle, vec![row_by("first", next + 2, 900)])?;
    handle.close()
}

fn cut_at(encoding: Encoding) -> (FaultDisk, Journal) {
    let last = (2..5).map(|seq| row_by("lost", seq, 600)).collect();
    cut_short(encoding, &[rows_by("base", 0..2)], last, |bytes, start| bytes.truncate(start + 777))
}

fn half_landed(encoding: Encoding) -> (FaultDisk, Journal) {
    let last = vec![row_by("lost", 2, 4000)];
    cut_short(encoding, &[rows_by("base", 0..2)], last, |bytes, start| {
        let lost = start.next_multiple_of(512) + 512;
        // In a plain log only zeros that reach the end are taken for a write that did not land.
        let end = if bytes.starts_with(b"{") { bytes.len() } else { lost + 512 };
        bytes[lost..end].fill(0);
    })
}

fn all_zero(encoding: Encoding) -> (FaultDisk, Journal) {
    let last = vec![row_by("lost", 2, 2000)];
    cut_short(encoding, &[rows_by("base", 0..2)], last, |bytes, start| bytes[start..].fill(0))
}

#[test]
fn a_torn_end_is_repaired_and_appended_to() {
    lose_power_everywhere(&Scenario { name: "repair of a cut", start: cut_at, run: append_behind });
    lose_power_everywhere(&Scenario {
        name: "repair of a lost sector",
        start: half_landed,
        run: append_behind,
    });
    lose_power_everywhere(&Scenario { name: "repair of zeros", start: all_zero, run: append_behind });
}

#[test]
fn a_torn_end_is_repaired_by_a_process_that_is_killed() {
    kill_then_lose_power(&Scenario { name: "repair of a cut", start: cut_at, run: append_behind });
    kill_then_lose_power(&Scenario {
        name: "repair of a lost sector",
        start: half_landed,
        run: append_behind,
    });
}

/// End of the `number`th trailer behind `start`, or of the whole file where there are none.
fn behind_trailer(bytes: &[u8], start: usize, number: usize) -> usize {
    const HEADER: [u8; 8] = [0x50, 0x2a, 0x4d, 0x18, 56, 0, 0, 0];
    let mut ends = (start..bytes.len()).filter(|&at| bytes[at..].starts_with(&HEADER)).map(|at| at + 64);
    ends.nth(number).unwrap_or(bytes.len())
}

fn unfinished(encoding: Encoding) -> (FaultDisk, Journal) {
    let last = fat_rows_by("kept", 2..32, 20);
    cut_short(encoding, &[rows_by("base", 0..2)], last, |bytes, start| {
        bytes.truncate(behind_trailer(bytes, start, 0));
    })
}

fn unfinished_and_torn(encoding: Encoding) -> (FaultDisk, Journal) {
    let last = fat_rows_by("kept", 2..32, 60);
    cut_short(encoding, &[rows_by("base", 0..2)], last, |bytes, start| {
        let end = (behind_trailer(bytes, start, 0) + 200).min(bytes.len() - 100);
        bytes.truncate(end);
    })
}

#[test]
fn an_unfinished_append_is_recovered_and_appended_to() {
    lose_power_everywhere(&Scenario { name: "unfinished", start: unfinished, run: append_behind });
    lose_power_everywhere(&Scenario {
        name: "unfinished and torn",
        start: unfinished_and_torn,
        run: append_behind,
    });
}

#[test]
fn an_unfinished_append_is_recovered_by_a_process_that_is_killed() {
    kill_then_lose_power(&Scenario {
        name: "unfinished and torn",
        start: unfinished_and_torn,
        run: append_behind,
    });
}

fn flush_empty(run: &mut Run<'_>) -> Result<()> {
    let handle = run.store().create(header(ID), None)?;
    handle.flush()?;
    run.journal.is_stored = true;
    handle.close()
}

#[test]
fn an_empty_session_is_flushed() {
    lose_power_everywhere(&Scenario { name: "flush of an empty session", start: empty, run: flush_empty });
}

fn in_a_folder(_: Encoding) -> (FaultDisk, Journal) {
    let disk = FaultDisk::new();
    disk.plant_dir(session_folder());
    (disk, Journal::default())
}

pub(crate) fn session_folder() -> PathBuf {
    Path::new(ROOT).join("_no-cwd").join(ID)
}

fn write_a_log(run: &mut Run<'_>) -> Result<()> {
    let name = format!("session.v2{}", run.encoding.suffix());
    let path = session_folder().join(name);
    let mut line = Vec::new();
    header(ID).write(&mut line);
    let created_at = UnixMs::new(CREATED_AT);
    // More than a look at the end would read: the draft is synced once on the way, and a marker vouches for it.
    let rows: Vec<String> =
        (0..60).map(|seq| row_by("first", seq, 300 + 3700 * (seq / 20) as usize)).collect();
    run.journal.inflight.clone_from(&rows);
    let mut writer = LogWriter::create(run.disk, &path, run.encoding, 3, &line, created_at)?;
    for row in &rows {
        let row = PhysicalRow::read(row.as_bytes(), Generation::V2, Check::Full, &Limits::DEFAULT).unwrap();
        writer.push(&row)?;
    }
    let written = writer.publish(&[])?;
    assert_eq!((written.rows, written.events), (60, 60));
    assert!(written.size_bytes > 100_000, "{written:?}");
    run.acknowledge();
    Ok(())
}

#[test]
fn a_whole_log_is_written() {
    lose_power_everywhere(&Scenario { name: "a whole log", start: in_a_folder, run: write_a_log });
}

fn recover_it(run: &mut Run<'_>) -> Result<()> {
    let disk: Arc<dyn Disk> = Arc::new(run.disk.clone());
    let path = log_path(run.disk).expect("a log is there");
    recover(&disk, &path, Limits::DEFAULT)?;
    let report = judge(&fresh(run.disk), &path);
    assert_eq!((report.verdict, report.events), (Verdict::Sound, run.journal.acked.len() as u64));
    Ok(())
}

fn damaged(encoding: Encoding) -> (FaultDisk, Journal) {
    let last = vec![row_by("lost", 2, 1500)];
    let (disk, journal) =
        cut_short(encoding, &[rows_by("base", 0..2)], last, |bytes, start| bytes[start + 300] ^= 0x80);
    assert!(journal.was_damaged, "{encoding}");
    (disk, journal)
}

#[test]
fn a_bad_end_is_recovered_on_request() {
    for (name, start) in [
        ("recovery of a cut", cut_at as fn(Encoding) -> (FaultDisk, Journal)),
        ("recovery of an unfinished append", unfinished),
        ("recovery of both", unfinished_and_torn),
        ("recovery of damage", damaged),
    ] {
        lose_power_everywhere(&Scenario { name, start, run: recover_it });
    }
}

fn append_then_flush(run: &mut Run<'_>) -> Result<()> {
    let options = options_on_flush(run.encoding);
    let store = FileStore::on_disk(Arc::new(run.disk.clone()), ROOT, options);
    let handle = store.open(&Text::from(ID), SessionAccess::Write)?;
    let lazily = |run: &mut Run<'_>, rows: Vec<String>| {
        run.journal.inflight.extend(rows.iter().cloned());
        append(&handle, &rows)
    };
    lazily(run, rows_by("first", 2..4))?;
    lazily(run, (4..6).map(|seq| row_by("first", seq, 800)).collect())?;
    lazily(run, vec![row_by("first", 6, 100)])?;
    handle.flush()?;
    run.acknowledge();
    lazily(run, vec![row_by("first", 7, 1300)])?;
    lazily(run, vec![row_by("first", 8, 60)])?;
    handle.close()?;
    run.acknowledge();
    Ok(())
}

const ON_FLUSH: Scenario = Scenario { name: "durable on flush", start: one_log, run: append_then_flush };

#[test]
fn appends_become_durable_with_a_flush() {
    lose_power_everywhere(&ON_FLUSH);
}

#[test]
fn appends_wait_for_a_flush_in_a_process_that_is_killed() {
    kill_then_lose_power(&ON_FLUSH);
}

#[test]
fn a_sync_fails_and_what_it_was_to_cover_is_written_again() {
    for scenario in [&CREATE, &SEVERAL, &ON_FLUSH] {
        fail_each_sync(scenario);
    }
    fail_each_sync(&Scenario { name: "repair of a cut", start: cut_at, run: append_behind });
    fail_each_sync(&Scenario { name: "unfinished and torn", start: unfinished_and_torn, run: append_behind });
}

/// A log of generation 0, as its own events and as they are read.
pub(crate) fn older_generation(encoding: Encoding) -> (FaultDisk, Journal) {
    let header = "{\"type\":\"session\",\"version\":0,\"id\":\"s\",\"createdAt\":5,\"delegationDepth\":0}\n";
    let rows: Vec<String> = (0..40).map(|seq| row_of("plan/mode", seq, "{\"active\":true}")).collect();
    let mut bytes = Vec::new();
    let id = LogId::new(7).unwrap();
    let mut writer = create(encoding, id, header.as_bytes(), 5, 3, &mut bytes).unwrap();
    for row in &rows {
        let content = format!("{row}\n");
        let mark = RowMark { end: content.len(), events: 1, last_time: 5 };
        writer.stage(&Batch { content: content.as_bytes(), rows: &[mark] }, &mut bytes).unwrap();
    }
    let path = session_folder().join(format!("session{}", encoding.suffix()));
    let disk = FaultDisk::new();
    disk.plant(&path, &bytes);
    let disk = fresh(&disk);
    let reader = store_on(&disk, encoding).open(&Text::from(ID), SessionAccess::Read).unwrap();
    let acked = read_all(&reader).unwrap();
    assert_eq!(acked.len(), 40);
    (fresh(&disk), Journal { acked, is_stored: true, source: Some((path, bytes)), ..Journal::default() })
}

#[test]
fn an_older_generation_is_migrated_and_appended_to() {
    let migration = Scenario { name: "migration", start: older_generation, run: append_behind };
    lose_power_everywhere(&migration);
    kill_then_lose_power(&migration);
}

#[test]
fn any_call_fails_once_and_the_process_goes_on() {
    for scenario in [&CREATE, &SEVERAL, &ON_FLUSH] {
        fail_each_call(scenario);
    }
    fail_each_call(&Scenario { name: "repair of a cut", start: cut_at, run: append_behind });
    fail_each_call(&Scenario { name: "unfinished and torn", start: unfinished_and_torn, run: append_behind });
    fail_each_call(&Scenario { name: "migration", start: older_generation, run: append_behind });
}
