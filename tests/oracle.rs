//! The oracle helper itself: it runs, it is fed, and its lines are read.

mod common;

use serde_json::{Value, json};

#[test]
fn a_session_written_through_the_oracle_is_read_back_by_it() {
    let Some(oracle) = common::oracle() else { return };
    let root = tempfile::tempdir().expect("a scratch folder");
    let root = root.path().to_str().expect("a UTF-8 path");
    let session = json!({
        "header": {"version": 0, "id": "a/b", "createdAt": 1_700_000_000_000_u64, "cwd": "/home/me", "delegationDepth": 0},
        "events": [
            {"type": "turn/start", "seq": 0, "time": 1_700_000_000_001_u64, "data": {"turn": 1}},
            {"type": "turn/end", "seq": 1, "time": 1_700_000_000_002_u64,
             "data": {"turn": 1, "reason": {"kind": "completed"}}},
        ],
    });

    let written = oracle.run("write", &["--root", root, "-"], session.to_string().as_bytes());
    assert!(!written.refused, "{}{}", written.stdout, written.stderr);

    let read = oracle.run("read", &["--root", root, "--mode", "suffix"], b"");
    assert!(!read.refused, "{}{}", read.stdout, read.stderr);
    let back = read.session("a/b").expect("the session is printed");
    assert_eq!(back.get("header"), session.get("header"));
    assert_eq!(back.get("events"), session.get("events"));
    assert_eq!(read.values().first().and_then(|list| list.get("op")), Some(&Value::from("list")));
}

#[test]
fn a_refusal_is_reported_as_one() {
    let Some(oracle) = common::oracle() else { return };
    let root = tempfile::tempdir().expect("a scratch folder");
    let root = root.path().to_str().expect("a UTF-8 path");
    let line = br#"{"header":{"version":0,"createdAt":1},"events":[{"type":"turn/start","seq":7,"time":1,"data":{"turn":1}}]}"#;

    let written = oracle.run("write", &["--root", root, "-"], line);
    assert!(written.refused, "{}", written.stdout);
    assert!(written.session("x").is_none());
}
