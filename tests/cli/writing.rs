//! `new`, `append`, `import`, `convert`: what they write, acknowledge and refuse.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use serde_json::Value;

use super::program::{Root, copy, row, seslog, tree};

#[test]
fn new_makes_a_private_durable_session_and_prints_its_id() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = Root::new();
    let id = root.run(&["new"]).expect(0).text();
    let id = id.trim_end();
    assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'), "a random UUID: {id}");
    let stat = root.run(&["stat", id, "--json"]).expect(0).object();
    assert_eq!(stat["cwd"].as_str(), std::env::current_dir().unwrap().to_str());
    assert_eq!((&stat["eventCount"], &stat["encoding"]), (&0.into(), &"indexed".into()));
    let path = Path::new(stat["path"].as_str().unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(root.run(&["cat", id]).expect(0).lines().len(), 1);
    root.run(&["new", "--id", id]).expect(1).says("exists already").says("next: ");
    let made = root
        .run(&["new", "--id", "-odd id/..", "--parent", "--p", "--cwd", "/w", "--json"])
        .expect(0)
        .object();
    assert_eq!(made["id"], "-odd id/..");
    assert_eq!(root.run(&["stat", "--json", "--", "-odd id/.."]).expect(0).object()["parentSession"], "--p");
}

#[test]
fn a_new_session_takes_the_encoding_of_its_root() {
    let encoding_in = |first: &[&str]| {
        let root = Root::new();
        for (number, encoding) in first.iter().enumerate() {
            root.run(&["new", "--id", &format!("s{number}"), "--cwd", "/w", "--encoding", encoding])
                .expect(0);
        }
        root.run(&["new", "--cwd", "/w", "--json"]).expect(0).object()["encoding"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(encoding_in(&[]), "indexed");
    assert_eq!(encoding_in(&["indexed"]), "indexed");
    assert_eq!(encoding_in(&["zstd"]), "zstd");
    assert_eq!(encoding_in(&["indexed", "zstd"]), "zstd");
    assert_eq!(encoding_in(&["plain"]), "plain", "DSH refuses a root of two encodings");
}

#[test]
fn append_fills_in_what_is_left_out_and_acknowledges_each_durable_batch() {
    for encoding in ["indexed", "zstd", "plain"] {
        let root = Root::new();
        root.session("s", encoding, 0);
        let rows = "{\"data\":{\"active\":true},\"type\":\"plan/mode\"}\n\n\
                    {\"type\":\"plan/mode\",\"seq\":1,\"time\":7,\"data\":{\"a\":1e400,\"b\":\"\\ud800\"},\"ignorable\":true}\n\
                    {\"type\":\"plan/mode\",\"data\":{ \"spaced\" : 1 }}";
        let ran = root.run_with(&["append", "s"], rows.as_bytes()).expect(0);
        assert_eq!(ran.text(), "appended 1, next seq 1\nappended 1, next seq 2\nappended 1, next seq 3\n");
        let ran = root.run_with(
            &["append", "s", "--batch", "2", "--json"],
            (3..8).map(row).collect::<String>().as_bytes(),
        );
        assert_eq!(
            ran.expect(0).text(),
            "{\"appended\":2,\"nextSeq\":5}\n{\"appended\":2,\"nextSeq\":7}\n{\"appended\":1,\"nextSeq\":8}\n"
        );
        let ran =
            root.run_with(&["append", "s", "--sync", "end"], (8..11).map(row).collect::<String>().as_bytes());
        assert_eq!(ran.expect(0).text(), "appended 3, next seq 11\n");
        assert_eq!(root.run_with(&["append", "s"], b"").expect(0).text(), "");
        let events = root.events("s");
        assert_eq!(events.len(), 11);
        let first: Value = serde_json::from_str(&events[0]).unwrap();
        assert_eq!(first["seq"], 0);
        assert!(first["time"].as_u64().unwrap() > 1_700_000_000_000);
        assert_eq!(
            events[1],
            "{\"type\":\"plan/mode\",\"seq\":1,\"time\":7,\"data\":{\"a\":1e400,\"b\":\"\\ud800\"},\"ignorable\":true}"
        );
        assert!(events[2].contains("{ \"spaced\" : 1 }"), "the payload's bytes are kept");
        assert_eq!(format!("{}\n", events[10]), row(10));
        seslog(&["verify", root.log("s").to_str().unwrap()], b"").expect(0);
    }
}

#[test]
fn a_bad_row_stores_nothing_of_its_batch_and_names_its_line() {
    let root = Root::new();
    root.session("s", "indexed", 2);
    let good = |seq| row(seq);
    for (bad, words) in [
        ("{\"type\":\"plan/mode\"}\n", "data"),
        ("not json\n", "not JSON"),
        ("{\"type\":\"plan/mode\",\"seq\":999,\"data\":{}}\n", "seq 999"),
        ("{\"type\":\"plan/mode\",\"seq\":0,\"data\":{}}\n", "seq 0"),
        ("{\"type\":\"plan/mode\",\"data\":{},\"x\":1}\n", "member"),
        ("{\"type\":\"acme/\\u001b[2J\",\"data\":{}}\n", "not known"),
        ("{\"type\":\"acme/status\",\"data\":{}}\n", "acme/status"),
        ("{\"type\":\"session\",\"version\":2,\"id\":\"s\"}\n", "member"),
        ("{\"type\":\"plan/mode\",\"data\":{},\"sourceEventSeqs\":[800]}\n", "sourceEventSeqs"),
    ] {
        let before = fs::read(root.log("s")).unwrap();
        let next = root.events("s").len() as u64;
        let input = format!("{}{bad}{}", good(next), good(next + 1));
        let ran = root
            .run_with(&["append", "s", "--batch", "3"], input.as_bytes())
            .expect(1)
            .says("line 2")
            .says(words)
            .says("next: ");
        assert!(ran.stdout.is_empty());
        assert_eq!(fs::read(root.log("s")).unwrap(), before, "{bad}");
        let ran = root.run_with(&["append", "s"], input.as_bytes()).expect(1).says("line 2");
        assert_eq!(
            ran.text(),
            format!("appended 1, next seq {}\n", next + 1),
            "what came before is acknowledged and stays"
        );
    }
    root.run_with(&["append", "s"], b"{\"type\":\"acme/status\",\"data\":{},\"ignorable\":true}\n").expect(0);
    root.run_with(&["append", "nobody"], b"").expect(1);
    let loose = root.scratch().join("loose.jsonl");
    copy(&root.log("s"), &loose);
    seslog(&["append", loose.to_str().unwrap()], b"").expect(1).says("import");
}

#[test]
fn an_append_is_acknowledged_at_once_and_before_stdin_ends() {
    let root = Root::new();
    root.session("s", "indexed", 0);
    let mut writer = root.spawn(&["append", "s", "--json"]);
    let mut stdin = writer.stdin.take().unwrap();
    let mut stdout = BufReader::new(writer.stdout.take().unwrap());
    for seq in 0..3 {
        stdin.write_all(row(seq).as_bytes()).unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{{\"appended\":1,\"nextSeq\":{}}}\n", seq + 1));
        assert_eq!(root.events("s").len() as u64, seq + 1, "a reader beside sees it");
    }
    drop(stdin);
    assert!(writer.wait().unwrap().success());
}

#[test]
fn a_session_may_be_appended_to_by_its_path_wherever_it_stands() {
    let root = Root::new();
    let path = root.session("s", "zstd", 2);
    let elsewhere = root.scratch().join("elsewhere");
    copy(path.parent().unwrap(), &elsewhere);
    for target in [elsewhere.clone(), elsewhere.join("session.v2.jsonl.zstd")] {
        let next =
            seslog(&["stat", target.to_str().unwrap(), "--json"], b"").expect(0).object()["eventCount"]
                .as_u64()
                .unwrap();
        seslog(&["append", target.to_str().unwrap()], row(next).as_bytes()).expect(0);
    }
    assert_eq!(seslog(&["cat", elsewhere.to_str().unwrap(), "--no-header"], b"").expect(0).lines().len(), 4);
    assert_eq!(root.events("s").len(), 2);
}

#[test]
fn a_file_that_another_program_changed_is_not_appended_to() {
    let root = Root::new();
    let path = root.session("s", "plain", 2);
    let mut writer = root.spawn(&["append", "s"]);
    let mut stdin = writer.stdin.take().unwrap();
    let mut stdout = BufReader::new(writer.stdout.take().unwrap());
    stdin.write_all(row(2).as_bytes()).unwrap();
    stdout.read_line(&mut String::new()).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(row(3).as_bytes());
    fs::write(&path, &bytes).unwrap();
    stdin.write_all(row(3).as_bytes()).unwrap();
    drop(stdin);
    let output = writer.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("another program changed the log") && stderr.contains("next: "), "{stderr}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn an_import_appears_whole_or_not_at_all() {
    let root = Root::new();
    let path = root.session("s", "plain", 30);
    let whole = fs::read(&path).unwrap();
    let fresh = Root::new();
    let torn = &whole[..whole.len() - 10];
    let ran = fresh.run_with(&["import", "-"], torn).expect(3).says("the end was left out");
    assert_eq!(ran.text(), "s\n");
    assert_eq!(fresh.events("s").len(), 29);

    let mut damaged = whole.clone();
    let at = whole.len() / 2;
    damaged[at] = b'\n';
    damaged.extend_from_slice(b"{\"type\":\"turn/end\",\"seq\":30,\"time\":1,\"data\":{}}\n");
    for bad in [damaged.as_slice(), b"", b"\n", b"hello", &whole[..20], b"[]\n{}\n"] {
        let fresh = Root::new();
        fresh.run_with(&["import", "-"], bad).expect(1).says("next: ");
        let left = if fresh.path().exists() { tree(&fresh.path()) } else { Vec::new() };
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(fresh.run(&["ls", "--json"]).expect(0).stdout, b"", "nothing is listed");
    }
    // All encodings come in by stdin as well.
    for encoding in ["indexed", "zstd"] {
        let out = root.scratch().join(encoding);
        root.run(&["convert", "s", out.to_str().unwrap(), "--encoding", encoding]).expect(0);
        let fresh = Root::new();
        fresh.run_with(&["import", "-"], &fs::read(&out).unwrap()).expect(0);
        assert_eq!(fresh.run(&["cat", "s"]).expect(0).stdout, whole);
    }
    root.run(&["import", path.parent().unwrap().to_str().unwrap(), "--id", "copy"]).expect(0);
    assert_eq!(root.events("copy"), root.events("s"));
}

#[test]
fn convert_never_overwrites_and_says_which_names_fit() {
    let root = Root::new();
    root.session("s", "indexed", 5);
    let at = |name: &str| root.scratch().join(name).to_str().unwrap().to_owned();
    root.run(&["convert", "s", &at("session.v2.jsonl")]).expect(0);
    assert_eq!(root.run(&["cat", "s"]).expect(0).stdout, fs::read(at("session.v2.jsonl")).unwrap());
    root.run(&["convert", "s", &at("session.v2.jsonl")]).expect(1).says("exists").says("next: ");
    root.run(&["convert", "s", &at("session.v1.jsonl")]).expect(2);
    root.run(&["convert", "s", &at("x.jsonl.zstd"), "--encoding", "plain"]).expect(2);
    root.run(&["convert", "s", &at("nothing-said")]).expect(2);
    root.run(&["convert", "s", root.scratch().to_str().unwrap()]).expect(2);
    root.run(&["convert", "s", root.scratch().to_str().unwrap(), "--encoding", "zstd", "--level", "19"])
        .expect(0);
    assert!(root.scratch().join("session.v2.jsonl.zstd").is_file());
    root.run(&["convert", "s", "/no/such/folder/session.v2.jsonl"]).expect(1).says("/no/such/folder");
    let path = root.log("s");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    root.run(&["convert", "s", &at("torn.jsonl")]).expect(3).says("the end was left out");
    assert_eq!(
        seslog(&["cat", &at("torn.jsonl"), "--no-header"], b"").expect(0).lines().len(),
        0,
        "the torn append goes whole"
    );
}
