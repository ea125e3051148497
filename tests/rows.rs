//! The row layer against logs that the original made: every line of the corpus, the migration vectors and the damage
//! cases. All of it lies beside the crate; without it the tests say so and pass.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use seslog::limits::Limits;
use seslog::row::{
    Check, DamageKind, DecodeCause, DecodeFault, Event, Header, HeaderFault, PhysicalRow, Recovery,
    RowDecoder, RowPlace, pack, range,
};
use seslog::units::{Generation, Seq};

const LIMITS: Limits = Limits::DEFAULT;

/// A folder of the shared material, or `None` with a visible line when it is absent.
fn shared(folder: &str) -> Option<PathBuf> {
    common::shared().map(|shared| shared.join(folder))
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Every `.jsonl` file below `folder`, by its path.
fn logs(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut logs = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            logs.append(&mut self::logs(&path));
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            logs.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    logs
}

fn lines(log: &[u8]) -> impl Iterator<Item = &[u8]> {
    log.strip_suffix(b"\n").unwrap_or(log).split(|&byte| byte == b'\n')
}

/// Decodes a log and returns its rows and its fork cut.
fn decode(
    log: &[u8],
    recovery: Recovery,
    check: Check,
) -> Result<(RowDecoder, Vec<PhysicalRow<'_>>, Option<u64>), DecodeFault> {
    let mut lines = lines(log);
    let header = Header::parse(lines.next().unwrap(), &LIMITS).unwrap();
    let mut decoder = RowDecoder::new(header.generation(), recovery).with_check(check);
    let mut rows = Vec::new();
    for (line, number) in lines.zip(2..) {
        rows.extend(decoder.push(RowPlace { line: number, offset: 0 }, line)?);
    }
    let cut = decoder.finish(&header).ok();
    Ok((decoder, rows, cut))
}

/// The events of rows, one line each, as they stand when nothing is packed.
fn expanded(rows: &[PhysicalRow<'_>]) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows {
        match row {
            PhysicalRow::Event(event) => lines.push(event.line().to_owned()),
            PhysicalRow::Packed(packed) => {
                for member in packed.members() {
                    let mut out = Vec::new();
                    packed.write_member(&member, &mut out);
                    lines.push(String::from_utf8(out).unwrap());
                }
            }
            #[expect(unreachable_patterns, reason = "the compiler decides")]
            _ => unreachable!(),
        }
    }
    lines
}

#[test]
fn every_line_of_the_corpus_reads_the_same_in_every_way() {
    let Some(corpus) = shared("corpus") else { return };
    let (mut scanned, mut events, mut all) = (0_u64, 0_u64, 0_u64);
    for log in logs(&corpus).values() {
        for line in lines(log) {
            all += 1;
            let parsed = Event::parse(line, &LIMITS);
            assert_eq!(Event::read(line, Check::Full, &LIMITS), parsed);
            assert_eq!(Event::read(line, Check::Envelope, &LIMITS), parsed);
            if let Some(event) = Event::scan(std::str::from_utf8(line).unwrap()) {
                assert_eq!(parsed, Ok(event));
                scanned += 1;
            }
            events += u64::from(parsed.is_ok());
        }
    }
    eprintln!("{all} lines, {events} events, {scanned} of them by their envelope");
    assert!(events > 12_000 && scanned * 100 > events * 95, "{scanned} of {events}");
}

#[test]
fn loadable_logs_of_the_corpus_decode_as_their_index_says() {
    let Some(corpus) = shared("corpus") else { return };
    let restored = json(&corpus.join("dsh-v0-restored/index.json"));
    let migrated = json(&corpus.join("migrated/index.json"));
    let mut decoded = 0;
    for (folder, files) in [
        ("dsh-v0-restored", &restored["files"]),
        ("migrated/v1", &migrated["files"]["v1"]),
        ("migrated/v2", &migrated["files"]["v2"]),
    ] {
        for file in files.as_array().unwrap() {
            let name = file["file"].as_str().unwrap();
            let log = std::fs::read(corpus.join(folder).join(name)).unwrap();
            for check in [Check::Full, Check::Envelope] {
                let (decoder, rows, cut) = decode(&log, Recovery::Strict, check)
                    .unwrap_or_else(|fault| panic!("{folder}/{name}: {fault}"));
                assert_eq!(decoder.events(), file["events"].as_u64().unwrap(), "{folder}/{name}");
                assert!(cut.is_some(), "{folder}/{name}");
                let packed = rows.iter().filter(|row| matches!(row, PhysicalRow::Packed(_))).count();
                if let Some(packed_rows) = file["packed_rows"].as_u64() {
                    assert_eq!(u64::try_from(packed).unwrap(), packed_rows, "{folder}/{name}");
                }
            }
            decoded += 1;
        }
    }
    assert_eq!(decoded, 85 + 65 + 60);
}

#[test]
fn headers_of_the_corpus_are_written_back_byte_for_byte() {
    let Some(corpus) = shared("corpus") else { return };
    let mut headers = 0;
    for folder in ["dsh-v0-restored", "migrated/v1", "migrated/v2"] {
        for log in logs(&corpus.join(folder)).values() {
            let line = lines(log).next().unwrap();
            let mut out = Vec::new();
            Header::parse(line, &LIMITS).unwrap().write(&mut out);
            assert_eq!(out, line);
            headers += 1;
        }
    }
    assert_eq!(headers, 210);
}

#[test]
fn packing_the_expanded_events_gives_the_stored_rows_back() {
    let Some(corpus) = shared("corpus/dsh-v0-restored") else { return };
    let mut packed_rows = 0;
    for (path, log) in logs(&corpus) {
        let (_, rows, _) = decode(&log, Recovery::Strict, Check::Full).unwrap();
        packed_rows += rows.iter().filter(|row| matches!(row, PhysicalRow::Packed(_))).count();
        let events = expanded(&rows);
        let events = events.iter().map(|line| Event::read(line.as_bytes(), Check::Full, &LIMITS).unwrap());
        let mut out = log.split_inclusive(|&byte| byte == b'\n').next().unwrap().to_vec();
        let count = pack(events, &mut out);
        assert!(out == log, "{}", path.display());
        assert_eq!(usize::try_from(count).unwrap(), rows.len());
    }
    assert_eq!(packed_rows, 142);
}

/// The migration to v1 expands packed rows, writes lists out, and converts older event forms; where it changes nothing
/// else, its rows are our expansion, written by the original.
#[test]
fn expansion_gives_the_rows_that_the_original_expands_to() {
    let Some(corpus) = shared("corpus") else { return };
    let mut compared = 0;
    for (path, log) in logs(&corpus.join("dsh-v0-restored")) {
        let Ok(v1) = std::fs::read(corpus.join("migrated/v1").join(path.file_name().unwrap())) else {
            continue;
        };
        let (_, rows, _) = decode(&log, Recovery::Strict, Check::Full).unwrap();
        let events = expanded(&rows);
        assert_eq!(events.len() + 1, lines(&v1).count());
        for (ours, theirs) in events.iter().zip(lines(&v1).skip(1)) {
            if ours.starts_with(r#"{"type":"assistant/chunk""#) {
                assert_eq!(ours.as_bytes(), theirs);
                compared += 1;
            }
        }
    }
    assert!(compared > 5_000, "{compared}");
}

/// Lists written out, against the lists that the original writes out and packs again.
#[test]
fn seq_lists_of_migrated_logs_are_in_the_writers_form() {
    let Some(corpus) = shared("corpus/migrated/v2") else { return };
    let mut lists = 0;
    for log in logs(&corpus).values() {
        let (_, rows, _) = decode(log, Recovery::Strict, Check::Envelope).unwrap();
        for row in rows {
            let PhysicalRow::Event(event) = row else { panic!("v2 packs nothing") };
            let Some(list) = event.source_event_seqs() else { continue };
            let (mut seqs, mut again, mut out) = (Vec::new(), Vec::new(), Vec::new());
            range::decode(list, event.seq(), &mut seqs).unwrap();
            range::encode(&seqs, &mut again);
            range::recode(list, event.seq(), &mut out).unwrap();
            assert_eq!((again.as_slice(), out.as_slice()), (list.as_bytes(), list.as_bytes()));
            lists += 1;
        }
    }
    assert_eq!(lists, 86);
}

/// What the row layer can decide of the migration vectors: how many events a source has, and which sources are corrupt.
#[test]
fn sources_of_the_migration_vectors_decode_or_fail_as_the_original_did() {
    let Some(folder) = shared("vectors/migration") else { return };
    let (mut migrated, mut refused) = (0, 0);
    for entry in std::fs::read_dir(&folder).unwrap() {
        let case = entry.unwrap().path();
        if !case.is_dir() {
            continue;
        }
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let vector = json(&case.join("vector.json"));
        let source = std::fs::read(case.join("source.jsonl")).unwrap();
        let recovery = match vector["recovery"].as_str().unwrap() {
            "strict" => Recovery::Strict,
            _ => Recovery::Recoverable,
        };
        let header = lines(&source).next().unwrap();
        if vector["result"] == "migrated" {
            let (decoder, rows, cut) =
                decode(&source, recovery, Check::Full).unwrap_or_else(|fault| panic!("{name}: {fault}"));
            assert!(cut.is_some(), "{name}");
            assert_eq!(decoder.issue().is_some(), name.starts_with("recover-"), "{name}");
            let intermediate = case.join("intermediate.v1.jsonl");
            if intermediate.exists() {
                let intermediate = std::fs::read(intermediate).unwrap();
                assert_eq!(expanded(&rows).len() + 1, lines(&intermediate).count(), "{name}");
            }
            migrated += 1;
            continue;
        }
        let refusal = json(&case.join("refusal.json"));
        refused += 1;
        // We may refuse early what the original refuses late; we may not call such a log corrupt, nor drop rows of it.
        let class = refusal["class"].as_str().unwrap();
        let ours = match Header::parse(header, &LIMITS) {
            Err(HeaderFault::Newer { .. }) => "unsupported",
            Err(_) => "malformed",
            Ok(_) => match decode(&source, recovery, Check::Full) {
                Err(DecodeFault { cause: DecodeCause::Refused, .. }) => "unsupported",
                Err(_) | Ok((_, _, None)) => "corrupt",
                Ok((decoder, ..)) if decoder.issue().is_some() => "dropped",
                Ok(_) => "decoded",
            },
        };
        match (class, ours) {
            ("unsupported" | "verification", "unsupported" | "decoded") => {}
            (class, ours) => assert_eq!(class, ours, "{name}"),
        }
    }
    eprintln!("{migrated} migrated, {refused} refused");
    assert!(migrated > 70 && refused > 70);
}

#[test]
fn header_vectors_are_classified_as_the_original_did() {
    let Some(folder) = shared("vectors/migration") else { return };
    let vectors = json(&folder.join("headers.json"));
    let cases = vectors["cases"].as_array().unwrap();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let parsed = Header::parse(case["header"].to_string().as_bytes(), &LIMITS);
        let status = match &parsed {
            Ok(header) if header.generation() == Generation::CURRENT => "current",
            Ok(_) => "migration-required",
            Err(HeaderFault::Newer { .. }) => "unsupported",
            Err(_) => "malformed",
        };
        assert_eq!(status, case["expected"]["status"], "{name}: {parsed:?}");
        if let Ok(header) = parsed {
            let mut out = Vec::new();
            header.write(&mut out);
            assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), case["header"], "{name}");
        }
    }
    assert_eq!(cases.len(), 20);
}

