//! Do a reader and a writer that were written from `format-spec/` alone agree with the crate on every file?
//!
//! `tests/independent/decode.py` is the reader, `encode.py` beside it the writer. Without Python the tests say that they were
//! skipped.

#[path = "spec_vectors/build.rs"]
#[expect(dead_code, reason = "the vectors' own test builds with it")]
mod build;
mod common;
#[path = "spec_vectors/hex.rs"]
#[expect(dead_code, reason = "the vectors' own test writes dumps")]
mod hex;
#[path = "spec_vectors/markdown.rs"]
#[expect(dead_code, reason = "the vectors' own test reads tables")]
mod markdown;
#[path = "spec_vectors/outcome.rs"]
#[expect(dead_code, reason = "the vectors' own test writes outcomes")]
mod outcome;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::rc::Rc;

use common::sessions::{header, options, row_by, rows_by};
use outcome::Outcome;
use seslog::container::{Batch, Encoding, LEVEL_DEFAULT, LogId, RowMark, create};
use seslog::json::Text;
use seslog::store::{FileStore, SessionAccess, State};

/// A file to be read by both.
struct Sample {
    what: String,
    encoding: Encoding,
    name: String,
    bytes: Vec<u8>,
    /// The file before it was damaged.
    sound: Option<Rc<Outcome>>,
}

impl Sample {
    fn new(what: String, encoding: Encoding, bytes: Vec<u8>) -> Self {
        Self { what, encoding, name: format!("session.v2{}", encoding.suffix()), bytes, sound: None }
    }
}

/// Which of the checks on a frame's content fails first differs from decoder to decoder (02, "Content").
fn normal(mut outcome: Outcome) -> Outcome {
    let content = ["FrameData", "FrameChecksum", "ContentSize"];
    if outcome.fault.as_deref().is_some_and(|fault| content.contains(&fault)) {
        outcome.fault = Some("content".to_owned());
    }
    // The decoder does not print lines.
    outcome.text = None;
    outcome
}

/// Reads all samples with both readers; returns how many both could read.
fn compare(samples: &[Sample]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = String::new();
    for (number, sample) in samples.iter().enumerate() {
        let folder = folder.path().join(number.to_string());
        fs::create_dir(&folder).unwrap();
        let path = folder.join(&sample.name);
        fs::write(&path, &sample.bytes).unwrap();
        paths.push_str(path.to_str().expect("a temporary path is UTF-8"));
        paths.push('\n');
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/independent/decode.py");
    let child =
        Command::new("python3").args([script, "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        common::skip("python3 is not installed");
        return 0;
    };
    // All names are read before anything is printed, so that neither side waits for the other.
    child.stdin.take().expect("piped").write_all(paths.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "decode.py failed");
    let lines: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    assert_eq!(lines.len(), samples.len());

    let mut wrong = Vec::new();
    let mut skipped = 0;
    for (sample, line) in samples.iter().zip(lines) {
        let table: toml::Table = serde_json::from_str(line).unwrap();
        if table.contains_key("skipped") {
            skipped += 1;
            continue;
        }
        let (ours, _) = Outcome::of(sample.encoding, &sample.bytes);
        let (ours, theirs) = (normal(ours), normal(Outcome::parse(&table)));
        // Some decompressors accept bits inside a block that must be zero: then the content must be what it was.
        let lenient = ours.fault.as_deref() == Some("content") && sample.sound.as_deref() == Some(&theirs);
        if ours != theirs && !lenient {
            wrong.push(format!("{}:\ncrate       {ours:?}\nindependent {theirs:?}", sample.what));
        }
    }
    if skipped > 0 {
        common::skip(&format!(
            "{skipped} of {} files hold compressed blocks, and no decompressor is here",
            samples.len()
        ));
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), samples.len(), wrong.join("\n"));
    samples.len() - skipped
}

#[test]
fn vectors_are_read_alike() {
    let mut samples = Vec::new();
    for folder in ["valid", "invalid"] {
        let folder = markdown::folder().join("vectors").join(folder);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let table: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
            let string = |key: &str| table[key].as_str().unwrap().to_owned();
            samples.push(Sample {
                what: path.display().to_string(),
                encoding: string("encoding").parse().unwrap(),
                name: string("name"),
                bytes: hex::parse(&fs::read_to_string(path.with_extension("hex")).unwrap()),
                sound: None,
            });
        }
    }
    assert!(samples.len() > 150);
    compare(&samples);
}

