//! What a reader makes of a file: as a vector states it, and as the crate finds it.

use std::fmt::Debug;

use seslog::container::{Detected, Encoding, Fault, ReadError, Tail, TailState, detect, reader};
use seslog::limits::Limits;
use seslog::row::{
    Header, HeaderFault, PackedFault, PhysicalRow, Recovery, RowDecoder, RowFault, RowPlace, Seeding,
};
use toml::{Table, Value};

use crate::build::{Event, crc32};

/// See `format-spec/vectors/README.md`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) detected: String,
    pub(crate) state: Option<String>,
    pub(crate) good_end: Option<u64>,
    pub(crate) durable: Option<u64>,
    pub(crate) committed: Option<bool>,
    pub(crate) fault: Option<String>,
    pub(crate) at: Option<u64>,
    pub(crate) member: Option<String>,
    pub(crate) inside: Option<String>,
    pub(crate) line: Option<u64>,
    pub(crate) text: Option<Vec<String>>,
    pub(crate) text_len: u64,
    pub(crate) text_crc: u64,
    pub(crate) events: Option<Vec<Event>>,
    pub(crate) cut: Option<u64>,
}

impl Outcome {
    /// The outcome with the lines that were served.
    pub(crate) fn with_text(mut self, text: &[u8]) -> Self {
        const SHOWN_MAX: usize = 2000;
        self.text_len = text.len() as u64;
        self.text_crc = u64::from(crc32(0, text));
        let shown = std::str::from_utf8(text).ok().filter(|text| text.len() <= SHOWN_MAX);
        self.text = shown.map(|text| text.lines().map(str::to_owned).collect());
        self
    }

