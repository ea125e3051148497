//! Exit codes, usage, pipes, terminals, targets and the order of roots.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use serde_json::Value;

use super::program::{Root, command, expect_tree, row, run, seslog, tree};

#[test]
fn usage_errors_exit_with_2_and_help_and_version_with_0() {
    for args in [
        &["frobnicate"][..],
        &["ls", "--sort", "colour"],
        &["cat"],
        &["cat", "x", "--type", "[", "--root", "/nowhere"],
        &["recover", "x", "--dry-run", "--salvage", "y"],
        &["append", "x", "--batch", "0"],
        &["convert", "a", "b", "--level", "99"],
        &["new", "--encoding", "gzip"],
        &[],
    ] {
        let ran = seslog(args, b"").expect(2);
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{args:?}");
    }
    let version = seslog(&["--version"], b"").expect(0);
    assert_eq!(version.text(), format!("seslog {}\n", env!("CARGO_PKG_VERSION")));
    assert!(seslog(&["--help"], b"").expect(0).text().contains("Exit status"));
    for verb in ["demo", "ls", "stat", "cat", "verify", "recover", "new", "append", "import", "convert"] {
        let help = seslog(&[verb, "--help"], b"").expect(0).text();
        assert!(help.contains(&format!("Example: seslog {verb}")), "{verb}: {help}");
    }
}

#[test]
fn every_error_names_the_file_the_cause_and_the_next_step() {
    let root = Root::new();
    root.run(&["cat", "nobody"]).expect(1).says("nobody").says("next: ");
    root.run(&["stat", "/no/such/file"]).expect(1).says("/no/such/file").says("next: ");
    root.run(&["verify", "/no/such/file"]).expect(1).says("/no/such/file").says("next: ");
    root.run(&["ls", "/no/such/root"]).expect(1).says("/no/such/root").says("next: ");
    root.run(&["new", "--id", ""]).expect(1).says("empty id");
    let path = root.session("s", "plain", 3);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] = 0xff;
    bytes.extend_from_slice(b"{\"type\":\"turn/end\",\"seq\":3,\"time\":1,\"data\":{}}\n");
    fs::write(&path, &bytes).unwrap();
    let ran = root
        .run(&["cat", "s"])
        .expect(1)
        .says("session.v2.jsonl: corrupt at byte")
        .says("because: ")
        .says("next: ");
    assert!(ran.stderr.contains("not UTF-8"), "{}", ran.stderr);
}