#[test]
fn rows_behind_a_torn_one_are_found_where_the_cases_say() {
    let Some(case) = shared("cases/R11-fused-rows-after-disk-full") else { return };
    let expected = json(&case.join("expected.json"));
    let mut found = 0;
    for check in expected["checks"].as_array().unwrap() {
        let Some(seq) = check["values"]["salvage_row_seq"].as_u64() else { continue };
        let log = std::fs::read(case.join(check["input"].as_str().unwrap())).unwrap();
        let line = check["values"]["line"].as_u64().unwrap();
        let mut decoder = RowDecoder::new(Generation::V0, Recovery::Strict);
        let mut intact = 0;
        for (row, number) in lines(&log).zip(1..).skip(1) {
            match decoder.push(RowPlace { line: number, offset: 0 }, row) {
                Ok(_) => intact += 1,
                Err(fault) if number == line => {
                    assert_eq!(fault.issue.fault.kind(), DamageKind::FusedRows);
                    let at = usize::try_from(check["values"]["torn_bytes"].as_u64().unwrap()).unwrap();
                    let whole = Event::read(&row[at..], Check::Full, &LIMITS).unwrap();
                    assert_eq!(whole.seq().get(), seq);
                    decoder.expect(Seq::new(seq + 1).unwrap());
                    found += 1;
                }
                Err(fault) => panic!("{fault}"),
            }
        }
        assert_eq!(Some(intact), check["values"]["rows_intact"].as_u64());
    }
    assert_eq!(found, 2);
}

