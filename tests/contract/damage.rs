//! C8: torn tails and corruption.

use seslog::Error;
use seslog::container::Encoding;
use seslog::container::disk::fault::{Failure, OpKind};
use seslog::json::Text;
use seslog::store::{SessionAccess, Snapshot, State, Verdict};

use crate::common::sessions::{append, fat_rows_by, header, read, read_all, row_by, row_of, rows_by};
use crate::seam::{EIO, ENOSPC, ROOT, Seam, once_per_encoding};

once_per_encoding! {
    r092_a_torn_tail_is_never_returned_and_reading_changes_nothing,
    r095_recovered_records_are_rewritten_durably_before_the_next_batch,
    r096_a_repair_that_failed_is_completed_by_the_next_append,
    r096_a_repair_whose_sync_failed_is_completed_by_the_next_handle,
    r097_nothing_before_the_repair_changes,
    r097_what_is_cut_off_is_kept_whatever_has_its_name,
    r100_damage_without_a_later_turn_end_bounds_the_log,
    r101_a_complete_record_that_is_bad_is_no_tear,
    r102_a_final_record_that_was_cut_is_dropped_whole,
    r103_a_log_without_a_header_is_refused_and_listed,
    r110_the_highest_generation_is_the_log_however_bad,
}

/// A log whose last append is cut `missing` bytes before its end: what is served, and the bytes.
fn torn(seam: &Seam, missing: usize) -> (Vec<String>, Vec<u8>) {
    seam.store("s", &[rows_by("a", 0..2), vec![row_by("a", 2, 900), row_by("a", 3, 900)]]);
    let mut bytes = seam.bytes();
    bytes.truncate(bytes.len() - missing);
    seam.replace(&bytes);
    let served = if seam.encoding == Encoding::Plain && missing < 900 { 3 } else { 2 };
    let rows = [rows_by("a", 0..2), vec![row_by("a", 2, 900)]].concat();
    (rows[..served].to_vec(), bytes)
}

/// An indexed log with an append that ends behind a complete segment; other encodings have no such end.
fn unfinished(seam: &Seam) -> Vec<String> {
    let last = fat_rows_by("a", 2..32, 40);
    seam.store("s", &[rows_by("a", 0..2), last.clone()]);
    let bytes = seam.bytes();
    let all = [rows_by("a", 0..2), last].concat();
    let trailer = [0x50, 0x2a, 0x4d, 0x18, 56, 0, 0, 0];
    let ends: Vec<usize> =
        (0..bytes.len()).filter(|&at| bytes[at..].starts_with(&trailer)).map(|at| at + 64).collect();
    if let [.., end, _] = ends[..] {
        seam.replace(&bytes[..end + 30]);
    } else {
        seam.replace(&bytes[..bytes.len() - 30]);
    }
    let served = seam.read();
    assert!(all.starts_with(&served) && served.len() >= 2 && served.len() < all.len());
    served
}

fn snapshot(seam: &Seam) -> Snapshot {
    seam.instance().stat(&Text::from("s")).unwrap().unwrap()
}

fn r092_a_torn_tail_is_never_returned_and_reading_changes_nothing(seam: &Seam) {
    for missing in [1, 5, 63, 64, 65, 300, 899] {
        let seam = Seam::new(seam.encoding);
        let (served, bytes) = torn(&seam, missing);
        for access in [SessionAccess::Read, SessionAccess::Write] {
            let handle = seam.open("s", access).unwrap();
            assert_eq!(read_all(&handle).unwrap(), served, "{missing}");
            assert!(read(&handle, served.len() as u64, 5).unwrap().is_empty());
            handle.close().unwrap();
        }
        let stat = snapshot(&seam);
        assert_eq!((stat.state, stat.event_count), (State::Torn, Some(served.len() as u64)));
        assert!(matches!(stat.error.as_deref(), Some(Error::TornTail { .. })));
        assert_eq!(seam.bytes(), bytes);
        assert_eq!(seam.instance().list().unwrap()[0].state, State::Torn);
    }
}