#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let root = Root::new();
    root.session("s", "plain", 20_000);
    let id = root.path();
    for verb in [&["cat", "s"][..], &["cat", "s", "--rows"], &["cat", "s", "--tail", "19000", "--type", "*"]]
    {
        let mut child = command().arg("--root").arg(&id).args(verb).spawn().unwrap();
        let mut first = [0; 64];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{verb:?}");
    }
    // An appender whose acknowledgements nobody reads stops.
    let mut child = root.spawn(&["append", "s"]);
    drop(child.stdout.take());
    let rows: String = (20_000..20_010).map(row).collect();
    let _unread = std::io::Write::write_all(&mut child.stdin.take().unwrap(), rows.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn nothing_but_data_goes_to_stdout_and_no_colour_to_a_pipe() {
    let root = Root::new();
    root.session("s", "indexed", 3);
    for args in [&["ls"][..], &["stat", "s"], &["cat", "s"]] {
        let ran = root.run(args).expect(0);
        assert!(!ran.stdout.contains(&0x1b) && ran.stderr.is_empty(), "{args:?}: {}", ran.stderr);
    }
    let mut forced = command();
    forced.arg("--root").arg(root.path()).arg("ls").env("CLICOLOR_FORCE", "1");
    assert!(run(forced, b"").stdout.contains(&0x1b), "colours are there when they are asked for");
    let mut refused = command();
    refused.arg("--root").arg(root.path()).arg("ls").env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1");
    assert!(!run(refused, b"").stdout.contains(&0x1b), "NO_COLOR is obeyed");
}

#[test]
fn a_root_is_found_in_the_order_of_the_contract() {
    let root = Root::new();
    let dirs = ["flag", "seslog", "dsh/sessions", "home/.dsh/sessions", "data/seslog"]
        .map(|dir| root.scratch().join(dir));
    for (id, dir) in dirs.iter().enumerate() {
        let id = format!("s{id}");
        seslog(&["--root", dir.to_str().unwrap(), "new", "--id", &id, "--cwd", "/w"], b"").expect(0);
    }
    let listed = |given: usize| {
        let mut command = command();
        command
            .args(["ls", "--json"])
            .env("HOME", root.scratch().join("home"))
            .env("XDG_DATA_HOME", root.scratch().join("data"));
        if given < 1 {
            command.arg("--root").arg(&dirs[0]);
        }
        if given < 2 {
            command.env("SESLOG_ROOT", &dirs[1]);
        }
        if given < 3 {
            command.env("DSH_HOME", root.scratch().join("dsh"));
        }
        run(command, b"").expect(0).object()["id"].clone()
    };
    for given in 0..4 {
        assert_eq!(listed(given), format!("s{given}"));
    }
    fs::remove_dir_all(root.scratch().join("home")).unwrap();
    assert_eq!(listed(3), "s4");
}

#[test]
fn a_missing_root_is_an_empty_list() {
    let root = Root::new();
    let ran = root.run(&["ls", "--json"]).expect(0);
    assert!(ran.stdout.is_empty());
    assert!(!root.path().exists());
}

#[test]
fn a_target_is_a_path_an_id_or_a_unique_beginning() {
    let root = Root::new();
    let path = root.session("alpha-1", "plain", 2);
    root.session("alpha-2", "zstd", 3);
    root.session("alpha", "indexed", 4);
    root.session("beta/..", "indexed", 5);
    let count = |target: &str| root.run(&["cat", target, "--no-header"]).expect(0).lines().len();
    assert_eq!(count(path.to_str().unwrap()), 2);
    assert_eq!(count(path.parent().unwrap().to_str().unwrap()), 2);
    assert_eq!(count("alpha-2"), 3);
    assert_eq!(count("alpha"), 4, "a whole id is itself, whatever begins with it");
    assert_eq!(count("be"), 5);
    assert_eq!(count("beta/.."), 5);
    assert_eq!(count("beta~002F.."), 5, "the folder's own name");
    let ambiguous = root.run(&["cat", "alpha-"]).expect(1);
    assert!(
        ambiguous.stderr.contains("alpha-1") && ambiguous.stderr.contains("alpha-2"),
        "{}",
        ambiguous.stderr
    );
    assert!(!ambiguous.stderr.contains("beta"));
    // A file that happens to have the name of an id does not hide it; one that is named as a path wins.
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("alpha"), "no log").unwrap();
    let mut by_id = command();
    by_id.current_dir(elsewhere.path()).arg("--root").arg(root.path()).args(["cat", "alpha", "--no-header"]);
    assert_eq!(run(by_id, b"").expect(0).lines().len(), 4);
    let mut by_path = command();
    by_path.current_dir(elsewhere.path()).arg("--root").arg(root.path()).args(["cat", "./alpha"]);
    run(by_path, b"").expect(1).says("alpha");
    // One id in two projects is neither.
    root.run(&["new", "--id", "twice", "--cwd", "/a"]).expect(0);
    super::program::copy(&root.path().join("--a--"), &root.path().join("--b--"));
    root.run(&["cat", "twice"]).expect(1).says("stored twice");
    let listed = root.run(&["ls", "--json"]).expect(3).json();
    assert_eq!(listed.iter().filter(|row| row["state"] == "refused").count(), 2);
}

#[test]
fn ls_sorts_filters_and_gives_the_members_of_the_contract() {
    let root = Root::new();
    for (id, cwd, events) in [("a", "/w/one", 5), ("b", "/w/two", 1), ("c", "/w/one", 3)] {
        root.run(&["new", "--id", id, "--cwd", cwd, "--parent", "p"]).expect(0);
        root.append(id, 0..events);
    }
    let ids = |args: &[&str]| {
        let mut all = vec!["ls", "--json"];
        all.extend(args);
        let ran = root.run(&all).expect(0);
        ran.json().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), ["a", "c", "b"], "newest activity first");
    assert_eq!(ids(&["--sort", "events"]), ["a", "c", "b"]);
    assert_eq!(ids(&["--sort", "size", "--limit", "1"]), ["a"]);
    assert_eq!(ids(&["--sort", "created"]), ["c", "b", "a"]);
    assert_eq!(ids(&["--project", "/w/one"]), ["a", "c"]);
    assert_eq!(ids(&["--project", "--w-two--"]), ["b"]);
    assert_eq!(ids(&["--project", "nobody"]), [""; 0]);
    let row = root.run(&["ls", "--json", "--limit", "1"]).expect(0).object();
    let members: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = [
        "id",
        "path",
        "project",
        "cwd",
        "createdAt",
        "parentSession",
        "delegationDepth",
        "isSeeded",
        "generation",
        "encoding",
        "eventCount",
        "sizeBytes",
        "lastTime",
        "revision",
        "state",
    ];
    expected.sort_unstable();
    let mut members = members;
    members.sort_unstable();
    assert_eq!(members, expected);
    assert_eq!(
        (&row["eventCount"], &row["generation"], &row["lastTime"]),
        (&5.into(), &2.into(), &1_700_000_000_004_u64.into())
    );
    assert_eq!(
        (&row["isSeeded"], &row["parentSession"], &row["cwd"]),
        (&false.into(), &"p".into(), &"/w/one".into())
    );
    let table = root.run(&["ls"]).expect(0).text();
    assert_eq!(table.lines().count(), 4);
    assert!(table.starts_with("SESSION"));
}