/// A log that the crate writes: appends of so many rows, and whether each was synced before the next.
fn written(encoding: Encoding, appends: &[usize], synced: bool, level: i32) -> (Vec<u8>, Vec<usize>) {
    let header = "{\"type\":\"session\",\"version\":2,\"id\":\"s\",\"createdAt\":5,\"isSeeded\":false,\"delegationDepth\":0}\n";
    let id = LogId::new(0xfeed_beef_0000_0001).unwrap();
    let mut bytes = Vec::new();
    let mut writer = create(encoding, id, header.as_bytes(), 5, level, &mut bytes).unwrap();
    writer.accept(true);
    let mut borders = vec![bytes.len()];
    let mut seq = 0;
    for &rows in appends {
        let (mut content, mut marks) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            let noise = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seq + 1);
            let text = format!("{noise:x} once upon a time");
            let row = format!(
                "{{\"type\":\"a/b\",\"seq\":{seq},\"time\":{},\"data\":{{\"t\":\"{text}\"}}}}\n",
                100 + seq
            );
            content.extend_from_slice(row.as_bytes());
            marks.push(RowMark {
                end: content.len(),
                events: 1,
                last_time: 100 + i64::try_from(seq).unwrap(),
            });
            seq += 1;
        }
        writer.stage(&Batch { content: &content, rows: &marks }, &mut bytes).unwrap();
        writer.accept(synced);
        borders.push(bytes.len());
    }
    (bytes, borders)
}

#[test]
fn whole_logs_of_the_crate_are_read_alike() {
    let mut samples = Vec::new();
    for encoding in Encoding::ALL {
        for (appends, level) in [
            (&[][..], LEVEL_DEFAULT),
            (&[1], LEVEL_DEFAULT),
            (&[3, 1, 2, 5], 1),
            (&[400], 19),
            (&[1; 40], LEVEL_DEFAULT),
            // Several segments in one append.
            (&[2, 7_000, 1], LEVEL_DEFAULT),
        ] {
            for synced in [true, false] {
                let (bytes, _) = written(encoding, appends, synced, level);
                let what = format!("{encoding}, appends of {appends:?} rows, level {level}, synced {synced}");
                samples.push(Sample::new(what, encoding, bytes));
            }
        }
    }
    compare(&samples);
}

#[test]
fn cut_logs_are_judged_alike() {
    let mut samples = Vec::new();
    for encoding in Encoding::ALL {
        let (bytes, _) = written(encoding, &[2, 1, 4], true, LEVEL_DEFAULT);
        for cut in 0..bytes.len() {
            samples.push(Sample::new(format!("{encoding} cut at {cut}"), encoding, bytes[..cut].to_vec()));
        }
        let (bytes, borders) = written(encoding, &[2, 7_000], true, LEVEL_DEFAULT);
        for cut in (borders[1]..bytes.len()).step_by(49_999) {
            samples.push(Sample::new(
                format!("{encoding}, many segments, cut at {cut}"),
                encoding,
                bytes[..cut].to_vec(),
            ));
        }
    }
    // Between two segments of one append.
    let (bytes, borders) = written(Encoding::Indexed, &[2, 7_000], true, LEVEL_DEFAULT);
    let mut states = BTreeSet::new();
    for (at, _) in
        bytes.windows(8).enumerate().filter(|(_, bytes)| *bytes == [0x50, 0x2a, 0x4d, 0x18, 56, 0, 0, 0])
    {
        let cut = at + 64;
        let (outcome, _) = Outcome::of(Encoding::Indexed, &bytes[..cut]);
        states.extend(outcome.state.filter(|_| cut > borders[1]));
        samples.push(Sample::new(
            format!("cut at the border {cut}"),
            Encoding::Indexed,
            bytes[..cut].to_vec(),
        ));
    }
    assert_eq!(states.into_iter().collect::<Vec<_>>(), ["complete", "unfinished"]);
    compare(&samples);
}