// "Recovered" as in 93 (README). They stand where they stood: rewriting puts identical bytes there.
fn r095_recovered_records_are_rewritten_durably_before_the_next_batch(seam: &Seam) {
    let served = unfinished(seam);
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    seam.disk.forget_trace();
    let next = served.len() as u64;
    append(&handle, &rows_by("b", next..next + 1)).unwrap();
    let log = seam.log();
    let trace = seam.disk.trace();
    let first = |kind| trace.iter().position(|op| op.kind == kind && op.path == log);
    let (cut, synced, appended) = (first(OpKind::Truncate), first(OpKind::SyncAll), first(OpKind::Append));
    assert!(cut < synced && synced < appended, "{trace:?}");
    if seam.encoding != Encoding::Plain {
        let rewritten = first(OpKind::WriteAt);
        assert!(rewritten.is_some() && rewritten < synced, "{trace:?}");
    }
    let expected = [served, rows_by("b", next..next + 1)].concat();
    assert_eq!(seam.durable().read(), expected);
    assert_eq!(seam.verdict(), Verdict::Sound);
}

fn r096_a_repair_that_failed_is_completed_by_the_next_append(seam: &Seam) {
    for kind in
        [OpKind::Truncate, OpKind::WriteAt, OpKind::CreateNew, OpKind::Link, OpKind::SyncDir, OpKind::Append]
    {
        if kind == OpKind::WriteAt && seam.encoding == Encoding::Plain {
            continue;
        }
        let seam = Seam::new(seam.encoding);
        let served = unfinished(&seam);
        let handle = seam.open("s", SessionAccess::Write).unwrap();
        let next = served.len() as u64;
        for _ in 0..2 {
            seam.disk.fail_next(kind, Failure::Error(ENOSPC));
            let failed = append(&handle, &rows_by("b", next..next + 2));
            assert!(matches!(failed, Err(Error::Io { .. })), "{kind:?}: {failed:?}");
            assert_eq!(seam.read(), served, "{kind:?}");
        }
        append(&handle, &rows_by("b", next..next + 2)).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        let expected = [served, rows_by("b", next..next + 2)].concat();
        assert_eq!(seam.durable().read(), expected, "{kind:?}");
        assert_eq!(seam.verdict(), Verdict::Sound);
    }
}

// A sync that failed poisons the handle, here as everywhere (design, "Crash rules").
fn r096_a_repair_whose_sync_failed_is_completed_by_the_next_handle(seam: &Seam) {
    let served = unfinished(seam);
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    let next = served.len() as u64;
    // The first full sync is that of the copy, which is only tried again; the second is that of the log.
    for is_poisoned in [false, true] {
        seam.disk.fail_next(OpKind::SyncAll, Failure::Error(EIO));
        let failed = append(&handle, &rows_by("b", next..next + 2));
        assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
        if !is_poisoned {
            // Sets the copy aside and stops at the cut.
            seam.disk.fail_next(OpKind::Truncate, Failure::Error(EIO));
            append(&handle, &rows_by("b", next..next + 2)).unwrap_err();
        }
    }
    assert!(matches!(append(&handle, &rows_by("b", next..next + 2)), Err(Error::Poisoned { .. })));
    handle.close().unwrap();
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    assert_eq!(handle.next_seq(), Some(next));
    append(&handle, &rows_by("b", next..next + 2)).unwrap();
    assert_eq!(seam.durable().read(), [served, rows_by("b", next..next + 2)].concat());
}

fn r097_nothing_before_the_repair_changes(seam: &Seam) {
    let (served, before) = torn(seam, 70);
    let stamp = |seam: &Seam| snapshot(seam).revision.unwrap().to_string();
    let inode = stamp(seam).split(':').nth(1).unwrap().to_owned();
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    let next = served.len() as u64;
    append(&handle, &rows_by("b", next..next + 1)).unwrap();
    let after = seam.bytes();
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let aside = seam.disk.paths().into_iter().find(|path| path.to_string_lossy().contains(".torn-")).unwrap();
    let kept = seam.disk.content(&aside).unwrap();
    let cut = before.len() - kept.len();
    assert!(same >= cut, "{same} bytes are the same, the cut was at {cut}");
    assert_eq!(kept, before[cut..]);
    assert_eq!(stamp(seam).split(':').nth(1).unwrap(), inode, "the same file");
    let name = aside.file_name().unwrap().to_string_lossy().into_owned();
    let log = seam.log().file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.starts_with(&format!("{log}.torn-{cut}-{}-", kept.len())), "{name}");
}

