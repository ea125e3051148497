//! `messages` and `fork`: what a model sees, and a session that begins with what another one began with.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::common;
use super::corpus::logs_in;
use super::program::{Root, expect_tree, seslog, tree};

/// The messages that events stand for, by the rules of the reference: a list, spliced.
fn fold(events: &[Value]) -> Vec<Value> {
    let mut surface: Vec<usize> = Vec::new();
    for (seq, event) in events.iter().enumerate() {
        match event.get("surfaceOp") {
            None => {}
            Some(Value::String(_)) => surface.push(seq),
            Some(op) => {
                let at = |name: &str| {
                    surface.iter().position(|seq| Some(*seq as u64) == op[name].as_u64()).unwrap()
                };
                let range = at("start")..=at("end");
                surface.splice(range, [seq]);
            }
        }
    }
    let mut messages = Vec::new();
    for seq in surface {
        let data = &events[seq]["data"];
        let (message, is_answer) = match events[seq]["type"].as_str().unwrap() {
            "user/message" => (data, false),
            kind => (&data["message"], kind == "assistant/message"),
        };
        if !(is_answer && message["content"].as_array().unwrap().is_empty()) {
            messages.push(json!({"seq": seq, "message": message}));
        }
    }
    messages
}

fn lines_of(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn current_logs(shared: &Path) -> Vec<PathBuf> {
    let mut logs = logs_in(&shared.join("corpus/dsh-v2"), "vfs-example__");
    logs.extend(logs_in(&shared.join("corpus/migrated/v2"), ""));
    assert_eq!(logs.len(), 62);
    logs
}

#[test]
fn the_conversation_of_every_current_log_of_the_corpus_is_that_of_its_surface() {
    let Some(shared) = common::shared() else { return };
    let (mut shown, mut replaced) = (0, 0);
    for log in current_logs(&shared) {
        let events = lines_of(&log).split_off(1);
        let path = log.to_str().unwrap();
        let whole = fold(&events);
        assert_eq!(seslog(&["messages", path, "--json"], b"").expect(0).json(), whole, "{path}");
        let people = seslog(&["messages", path], b"").expect(0).text();
        let heads = people.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).count();
        assert_eq!(heads, whole.len(), "{people}");
        let source = shared.join("corpus/dsh-v0-restored").join(log.file_name().unwrap());
        if source.exists() {
            let said = seslog(&["messages", source.to_str().unwrap(), "--json"], b"").expect(0).json();
            assert_eq!(said, whole, "{}", source.display());
        }
        for at in (0..events.len()).step_by(11) {
            let said = seslog(&["messages", path, "--json", "--at", &at.to_string()], b"").expect(0).json();
            assert_eq!(said, fold(&events[..=at]), "{path} at {at}");
        }
        seslog(&["messages", path, "--at", &events.len().to_string()], b"")
            .expect(1)
            .says("is not in a log of");
        shown += whole.len();
        replaced +=
            events.iter().filter(|event| event.get("surfaceOp").is_some_and(Value::is_object)).count();
    }
    assert!(shown > 200 && replaced > 0, "{shown} messages, {replaced} replacements");
}

#[test]
fn a_fork_of_every_current_log_of_the_corpus_begins_as_its_parent() {
    let Some(shared) = common::shared() else { return };
    let (mut forked, mut open) = (0, 0);
    for (number, log) in current_logs(&shared).into_iter().enumerate() {
        let root = Root::new();
        let lines = lines_of(&log);
        let text = fs::read(&log).unwrap();
        let path = log.to_str().unwrap();
        let kinds: Vec<&str> = lines[1..].iter().map(|event| event["type"].as_str().unwrap()).collect();
        for at in (0..kinds.len()).step_by(7).chain([kinds.len() - 1]) {
            let edge = kinds[..=at].iter().rposition(|kind| ["turn/start", "turn/end"].contains(kind));
            let is_open = edge.is_some_and(|edge| kinds[edge] == "turn/start");
            let encoding = ["indexed", "zstd", "plain"][(number + at) % 3];
            let at = at.to_string();
            let ran = root.run(&["fork", path, "--at", &at, "--json", "--encoding", encoding]);
            if is_open {
                ran.expect(1).says("is open there").says("next: ");
                open += 1;
                continue;
            }
            let said = ran.expect(0).object();
            let cut = said["inherited"].as_u64().unwrap() as usize;
            assert_eq!(cut.to_string(), (at.parse::<usize>().unwrap() + 1).to_string());
            let id = said["id"].as_str().unwrap();
            let child = root.run(&["cat", id]).expect(0);
            let rows: Vec<&[u8]> = text.split(|&byte| byte == b'\n').skip(1).take(cut).collect();
            assert_eq!(child.lines()[1..=cut], rows, "the rows are those of the parent, byte for byte");
            let child = child.json();
            assert_eq!(child.len(), cut + 2);
            let (header, marker) = (&child[0], &child[cut + 1]);
            assert_eq!((&header["parentSession"], &header["isSeeded"]), (&lines[0]["id"], &true.into()));
            assert_eq!((&header["cwd"], header.get("seedLength")), (&lines[0]["cwd"], None));
            assert_eq!(
                (&marker["type"], &marker["data"]),
                (&"session/end-seed".into(), &json!({"inherited": true}))
            );
            let own = root.run(&["cat", id, "--own", "--no-header"]).expect(0).json();
            assert_eq!(own, std::slice::from_ref(marker));
            let stat = root.run(&["stat", id, "--json"]).expect(0).object();
            assert_eq!((&stat["encoding"], &stat["parentSession"]), (&encoding.into(), &lines[0]["id"]));
            forked += 1;
        }
        if root.path().exists() {
            seslog(&["verify", root.path().to_str().unwrap()], b"").expect(0);
        }
    }
    assert!(forked > 60 && open > 60, "{forked} forked, {open} refused");
}

