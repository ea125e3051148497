//! What `ls` and `stat` show of events, and what is kept for that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::program::{Ran, Root, run, tree};

/// Rows of a session with a title, two turns and an answer.
fn rows(title: &str) -> String {
    let rows = [
        r#"{"type":"turn/start","data":{"turn":1}}"#.to_owned(),
        r#"{"type":"step/start","data":{"turn":1,"step":1}}"#.to_owned(),
        format!(
            r#"{{"type":"user/message","data":{{"role":"user","id":"u","content":[{{"type":"text","text":"please fix\nthe {title} build"}}],"source":{{"kind":"user"}}}},"surfaceOp":"append"}}"#
        ),
        r#"{"type":"assistant/message","data":{"turn":1,"step":1,"message":{"id":"a","role":"assistant","content":[{"type":"text","text":"done, \u001b[2J it is"}],"source":{"kind":"model","provider":"acme","model":"m-1"}},"usage":{"inputTokens":100,"outputTokens":20,"cacheReadTokens":7},"stream":[]},"surfaceOp":"append"}"#.to_owned(),
        r#"{"type":"step/end","data":{"turn":1,"step":1}}"#.to_owned(),
        r#"{"type":"turn/end","data":{"turn":1,"reason":{"kind":"completed"}}}"#.to_owned(),
        format!(
            r#"{{"type":"session/title","data":{{"title":"{title} title","messageSeqs":[2],"source":{{"kind":"provider","provider":"acme"}}}}}}"#
        ),
        r#"{"type":"turn/start","data":{"turn":2}}"#.to_owned(),
    ];
    rows.join("\n") + "\n"
}

struct Place {
    root: Root,
    cache: PathBuf,
}

impl Place {
    fn new(ids: &[&str]) -> Self {
        let root = Root::new();
        for id in ids {
            root.run(&["new", "--id", id, "--cwd", "/w"]).expect(0);
            root.run_with(&["append", id, "--batch", "3"], rows(id).as_bytes()).expect(0);
        }
        let cache = root.scratch().join("cache");
        Self { root, cache }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = super::program::command();
        command.env("SESLOG_CACHE", &self.cache).arg("--root").arg(self.root.path()).args(args);
        command
    }

    /// Runs a verb that reads, and checks that it does.
    fn reads(&self, args: &[&str]) -> Ran {
        let before = tree(&self.root.path());
        let ran = run(self.command(args), b"");
        assert_eq!(tree(&self.root.path()), before, "{args:?}");
        ran
    }

    /// Whether a file of the cache holds `words`.
    fn keeps(&self, words: &str) -> bool {
        files(&self.cache)
            .iter()
            .any(|path| fs::read(path).unwrap().windows(words.len()).any(|window| window == words.as_bytes()))
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

fn of<'v>(listed: &'v [Value], id: &str) -> &'v Value {
    listed.iter().find(|one| one["id"] == *id).unwrap()
}

