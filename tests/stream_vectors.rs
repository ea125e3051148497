//! The recorded behaviour of the original's stream functions, file by file.
//!
//! `tests/data/vectors/stream` holds one JSON object a file: what was pushed, which records came out, what they expand
//! and assemble to, or that they are refused. Values are compared as JavaScript compares them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use seslog::json::{Node, Tape};
use seslog::stream::{
    Accumulator, Assembler, Block, ChunkKind, RecordFault, Scratch, StreamFault, StreamReader, expand,
};

const FILES: usize = 170;

/// The rule that each refused stream breaks first. Record 0 breaks it except in the first file.
const FAULTS: &[(&str, RecordFault)] = &[
    ("bad-after-good-records", RecordFault::Gaps),
    ("bad-chunk-array", RecordFault::RawChunk),
    ("bad-chunk-extra-member", RecordFault::MemberSet),
    ("bad-chunk-missing-chunk", RecordFault::MemberSet),
    ("bad-chunk-missing-time", RecordFault::MemberSet),
    ("bad-chunk-negative-zero", RecordFault::RawChunk),
    ("bad-chunk-not-finite", RecordFault::RawChunk),
    ("bad-chunk-null", RecordFault::RawChunk),
    ("bad-chunk-string", RecordFault::RawChunk),
    ("bad-chunk-time-fraction", RecordFault::Time),
    ("bad-chunk-time-string", RecordFault::Time),
    ("bad-chunk-time0-name", RecordFault::MemberSet),
    ("bad-dt-fraction", RecordFault::Gaps),
    ("bad-dt-not-array", RecordFault::Gaps),
    ("bad-dt-null", RecordFault::Gaps),
    ("bad-dt-string", RecordFault::Gaps),
    ("bad-dt-too-long", RecordFault::Gaps),
    ("bad-dt-too-short", RecordFault::Gaps),
    ("bad-dt-unsafe", RecordFault::Gaps),
    ("bad-index-fraction", RecordFault::Index),
    ("bad-index-negative", RecordFault::Index),
    ("bad-index-negative-zero", RecordFault::Index),
    ("bad-index-string", RecordFault::Index),
    ("bad-index-unsafe", RecordFault::Index),
    ("bad-reasoning-texts-member-number", RecordFault::Fragments),
    ("bad-record-is-array", RecordFault::NotAnObject),
    ("bad-record-is-boolean", RecordFault::NotAnObject),
    ("bad-record-is-null", RecordFault::NotAnObject),
    ("bad-record-is-number", RecordFault::NotAnObject),
    ("bad-record-is-string", RecordFault::NotAnObject),
    ("bad-text-extra-member", RecordFault::MemberSet),
    ("bad-text-missing-dt", RecordFault::MemberSet),
    ("bad-text-missing-index", RecordFault::MemberSet),
    ("bad-text-missing-texts", RecordFault::MemberSet),
    ("bad-text-missing-time0", RecordFault::MemberSet),
    ("bad-text-swapped-member", RecordFault::MemberSet),
    ("bad-text-with-name", RecordFault::MemberSet),
    ("bad-texts-empty", RecordFault::Fragments),
    ("bad-texts-member-null", RecordFault::Fragments),
    ("bad-texts-not-array", RecordFault::Fragments),
    ("bad-texts-object", RecordFault::Fragments),
    ("bad-time-overflow", RecordFault::TimeRange),
    ("bad-time-overflow-then-back", RecordFault::TimeRange),
    ("bad-time-underflow", RecordFault::TimeRange),
    ("bad-time0-fraction", RecordFault::Time),
    ("bad-time0-null", RecordFault::Time),
    ("bad-time0-string", RecordFault::Time),
    ("bad-time0-unsafe", RecordFault::Time),
    ("bad-tool-args-empty", RecordFault::Fragments),
    ("bad-tool-args-member", RecordFault::Fragments),
    ("bad-tool-args-missing", RecordFault::MemberSet),
    ("bad-tool-extra-member", RecordFault::MemberSet),
    ("bad-tool-id-empty", RecordFault::Id),
    ("bad-tool-id-missing", RecordFault::MemberSet),
    ("bad-tool-id-number", RecordFault::Id),
    ("bad-tool-name-empty", RecordFault::Name),
    ("bad-tool-name-null", RecordFault::Name),
    ("bad-tool-name-number", RecordFault::Name),
    ("bad-tool-texts-instead", RecordFault::MemberSet),
    ("bad-tool-time-overflow", RecordFault::TimeRange),
    ("bad-type-is-chunk-kind", RecordFault::UnknownType),
    ("bad-type-missing", RecordFault::UnknownType),
    ("bad-type-not-string", RecordFault::UnknownType),
    ("bad-type-unknown", RecordFault::UnknownType),
];

