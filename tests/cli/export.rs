//! `export` and `archive`.

use std::fs;
use std::io::{Cursor, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use seslog::export::write_zip;
use seslog::json::Text;
use seslog::store::{Cancel, FileStore};

use super::common;
use super::corpus::logs_in;
use super::program::{Root, expect_tree, row, seslog, tree};

/// A session of some turns: questions, answers with their streams, tool calls and results, and an attempt that failed.
/// `says` is part of each answer, and cut over the stream.
pub(crate) fn conversation(id: &str, turns: u64, says: &str) -> String {
    let mut rows =
        vec![json!({"type": "session", "version": 2, "id": id, "createdAt": 1_700_000_000_000_u64,
        "cwd": "/home/ann/src", "isSeeded": false, "delegationDepth": 0})];
    let mut time = 1_700_000_000_000_u64;
    let mut push = |kind: &str, data: Value, more: Value| {
        time += 500;
        let mut row = json!({"type": kind, "seq": rows.len() - 1, "time": time, "data": data});
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rows.push(row);
        rows.len() as u64 - 2
    };
    let shown = json!({"surfaceOp": "append"});
    for turn in 1..=turns {
        push("turn/start", json!({"turn": turn}), json!({}));
        let text = format!("Question {turn}: what is </script><script>faults.push('out')</script> & <b>?");
        push(
            "user/message",
            json!({"id": format!("u{turn}"), "role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": "user"}}),
            shown.clone(),
        );
        push("step/start", json!({"turn": turn, "step": 1}), json!({}));
        if turn % 3 == 0 {
            push(
                "assistant/attempt",
                json!({"turn": turn, "step": 1, "stream": [
                    {"type": "text-chunks", "time0": 1_700_000_000_000_u64, "index": 0, "dt": [7], "texts": ["It broke ", "off"]},
                    {"type": "chunk", "time": 1_700_000_000_020_u64, "chunk": {"type": "finish", "reason": {"kind": "error", "failure": {"code": "overloaded", "message": "later"}}}}]}),
                json!({}),
            );
        }
        let answer = format!("Answer {turn}. {says}\n```js\nlet needle = {turn};\n```\nDone.");
        let cut = answer.len() / 3;
        let texts = [&answer[..cut], &answer[cut..cut + 9], &answer[cut + 9..]];
        let call = format!("call{turn}");
        push(
            "assistant/message",
            json!({"turn": turn, "step": 1,
                "message": {"id": format!("a{turn}"), "role": "assistant", "content": [
                    {"type": "reasoning", "text": "Let me think"}, {"type": "text", "text": answer},
                    {"type": "tool-call", "id": call, "name": "bash", "arguments": "{\"command\":\"ls\"}"}],
                    "source": {"kind": "model", "provider": "p", "model": "large"}},
                "stream": [{"type": "text-chunks", "time0": 1_700_000_000_000_u64 + turn, "index": 1, "dt": [20, 30], "texts": texts}]}),
            shown.clone(),
        );
        let call_seq = push(
            "tool/call",
            json!({"turn": turn, "step": 1, "callId": call, "name": "bash", "arguments": "{\"command\":\"ls\"}"}),
            json!({}),
        );
        push(
            "tool/result",
            json!({"turn": turn, "step": 1, "message": {"id": format!("r{turn}"), "role": "user", "source": {"kind": "tool", "callId": call},
                "content": [{"type": "tool-result", "toolCallId": call, "content": [{"type": "text", "text": format!("needle in {turn}\n")}], "isError": false}]}}),
            json!({"surfaceOp": "append", "sourceEventSeqs": [call_seq]}),
        );
        push("step/end", json!({"turn": turn, "step": 1}), json!({}));
        push("turn/end", json!({"turn": turn, "reason": {"kind": "completed"}}), json!({}));
    }
    rows.iter().map(|row| format!("{row}\n")).collect()
}

fn entries(zip: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = zip::ZipArchive::new(Cursor::new(zip)).unwrap();
    (0..archive.len())
        .map(|at| {
            let mut entry = archive.by_index(at).unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (entry.name().unwrap().into_owned(), bytes)
        })
        .collect()
}

