//! README, 01, 02 and 05: constants, names, detection, frames, verdicts.

use std::collections::BTreeSet;

use seslog::container::spec::{CONSTANTS, holds_zero_sector};
use seslog::container::{Encoding, ReadError, TRAILER_LEN, detect, walk_frame};
use seslog::json::Tape;
use seslog::limits::Limits;
use seslog::store::layout;
use seslog::units::{Generation, Seq};

use crate::build::{self, crc32};
use crate::hex::bytes_of;
use crate::markdown::{Doc, code};
use crate::outcome::{Outcome, detected, fault_name};
use crate::vectors;

fn number(cell: &str) -> u64 {
    cell.parse().unwrap_or_else(|error| panic!("{error}: {cell:?}"))
}

#[test]
fn constants_are_those_of_the_code() {
    let mut code: Vec<(String, u64)> = CONSTANTS.map(|(name, value)| (name.to_owned(), value)).into();
    code.push(("SEQ_MAX".to_owned(), Seq::MAX.get()));
    let table = Doc::read("README.md").table("Constants").select(["name", "value"]);
    let text: BTreeSet<(String, u64)> =
        table.into_iter().map(|[name, value]| (name, number(&value))).collect();
    assert_eq!(text, code.into_iter().collect());
    assert_eq!(TRAILER_LEN, build::TRAILER_LEN);
}

#[test]
fn limits_are_those_of_the_code() {
    let limits = format!("{:?}", Limits::default());
    let table = Doc::read("README.md").table("Limits").select(["name", "default"]);
    let text: Vec<String> = table.iter().map(|[name, default]| format!("{name}: {default}")).collect();
    assert_eq!(limits, format!("Limits {{ {} }}", text.join(", ")));
}

