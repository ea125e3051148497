//! A log whose every text tries to drive a terminal, before every verb that speaks to people.

use std::fs;
use std::process::{Command, Stdio};

use crate::common;
use crate::program::{Ran, Root, has_program, run, seslog};

/// Clears the screen, sets the title, rings, moves the cursor, reports back, turns the direction; in seven and in eight bits.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{8}\r\u{9b}31m\u{9d}0;x\u{9c}\u{1b}P+q544e\u{1b}\\\u{202e}gnp\u{2066}\u{7f}";

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Characters that no output for people holds, whatever wrote it.
fn driving(text: &str) -> Option<char> {
    text.chars().find(|&char| {
        (char.is_control() && char != '\n')
            || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

/// A root in which everything that is ever shown is hostile.
fn hostile() -> Root {
    let root = Root::new();
    let bad = json(HOSTILE);
    let folder = root.path().join("_no-cwd/x");
    fs::create_dir_all(&folder).unwrap();
    let header = format!(
        "{{\"type\":\"session\",\"version\":2,\"id\":{bad},\"createdAt\":5,\"cwd\":{bad},\"parentSession\":{bad},\"isSeeded\":false,\
         \"delegationDepth\":0,\"agentPreset\":{bad}}}\n"
    );
    let message = |role: &str, source: &str| {
        format!(
            "{{\"id\":{bad},\"role\":\"{role}\",\"content\":[{{\"type\":\"text\",\"text\":{bad}}},\
             {{\"type\":\"tool-call\",\"toolCallId\":{bad},\"toolName\":{bad},\"input\":{{{bad}:{bad}}}}}],\"source\":{source}}}"
        )
    };
    let model = format!("{{\"kind\":\"model\",\"provider\":{bad},\"model\":{bad}}}");
    let rows = [
        ("turn/start", "{\"turn\":1}".to_owned()),
        ("user/message", format!("{{\"message\":{}}}", message("user", "{\"kind\":\"user\"}"))),
        ("step/start", "{\"turn\":1,\"step\":1}".to_owned()),
        (
            "assistant/message",
            format!("{{\"turn\":1,\"step\":1,\"message\":{}}}", message("assistant", &model)),
        ),
        ("step/end", format!("{{\"turn\":1,\"step\":1,\"finishReason\":{bad}}}")),
        ("note/x", bad.clone()),
    ];
    let mut text = header.clone();
    for (seq, (kind, data)) in rows.iter().enumerate() {
        text += &format!(
            "{{\"type\":\"{kind}\",\"seq\":{seq},\"time\":{},\"data\":{data},\"ignorable\":true}}\n",
            6 + seq
        );
    }
    fs::write(folder.join("session.v2.jsonl"), &text).unwrap();
    fs::write(folder.join("session.lock"), format!("{{\"pid\":1,\"host\":{bad},\"since\":5}}\n")).unwrap();
    // Names that people and programs gave.
    fs::write(folder.join(format!("stray{}", HOSTILE.replace('/', "_"))), b"x").unwrap();
    let stray = root.path().join("_no-cwd").join(HOSTILE.replace('/', "_"));
    fs::create_dir_all(&stray).unwrap();
    // A type that is not known, a bad row, an older generation that is refused, and text that is no JSON: all with the same text.
    for (name, log) in [
        ("unknown", format!("{header}{{\"type\":{bad},\"seq\":0,\"time\":6,\"data\":{{}}}}\n")),
        (
            "seq",
            format!(
                "{header}{{\"type\":\"plan/mode\",\"seq\":5,\"time\":6,\"data\":{bad},\"x\":{bad}}}\n{{\"type\":\"plan/mode\",\"seq\":0,\"time\":6,\"data\":1}}\n"
            ),
        ),
        ("raw", format!("{header}{HOSTILE}\n{{\"type\":\"plan/mode\",\"seq\":0,\"time\":6,\"data\":1}}\n")),
        ("head", format!("{HOSTILE}\n")),
    ] {
        let folder = root.path().join("_no-cwd").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("session.v2.jsonl"), log).unwrap();
    }
    let folder = root.path().join("_no-cwd/old");
    fs::create_dir_all(&folder).unwrap();
    let old = format!(
        "{{\"type\":\"session\",\"version\":0,\"id\":{bad},\"createdAt\":5,\"delegationDepth\":0}}\n\
         {{\"type\":{bad},\"seq\":0,\"time\":6,\"data\":{{}}}}\n"
    );
    fs::write(folder.join("session.jsonl"), old).unwrap();
    root
}

/// Every verb for people on every log there.
fn calls(root: &Root) -> Vec<Vec<String>> {
    let mut calls = vec![
        vec!["ls".to_owned()],
        vec!["verify".to_owned(), root.path().display().to_string()],
        vec!["migrate".to_owned(), "--dry-run".to_owned(), root.path().display().to_string()],
    ];
    for entry in fs::read_dir(root.path().join("_no-cwd")).unwrap() {
        let folder = entry.unwrap().path();
        let folder = folder.to_str().unwrap().to_owned();
        for verb in [
            &["stat"][..],
            &["verify"],
            &["verify", "--quick"],
            &["recover", "--dry-run"],
            &["messages"],
            &["timeline"],
            &["append"],
            &["fork"],
            &["convert"],
            &["import"],
            &["migrate", "--dry-run"],
        ] {
            let mut call: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
            call.push(folder.clone());
            if verb == ["convert"] {
                call.push(root.scratch().join("copy.jsonl").display().to_string());
            }
            calls.push(call);
        }
        for verb in ["stat", "cat", "append", "recover"] {
            calls.push(vec![verb.to_owned(), format!("no such {HOSTILE}")]);
        }
    }
    calls
}

#[test]
fn no_verb_for_people_prints_what_could_drive_a_terminal() {
    let root = hostile();
    let mut outputs = 0;
    let mut shown = 0;
    for call in calls(&root) {
        let args: Vec<&str> = call.iter().map(String::as_str).collect();
        let input = format!("{{\"type\":{},\"data\":1}}\n", json(HOSTILE));
        let ran: Ran = root.run_with(&args, input.as_bytes());
        let _copy = fs::remove_file(root.scratch().join("copy.jsonl"));
        // The id that `fork` and `import` print is data when nobody looks at it: exactly the id.
        let id_is_data = matches!(args[0], "fork" | "import") && ran.code == 0;
        for text in [if id_is_data { String::new() } else { ran.text() }, ran.stderr.clone()] {
            assert_eq!(driving(&text), None, "{args:?}: {text:?}");
            outputs += u64::from(!text.is_empty());
            shown += u64::from(text.contains("\\u{1b}"));
        }
    }
    assert!(outputs > 60 && shown > 20, "{outputs} outputs, {shown} with the text escaped");
}

/// On a terminal the program may style its own words, and its bars move the cursor. Nothing of the log's does.
#[test]
fn on_a_terminal_the_data_verbs_escape_too() {
    if !has_program("script") {
        return common::skip("there is no `script` here to make a terminal with");
    }
    let root = hostile();
    let log = root.path().join("_no-cwd/x");
    let raw = root.path().join("_no-cwd/raw");
    let id = json(HOSTILE);
    assert!(id.contains("\\u001b"));
    for args in [
        vec!["cat", log.to_str().unwrap()],
        vec!["cat", "--rows", log.to_str().unwrap()],
        vec!["cat", "--rows", "--lenient", raw.to_str().unwrap()],
        vec!["messages", log.to_str().unwrap()],
        vec!["timeline", log.to_str().unwrap()],
        vec!["stat", log.to_str().unwrap()],
        vec!["ls"],
        vec!["verify", log.to_str().unwrap()],
        vec!["fork", log.to_str().unwrap(), "--id", "child"],
        vec!["import", log.to_str().unwrap(), "--encoding", "zstd"],
    ] {
        let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
        let line = format!(
            "'{}' --root '{}' {}",
            env!("CARGO_BIN_EXE_seslog"),
            root.path().display(),
            quoted.join(" ")
        );
        let mut command = Command::new("script");
        command
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let ran = run(command, b"");
        let text = ran.text();
        assert!(!text.is_empty() || ran.code == 1, "{args:?}");
        for sequence in [
            "\u{1b}]",
            "\u{1b}[2J",
            "\u{1b}P",
            "\u{7}",
            "\u{8}",
            "\u{9b}",
            "\u{9d}",
            "\u{202e}",
            "\u{2066}",
            "\u{7f}",
        ] {
            assert!(!text.contains(sequence), "{args:?}: {sequence:?} in {text:?}");
        }
    }
    seslog(&["--version"], b"").expect(0);
}