/// A session of every encoding, and one below the first that has one below itself.
fn family() -> Root {
    let root = Root::new();
    for encoding in ["indexed", "zstd", "plain"] {
        root.session(encoding, encoding, 40);
    }
    for (id, parent) in [("sub.1", "indexed"), ("sub.2", "sub.1")] {
        let header = format!(
            r#"{{"type":"session","version":2,"id":"{id}","createdAt":5,"cwd":"/w","parentSession":"{parent}","isSeeded":false,"origin":"subagent","delegationDepth":1}}"#
        );
        let rows: String = (0..3).map(row).collect();
        root.run_with(&["import", "-"], format!("{header}\n{rows}").as_bytes()).expect(0);
    }
    root
}

#[test]
fn a_zip_is_that_of_the_library_and_does_not_depend_on_where_it_goes() {
    let root = family();
    let before = tree(&root.path());
    let file = root.scratch().join("out.zip");
    root.run(&["export", "indexed", "-o", file.to_str().unwrap()]).expect(0).says("3 sessions");
    let zip = fs::read(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let mut by_handle = Vec::new();
    let store = FileStore::new(root.path());
    assert_eq!(write_zip(&store, &Text::from("indexed"), &mut by_handle, &Cancel::never()).unwrap(), 3);
    assert!(zip == by_handle);
    assert!(root.run(&["export", "indexed", "-o", "-"]).expect(0).stdout == zip);
    let folder = root.log("indexed").parent().unwrap().to_str().unwrap().to_owned();
    assert!(seslog(&["export", &folder, "-o", "-"], b"").expect(0).stdout == zip, "its own root");
    let names: Vec<String> = entries(&zip).into_iter().map(|entry| entry.0).collect();
    assert_eq!(
        names,
        ["session.v2.jsonl", "subagents/sub_1/session.v2.jsonl", "subagents/sub_2/session.v2.jsonl"]
    );
    let [_, zstd, plain] = ["indexed", "zstd", "plain"].map(|id| {
        let text = root.run(&["export", id, "--format", "jsonl"]).expect(0).stdout;
        assert_eq!(text, root.run(&["cat", id]).expect(0).stdout);
        let alone = root.run(&["export", id, "--alone", "-o", "-"]).expect(0).stdout;
        assert_eq!(entries(&alone), [("session.v2.jsonl".to_owned(), text)]);
        alone
    });
    assert_ne!(zstd, plain, "their ids differ");
    let both = root.run(&["export", "zstd", "indexed", "-o", "-"]).expect(0).stdout;
    let names: Vec<String> = entries(&both).into_iter().map(|entry| entry.0).collect();
    assert_eq!(
        names,
        [
            "zstd/session.v2.jsonl",
            "indexed/session.v2.jsonl",
            "indexed/subagents/sub_1/session.v2.jsonl",
            "indexed/subagents/sub_2/session.v2.jsonl"
        ]
    );
    expect_tree(&root.path(), &before);
}

#[test]
fn an_export_is_complete_or_there_is_none() {
    let root = family();
    let scratch = root.scratch().join("exports");
    fs::create_dir(&scratch).unwrap();
    let file = scratch.join("out.zip");
    let out = file.to_str().unwrap();
    let log = root.log("sub.2");
    let mut bytes = fs::read(&log).unwrap();
    let whole = bytes.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&log, bytes).unwrap();
    root.run(&["export", "indexed", "-o", out]).expect(1);
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "nothing is left behind");
    root.run(&["export", "indexed", "--alone", "-o", out]).expect(0);
    let first = fs::read(&file).unwrap();
    fs::write(&log, whole).unwrap();
    root.run(&["export", "indexed", "-o", out]).expect(1).says("--force");
    assert!(fs::read(&file).unwrap() == first);
    root.run(&["export", "indexed", "-o", out, "--force"]).expect(0);
    assert_eq!(entries(&fs::read(&file).unwrap()).len(), 3);
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 1);
    root.run(&["export", "zstd", "plain", "--format", "md"]).expect(2);
    root.run(&["export", "zstd", "-o", "out.tar"]).expect(2).says("--format");
    root.run(&["export", "zstd", "--raw", "--redact", "default"]).expect(2);
    root.run(&["export", "nobody", "-o", "-"]).expect(1);

    // A torn end is no part of the log, and worth a word.
    let log = root.log("plain");
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend_from_slice(b"{\"type\":\"plan/mo");
    fs::write(&log, bytes).unwrap();
    let text = root.run(&["export", "plain", "--format", "jsonl"]).expect(3).says("not in the export");
    assert_eq!(text.lines().len(), 41);
}