#[test]
fn logs_with_lost_sectors_are_judged_alike() {
    let mut samples = Vec::new();
    for encoding in Encoding::ALL {
        for synced in [true, false] {
            let (bytes, _) = written(encoding, &[2, 30, 1, 60], synced, LEVEL_DEFAULT);
            for lost in 0..1_u32 << 4 {
                let mut bad = bytes.clone();
                let last = bytes.len().div_ceil(512);
                for sector in (0..4).filter(|sector| lost >> sector & 1 == 1).map(|sector| last - 1 - sector)
                {
                    let end = (sector * 512 + 512).min(bad.len());
                    bad[sector * 512..end].fill(0);
                }
                samples.push(Sample::new(
                    format!("{encoding}, synced {synced}, lost {lost:b}"),
                    encoding,
                    bad.clone(),
                ));
                bad.truncate(bad.len() - 100);
                samples.push(Sample::new(
                    format!("{encoding}, synced {synced}, lost {lost:b}, cut"),
                    encoding,
                    bad,
                ));
            }
            for sector in 0..bytes.len() / 512 {
                let mut bad = bytes.clone();
                bad[sector * 512..sector * 512 + 512].fill(0);
                samples.push(Sample::new(
                    format!("{encoding}, synced {synced}, sector {sector}"),
                    encoding,
                    bad,
                ));
            }
            // A last sector that the file's end cuts short, and of which nothing landed.
            let last = bytes.len() / 512 * 512;
            for border in [last - 512, last] {
                for part in (1..=10).filter(|part| border + part <= bytes.len()) {
                    let cut = [&bytes[..border], &vec![0; part]].concat();
                    let what = format!(
                        "{encoding}, synced {synced}, {part} zeros behind the sector border {border}"
                    );
                    samples.push(Sample::new(what, encoding, cut));
                }
            }
            for zeros in [1, 7, 8, 63, 64, 500, 2000] {
                let zeros = [&bytes[..], &vec![0; zeros]].concat();
                samples.push(Sample::new(format!("{encoding}, zeros behind"), encoding, zeros));
            }
        }
    }
    compare(&samples);
}

#[test]
fn changed_bytes_are_judged_alike() {
    let mut samples = Vec::new();
    for encoding in Encoding::ALL {
        let (bytes, _) = written(encoding, &[2, 1, 4], true, LEVEL_DEFAULT);
        let sound = Rc::new(normal(Outcome::of(encoding, &bytes).0));
        for at in 0..bytes.len() {
            // One bit a byte, each bit in turn; and now and then all of them.
            let bits = if at % 11 == 0 { 0xff } else { 1 << (at % 8) };
            let mut bad = bytes.clone();
            bad[at] ^= bits;
            let sample = Sample::new(format!("{encoding}, byte {at} ^ {bits:#04x}"), encoding, bad);
            samples.push(Sample { sound: Some(Rc::clone(&sound)), ..sample });
        }
    }
    compare(&samples);
}

/// What `encode.py` is told: lines, and what it does between them.
struct Recipe {
    what: &'static str,
    name: &'static str,
    options: &'static [&'static str],
    /// Lines of the log, and the words that begin with `#`.
    input: Vec<String>,
    state: &'static str,
}

/// A log of generation 2 with the id `s`.
fn recipe(
    what: &'static str,
    options: &'static [&'static str],
    rest: Vec<String>,
    state: &'static str,
) -> Recipe {
    let mut line = Vec::new();
    header("s").write(&mut line);
    let input = [vec![String::from_utf8(line).unwrap()], rest].concat();
    Recipe { what, name: "session.v2.jsonl.zst", options, input, state }
}

/// Rows, and a word behind them.
fn and(rows: Vec<String>, word: &str) -> Vec<String> {
    [rows, vec![word.to_owned()]].concat()
}

