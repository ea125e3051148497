//! `turns` and `cat --turns`: the turns of a session, and the last of them.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::program::Root;

/// A session of so many turns of four events, behind one event; the last turn is open.
fn session(encoding: &str, turns: u64) -> (Root, PathBuf) {
    let root = Root::new();
    let path = root.session("s", encoding, 0);
    let mut rows = vec![r#"{"type":"plan/mode","time":900,"data":{"active":true}}"#.to_owned()];
    for turn in 1..=turns {
        let time = turn * 1000;
        rows.push(format!(r#"{{"type":"turn/start","time":{time},"data":{{"turn":{turn}}}}}"#));
        rows.push(format!(r#"{{"type":"step/start","time":{time},"data":{{"turn":{turn},"step":1}}}}"#));
        rows.push(format!(
            r#"{{"type":"user/message","time":{time},"data":{{"id":"m{turn}","role":"user","source":{{"kind":"user"}},"content":[{{"type":"text","text":"do thing {turn}\n\u001b[2Jnow"}}]}},"surfaceOp":"append"}}"#
        ));
        if turn < turns {
            let end = time + 65;
            rows.push(format!(
                r#"{{"type":"turn/end","time":{end},"data":{{"turn":{turn},"reason":{{"kind":"completed"}}}}}}"#
            ));
        }
    }
    root.run_with(&["append", "s", "--batch", "9"], rows.join("\n").as_bytes()).expect(0);
    (root, path)
}

#[test]
fn turns_are_listed_with_what_they_were_about() {
    for encoding in ["indexed", "zstd", "plain"] {
        let (root, _) = session(encoding, 30);
        let said = root.run(&["turns", "s", "--json"]).expect(0).json();
        assert_eq!(said.len(), 30);
        let first = json!({
            "turn": 1, "firstSeq": 1, "lastSeq": 4, "startTime": 1000, "endTime": 1065, "steps": 1, "attempts": 0,
            "outcome": "completed", "prompt": "do thing 1 [2Jnow"
        });
        assert_eq!(said[0], first);
        assert_eq!((&said[29]["lastSeq"], said[29].get("endTime")), (&json!(119), None));
        let last = root.run(&["turns", "s", "--json", "--tail", "2"]).expect(0).json();
        assert_eq!(last, said[28..]);
        let table = root.run(&["turns", "s"]).expect(0).text();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 31);
        assert!(lines[0].starts_with("TURN  SEQ") && lines[0].ends_with("OUTCOME    PROMPT"), "{table}");
        assert!(lines[1].contains("65 ms") && lines[1].ends_with("completed  do thing 1 [2Jnow"), "{table}");
        assert!(lines[30].contains("  -  ") && !table.contains('\u{1b}'), "{table}");
    }
}

#[test]
fn cat_begins_with_the_last_turns() {
    for encoding in ["indexed", "zstd", "plain"] {
        let (root, _) = session(encoding, 30);
        let seqs = |args: &[&str]| -> Vec<u64> {
            let args = [&["cat", "s", "--no-header"], args].concat();
            root.run(&args).expect(0).json().iter().map(|row: &Value| row["seq"].as_u64().unwrap()).collect()
        };
        assert_eq!(seqs(&["--turns", "1"]), (117..120).collect::<Vec<_>>(), "{encoding}");
        assert_eq!(seqs(&["--turns", "3"]), (109..120).collect::<Vec<_>>());
        assert_eq!(seqs(&["--turns", "3", "--limit", "2"]), [109, 110]);
        assert_eq!(seqs(&["--turns", "3", "--tail", "2"]), [118, 119]);
        assert_eq!(seqs(&["--turns", "3", "--type", "turn/start"]), [109, 113, 117]);
        assert_eq!(seqs(&["--turns", "30"])[0], 1);
        assert_eq!(seqs(&["--turns", "31"])[0], 0);
        assert_eq!(seqs(&["--turns", "0"]), [0; 0]);
        root.run(&["cat", "s", "--turns", "1", "--lenient"]).expect(2);
    }
}

#[test]
fn an_older_log_is_counted_in_turns_of_the_current_generation() {
    let root = Root::new();
    fs::create_dir_all(root.path()).unwrap();
    let path = root.path().join("old.jsonl");
    let mut text =
        "{\"type\":\"session\",\"version\":1,\"id\":\"o\",\"createdAt\":5,\"delegationDepth\":0}\n"
            .to_owned();
    for (seq, turn) in (0..8).zip((1..=4).flat_map(|turn| [turn, turn])) {
        let (kind, more) =
            if seq % 2 == 0 { ("start", "") } else { ("end", ",\"reason\":{\"kind\":\"completed\"}") };
        text += &format!(
            "{{\"type\":\"turn/{kind}\",\"seq\":{seq},\"time\":9,\"data\":{{\"turn\":{turn}{more}}}}}\n"
        );
    }
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let said = root.run(&["cat", path, "--no-header", "--current", "--turns", "2"]).expect(0).json();
    assert_eq!(said.iter().map(|row| row["seq"].as_u64().unwrap()).collect::<Vec<_>>(), [4, 5, 6, 7]);
    root.run(&["cat", path, "--turns", "2"]).expect(1).says("--current");
    assert_eq!(root.run(&["turns", path, "--json"]).expect(0).json().len(), 4);
}

#[test]
fn a_torn_end_is_said_and_a_session_without_turns_has_none() {
    let (root, path) = session("plain", 5);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"type\":\"turn/e");
    fs::write(&path, &bytes).unwrap();
    assert_eq!(
        root.run(&["turns", "s", "--json"]).expect(3).says("cut short").says("next: ").json().len(),
        5
    );
    root.session("t", "indexed", 3);
    assert!(root.run(&["turns", "t"]).expect(0).says("no turns").stdout.is_empty());
}