#[test]
fn faults_have_the_class_that_the_table_gives_and_a_vector_each() {
    // What it takes a file of more than 256 MiB, a lying compressor, or the rows' own count, to show.
    const UNSHOWN: [&str; 3] = ["BodyLimit", "ContentSize", "EventCount"];
    let table = Doc::read("README.md").table("Faults of the container").select(["fault", "class"]);
    let mut shown = BTreeSet::new();
    for vector in ["valid", "invalid"].into_iter().flat_map(vectors::read) {
        let encoding = vector.string("encoding").parse().unwrap();
        let (_, Some(fault)) = Outcome::of(encoding, &vector.bytes) else { continue };
        let name = fault_name(&fault);
        let row = table.iter().find(|[listed, _]| *listed == name);
        let [_, class] = row.unwrap_or_else(|| panic!("{name} is not listed"));
        assert_eq!(fault.is_limit(), class == "limit", "{name}");
        assert_eq!(fault.is_unsupported(), ["unsupported", "limit"].contains(&class.as_str()), "{name}");
        assert_eq!(fault.is_checksum(), class == "checksum", "{name}");
        shown.insert(name);
    }
    for [name, _] in &table {
        assert!(shown.contains(name) != UNSHOWN.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn encodings_have_the_suffixes_of_the_table() {
    let table = Doc::read("01-container.md").table("Encodings").select(["encoding", "suffix"]);
    let text: Vec<(&str, &str)> = table.iter().map(|[name, suffix]| (name.as_str(), code(suffix))).collect();
    assert_eq!(text, Encoding::ALL.map(|encoding| (encoding.name(), encoding.suffix())));
}

#[test]
fn folders_and_names_of_the_tables_are_made_and_read_so() {
    let doc = Doc::read("01-container.md");
    let mut tape = Tape::default();
    let mut text_of = |json: &str| tape.parse(json.as_bytes(), 1).unwrap().as_str().unwrap().to_text();
    for [id, folder] in doc.tables("Session folder")[1].select(["id, as a JSON string", "folder"]) {
        assert_eq!(layout::session_dir_name(&text_of(code(&id))).as_deref(), Some(code(&folder)), "{id}");
    }
    assert_eq!(layout::session_dir_name(&text_of("\"\"")), None);
    for [cwd, folder] in doc.table("Project folder").select(["cwd, as a JSON string", "folder"]) {
        assert_eq!(
            layout::project_dir_name(Some(&text_of(code(&cwd)))).as_deref(),
            Some(code(&folder)),
            "{cwd}"
        );
    }
    assert_eq!(layout::project_dir_name(None).as_deref(), Some("_no-cwd"));
    for [name, generation, encoding] in doc.tables("File names")[1].select(["name", "generation", "encoding"])
    {
        let read = layout::parse_log_name(code(&name).as_ref());
        let stated =
            (generation != "none").then(|| (Generation::new(number(&generation)), encoding.parse().unwrap()));
        assert_eq!(read, stated, "{name}");
        if let Some((generation, encoding)) = stated {
            assert_eq!(layout::log_name(generation, encoding), code(&name));
        }
    }
}

#[test]
fn examples_of_detection_are_detected_so() {
    let table = Doc::read("01-container.md").table("Detection").select(["example", "detected"]);
    let mut answers = BTreeSet::new();
    for [example, answer] in &table {
        let bytes = bytes_of(code(example));
        assert_eq!(detected(detect(&mut &bytes[..])), answer, "{example}");
        answers.insert(answer.clone());
    }
    assert_eq!(answers.len(), 6, "each answer has an example");
}

#[test]
fn frame_headers_of_the_table_are_read_so() {
    let tables = Doc::read("02-frames.md").tables("The frame header");
    let rows = tables[1].select(["header bytes", "window", "content size", "dictionary", "checksum"]);
    assert!(rows.len() > 4);
    for [header, window, size, dictionary, checksum] in rows {
        let has_checksum = checksum == "yes";
        let end: &[u8] = if has_checksum { &[1, 0, 0, 9, 9, 9, 9] } else { &[1, 0, 0] };
        let bytes = [&bytes_of(code(&header)), end].concat();
        let frame = walk_frame(&mut &bytes[..], 0).unwrap();
        assert_eq!(frame.end, bytes.len() as u64, "{header}");
        assert_eq!(frame.window_bytes, number(&window), "{header}");
        assert_eq!(frame.content_size, (!size.is_empty()).then(|| number(&size)), "{header}");
        assert_eq!(u64::from(frame.dictionary), number(&dictionary), "{header}");
        assert_eq!(frame.has_checksum, has_checksum, "{header}");
    }
}

#[test]
fn prefixes_and_changes_of_the_worked_frames_are_walked_so() {
    let doc = Doc::read("02-frames.md");
    let file = doc.hex("worked-zstd");
    let texts = [
        "{\"type\":\"session\",\"version\":2,\"id\":\"w\",\"createdAt\":9,\"isSeeded\":false,\"delegationDepth\":0}\n",
        "{\"type\":\"turn/start\",\"seq\":0,\"time\":9,\"data\":{\"turn\":1}}\n",
    ];
    assert_eq!(
        file,
        texts.map(|text| build::frame(text.as_bytes())).concat(),
        "the fence is what the text says"
    );

    let tables = doc.tables("Worked bytes");
    let mut next = 0;
    for [prefix, walked] in tables[0].select(["the first N bytes", "structural walk"]) {
        let (from, to) = prefix.split_once(" to ").unwrap_or((&prefix, &prefix));
        assert_eq!(number(from), next, "no length is left out");
        next = number(to) + 1;
        for len in number(from)..=number(to) {
            assert_eq!(walk_all(&file[..usize::try_from(len).unwrap()]), walked, "the first {len} bytes");
        }
    }
    assert_eq!(next, file.len() as u64 + 1);
    for [at, value, fault] in tables[1].select(["byte", "set to", "walk from 0"]) {
        let mut file = file.clone();
        file[usize::try_from(number(&at)).unwrap()] = u8::from_str_radix(&value, 16).unwrap();
        let Err(ReadError::Bad { at: 0, fault: found }) = walk_frame(&mut &file[..], 0) else {
            panic!("byte {at}")
        };
        assert_eq!(fault_name(&found), fault, "byte {at} set to {value}");
    }
}

/// The walk over all of `bytes`, in the words of the table.
fn walk_all(bytes: &[u8]) -> String {
    let mut at = 0;
    let mut frames = Vec::new();
    let mut end = String::new();
    while at < bytes.len() as u64 {
        match walk_frame(&mut { bytes }, at) {
            Ok(frame) => {
                frames.push(format!("[{}, {})", frame.start, frame.end));
                at = frame.end;
            }
            Err(ReadError::Bad { at, fault }) => {
                end = format!("{} at {at}", fault_name(&fault));
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let count = match frames.len() {
        0 if end.is_empty() => return "no frame starts".to_owned(),
        0 => return end,
        1 => "one frame, ",
        _ => "two frames, ",
    };
    let frames = format!("{count}{}", frames.join(" and "));
    if end.is_empty() { frames } else { format!("{frames}; {end}") }
}

#[test]
fn each_verdict_of_the_table_is_shown_by_vectors_of_its_encodings() {
    let doc = Doc::read("05-append-and-repair.md");
    let tables = doc.tables("Judging the end");
    let vectors: Vec<_> = ["valid", "invalid"].into_iter().flat_map(vectors::read).collect();
    let shown: BTreeSet<(String, String)> = vectors
        .iter()
        .filter_map(|vector| Some((vector.string("encoding").to_owned(), vector.outcome().state?)))
        .collect();
    for [encodings, stopped, verdict] in tables[0].select(["encodings", "the walk stopped", "verdict"]) {
        // A line names no version, no dictionary and no boundary.
        let all: &[&str] =
            if verdict == "unsupported" { &["indexed", "zstd"] } else { &["indexed", "zstd", "plain"] };
        let listed: Vec<&str> = encodings.split(", ").collect();
        for encoding in if encodings == "all" { all } else { &listed } {
            let pair = ((*encoding).to_owned(), verdict.clone());
            assert!(shown.contains(&pair), "no vector shows {encoding} {verdict} ({stopped})");
        }
    }
    let explained: BTreeSet<String> =
        tables[1].select(["verdict"]).into_iter().map(|[verdict]| verdict).collect();
    let judged: BTreeSet<String> =
        tables[0].select(["verdict"]).into_iter().map(|[verdict]| verdict).collect();
    assert_eq!(explained, judged);
}

#[test]
fn zero_sectors_count_where_they_stand_in_the_file() {
    let body = |at: usize, len: usize| {
        let mut bytes = vec![0; len];
        bytes.insert(0, 0x28);
        bytes.push(0x50);
        holds_zero_sector(at as u64, &bytes)
    };
    assert!(body(511, 512) && body(1023, 512) && body(0, 1023));
    assert!(!body(512, 512) && !body(511, 511) && !body(0, 1022));
}

#[test]
fn the_set_aside_name_of_the_example_is_right() {
    let text = std::fs::read_to_string(crate::markdown::folder().join("05-append-and-repair.md")).unwrap();
    let name = format!("session.v2.jsonl.zst.torn-4096-9-{:08x}", crc32(0, b"123456789"));
    assert!(text.contains(&name), "{name}");
}