// Offset, length and CRC may be those of other bytes, since a trailer ends in its own CRC: what has the name is compared.
fn r097_what_is_cut_off_is_kept_whatever_has_its_name(seam: &Seam) {
    let (_, before) = torn(seam, 70);
    let aside = |seam: &Seam| -> Vec<(String, Vec<u8>)> {
        let paths = seam.disk.paths().into_iter().filter(|path| path.to_string_lossy().contains(".torn-"));
        paths.map(|path| (path.to_string_lossy().into_owned(), seam.disk.content(&path).unwrap())).collect()
    };
    let go_on = |seam: &Seam| {
        let handle = seam.open("s", SessionAccess::Write).unwrap();
        let next = handle.next_seq().unwrap();
        append(&handle, &rows_by("b", next..next + 1)).unwrap();
        handle.close().unwrap();
    };
    let first = seam.killed();
    go_on(&first);
    let [(name, kept)] = &aside(&first)[..] else { panic!("{:?}", aside(&first)) };

    let other: Vec<u8> = kept.iter().map(|byte| !byte).collect();
    for stands in [&other[..], &kept[..3], kept] {
        let seam = seam.killed();
        seam.disk.plant(name, stands);
        go_on(&seam);
        let mut expected = vec![(name.clone(), stands.to_vec())];
        if stands != kept {
            expected.push((format!("{name}-2"), kept.clone()));
        }
        assert_eq!(aside(&seam), expected);
        // Twice the same end, after a crash that undid the cut: nothing new.
        seam.replace(&before);
        go_on(&seam);
        assert_eq!(aside(&seam), expected);
    }
}

/// Replaces the log by one of these lines, in one frame where there are frames.
fn with_lines(seam: &Seam, lines: &[String]) {
    // A store refuses to write such rows, so they are written by a container alone.
    use seslog::container::{Batch, LEVEL_DEFAULT, LogId, RowMark, create};
    let mut line = Vec::new();
    header("s").write(&mut line);
    line.push(b'\n');
    let mut bytes = Vec::new();
    let id = LogId::new(7).unwrap();
    let mut writer = create(seam.encoding, id, &line, 5, LEVEL_DEFAULT, &mut bytes).unwrap();
    let mut content = Vec::new();
    let mut rows = Vec::new();
    for line in lines {
        content.extend_from_slice(line.as_bytes());
        content.push(b'\n');
        rows.push(RowMark { end: content.len(), events: 1, last_time: 5 });
    }
    writer.stage(&Batch { content: &content, rows: &rows }, &mut bytes).unwrap();
    seam.replace(&bytes);
}

fn bad_rows() -> [Vec<String>; 4] {
    let good = |seq| row_of("plan/mode", seq, "{}");
    [
        vec![good(0), "{\"type\":\"plan/mode\",\"seq\":1".to_owned(), good(2)],
        vec![good(0), "[1]".to_owned(), good(2)],
        vec![good(0), good(2), good(3)],
        vec![good(0), good(0), good(1)],
    ]
}

// Beaten by the design: in a frame, a bad row is damage whatever follows; in a plain log a line that ends in a newline proves
// no crash, so the end is damaged, not torn: read up to there, and cut only on request.
fn r100_damage_without_a_later_turn_end_bounds_the_log(seam: &Seam) {
    for lines in bad_rows() {
        with_lines(seam, &lines);
        let write = seam.open("s", SessionAccess::Write).map(|_| ());
        if seam.encoding == Encoding::Plain {
            assert!(matches!(write, Err(Error::DamagedTail { intact: 1, .. })), "{lines:?}: {write:?}");
            let reader = seam.open("s", SessionAccess::Read).unwrap();
            assert_eq!(read(&reader, 0, 1).unwrap(), lines[..1]);
            // A prefix is never passed off as the whole.
            let all = read_all(&reader);
            assert!(matches!(all, Err(Error::DamagedTail { intact: 1, .. })), "{all:?}");
        } else {
            assert!(matches!(write, Err(Error::Corruption { intact: 1, .. })), "{lines:?}: {write:?}");
        }
    }
}