#[test]
fn every_log_of_the_corpus_exports_as_its_conversion_and_raw_as_it_is() {
    let Some(shared) = common::shared() else { return };
    let mut logs = logs_in(&shared.join("corpus/dsh-v0-restored"), "");
    logs.extend(logs_in(&shared.join("corpus/migrated/v2"), ""));
    assert!(logs.len() > 50);
    for log in logs {
        let path = log.to_str().unwrap();
        let current = seslog(&["cat", "--current", path], b"");
        let exported = seslog(&["export", path, "--format", "jsonl"], b"");
        assert_eq!(exported.code, current.code, "{path}");
        if current.code != 0 {
            continue;
        }
        let current = current.stdout;
        assert!(exported.stdout == current, "{path}");
        let raw = seslog(&["export", path, "--format", "jsonl", "--raw"], b"").expect(0).stdout;
        assert!(raw == fs::read(&log).unwrap(), "{path}");
        let said = seslog(&["export", path, "--format", "md"], b"").expect(0).text();
        let heads = said.lines().filter(|line| line.starts_with("## ")).count();
        let messages = current.split(|byte| *byte == b'\n').filter(|line| {
            serde_json::from_slice::<Value>(line).is_ok_and(|row| row.get("surfaceOp").is_some())
        });
        assert!(heads >= messages.count(), "{path}");
    }
}

#[test]
fn what_this_build_does_not_know_goes_into_a_raw_export_only() {
    let root = Root::new();
    let log = root.session("s", "plain", 2);
    let mut text = fs::read_to_string(&log).unwrap();
    text.push_str("{\"type\":\"from/tomorrow\",\"seq\":2,\"time\":1700000000003,\"data\":{}}\n");
    fs::write(&log, &text).unwrap();
    root.run(&["export", "s", "--format", "jsonl"]).expect(1).says("from/tomorrow");
    assert_eq!(root.run(&["export", "s", "--format", "jsonl", "--raw"]).expect(0).text(), text);
}

#[test]
fn redaction_leaves_no_trace_of_a_secret_in_any_format() {
    let root = Root::new();
    let secret = format!("sk-{}", "a1B2".repeat(9));
    root.run_with(&["import", "-"], conversation("s", 4, &format!("the key is {secret}!")).as_bytes())
        .expect(0);
    let rules = root.scratch().join("rules");
    fs::write(&rules, "# names\nwho: \\bann\\b\n").unwrap();
    for format in ["jsonl", "md", "html", "zip"] {
        let args = ["export", "s", "--format", format, "-o", "-", "--redact", "default", "--redact"];
        let args: Vec<&str> = args.into_iter().chain([rules.to_str().unwrap()]).collect();
        let ran =
            root.run(&args).expect(0).says("redacted 5 (api-key 4, who 1)").says("4 streams were left out");
        let text = match format {
            "zip" => String::from_utf8(entries(&ran.stdout).remove(0).1).unwrap(),
            _ => ran.text(),
        };
        assert!(
            text.contains("the key is [redacted:api-key]!") && text.contains("/home/[redacted:who]/src"),
            "{format}"
        );
        // Not a piece of it either.
        assert!(!text.contains("a1B2"), "{format}");
        if format == "jsonl" {
            let log = root.scratch().join("session.v2.jsonl");
            fs::write(&log, text).unwrap();
            root.run(&["verify", log.to_str().unwrap()]).expect(0);
        }
    }
    // The code of a failure stands in a stream alone; the page takes its times and leaves the word.
    let args = ["export", "s", "--format", "html", "-o", "-", "--redact", "regex:overloaded"];
    let page = root.run(&args).expect(0).says("1 stream was left out").text();
    assert!(!page.contains("overloaded") && page.contains("\"outcome\":\"error\""));
    let clean = root.run(&["export", "s", "--format", "jsonl", "--redact", "regex:nowhere"]).expect(0);
    let stored = root.run(&["cat", "s"]).expect(0);
    // The header is written anew, in the order of its members.
    assert!(clean.lines()[1..] == stored.lines()[1..]);
    root.run(&["export", "s", "--format", "jsonl", "--redact", "regex:("]).expect(2);
    root.run(&["export", "s", "--format", "jsonl", "--redact", "no-such-file"])
        .expect(1)
        .says("no-such-file");
}