#[test]
fn stat_counts_names_the_holder_of_the_lock_and_reads_only() {
    let root = Root::new();
    root.session("s", "indexed", 7);
    let before = tree(&root.path());
    let stat = root.run(&["stat", "s", "--json", "--count"]).expect(0).object();
    assert_eq!(
        (&stat["frames"], &stat["rows"], &stat["events"], &stat["eventCount"]),
        (&2.into(), &7.into(), &7.into(), &7.into())
    );
    assert!(stat.get("lock").is_none() && stat.get("older").is_none() && stat.get("error").is_none());
    expect_tree(&root.path(), &before);

    let mut writer = root.spawn(&["append", "s"]);
    let pid = writer.id();
    let locked = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        root.run(&["stat", "s", "--json"]).expect(0).object().get("lock").cloned()
    });
    let locked = locked.expect("the writer takes the lock");
    assert_eq!(locked["pid"].as_u64(), Some(u64::from(pid)));
    assert!(locked["since"].as_u64().unwrap() > 1_700_000_000_000 && locked["host"].is_string());
    let refused =
        root.run_with(&["append", "s"], row(7).as_bytes()).expect(1).says("open for writing elsewhere");
    assert!(refused.stderr.contains(&pid.to_string()), "{}", refused.stderr);
    root.run(&["recover", "s"]).expect(1).says("open for writing elsewhere");
    assert_eq!(root.events("s").len(), 7, "readers are not kept out");
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
    assert!(root.run(&["stat", "s", "--json"]).expect(0).object().get("lock").is_none());
    root.append("s", 7..8);
    // A note that a dead process left behind names nobody.
    let lock = root.log("s").with_file_name("session.lock");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    fs::write(&lock, format!("{{\"pid\":4194303,\"host\":\"{}\",\"since\":5}}\n", host.trim())).unwrap();
    assert!(root.run(&["stat", "s", "--json"]).expect(0).object().get("lock").is_none());
    fs::write(&lock, "{\"pid\":1,\"host\":\"another.host\",\"since\":5}\n").unwrap();
    assert_eq!(root.run(&["stat", "s", "--json"]).expect(0).object()["lock"]["host"], "another.host");
}

#[test]
fn cat_chooses_what_it_prints() {
    let root = Root::new();
    for encoding in ["indexed", "zstd", "plain"] {
        root.session(encoding, encoding, 0);
        for first in (0..600).step_by(100) {
            root.append(encoding, first..first + 100);
        }
        let seqs = |args: &[&str]| {
            let mut all = vec!["cat", encoding];
            all.extend(args);
            let ran = root.run(&all).expect(0);
            ran.json().iter().filter_map(|line| line["seq"].as_u64()).collect::<Vec<u64>>()
        };
        let all: Vec<u64> = (0..600).collect();
        assert_eq!(seqs(&[]), all, "{encoding}");
        assert_eq!(seqs(&["--rows"]), all);
        assert_eq!(seqs(&["--own"]), all);
        assert_eq!(seqs(&["--current"]), all);
        assert_eq!(seqs(&["--lenient"]), all);
        assert_eq!(seqs(&["--from", "299"]), all[299..]);
        assert_eq!(seqs(&["--from", "599"]), [599]);
        assert_eq!(seqs(&["--from", "600"]), [0; 0]);
        assert_eq!(seqs(&["--from", "9007199254740991"]), [0; 0]);
        assert_eq!(seqs(&["--from", "101", "--limit", "3"]), [101, 102, 103]);
        assert_eq!(seqs(&["--tail", "2"]), [598, 599]);
        assert_eq!(seqs(&["--tail", "0"]), [0; 0]);
        assert_eq!(seqs(&["--tail", "700", "--limit", "1"]), [0]);
        assert_eq!(seqs(&["--tail", "3", "--limit", "2"]), [597, 598]);
        assert_eq!(seqs(&["--tail", "3", "--type", "plan/*"]), [597, 598, 599]);
        assert_eq!(seqs(&["--tail", "3", "--rows"]), [597, 598, 599]);
        assert_eq!(seqs(&["--limit", "0"]), [0; 0]);
        assert_eq!(seqs(&["--type", "turn/*"]), [0; 0]);
        assert_eq!(seqs(&["--type", "turn/*", "--type", "plan/m?de", "--limit", "1"]), [0]);
        let lines = |args: &[&str]| root.run(args).expect(0).lines().len();
        assert_eq!(lines(&["cat", encoding, "--limit", "0"]), 1, "the header line stands alone");
        assert_eq!(lines(&["cat", encoding, "--limit", "0", "--no-header"]), 0);
        assert_eq!(lines(&["cat", encoding, "--from", "300", "--limit", "1"]), 2);
        let first = root.run(&["cat", encoding, "--from", "300"]).expect(0).json().remove(0);
        assert_eq!(first["type"], "session");
    }
}