// In the last append, a checksum that does not match is a damaged tail (design): refused, and never cut by guess.
fn r101_a_complete_record_that_is_bad_is_no_tear(seam: &Seam) {
    if seam.encoding == Encoding::Plain {
        return;
    }
    seam.store("s", &[rows_by("a", 0..2), vec![row_by("a", 2, 300)], rows_by("a", 3..5)]);
    let whole = seam.bytes();
    let mut ends = vec![whole.len()];
    for rows in (2..5).rev() {
        // The log with fewer appends has the same bytes as far as it goes.
        let shorter = Seam::new(seam.encoding);
        shorter.store(
            "s",
            &[rows_by("a", 0..2), vec![row_by("a", 2, 300)]][..usize::from(rows > 2) + usize::from(rows > 3)],
        );
        ends.push(shorter.bytes().len());
    }
    let (last, middle) = (ends[1], ends[2]);
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        seam.replace(&bytes);
        let read = seam.open("s", SessionAccess::Read).and_then(|reader| read_all(&reader)).map(|_| ());
        (seam.open("s", SessionAccess::Write).map(|_| ()), read, bytes)
    };
    let (write, read, bytes) = flipped(middle + 40);
    assert!(matches!(write, Err(Error::Corruption { intact: 2, .. })), "{write:?}");
    assert!(matches!(read, Err(Error::Corruption { intact: 2, .. })), "{read:?}");
    assert_eq!(seam.bytes(), bytes);
    let (write, read, bytes) = flipped(last + 40);
    assert!(matches!(write, Err(Error::DamagedTail { intact: 3, .. })), "{write:?}");
    assert!(matches!(read, Err(Error::DamagedTail { intact: 3, .. })), "{read:?}");
    assert_eq!(seam.bytes(), bytes);
}

// The second half, a tear inside the checksum, goes the same way (README): dropped whole.
fn r102_a_final_record_that_was_cut_is_dropped_whole(seam: &Seam) {
    seam.store("s", &[rows_by("a", 0..2)]);
    let start = seam.bytes().len();
    let handle = seam.open("s", SessionAccess::Write).unwrap();
    append(&handle, &rows_by("a", 2..5)).unwrap();
    handle.close().unwrap();
    let whole = seam.bytes();
    for cut in start + 1..whole.len() {
        seam.replace(&whole[..cut]);
        let served = seam.read();
        if seam.encoding == Encoding::Plain {
            let lines = whole[start..cut].iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(served, rows_by("a", 0..2 + lines as u64));
        } else {
            assert_eq!(served, rows_by("a", 0..2), "cut at {cut}");
        }
    }
}

// Listed with its state instead of skipped (README).
fn r103_a_log_without_a_header_is_refused_and_listed(seam: &Seam) {
    seam.store("s", &[rows_by("a", 0..2)]);
    seam.store("t", &[rows_by("a", 0..2)]);
    let whole = seam.bytes();
    for bad in [&whole[..3], &whole[..20], b"\n", b"{}\n", b"[1,2,3]\n", b"garbage without an end"] {
        seam.replace(bad);
        for access in [SessionAccess::Read, SessionAccess::Write] {
            let refused = seam.open("s", access).map(|_| ());
            assert!(
                matches!(refused, Err(Error::Corruption { .. } | Error::IdentityMismatch { .. })),
                "{bad:?}: {refused:?}"
            );
        }
        let listed = seam.instance().list().unwrap();
        let states: Vec<State> = listed.iter().map(|one| one.state).collect();
        assert_eq!(states.len(), 2);
        assert!(states.contains(&State::Ok));
        assert!(states.iter().any(|state| *state != State::Ok), "{bad:?}: {states:?}");
    }
}

fn r110_the_highest_generation_is_the_log_however_bad(seam: &Seam) {
    seam.store("s", &[rows_by("a", 0..2)]);
    let (log, bytes) = (seam.log(), seam.bytes());
    let older = log.with_file_name(format!("session{}", seam.encoding.suffix()));
    seam.disk.plant(&older, &bytes);
    for (name, bad) in [("session.v2", &b"damaged"[..]), ("session.v17", &bytes[..])] {
        let highest = log.with_file_name(format!("{name}{}", seam.encoding.suffix()));
        seam.disk.plant(&highest, bad);
        for access in [SessionAccess::Read, SessionAccess::Write] {
            assert!(seam.open("s", access).is_err(), "{name}");
        }
        assert_ne!(snapshot(seam).state, State::Ok);
        assert_eq!(seam.disk.content(&highest).unwrap(), bad);
    }
    assert_eq!(seam.disk.content(&older).unwrap(), bytes);
    assert!(seam.disk.paths().iter().any(|path| path.starts_with(ROOT)));
}