#[test]
fn the_place_of_a_gap_and_of_bytes_that_are_not_utf8_is_told() {
    let Some(cases) = shared("cases") else { return };
    let gap = std::fs::read(cases.join("R07-gap-mid-log/input/plain/session.jsonl")).unwrap();
    let issue = decode(&gap, Recovery::Strict, Check::Full).map(|_| ()).unwrap_err().issue;
    assert_eq!(issue.to_string(), "line 6 at byte 0: seq 6 follows where 4 was due: events are missing");
    let not_utf8 =
        std::fs::read(cases.join("R72-lone-surrogate-escapes/input/bytes-not-utf8/session.jsonl")).unwrap();
    let issue = decode(&not_utf8, Recovery::Strict, Check::Envelope).map(|_| ()).unwrap_err().issue;
    assert_eq!((issue.place.line, issue.fault.kind()), (4, DamageKind::NotUtf8));
    for sound in ["escapes", "escape-in-a-name"] {
        let log =
            std::fs::read(cases.join(format!("R72-lone-surrogate-escapes/input/{sound}/session.jsonl")))
                .unwrap();
        let (decoder, ..) = decode(&log, Recovery::Strict, Check::Full).unwrap();
        assert_eq!(usize::try_from(decoder.rows()).unwrap(), lines(&log).count() - 1);
    }
}
