//! 04, "Closing an interrupted turn": its tables and its worked end, against the crate.

use std::fmt::Write;

use seslog::json::Tape;
use seslog::limits::Limits;
use seslog::row::{Check, Event};
use seslog::session::OpenTurn;

use crate::markdown::{Doc, code};

const SECTION: &str = "Closing an interrupted turn";

fn doc() -> Doc {
    Doc::read("04-rows.md")
}

fn closers(rows: &[impl AsRef<str>]) -> Vec<String> {
    let mut open = OpenTurn::default();
    for row in rows {
        open.push(&Event::read(row.as_ref().as_bytes(), Check::Full, &Limits::DEFAULT).unwrap());
    }
    let rows: Vec<String> =
        open.closers().into_iter().map(|row| String::from_utf8(row).expect("rows are UTF-8")).collect();
    assert_eq!(open.is_open(), !rows.is_empty());
    rows
}

/// The row for a word of the table: `turn/start`, `asks a b`, `calls a`, `answers a`.
fn row(seq: usize, word: &str) -> String {
    let (kind, ids) = word.split_once(' ').unwrap_or((word, ""));
    let (kind, data, rest) = match kind {
        "asks" => {
            let call = |id| format!(r#"{{"type":"tool-call","id":"{id}","name":"sh","arguments":"{{}}"}}"#);
            let blocks: Vec<String> = ids.split(' ').map(call).collect();
            let message = format!(r#"{{"id":"m","role":"assistant","content":[{}]}}"#, blocks.join(","));
            ("assistant/message", format!(r#""step":1,"message":{message}"#), r#","surfaceOp":"append""#)
        }
        "calls" => ("tool/call", format!(r#""step":1,"callId":"{ids}""#), ""),
        "answers" => {
            let message = format!(r#"{{"id":"r","source":{{"kind":"tool","callId":"{ids}"}}}}"#);
            ("tool/result", format!(r#""step":1,"message":{message}"#), r#","surfaceOp":"append""#)
        }
        boundary => (boundary, "\"step\":1".to_owned(), ""),
    };
    format!(r#"{{"type":"{kind}","seq":{seq},"time":{},"data":{{"turn":1,{data}}}{rest}}}"#, seq + 10)
}

/// The word of the table for a closing row.
fn word(row: &str) -> String {
    let mut tape = Tape::default();
    let node = tape.parse(row.as_bytes(), 64).unwrap();
    let text = |path: &[&str]| {
        let found = path.iter().try_fold(node, |node, name| node.get(name));
        found?.as_str().map(|text| text.to_string_lossy().into_owned())
    };
    let kind = text(&["type"]).unwrap();
    if kind != "tool/result" {
        return kind;
    }
    let id = text(&["data", "message", "source", "callId"]).unwrap();
    let stated = doc().tables(SECTION)[1].select(["call", "`error.name`", "`error.code`", "text"]);
    let name = text(&["data", "error", "name"]).unwrap();
    let [call, _, error, words] = stated.iter().find(|row| code(&row[1]) == name).expect("a listed error");
    assert_eq!(text(&["data", "error", "code"]).as_deref(), Some(code(error)));
    assert!(row.contains(&format!(r#""text":"{}"}}]"#, code(words))), "{row}");
    assert_eq!(node.get("sourceEventSeqs").is_some(), call == "started");
    format!("{call} {id}")
}

#[test]
fn each_end_of_the_table_is_closed_so_and_then_needs_nothing() {
    let ends = doc().tables(SECTION)[2].select(["the log", "is closed by"]);
    assert!(ends.len() > 10);
    for [log, closed] in ends {
        let rows: Vec<String> =
            words(&log).into_iter().enumerate().map(|(seq, word)| row(seq, &word)).collect();
        let closing = closers(&rows);
        assert_eq!(closing.iter().map(|row| word(row)).collect::<Vec<_>>(), words(&closed), "{log}");
        assert!(closers(&[rows.clone(), closing.clone()].concat()).is_empty(), "{log}");
        for (row, seq) in closing.iter().zip(rows.len()..) {
            let mut place = String::new();
            write!(place, r#","seq":{seq},"time":{},"data":"#, rows.len() + 9).expect("into a string");
            assert!(row.contains(&place), "{row}");
        }
    }
}

/// The code spans of a cell.
fn words(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn events_that_change_what_is_open_are_those_of_the_table() {
    let listed: Vec<String> = (doc().tables(SECTION)[0].select(["event"]).into_iter())
        .filter(|[event]| event != "any other")
        .map(|[event]| code(&event).to_owned())
        .collect();
    let changing =
        ["turn/start", "turn/end", "step/start", "step/end", "assistant/message", "tool/call", "tool/result"];
    assert_eq!(listed, changing);
    let other = r#"{"type":"llm/retry","seq":1,"time":1,"data":{"turn":1,"step":1}}"#;
    let start = row(0, "turn/start");
    assert_eq!(closers(&[start.as_str(), other]).len(), 1);
}

#[test]
fn the_worked_end_is_closed_as_it_says() {
    let doc = doc();
    let fences = doc.json_fences("A worked end");
    let [log, closed] = &fences[..] else { panic!("{} fences", fences.len()) };
    assert_eq!(closers(log), *closed);
}