#[test]
fn markdown_reads_well_and_keeps_every_message_in_its_section() {
    let root = Root::new();
    root.run_with(&["import", "-"], conversation("s", 3, "\n~~~\nopen").as_bytes()).expect(0);
    let text = root.run(&["export", "s", "--format", "md"]).expect(0).text();
    assert!(text.starts_with("# Session `s`\n"));
    assert_eq!(text.matches("\n## User").count(), 3);
    assert_eq!(text.matches("\n## Assistant").count(), 3);
    assert_eq!(text.matches("\n## Tool").count(), 3);
    assert!(text.contains("what is \\</script>\\<script>"));
    assert!(text.contains("**Calls `bash`**\n\n```json\n{\"command\":\"ls\"}\n```\n"));
    assert_eq!(text.matches("~~~").count() % 2, 0);
}

fn unpack(zip: &Path, to: &Path) {
    for (name, bytes) in entries(&fs::read(zip).unwrap()) {
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn an_archive_holds_the_files_and_unpacks_into_a_root() {
    let root = family();
    let sessions = || root.run(&["ls", "--json"]).expect(0).json().len();
    // A torn end that was set aside and an older generation go along.
    let folder = root.log("zstd").parent().unwrap().to_owned();
    fs::write(folder.join("session.v1.jsonl"), "an older generation").unwrap();
    fs::write(folder.join("session.v2.jsonl.zstd.torn-9-3-00c0ffee"), "cut").unwrap();
    let before = tree(&root.path());
    let file = root.scratch().join("kept.zip");
    let out = file.to_str().unwrap();
    let ran =
        root.run(&["archive", "indexed", "zstd", "sub.1", "-o", out, "--json"]).expect(0).says("verified");
    let ids: Vec<Value> = ran.json().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(ids, ["indexed", "sub.1", "sub.2", "zstd"]);
    assert!(ran.json().iter().all(|one| one["removed"] == false));
    expect_tree(&root.path(), &before);

    root.run(&["archive", "zstd", "-o", out, "--remove"]).expect(1).says("--force");
    root.run(&["archive", "zstd", "-o", "-"]).expect(2);
    assert_eq!(sessions(), 5);
    root.run(&["archive", "indexed", "zstd", "-o", out, "--remove", "--force"]).expect(0);
    assert_eq!(sessions(), 1);
    let all = entries(&fs::read(&file).unwrap());
    let manifest: Value = serde_json::from_slice(&all.last().unwrap().1).unwrap();
    let listed = manifest["sessions"].as_array().unwrap().iter();
    let files: Vec<&Value> = listed.flat_map(|one| one["files"].as_array().unwrap()).collect();
    assert_eq!(files.len(), 6);
    for (file, (name, bytes)) in files.iter().zip(&all) {
        assert_eq!((&file["path"], &file["sizeBytes"]), (&json!(name), &json!(bytes.len())));
        assert_eq!(file["crc32"], format!("{:08x}", crc32fast::hash(bytes)));
    }
    unpack(&file, &root.path());
    fs::remove_file(root.path().join("manifest.json")).unwrap();
    expect_tree(&root.path(), &before);
}

#[test]
fn a_session_that_somebody_writes_is_archived_and_stays() {
    let root = family();
    let mut writer = root.spawn(&["append", "plain"]);
    let input = writer.stdin.as_mut().unwrap();
    std::io::Write::write_all(input, row(40).as_bytes()).unwrap();
    let mut said = std::io::BufReader::new(writer.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut said, &mut String::new()).unwrap();
    let file = root.scratch().join("kept.zip");
    let out = file.to_str().unwrap();
    root.run(&["archive", "plain", "zstd", "-o", out, "--remove"]).expect(1).says("not deleted");
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
    assert_eq!(root.events("plain").len(), 41);
    root.run(&["stat", "zstd"]).expect(1);
    assert_eq!(entries(&fs::read(&file).unwrap()).len(), 3);
}
