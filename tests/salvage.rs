//! What can be saved out of the damaged logs of real bug reports, and what is said to be lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use seslog::container::disk::{Disk, OsDisk};
use seslog::limits::Limits;
use seslog::store::{LogFile, ReadMode, Salvage, salvage};

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases").join(name)
}

fn save(input: &str) -> (Salvage, Vec<String>) {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
    let path = case(input);
    let before = std::fs::read(&path).unwrap();
    let log = LogFile::open(&disk, &path, Limits::DEFAULT, ReadMode::Map).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("saved.jsonl");
    let saved = salvage(&log, &out).unwrap();
    let text = String::from_utf8_lossy(&std::fs::read(&out).unwrap()).into_owned();
    assert_eq!(std::fs::read(&path).unwrap(), before, "the source is not touched");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if saved.has_header {
        assert!(lines.remove(0).contains("\"session\""));
    }
    assert_eq!(lines.len() as u64, saved.rows);
    let other_lines =
        saved.other.as_ref().map_or(0, |other| std::fs::read_to_string(other).unwrap().lines().count());
    assert_eq!(other_lines as u64, saved.other_rows);
    let damaged_len: u64 = saved.damaged_ranges.iter().map(|range| range.end - range.start).sum();
    assert_eq!(saved.damaged.as_ref().map_or(0, |path| std::fs::metadata(path).unwrap().len()), damaged_len);
    (saved, lines)
}

#[test]
fn r01_the_side_that_leads_further_is_taken_and_the_other_one_kept() {
    for (input, rows, other) in
        [("resume-marker-collides", 11, 1), ("repair-rows-overlap", 10, 3), ("counter-starts-over", 10, 3)]
    {
        let (saved, _) = save(&format!("R01-two-writers-same-seq/input/{input}/session.jsonl.zstd"));
        assert_eq!((saved.rows, saved.other_rows, saved.missing.len()), (rows, other, 0), "{input}");
    }
    let (saved, _) = save("R01-two-writers-same-seq/input/packed-row-overlaps/session.jsonl.zstd");
    assert_eq!((saved.events, saved.other_rows, saved.missing.len()), (9, 2, 0));
}

#[test]
fn r07_rows_behind_a_gap_are_saved_and_the_gap_is_named() {
    for input in ["plain/session.jsonl", "framed/session.jsonl.zstd"] {
        let (saved, _) = save(&format!("R07-gap-mid-log/input/{input}"));
        assert_eq!((saved.rows, saved.missing), (10, vec![4..6]), "{input}");
    }
}

#[test]
fn r10_a_frame_that_was_cut_short_is_decoded_as_far_as_it_goes() {
    for (input, rows, unproved) in [
        ("00-whole", 9, 0),
        ("01-cut-at-frame-start", 4, 0),
        ("02-cut-in-magic", 4, 0),
        ("03-cut-after-descriptor", 4, 0),
        ("04-cut-in-first-block", 4, 0),
        ("05-cut-between-blocks", 6, 2),
        ("06-cut-in-third-block", 6, 2),
        ("07-cut-before-checksum", 9, 5),
        ("08-cut-in-checksum", 9, 5),
    ] {
        let (saved, _) = save(&format!("R10-torn-final-frame/input/{input}/session.jsonl.zstd"));
        assert_eq!((saved.rows, saved.unproved_events), (rows, unproved), "{input}");
        assert!(saved.has_header);
    }
    let (saved, _) = save("R10-torn-final-frame/input/09-cut-in-header-frame/session.jsonl.zstd");
    assert_eq!((saved.rows, saved.has_header), (0, false), "no header is made up");
}

#[test]
fn r11_the_complete_row_inside_a_fused_line_comes_back() {
    let (saved, _) = save("R11-fused-rows-after-disk-full/input/next-row-fused/session.jsonl");
    assert_eq!((saved.rows, saved.missing), (8, vec![5..6]));
    assert_eq!(saved.damaged_ranges, [999..999 + 61]);
    let (saved, _) = save("R11-fused-rows-after-disk-full/input/same-row-retried/session.jsonl");
    assert_eq!((saved.rows, saved.missing.len()), (9, 0));
    assert_eq!(saved.damaged_ranges, [999..999 + 61]);
}

#[test]
fn r23_frames_around_a_bad_one_are_saved_and_its_bytes_kept() {
    let (saved, lines) = save("R23-complete-frame-bad-checksum/input/middle-frame/session.jsonl.zstd");
    assert_eq!((saved.rows, saved.missing), (6, vec![3..6]));
    assert_eq!(saved.damaged_ranges, [303..569]);
    assert!(lines[3].contains("\"seq\":6"));
    let (saved, _) = save("R23-complete-frame-bad-checksum/input/last-frame/session.jsonl.zstd");
    assert_eq!((saved.rows, saved.damaged_ranges), (6, vec![569..697]));
    let (saved, _) = save("R23-complete-frame-bad-checksum/input/header-frame/session.jsonl.zstd");
    assert_eq!((saved.rows, saved.has_header), (6, false));
}

#[test]
fn r25_one_row_that_is_not_utf8_costs_itself_alone() {
    let (saved, _) = save("R25-magic-inside-frame/input/raw-block-with-magic/session.jsonl.zstd");
    assert_eq!((saved.rows, saved.missing), (5, vec![2..3]));
    let (saved, lines) = save("R25-magic-inside-frame/input/skippable-frame/session.jsonl.zstd");
    assert_eq!(saved.rows, 5);
    assert!(lines.iter().all(|line| !line.contains("\"seq\":9")), "a payload is never read as rows");
}
