//! What the tests of session logic share: rows by hand, and logs by chance.

// Each test binary compiles this file for itself and uses only a part of it.
#![allow(dead_code, reason = "no single test binary uses every helper")]

pub(crate) mod generate;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::{Check, Header, RowFault, Seeding};
use seslog::session::{AppendFault, EventFault, Intent, Log, Profile, Session, Settings, SurfaceFault};
use seslog::units::{Generation, UnixMs};

/// Settings with a clock that shows 1000, 1001, 1002, ...
pub(crate) fn settings() -> Settings {
    let clock = AtomicI64::new(1000);
    Settings::new(move || UnixMs::new(clock.fetch_add(1, Ordering::Relaxed)))
}

pub(crate) fn header() -> Header {
    Header::new(Generation::V2, Text::from("s"), UnixMs::new(5)).expect("a sound header")
}

pub(crate) fn seeded_header() -> Header {
    header().with_seeding(Generation::V2, Seeding::Marked).expect("v2 marks its cut")
}

/// A session without a seed.
pub(crate) fn fresh() -> Arc<Session> {
    Session::create(header(), &settings()).expect("a session without a seed")
}

/// A row; `rest` are the members after the payload, each with its leading comma.
pub(crate) fn row(event_type: &str, seq: u64, data: &str, rest: &str) -> String {
    format!(r#"{{"type":"{event_type}","seq":{seq},"time":{},"data":{data}{rest}}}"#, 100 + seq)
}

pub(crate) const APPEND: &str = r#","surfaceOp":"append""#;

pub(crate) fn replace(start: u64, end: u64, sources: &[u64]) -> String {
    format!(r#","sourceEventSeqs":{sources:?},"surfaceOp":{{"op":"replace","start":{start},"end":{end}}}"#)
        .replace(", ", ",")
}

pub(crate) fn user(id: &str) -> String {
    format!(
        r#"{{"id":"{id}","role":"user","source":{{"kind":"user"}},"content":[{{"type":"text","text":"{id}"}}]}}"#
    )
}

/// An assistant's message that asks for `calls`; without any it has a text, unless `id` is `"empty"`.
pub(crate) fn assistant(id: &str, calls: &[&str]) -> String {
    let mut blocks: Vec<String> = calls
        .iter()
        .map(|call| format!(r#"{{"type":"tool-call","id":"{call}","name":"sh","arguments":"{{}}"}}"#))
        .collect();
    if blocks.is_empty() && id != "empty" {
        blocks.push(r#"{"type":"text","text":"so"}"#.to_owned());
    }
    format!(
        r#"{{"turn":1,"step":1,"message":{{"id":"{id}","role":"assistant","content":[{}],"source":{{"kind":"model","provider":"p","model":"m"}}}},"stream":[]}}"#,
        blocks.join(",")
    )
}

/// The result of `call` with the inner content `text`.
pub(crate) fn result(call: &str, text: &str) -> String {
    format!(
        r#"{{"turn":1,"step":1,"message":{{"id":"r-{call}","role":"user","source":{{"kind":"tool","callId":"{call}"}},"content":[{{"type":"tool-result","toolCallId":"{call}","isError":false,"content":[{{"type":"text","text":"{text}"}}]}}]}},"meta":{{"ms":1}}}}"#
    )
}

pub(crate) fn call(id: &str) -> String {
    format!(r#"{{"turn":1,"step":1,"callId":"{id}","name":"sh","arguments":"{{}}"}}"#)
}

pub(crate) const TURN: &str = r#"{"turn":1}"#;
pub(crate) const STEP: &str = r#"{"turn":1,"step":1}"#;
pub(crate) const DONE: &str = r#"{"turn":1,"reason":{"kind":"completed"}}"#;

/// The log of `rows`, or the first row that is refused as a row.
pub(crate) fn try_log<R: AsRef<str>>(rows: &[R]) -> Result<Log, (u64, RowFault)> {
    Log::of_rows(rows.iter().map(|row| row.as_ref().as_bytes()), Check::Full, &Limits::DEFAULT)
}

pub(crate) fn log<R: AsRef<str>>(rows: &[R]) -> Log {
    try_log(rows).expect("sound rows")
}

pub(crate) fn rows(log: &Log) -> Vec<String> {
    log.iter().map(|event| event.line().to_owned()).collect()
}

pub(crate) fn messages(session: &Session) -> Vec<String> {
    session.messages().iter().map(str::to_owned).collect()
}

/// Appends what a row holds, as its author would.
pub(crate) fn append_row(session: &Session, row: &str) -> Result<(), String> {
    let event = seslog::row::Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT)
        .map_err(|fault| fault.to_string())?;
    let mut seqs = Vec::new();
    if let Some(list) = event.source_event_seqs() {
        seslog::row::range::decode(list, event.seq(), &mut seqs).map_err(|fault| fault.to_string())?;
    }
    let operation: serde_json::Value =
        event.surface_op().map_or(serde_json::Value::Null, |op| serde_json::from_str(op).expect("JSON"));
    let mut intent = match &operation {
        serde_json::Value::Null => Intent::log_only(),
        serde_json::Value::String(op) if op == "append" => Intent::append(),
        op => match (op["start"].as_u64(), op["end"].as_u64()) {
            (Some(start), Some(end)) => Intent::replace(start, end, &[]),
            _ => return Err("no intent stands for that operation".to_owned()),
        },
    };
    if event.source_event_seqs().is_some() {
        intent = intent.citing(&seqs);
    }
    if event.is_ignorable() {
        intent = intent.ignorable();
    }
    let event_type = event.event_type().to_string_lossy();
    session.append(&event_type, event.data(), intent).map(|_| ()).map_err(|fault| fault.to_string())
}

pub(crate) fn v2() -> &'static Profile {
    Profile::current()
}

pub(crate) fn surface_fault(fault: &AppendFault) -> Option<SurfaceFault> {
    match fault {
        AppendFault::Event(EventFault::Surface(fault)) => Some(*fault),
        _ => None,
    }
}

/// Everything that must not change when an append fails.
pub(crate) fn seen(session: &Session) -> (Vec<String>, Vec<u64>, Vec<String>, u64) {
    (rows(&session.log()), session.surface(), messages(session), session.replace_generation())
}

/// Three user messages at 0, 1, 2.
pub(crate) fn three() -> Arc<Session> {
    let session = fresh();
    for id in ["a", "b", "c"] {
        session.append("user/message", &user(id), Intent::append()).unwrap();
    }
    session
}

/// Why the surface refuses an append, which changes nothing.
pub(crate) fn refused(session: &Session, event_type: &str, data: &str, intent: Intent<'_>) -> SurfaceFault {
    let before = seen(session);
    let fault = session.append(event_type, data, intent).unwrap_err();
    assert_eq!(seen(session), before);
    surface_fault(&fault).unwrap_or_else(|| panic!("{fault}"))
}