#[test]
fn verify_gives_the_members_of_the_contract_and_quick_sees_every_changed_byte_of_an_indexed_log() {
    let root = Root::new();
    let path = root.session("s", "indexed", 40);
    let path_arg = path.to_str().unwrap();
    let verified = seslog(&["verify", path_arg, "--json"], b"").expect(0).object();
    for member in
        ["path", "state", "generation", "encoding", "frames", "rows", "events", "sizeBytes", "contentBytes"]
    {
        assert!(verified.get(member).is_some(), "{member} in {verified}");
    }
    for member in ["recoverableEvents", "tornBytes", "tornAt", "error", "errorAt", "damage", "strays"] {
        assert!(verified.get(member).is_none(), "{member} in {verified}");
    }
    let quick = seslog(&["verify", path_arg, "--json", "--quick"], b"").expect(0).object();
    assert_eq!((&quick["events"], &quick["quick"]), (&40.into(), &true.into()));
    let bytes = fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(bytes.len() / 40) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fs::write(&path, changed).unwrap();
        let ran = seslog(&["verify", path_arg, "--json", "--quick"], b"");
        assert_eq!(ran.code, 3, "byte {at}: {}", ran.text());
    }
    fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let torn = seslog(&["verify", path_arg, "--json", "--quick"], b"").expect(3).object();
    assert_eq!(torn["state"], "torn");
    fs::write(&path, &bytes).unwrap();
    for (encoding, member) in [("zstd", "frames"), ("plain", "rows")] {
        let path = root.session(encoding, encoding, 5);
        let quick = seslog(&["verify", path.to_str().unwrap(), "--json", "--quick"], b"").expect(0).object();
        assert!(quick[member].as_u64().unwrap() > 1, "{quick}");
    }
    let whole = seslog(&["verify", root.path().to_str().unwrap()], b"").expect(0);
    assert_eq!(whole.lines().len(), 3);
    whole.says("several encodings").says("3 logs checked, all in order");
    let project = path.ancestors().nth(2).unwrap();
    assert_eq!(seslog(&["verify", project.to_str().unwrap(), "--json"], b"").expect(0).json().len(), 3);
    assert_eq!(
        seslog(&["verify", path.parent().unwrap().to_str().unwrap(), "--json"], b"").expect(0).json().len(),
        1
    );
}

#[test]
fn verify_checks_older_generations_and_flat_logs_too() {
    let root = Root::new();
    let path = root.session("s", "zstd", 4);
    fs::write(path.with_file_name("session.jsonl.zstd"), b"not a log").unwrap();
    let flat = path.ancestors().nth(2).unwrap().join("old.jsonl");
    fs::write(&flat, b"{}\n").unwrap();
    fs::write(root.path().join("notes.txt"), b"x").unwrap();
    let verified = seslog(&["verify", root.path().to_str().unwrap(), "--json"], b"").expect(3).json();
    let state = |name: &str| {
        let found = verified.iter().find(|row| row["path"].as_str().unwrap().ends_with(name));
        found.map(|row| row["state"].as_str().unwrap().to_owned())
    };
    assert_eq!(state("session.v2.jsonl.zstd").as_deref(), Some("ok"));
    assert_eq!(state("session.jsonl.zstd").as_deref(), Some("corrupt"));
    assert_eq!(state("old.jsonl").as_deref(), Some("refused"));
    let strays: Vec<&Value> = verified.iter().filter_map(|row| row.get("strays")).collect();
    assert_eq!(strays.len(), 1, "notes.txt beside the projects");
}

