//! `grep`: the text of events across sessions. `completions` and `man`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::common;
use super::program::{Root, expect_tree, has_program, seslog, tree};

/// Every string in `value`, by another reader than the program's.
fn strings<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(members) => members.values().for_each(|member| strings(member, found)),
        _ => {}
    }
}

/// Whether the text of such a row is something else than its strings, one by one.
fn is_streamed(row_type: &Value) -> bool {
    let name = row_type.as_str().unwrap();
    ["assistant/attempt", "assistant/message"].contains(&name) || name.ends_with("-chunks")
}

/// How many lines of text hold `needle`, by seq: what `grep -F` must find in events that are no part of a stream.
fn expected(log: &str, needle: &str) -> BTreeMap<u64, usize> {
    let mut lines = BTreeMap::new();
    for row in log.lines().skip(1) {
        let row: Value = serde_json::from_str(row).unwrap();
        if is_streamed(&row["type"]) {
            continue;
        }
        let mut texts = Vec::new();
        strings(&row["data"], &mut texts);
        let count =
            texts.iter().flat_map(|text| text.split('\n')).filter(|line| line.contains(needle)).count();
        if count > 0 {
            lines.insert(row["seq"].as_u64().unwrap(), count);
        }
    }
    lines
}

fn found(ran: &super::program::Ran) -> BTreeMap<String, BTreeMap<u64, usize>> {
    let mut found: BTreeMap<String, BTreeMap<u64, usize>> = BTreeMap::new();
    for hit in ran.json() {
        if is_streamed(&hit["type"]) {
            continue;
        }
        let path = hit["path"].as_str().unwrap().to_owned();
        *found.entry(path).or_default().entry(hit["seq"].as_u64().unwrap()).or_default() += 1;
    }
    found
}

#[test]
fn every_line_of_text_in_the_corpus_that_holds_the_needle_is_found_once() {
    let Some(shared) = common::shared() else { return };
    if !has_program("zstd") {
        common::skip("zstd is not installed");
        return;
    }
    let root = shared.join("corpus/dsh-v0-zstd/root");
    let root = root.to_str().unwrap();
    let mut hits = 0;
    for needle in ["error", "\"", "the ", "\\", "zz-nowhere", "src/", "\t"] {
        let ran = seslog(&["grep", "-F", needle, root, "--json"], b"").expect(0);
        let found = found(&ran);
        let listed = seslog(&["grep", "-F", needle, root, "-l"], b"").expect(0).text();
        for path in tree(Path::new(root)).into_iter().map(|(path, _)| Path::new(root).join(path)) {
            if path.extension().is_none_or(|end| end != "zstd") {
                continue;
            }
            let text = Command::new("zstd").arg("-dcq").arg(&path).output().unwrap().stdout;
            let expected = expected(&String::from_utf8(text).unwrap(), needle);
            let path = path.to_str().unwrap();
            assert_eq!(found.get(path).cloned().unwrap_or_default(), expected, "{needle:?} in {path}");
            assert!(expected.is_empty() || listed.lines().any(|line| line == path), "{needle:?}: {path}");
            hits += expected.values().sum::<usize>();
        }
    }
    assert!(hits > 500, "{hits}");
}

/// A session with one row of text that would drive a terminal.
fn talking(root: &Root) {
    root.run(&["new", "--id", "talk"]).expect(0);
    let rows = concat!(
        r#"{"type":"session/title","data":{"title":"a Red\u001b[31m title"}}"#,
        "\n",
        r#"{"type":"todo/write","data":{"todos":[{"content":"first line\nsecond red line\nthird"}],"callId":"red"}}"#,
        "\n",
        r#"{"type":"plan/mode","data":{"mode":"caf\u00e9 r\u0065d"}}"#,
        "\n",
    );
    root.run_with(&["append", "talk"], rows.as_bytes()).expect(0);
}