/// A session of generation 0 with two turns, in `root`.
fn old_session(root: &Root) -> PathBuf {
    let rows = [
        r#"{"type":"session","version":0,"id":"old","createdAt":5,"cwd":"/w","delegationDepth":0}"#,
        r#"{"type":"turn/start","seq":0,"time":6,"data":{"turn":1}}"#,
        r#"{"type":"user/message","seq":1,"time":7,"data":{"content":[{"type":"text","text":"one\ttwo\u001b[2J\nthree"}],"source":{"kind":"user"}},"surfaceOp":"append"}"#,
        r#"{"type":"turn/end","seq":2,"time":8,"data":{"turn":1,"reason":{"kind":"completed"}}}"#,
        r#"{"type":"turn/start","seq":3,"time":9,"data":{"turn":2}}"#,
    ];
    let folder = root.path().join("--w--/old");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("session.jsonl");
    fs::write(&path, rows.join("\n") + "\n").unwrap();
    path
}

#[test]
fn older_sessions_are_shown_and_forked_converted_and_stay_as_they_are() {
    let root = Root::new();
    let path = old_session(&root);
    let before = tree(&root.path());
    let shown = root.run(&["messages", "old"]).expect(0).text();
    assert!(shown.starts_with("user  #1\n  one    two\\u{1b}[2J\n  three\n"), "{shown}");
    root.run(&["fork", "old", "--id", "child"])
        .expect(1)
        .says("event 3 starts is open")
        .says("--at 2 forks before");
    root.run(&["fork", "old", "--id", "child", "--at", "9"]).expect(1).says("not in a log of 4 events");
    expect_tree(&root.path(), &before);
    assert!(!root.path().join("--w--/child").exists(), "nothing is half published");

    let forked = root
        .run(&["fork", "old", "--id", "child", "--at", "2"])
        .expect(0)
        .says("3 events inherited from old");
    assert_eq!(forked.text(), "child\n");
    assert_eq!(fs::read(&path).unwrap(), before[0].1);
    assert_eq!(
        fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1,
        "the parent is not migrated by the way"
    );
    let parent = root.run(&["messages", "old", "--json"]).expect(0).stdout;
    assert_eq!(root.run(&["messages", "child", "--json"]).expect(0).stdout, parent);
    root.run(&["fork", "old", "--id", "child", "--at", "2"]).expect(1).says("exists already");

    // The child goes on, and has children in turn: their cut is their own.
    let row = r#"{"type":"turn/start","data":{"turn":2}}"#.to_owned()
        + "\n"
        + r#"{"type":"turn/end","data":{"turn":2,"reason":{"kind":"completed"}}}"#;
    root.run_with(&["append", "child"], row.as_bytes()).expect(0);
    let said = root.run(&["fork", "child", "--json", "--id", "grandchild"]).expect(0).object();
    assert_eq!((&said["inherited"], &said["parentSession"]), (&6.into(), &"child".into()));
    assert_eq!(root.run(&["cat", "grandchild", "--own", "--no-header"]).expect(0).json().len(), 1);
    seslog(&["verify", root.path().to_str().unwrap()], b"").expect(0);
}

#[test]
fn a_torn_end_is_said_unless_it_was_not_asked_for() {
    let root = Root::new();
    let path = old_session(&root);
    let text = fs::read_to_string(&path).unwrap();
    let (turn, _) = text.split_once("{\"type\":\"turn/start\",\"seq\":3").unwrap();
    fs::write(&path, format!("{turn}{{\"type\":\"tu")).unwrap();
    root.run(&["messages", "old"]).expect(3).says("cut short");
    root.run(&["messages", "old", "--at", "1"]).expect(0);
    root.run(&["fork", "old", "--id", "a"]).expect(3).says("cut short");
    root.run(&["fork", "old", "--id", "b", "--at", "2"]).expect(0);
    let unknown =
        turn.replace("turn/end", "acme/end").replace("\"version\":0", "\"version\":2,\"isSeeded\":false");
    let other = root.scratch().join("session.v2.jsonl");
    fs::write(&other, unknown).unwrap();
    for verb in ["messages", "fork"] {
        root.run(&[verb, other.to_str().unwrap()]).expect(1).says("acme/end").says("upgrade");
    }
}

#[test]
fn a_session_without_messages_has_an_empty_conversation() {
    let root = Root::new();
    root.session("s", "indexed", 3);
    assert!(root.run(&["messages", "s"]).expect(0).says("no messages").stdout.is_empty());
    let said = root.run(&["fork", "s", "--json"]).expect(0).object();
    assert_eq!(said["inherited"].as_u64(), Some(3));
}