#[test]
fn demo_shows_a_killed_writer_and_leaves_nothing_behind() {
    let scratch = tempfile::tempdir().unwrap();
    let mut demo = command();
    demo.arg("demo").env("TMPDIR", scratch.path());
    let ran = run(demo, b"").expect(0);
    let text = ran.text();
    for words in [
        "killed",
        "torn bytes",
        "30 events were acknowledged, and 30 are there",
        "All 36 acknowledged events",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "the temporary root is gone");
    let kept = scratch.path().join("kept");
    for events in 1..3 {
        seslog(&["demo", "--keep", kept.to_str().unwrap()], b"").expect(0);
        let listed = seslog(&["ls", kept.to_str().unwrap(), "--json"], b"").expect(0).json();
        assert_eq!(listed.len(), events, "a kept root takes another tour");
    }
}

#[test]
fn a_hostile_id_cannot_drive_a_terminal() {
    let root = Root::new();
    let id = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}x";
    root.run(&["new", "--id", id, "--cwd", "/w\u{1b}[31m", "--encoding", "plain"]).expect(0);
    let path = root.path().join("--w~001B~005B31m--");
    assert!(path.is_dir(), "{:?}", tree(&root.path()).first());
    for args in [
        &["ls"][..],
        &["stat", id],
        &["cat", "nobody\u{1b}[2J"],
        &["recover", id],
        &["cat", id, "--from", "7"],
    ] {
        let ran = root.run(args);
        let shown = [ran.stdout.as_slice(), ran.stderr.as_bytes()].concat();
        assert!(
            !shown.iter().any(|&byte| byte < b' ' && byte != b'\n'),
            "{args:?}: {}",
            String::from_utf8_lossy(&shown)
        );
        let is_data = args[0] == "cat" && ran.code == 0;
        assert!(is_data || !String::from_utf8_lossy(&shown).contains('\u{202e}'), "{args:?}");
    }
    let log = root.log(id);
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend_from_slice(
        b"{\"type\":\"\x1b[2J\",\"seq\":0,\"time\":0,\"data\":{}}\n{\"type\":\"turn/end\"",
    );
    fs::write(&log, bytes).unwrap();
    let ran = seslog(&["verify", log.to_str().unwrap()], b"").expect(3);
    assert!(!ran.stdout.contains(&0x1b) && !ran.stderr.contains('\u{1b}'));
}

#[test]
fn a_reading_verb_works_on_a_root_that_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = Root::new();
    let path = root.session("s", "indexed", 3);
    fs::remove_file(path.with_file_name("session.lock")).unwrap();
    let folder = path.parent().unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o500)).unwrap();
    for args in [
        &["ls"][..],
        &["stat", "s"],
        &["cat", "s"],
        &["verify", path.to_str().unwrap()],
        &["recover", "s", "--dry-run"],
    ] {
        root.run(args).expect(0);
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn standard_error_may_be_closed() {
    let root = Root::new();
    let mut command = command();
    command.arg("--root").arg(root.path()).args(["cat", "nobody"]).stderr(Stdio::null());
    assert_eq!(run(command, b"").code, 1);
}

/// A folder that cannot be read, here a link that leads to itself, stops no list.
#[test]
fn what_cannot_be_looked_into_is_listed_and_hides_nothing() {
    use std::os::unix::fs::symlink;
    let root = Root::new();
    let path = root.session("s", "indexed", 3);
    symlink("loop", root.path().join("loop")).unwrap();
    symlink("session-loop", root.path().join("--w--/session-loop")).unwrap();
    let linked = root.path().join("--w--/linked");
    fs::create_dir(&linked).unwrap();
    symlink(&path, linked.join("session.v2.jsonl.zst")).unwrap();
    let listed = root.run(&["ls", "--json"]).expect(3).json();
    assert_eq!(listed.len(), 4, "{listed:?}");
    assert_eq!(listed.iter().filter(|row| row["state"] == "ok").count(), 1);
    assert!(listed.iter().filter(|row| row["state"] != "ok").all(|row| row["error"].is_string()));
    root.run(&["ls"]).expect(3).says("session-loop");
    let verified = seslog(&["verify", root.path().to_str().unwrap(), "--json"], b"").expect(1);
    assert_eq!(verified.json().len(), 4);
    assert_eq!(root.events("s").len(), 3);
    root.run(&["cat", "linked"]).expect(1).says("session.v2.jsonl.zst");
    root.run(&["append", "linked"]).expect(1);
}