#[test]
fn a_match_is_shown_with_its_session_seq_and_type() {
    let root = Root::new();
    talking(&root);
    let before = tree(&root.path());
    assert_eq!(
        root.run(&["grep", "red"]).expect(0).text(),
        "talk:1:todo/write: second red line\ntalk:1:todo/write: red\ntalk:2:plan/mode: café red\n"
    );
    assert_eq!(
        root.run(&["grep", "-i", "^A RED"]).expect(0).text(),
        "talk:0:session/title: a Red\\u{1b}[31m title\n"
    );
    let hit = root.run(&["grep", "second.*$", "--json"]).expect(0).object();
    assert_eq!((&hit["id"], &hit["seq"], &hit["type"]), (&"talk".into(), &1.into(), &"todo/write".into()));
    assert_eq!((&hit["snippet"], &hit["match"]), (&"second red line".into(), &"second red line".into()));
    assert!(hit["time"].as_i64().unwrap() > 0);
    assert_eq!(root.run(&["grep", "red", "--type", "plan/*"]).expect(0).lines().len(), 1);
    expect_tree(&root.path(), &before);
}

/// The quick look at a row's JSON text passed these rows over: no piece holds the words that all of them make.
#[test]
fn a_match_that_stands_in_several_pieces_of_a_stream_is_found() {
    let root = Root::new();
    root.run(&["new", "--id", "talk"]).expect(0);
    let attempt = r#"{"type":"assistant/attempt","data":{"turn":1,"step":1,"stream":[{"type":"text-chunks","index":0,"time0":5,"dt":[1],"texts":["two","gether"]}]}}"#;
    root.run_with(&["append", "talk"], format!("{attempt}\n").as_bytes()).expect(0);
    for pattern in ["twogether", "o[g-h]e", r"\btwo\w+$"] {
        let found = root.run(&["grep", pattern]).expect(0).text();
        assert_eq!(found, "talk:0:assistant/attempt: twogether\n", "{pattern}");
    }
}

#[test]
fn a_bad_pattern_is_a_wrong_call_and_nothing_found_is_none() {
    let root = Root::new();
    root.run(&["grep", "x"]).expect(0).says("no such root yet");
    talking(&root);
    root.run(&["grep", "(red"]).expect(2).says("unclosed group");
    root.run(&["grep", "(red", "-F"]).expect(0).says("nothing found");
    root.run(&["grep", "red", "--type", "{"]).expect(2).says("--type");
    root.run(&["grep", "red", "/no/such/place"]).expect(1).says("there is no such file");
}

#[test]
fn what_cannot_be_read_is_named_and_what_stands_before_it_is_searched() {
    let root = Root::new();
    for encoding in ["indexed", "zstd", "plain"] {
        let log = root.session(encoding, encoding, 40);
        root.append(encoding, 40..50);
        let bytes = fs::read(&log).unwrap();
        fs::write(&log, &bytes[..bytes.len() - 5]).unwrap();
    }
    let ran = root.run(&["grep", "-F", "", "--json"]).expect(3);
    let paths: Vec<Value> = ran.json().into_iter().map(|hit| hit["path"].clone()).collect();
    for encoding in ["indexed", "zstd", "plain"] {
        let path = root.log(encoding);
        assert!(paths.iter().any(|found| found.as_str() == path.to_str()), "{encoding}: {}", ran.stderr);
        assert!(ran.stderr.contains(path.to_str().unwrap()), "{}", ran.stderr);
    }
    ran.says("3 logs were not searched to the end");
}

#[test]
fn completions_and_pages_name_every_verb() {
    let verbs = ["grep", "recover", "migrate", "completions"];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = seslog(&["completions", shell], b"").expect(0).text();
        assert!(verbs.iter().all(|verb| text.contains(verb)), "{shell}");
        assert!(!text.contains("demo-writer --"), "{shell}");
    }
    let page = seslog(&["man"], b"").expect(0).text();
    assert!(
        page.contains(".TH seslog 1")
            && verbs.iter().all(|verb| page.contains(&format!("seslog\\-{verb}(1)")))
    );
    assert!(seslog(&["man", "grep"], b"").expect(0).text().contains("Example: seslog grep"));
    seslog(&["man", "sing"], b"").expect(2).says("there is no verb sing");
    let root = Root::new();
    let dir = root.scratch().to_str().unwrap();
    seslog(&["man", "--dir", dir], b"").expect(0);
    let names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(
        names.len() > 15
            && names.contains(&"seslog-grep.1".to_owned())
            && names.contains(&"seslog.1".to_owned())
    );
    assert!(!names.iter().any(|name| name.contains("demo-writer")), "{names:?}");
}