#[test]
fn a_listing_shows_what_is_known_and_details_are_computed_when_asked_for() {
    let place = Place::new(&["one", "two"]);
    let plain = place.reads(&["ls", "--json"]).expect(0).json();
    assert!(plain.iter().all(|one| one.get("turns").is_none()), "nothing was folded yet");
    assert!(!place.reads(&["ls"]).expect(0).text().contains("TITLE"));

    let detailed = place.reads(&["ls", "--json", "--details"]).expect(0).json();
    let one = of(&detailed, "one");
    let seq = |of: &Value| of["seq"].as_u64().unwrap();
    assert_eq!((&one["title"], &one["titleSource"]), (&json!("one title"), &json!("provider")));
    assert_eq!((&one["turns"], &one["steps"], &one["isTurnOpen"]), (&json!(2), &json!(1), &json!(true)));
    assert_eq!((&one["prompts"], &one["answers"], &one["toolCalls"]), (&json!(1), &json!(1), &json!(0)));
    let last = &one["lastMessage"];
    assert_eq!(
        (&last["role"], &last["text"], seq(last)),
        (&json!("assistant"), &json!("done, [2J it is"), 3)
    );
    let sums =
        json!({"requests": 1, "input": 100, "output": 20, "cacheRead": 7, "cacheWrite": 0, "reasoning": 0});
    assert_eq!(one["tokens"], sums);
    assert_eq!(one["models"], json!([{"provider": "acme", "model": "m-1", "answers": 1, "tokens": sums}]));
    assert!(one["firstTime"].is_i64() && one["activeMs"].is_u64() && one["lastPromptTime"].is_i64());

    // Known from now on, and by every verb that shows sessions.
    assert_eq!(place.reads(&["ls", "--json"]).expect(0).json(), detailed);
    let shown = place.reads(&["stat", "one", "--json"]).expect(0).object();
    for name in ["title", "turns", "tokens", "models", "lastMessage", "activeMs"] {
        assert_eq!(shown[name], one[name], "{name}");
    }
    let table = place.reads(&["ls"]).expect(0).text();
    assert!(table.contains("TITLE") && table.contains("one title") && !table.contains("TURNS"), "{table}");
    let table = place.reads(&["ls", "--details"]).expect(0).text();
    assert!(table.contains("TURNS") && table.contains("127") && table.contains("m-1"), "{table}");
    let page = place.reads(&["stat", "one"]).expect(0).text();
    for words in ["title       one title", "please fix the one build", "2, the last one open", "acme/m-1"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // Without the caches nothing is known.
    let without = place.reads(&["ls", "--json", "--no-catalog"]).expect(0).json();
    assert!(without.iter().all(|one| one.get("turns").is_none()));

    // It goes on with the log.
    let more = r#"{"type":"turn/end","data":{"turn":2,"reason":{"kind":"completed"}}}"#;
    place.root.run_with(&["append", "one"], format!("{more}\n").as_bytes()).expect(0);
    let after = place.reads(&["ls", "--json"]).expect(0).json();
    assert_eq!(of(&after, "one")["isTurnOpen"], json!(false));
    assert_eq!(of(&after, "two"), of(&detailed, "two"));
}

#[test]
fn stat_computes_details_of_one_session_also_by_its_path_in_another_root() {
    let place = Place::new(&["one", "two"]);
    let log = place.root.log("one");
    let elsewhere = Root::new();
    let mut command = super::program::command();
    command.env("SESLOG_CACHE", &place.cache).arg("--root").arg(elsewhere.path());
    command.arg("stat").arg(&log).args(["--json", "--details"]);
    assert_eq!(run(command, b"").expect(0).object()["title"], json!("one title"));
    let listed = place.reads(&["ls", "--json"]).expect(0).json();
    assert_eq!(of(&listed, "one")["title"], json!("one title"));
    assert!(of(&listed, "two").get("title").is_none());
}

#[test]
fn what_is_kept_of_a_session_goes_with_it() {
    let place = Place::new(&["rm", "prune", "mv", "archive", "stay"]);
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let words = |id: &str| format!("{id} title");
    place.reads(&["ls", "--details"]).expect(0);
    place.reads(&["ls"]).expect(0);
    let catalog =
        files(&place.cache).into_iter().find(|path| path.extension().is_some_and(|e| e == "catalog"));
    let in_catalog = |id: &str| {
        let bytes = fs::read(catalog.as_ref().unwrap()).unwrap();
        bytes.windows(words(id).len()).any(|window| window == words(id).as_bytes())
    };
    for id in ["rm", "prune", "mv", "archive", "stay"] {
        assert!(in_catalog(id) && place.keeps(&words(id)), "{id}");
    }
    run(place.command(&["rm", "rm", "--dry-run"]), b"").expect(0);
    assert!(place.keeps(&words("rm")));
    run(place.command(&["rm", "rm"]), b"").expect(0);
    assert!(!place.keeps(&words("rm")) && in_catalog("stay"));
    let zip = place.root.scratch().join("a.zip");
    run(place.command(&["archive", "archive", "-o", zip.to_str().unwrap(), "--remove"]), b"").expect(0);
    assert!(!place.keeps(&words("archive")) && in_catalog("stay"));
    // The others go last: a prune takes what is oldest.
    run(place.command(&["mv", "/w", "/elsewhere"]), b"").expect(0);
    assert!(!place.keeps(&words("mv")), "what is kept was of the old place");
    place.reads(&["ls", "--details"]).expect(0);
    assert!(place.keeps(&words("prune")));
    run(place.command(&["prune", "--all", "--keep", "0", "--yes"]), b"").expect(0);
    assert!(!place.keeps(&words("prune")) && !place.keeps(&words("stay")));
}

#[test]
fn many_listings_at_once_say_the_same() {
    let ids: Vec<String> = (0..12).map(|id| format!("s{id}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let place = Place::new(&ids);
    let told = place.reads(&["ls", "--json", "--details", "--no-catalog"]).expect(0).text();
    for _ in 0..3 {
        let children: Vec<_> =
            (0..6).map(|_| place.command(&["ls", "--json", "--details"]).spawn().unwrap()).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0));
            assert_eq!(String::from_utf8(output.stdout).unwrap(), told);
        }
    }
    let left: Vec<_> =
        files(&place.cache).into_iter().filter(|path| path.extension().is_some_and(|e| e == "tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_log_that_cannot_be_folded_is_named_and_marks_the_listing() {
    let place = Place::new(&["good", "bad"]);
    let unknown = r#"{"type":"of/tomorrow","seq":0,"time":5,"data":{}}"#;
    let header = r#"{"type":"session","version":2,"id":"new","createdAt":5,"cwd":"/w","isSeeded":false,"delegationDepth":0}"#;
    let folder = place.root.path().join("--w--").join("new");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("session.v2.jsonl"), format!("{header}\n{unknown}\n")).unwrap();
    place.reads(&["ls", "--json"]).expect(0);
    let ran = place.reads(&["ls", "--json", "--details"]).expect(3).says("of/tomorrow");
    assert!(of(&ran.json(), "new").get("turns").is_none());
    assert_eq!(of(&ran.json(), "good")["turns"], json!(2));
}