#[test]
fn all_170_vectors_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vectors/stream");
    let mut checks = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read(&path).unwrap();
        let mut tape = Tape::default();
        let vector = Vector { name: name.clone(), root: tape.parse(&text, 100_000).unwrap(), checks: 0 };
        checks.insert(name, vector.run());
    }
    assert_eq!(checks.len(), FILES);
    let idle: Vec<_> = checks.iter().filter(|(_, checks)| **checks == 0).collect();
    assert!(idle.is_empty(), "files that checked nothing: {idle:?}");
    let total: usize = checks.values().sum();
    println!("{} files, {total} checks", checks.len());
}

struct Vector<'t> {
    name: String,
    root: Node<'t>,
    checks: usize,
}

impl Vector<'_> {
    fn run(mut self) -> usize {
        let name = self.root.get("name").unwrap().as_str().unwrap();
        self.check("its name is the file's", name.eq_str(&self.name));
        match self.text("stage").as_deref() {
            Some("\"expand\"") => self.refused_by_expansion(),
            Some("\"accumulate\"") => self.refused_by_accumulation(),
            Some(stage) => panic!("{}: unknown stage {stage}", self.name),
            None => {
                if !self.name.starts_with("rec-") {
                    self.accumulates();
                }
                self.expands();
                self.assembles();
                self.reads();
            }
        }
        self.checks - 1 // the name alone checks nothing
    }

    fn check(&mut self, what: &str, holds: bool) {
        assert!(holds, "{}: {what}", self.name);
        self.checks += 1;
    }

    fn check_json(&mut self, what: &str, got: &str, expected: &str) {
        let equal = same(got, expected);
        assert!(equal, "{}: {what}\n     got {got}\nexpected {expected}", self.name);
        self.checks += 1;
    }

    /// The JSON text of a member, given as such or as text in a string.
    fn text(&self, member: &str) -> Option<String> {
        let text = self.root.get(&format!("{member}Text")).map(|text| text.as_str().unwrap());
        match text {
            Some(text) => Some(text.to_text().as_str().unwrap().to_owned()),
            None => self.root.get(member).map(|node| node.raw().to_owned()),
        }
    }

    fn is_true(&self, member: &str) -> bool {
        self.text(member).as_deref() == Some("true")
    }

    fn records(&self) -> String {
        self.text("records").unwrap()
    }

    fn timed(&self) -> Vec<String> {
        match self.root.get("timedGen") {
            Some(segments) => segments.items().unwrap().flat_map(generated).collect(),
            None => items(&self.text("timed").unwrap()),
        }
    }

    fn refused_by_expansion(&mut self) {
        let fault = expand(self.records().as_bytes()).unwrap_err();
        let expected = FAULTS.iter().find(|(name, _)| *name == self.name).map(|(_, fault)| *fault);
        let expected = expected.unwrap_or_else(|| panic!("{}: no fault is listed", self.name));
        let StreamFault::Record { record, fault } = fault else { panic!("{}: {fault}", self.name) };
        assert_eq!(fault, expected, "{}", self.name);
        let first_bad = if self.name == "bad-after-good-records" { 3 } else { 0 };
        self.check("the first bad record is named", record == first_bad);
    }

    fn refused_by_accumulation(&mut self) {
        let refused: Vec<usize> =
            items(&self.text("failAt").unwrap()).iter().map(|at| at.parse().unwrap()).collect();
        let mut stream = Accumulator::new();
        for (at, timed) in self.timed().iter().enumerate() {
            let before = stream.snapshot();
            let result = stream.push_timed_json(timed.as_bytes()).map(drop);
            self.check(&format!("push {at}: {result:?}"), result.is_err() == refused.contains(&at));
            if result.is_err() {
                self.check("a refused push changes nothing", stream.snapshot() == before);
            }
        }
        self.check_json("snapshot", &stream.snapshot(), &self.records());
        self.check("refusals say so", refused.is_empty() || self.is_true("error"));
    }

    fn accumulates(&mut self) {
        let mut buffer = b"before".to_vec();
        let mut owned = Accumulator::new();
        let mut borrowing = Accumulator::with(&mut buffer, Scratch::default());
        for timed in self.timed() {
            let mut copy = Vec::new();
            owned.push_timed_json(timed.as_bytes()).unwrap().write_json(&mut copy);
            self.check_json("returned copy", std::str::from_utf8(&copy).unwrap(), &timed);
            borrowing.push_timed_json(timed.as_bytes()).unwrap();
        }
        let snapshot = owned.snapshot();
        self.check_json("snapshot", &snapshot, &self.records());
        self.check("both ways to accumulate agree", borrowing.snapshot() == snapshot);
        borrowing.finish();
        self.check("the borrowed buffer holds the records", buffer == format!("before{snapshot}").as_bytes());
    }

    fn expands(&mut self) {
        let records = self.records();
        let stream = expand(records.as_bytes()).unwrap();
        let expected = self.text("expanded").map_or_else(|| self.timed(), |text| items(&text));
        self.check("number of chunks", stream.len() == expected.len());
        self.check("number of chunks that come", stream.chunks().count() == expected.len());
        for (chunk, expected) in stream.chunks().zip(&expected) {
            let mut got = Vec::new();
            chunk.write_json(&mut got);
            self.check_json("expanded chunk", std::str::from_utf8(&got).unwrap(), expected);
        }
        let mut again = Accumulator::new();
        let mut accumulated = true;
        for chunk in &stream {
            accumulated &= again.push(chunk.time, chunk.chunk).is_ok();
        }
        let mut encoded = Vec::new();
        stream.write_json(&mut encoded);
        self.check_json("records written again", std::str::from_utf8(&encoded).unwrap(), &records);
        if accumulated {
            let canonical = self.text("canonicalRecords").unwrap_or(records);
            let snapshot = again.snapshot();
            self.check_json("expansion accumulated again", &snapshot, &canonical);
            let mut encoded = Vec::new();
            expand(snapshot.as_bytes()).unwrap().write_json(&mut encoded);
            self.check("accumulated records are written again byte for byte", encoded == snapshot.as_bytes());
        } else {
            self.check("only an unknown chunk is refused", self.name.starts_with("rec-raw-"));
        }
    }

    fn assembles(&mut self) {
        let records = self.records();
        let stream = expand(records.as_bytes()).unwrap();
        let mut by_chunk = Assembler::new();
        let pushed = stream.chunks().try_for_each(|timed| by_chunk.push(timed.chunk));
        let by_record = StreamReader::new(&records).assemble();
        self.check("both ways to assemble agree on failure", pushed.is_err() == by_record.is_err());
        let assembled = pushed.and_then(|()| assembled(&by_chunk));
        if self.is_true("assembleError") {
            self.check("assembling fails", assembled.is_err());
        } else {
            let assembled = assembled.unwrap();
            self.check_json("assembled", &assembled, &self.text("assembled").unwrap());
            self.check(
                "joined feeding gives the same",
                self::assembled(&by_record.unwrap()) == Ok(assembled),
            );
        }
        if let Some(expected) = self.text("interrupted") {
            self.check_json("interrupted", &array(&by_chunk.interrupted_blocks()), &expected);
        }
    }

    fn reads(&mut self) {
        let records = self.records();
        let reader = StreamReader::new(&records);
        let mut got = format!(
            "{{\"joinedText\":{},\"hasVisibleContent\":{},\"hasVisibleText\":{},\"blockEnds\":{}",
            literal(&reader.joined_text().unwrap()),
            reader.has_visible_content().unwrap(),
            reader.has_visible_text().unwrap(),
            reader.raw_chunks(ChunkKind::BlockEnd).map(Result::unwrap).count(),
        );
        if let Some(time) = reader.first_token_time().unwrap() {
            write!(got, ",\"firstTokenTime\":{}", time.get()).unwrap();
        }
        for (name, kind, member) in
            [("lastUsage", ChunkKind::Usage, "usage"), ("lastFinish", ChunkKind::Finish, "reason")]
        {
            if let Some(chunk) = reader.last_raw_chunk(kind).unwrap() {
                write!(got, ",\"{name}\":{}", chunk.member(member).unwrap()).unwrap();
            }
        }
        got.push('}');
        self.check_json("readers", &got, &self.text("readers").unwrap());
    }
}