    pub(crate) fn write(&self, table: &mut Vec<(&'static str, Value)>) {
        let string = |text: &String| Value::String(text.clone());
        let number = |number: u64| Value::Integer(i64::try_from(number).expect("fits"));
        let mut put = |key, value: Option<Value>| table.extend(value.map(|value| (key, value)));
        put("detected", Some(string(&self.detected)));
        put("state", self.state.as_ref().map(string));
        put("good_end", self.good_end.map(number));
        put("durable", self.durable.map(number));
        put("committed", self.committed.map(Value::Boolean));
        put("fault", self.fault.as_ref().map(string));
        put("at", self.at.map(number));
        put("member", self.member.as_ref().map(string));
        put("inside", self.inside.as_ref().map(string));
        put("line", self.line.map(number));
        let list = |lines: &Vec<String>| Value::Array(lines.iter().map(string).collect());
        put("text", self.text.as_ref().map(list));
        put("text_len", Some(number(self.text_len)));
        put("text_crc", Some(number(self.text_crc)));
        let event =
            |(seq, time, kind): &Event| Value::Array(vec![number(*seq), Value::Integer(*time), string(kind)]);
        put("events", self.events.as_ref().map(|events| Value::Array(events.iter().map(event).collect())));
        put("cut", self.cut.map(number));
    }

    /// The outcome in a vector's table.
    pub(crate) fn parse(table: &Table) -> Self {
        let string = |key| table.get(key).map(|value| text_of(value).to_owned());
        let number = |key| table.get(key).map(count_of);
        let event = |event: &Value| match event.as_array().map(Vec::as_slice) {
            Some([seq, Value::Integer(time), kind]) => (count_of(seq), *time, text_of(kind).to_owned()),
            _ => panic!("not an event: {event}"),
        };
        let list =
            |key| table.get(key).map(|value| value.as_array().unwrap_or_else(|| panic!("{key} is a list")));
        Self {
            detected: string("detected").expect("`detected` is there"),
            state: string("state"),
            good_end: number("good_end"),
            durable: number("durable"),
            committed: table.get("committed").map(|value| value.as_bool().expect("a boolean")),
            fault: string("fault"),
            at: number("at"),
            member: string("member"),
            inside: string("inside"),
            line: number("line"),
            text: list("text").map(|lines| lines.iter().map(|line| text_of(line).to_owned()).collect()),
            text_len: number("text_len").expect("`text_len` is there"),
            text_crc: number("text_crc").expect("`text_crc` is there"),
            events: list("events").map(|events| events.iter().map(event).collect()),
            cut: number("cut"),
        }
    }

    /// Reads `bytes` with the crate: the container to its verdict, then the rows strictly.
    pub(crate) fn of(encoding: Encoding, bytes: &[u8]) -> (Self, Option<Fault>) {
        let mut source = bytes;
        let mut outcome = Self { detected: detected(detect(&mut source)).to_owned(), ..Self::default() };
        let mut blocks = reader(encoding, Limits::DEFAULT);
        let mut text = Vec::new();
        let error = loop {
            match blocks.next(&mut source) {
                Ok(Some(block)) => {
                    assert_eq!(block.content_start, text.len() as u64, "blocks follow each other");
                    text.extend_from_slice(block.content);
                }
                Ok(None) => break None,
                Err(ReadError::Bad { at, fault }) => break Some((at, fault)),
                Err(error) => panic!("{error}"),
            }
        };
        let tail = blocks.tail();
        let mut fault = error;
        if let Some(tail) = tail {
            outcome.state = Some(state(tail).to_owned());
            outcome.good_end = Some(tail.good_end);
            if encoding == Encoding::Indexed {
                outcome.durable = Some(tail.durable);
                outcome.committed = Some(tail.committed);
            }
            fault = fault.or(tail.fault.map(|fault| (tail.good_end, fault)));
        }
        let outcome = outcome.with_text(&text);
        match fault {
            Some((at, fault)) => (outcome.with_fault(&fault, Some(at)).with_rows(&text, false), Some(fault)),
            None => (outcome.with_rows(&text, true), None),
        }
    }

    fn with_fault(mut self, fault: &dyn Debug, at: Option<u64>) -> Self {
        let debug = format!("{fault:?}");
        self.fault = Some(name_of(&debug).to_owned());
        self.at = at;
        // `Chain { member: "segment", .. }`
        self.member =
            debug.split_once("member: \"").and_then(|(_, rest)| Some(rest.split_once('"')?.0.to_owned()));
        self
    }

    /// Reads the lines of `text` strictly. `is_whole`: nothing was wrong with the container.
    fn with_rows(mut self, text: &[u8], is_whole: bool) -> Self {
        let mut lines = text.split_inclusive(|byte| *byte == b'\n').map(|line| &line[..line.len() - 1]);
        let Some(first) = lines.next() else { return self };
        let header = match Header::parse(first, &Limits::DEFAULT) {
            Ok(header) => header,
            Err(fault) => {
                self = self.with_fault(&fault, Some(0));
                self.line = Some(1);
                self.member = match fault {
                    HeaderFault::Member(member) | HeaderFault::Missing(member) => {
                        Some(member.as_str().to_owned())
                    }
                    _ => None,
                };
                return self;
            }
        };
        let mut decoder = RowDecoder::new(header.generation(), Recovery::Strict);
        let mut place = RowPlace { line: 2, offset: first.len() as u64 + 1 };
        let mut events = Vec::new();
        for line in lines {
            match decoder.push(place, line) {
                Ok(row) => push_events(row.expect("a strict read drops nothing"), &mut events),
                Err(failed) => {
                    if is_whole {
                        self = self.with_row_fault(failed.issue.fault, place);
                    }
                    self.events = Some(events);
                    return self;
                }
            }
            place = RowPlace { line: place.line + 1, offset: place.offset + line.len() as u64 + 1 };
        }
        self.events = Some(events);
        if is_whole || self.state.as_deref().is_some_and(|state| ["torn", "damaged"].contains(&state)) {
            match decoder.finish(&header) {
                Ok(cut) => self.cut = (header.seeding() != Seeding::Unseeded).then_some(cut),
                Err(fault) if is_whole => self = self.with_fault(&fault, None),
                Err(_) => {}
            }
        }
        self
    }

    fn with_row_fault(self, fault: RowFault, place: RowPlace) -> Self {
        let mut outcome = self.with_fault(&fault, Some(place.offset));
        outcome.line = Some(place.line);
        outcome.member = match fault {
            RowFault::Member(member)
            | RowFault::MissingMember(member)
            | RowFault::Packed(PackedFault::Member(member) | PackedFault::MissingMember(member)) => {
                Some(member.as_str().to_owned())
            }
            _ => None,
        };
        outcome.inside = match fault {
            RowFault::Packed(inside) => Some(name_of(&format!("{inside:?}")).to_owned()),
            RowFault::Provenance(inside) => Some(name_of(&format!("{inside:?}")).to_owned()),
            _ => None,
        };
        outcome
    }
}

fn push_events(row: PhysicalRow<'_>, events: &mut Vec<Event>) {
    match row {
        PhysicalRow::Event(event) => {
            let kind = event.event_type().to_string_lossy().into_owned();
            events.push((event.seq().get(), event.time().get(), kind));
        }
        PhysicalRow::Packed(packed) => {
            events.extend(
                packed
                    .members()
                    .map(|member| (member.seq.get(), member.time.get(), "assistant/chunk".to_owned())),
            );
        }
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}"))
}

fn count_of(value: &Value) -> u64 {
    let number = value.as_integer().unwrap_or_else(|| panic!("not a number: {value}"));
    u64::try_from(number).unwrap_or_else(|_| panic!("negative: {number}"))
}

/// The variant's name in what `Debug` prints of an enum.
fn name_of(debug: &str) -> &str {
    debug.split(['(', ' ', '{']).next().expect("a first piece")
}

pub(crate) fn fault_name(fault: &dyn Debug) -> String {
    name_of(&format!("{fault:?}")).to_owned()
}

pub(crate) fn detected(detected: Detected) -> &'static str {
    match detected {
        Detected::Nothing => "nothing",
        Detected::Compressed => "compressed",
        Detected::Encoding(encoding) => encoding.name(),
        Detected::Unknown => "unknown",
        _ => panic!("another answer"),
    }
}

fn state(tail: Tail) -> &'static str {
    match tail.state {
        TailState::Complete => "complete",
        TailState::Unfinished => "unfinished",
        TailState::Torn => "torn",
        TailState::Damaged => "damaged",
        TailState::Corrupt => "corrupt",
        TailState::Unsupported => "unsupported",
        _ => panic!("another verdict"),
    }
}