fn recipes() -> Vec<Recipe> {
    let append = "# append";
    let text = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let left = |word: &str| [and(rows_by("it", 0..2), append), and(rows_by("it", 2..6), word)].concat();
    let marked = and(left("# leave"), "# marker");
    let ones = |seqs: std::ops::Range<u64>| {
        seqs.flat_map(|seq| and(rows_by("it", seq..seq + 1), append)).collect::<Vec<_>>()
    };
    let long = [row_by("it", 0, 200_000), row_by("it", 1, 10), row_by("it", 2, 300), row_by("it", 3, 70_000)];
    let v0 = text(&[
        r#"{"type":"session","version":0,"id":"s","createdAt":5,"seedLength":1,"delegationDepth":0}"#,
        r#"{"type":"turn/start","seq":0,"time":10,"data":{"turn":1}}"#,
        append,
        r#"{"type":"text-chunks","seq0":1,"time0":20,"data":{"turn":1,"step":1,"index":0,"dt":[4,-1],"texts":["a","","b"]}}"#,
        r#"{"type":"tool-call-chunks","seq0":4,"time0":30,"data":{"turn":1,"step":1,"index":1,"dt":[],"id":"c","args":["{}"]}}"#,
        append,
    ]);
    vec![
        recipe("a header alone", &[], Vec::new(), "complete"),
        recipe("one append", &[], and(rows_by("it", 0..3), append), "complete"),
        recipe("seventy appends", &[], ones(0..70), "complete"),
        recipe("seventy appends that nobody synced", &["--weak"], ones(0..70), "complete"),
        recipe("an append of segments", &["--segment", "300"], and(rows_by("it", 0..90), append), "complete"),
        recipe("rows of many blocks", &["--segment", "1000"], and(long.to_vec(), append), "complete"),
        recipe("an append without its end", &["--segment", "250"], left("# leave"), "unfinished"),
        recipe("one that a marker commits", &["--segment", "250"], marked.clone(), "complete"),
        recipe("an append behind a marker", &["--weak"], [marked, ones(6..9)].concat(), "complete"),
        Recipe {
            what: "generation 0",
            name: "session.jsonl.zst",
            options: &[],
            input: v0,
            state: "complete",
        },
    ]
}

#[test]
fn logs_of_a_strange_writer_are_read_and_written_to() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/independent/encode.py");
    let root = tempfile::tempdir().unwrap();
    let mut samples = Vec::new();
    for recipe in recipes() {
        let what = recipe.what;
        let root = root.path().join(what);
        let folder = root.join("_no-cwd/s");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(recipe.name);
        let child =
            Command::new("python3").arg(script).arg(&path).args(recipe.options).stdin(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            common::skip("python3 is not installed");
            return;
        };
        let lines = |input: &[String]| input.iter().map(|line| format!("{line}\n")).collect::<String>();
        // All of it is read before anything is written.
        child.stdin.take().expect("piped").write_all(lines(&recipe.input).as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{what}");
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [recipe.name], "{what}");

        let log: Vec<String> = recipe.input.iter().filter(|line| !line.starts_with('#')).cloned().collect();
        let bytes = fs::read(&path).unwrap();
        let (found, _) = Outcome::of(Encoding::Indexed, &bytes);
        assert_eq!((found.state.as_deref(), found.fault.as_deref()), (Some(recipe.state), None), "{what}");
        assert_eq!(found.text_crc, u64::from(build::crc32(0, lines(&log).as_bytes())), "{what}");
        let name = recipe.name.to_owned();
        samples.push(Sample { what: what.to_owned(), encoding: Encoding::Indexed, name, bytes, sound: None });
        if recipe.name == "session.v2.jsonl.zst" {
            go_on(&root, &log[1..], what, recipe.state);
            let what = format!("{what}, and appends of the crate");
            samples.push(Sample::new(what, Encoding::Indexed, fs::read(&path).unwrap()));
        }
    }
    assert!(compare(&samples) >= samples.len() / 2, "the files of the strange writer need no decompressor");
}

/// Reads the one log below `root`, all of it and from each place on, and appends to it.
fn go_on(root: &std::path::Path, rows: &[String], what: &str, state: &str) {
    let store = FileStore::with_options(root, options(Encoding::Indexed));
    let id = Text::from("s");
    let stat = store.stat(&id).unwrap().expect("it is there");
    let expected = if state == "complete" { State::Ok } else { State::Torn };
    assert_eq!((stat.state, stat.event_count), (expected, Some(rows.len() as u64)), "{what}");
    let handle = store.open(&id, SessionAccess::Write).unwrap();
    for from in 0..=rows.len() {
        let read = common::sessions::read(&handle, from as u64, 5).unwrap();
        assert_eq!(read, rows[from..rows.len().min(from + 5)], "{what}, from {from}");
    }
    let next = rows.len() as u64;
    common::sessions::append(&handle, &rows_by("crate", next..next + 2)).unwrap();
    common::sessions::append(&handle, &rows_by("crate", next + 2..next + 3)).unwrap();
    assert_eq!(
        common::sessions::read_all(&handle).unwrap(),
        [rows, &rows_by("crate", next..next + 3)].concat(),
        "{what}"
    );
    handle.close().unwrap();
}