fn same(a: &str, b: &str) -> bool {
    let (mut tape_a, mut tape_b) = (Tape::default(), Tape::default());
    let a = tape_a.parse(a.as_bytes(), 100_000).unwrap();
    a.deep_eq(tape_b.parse(b.as_bytes(), 100_000).unwrap())
}

fn items(array: &str) -> Vec<String> {
    let mut tape = Tape::default();
    let items = tape.parse(array.as_bytes(), 100_000).unwrap().items().unwrap();
    items.map(|item| item.raw().to_owned()).collect()
}

/// The timed chunks that a segment of `timedGen` stands for.
fn generated(segment: Node<'_>) -> Vec<String> {
    let number = |name| segment.get(name).unwrap().as_number().unwrap().as_safe_integer().unwrap();
    let gaps: Vec<i64> = segment
        .get("dt")
        .unwrap()
        .items()
        .unwrap()
        .map(|gap| gap.as_number().unwrap().as_safe_integer().unwrap())
        .collect();
    let field = segment.get("field").map(|field| field.as_str().unwrap().to_string_lossy());
    let values: Vec<_> =
        segment.get("values").map(|values| values.items().unwrap().collect()).unwrap_or_default();
    let mut time = number("time0");
    let count = usize::try_from(number("count")).unwrap();
    let mut timed = Vec::new();
    for item in 0..count {
        if item > 0 {
            time += gaps[(item - 1) % gaps.len()];
        }
        let members = segment.get("chunk").unwrap().members().unwrap().map(|(name, value)| {
            let is_field = field.as_ref().is_some_and(|field| name.eq_str(field));
            let value = if is_field { values[item % values.len()] } else { value };
            format!("\"{}\":{}", name.raw(), value.raw())
        });
        timed.push(format!("{{\"time\":{time},\"chunk\":{{{}}}}}", members.collect::<Vec<_>>().join(",")));
    }
    timed
}

/// `{content, usage?, finish, replayState?}` of an assembler.
fn assembled(assembler: &Assembler) -> Result<String, seslog::stream::AssembleFault> {
    let mut out = format!("{{\"content\":{},\"finish\":{}", array(&assembler.blocks()?), assembler.finish());
    if let Some(usage) = assembler.usage() {
        write!(out, ",\"usage\":{usage}").unwrap();
    }
    if let Some(state) = assembler.replay_state()? {
        write!(out, ",\"replayState\":{state}").unwrap();
    }
    out.push('}');
    Ok(out)
}

fn array(blocks: &[Block<'_>]) -> String {
    let mut out = b"[".to_vec();
    for (at, block) in blocks.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        block.write_json(&mut out);
    }
    out.push(b']');
    String::from_utf8(out).unwrap()
}

fn literal(text: &seslog::json::Text) -> String {
    let mut out = Vec::new();
    seslog::json::write_text(&mut out, text);
    String::from_utf8(out).unwrap()
}
