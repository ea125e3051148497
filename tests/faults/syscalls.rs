//! What reaches the kernel: the syncs of the real disk, seen and refused by `strace`.

use std::fs;
use std::process::{Command, Stdio};

use crate::common;
use crate::program::{Root, has_program, row};

/// Runs a verb under `strace`; gives its exit status, what it printed, and the calls. `None` where nothing may be traced.
fn traced(root: &Root, strace: &[&str], args: &[&str], input: &str) -> Option<(i32, String, String)> {
    let log = root.scratch().join("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-y", "-o"]).arg(&log).args(strace).arg(env!("CARGO_BIN_EXE_seslog"));
    command.env("SESLOG_ROOT", root.path()).args(args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    // It may stop reading early.
    let _unread = std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let trace = fs::read_to_string(&log).unwrap_or_default();
    if !trace.contains('(') {
        common::skip("strace may not trace here");
        return None;
    }
    Some((output.status.code()?, String::from_utf8_lossy(&output.stdout).into_owned(), trace))
}

#[test]
fn each_sync_of_the_protocol_is_a_sync_of_the_kernel() {
    if !has_program("strace") {
        return common::skip("there is no strace here");
    }
    let root = Root::new();
    let only = ["-e", "trace=fsync,fdatasync"];
    let new = ["new", "--id", "s", "--cwd", "/w"];
    let Some((code, _, trace)) = traced(&root, &only, &new, "") else { return };
    assert_eq!(code, 0, "{trace}");
    let synced = |call: &str, end: &str| trace.lines().any(|line| line.contains(call) && line.contains(end));
    assert!(synced("fsync(", ".tmp>)"), "the draft:\n{trace}");
    for folder in ["root/--w--/s>)", "root/--w-->)", "root>)"] {
        assert!(synced("fsync(", folder), "{folder}:\n{trace}");
    }
    let (code, _, trace) = traced(&root, &only, &["append", "s"], &row(0)).expect("it could trace before");
    assert_eq!(code, 0, "{trace}");
    let lines: Vec<&str> = trace.lines().collect();
    assert!(
        lines.iter().any(|line| line.contains(" fsync(") && line.contains(".jsonl.zst>)")),
        "the repair:\n{trace}"
    );
    assert!(lines.last().is_some_and(|line| line.contains("fdatasync(") && line.ends_with("= 0")), "{trace}");
}

#[test]
fn an_export_and_an_archive_are_durable_before_they_have_their_names_and_so_are_the_names() {
    if !has_program("strace") {
        return common::skip("there is no strace here");
    }
    let root = Root::new();
    root.session("s", "indexed", 3);
    let folder = root.scratch().join("out");
    fs::create_dir(&folder).unwrap();
    for (verb, name) in [("export", "s.zip"), ("export", "s.html"), ("archive", "s.archive")] {
        let file = folder.join(name);
        let args = [verb, "s", "-o", file.to_str().unwrap()];
        for error in ["EIO", "ENOSPC"] {
            let inject = format!("inject=fsync:error={error}:when=1+");
            let Some((code, _, trace)) = traced(&root, &["-e", "trace=fsync", "-e", &inject], &args, "")
            else {
                return;
            };
            assert!(trace.contains("(INJECTED)"), "{trace}");
            assert_eq!(code, 1, "{verb} {name} {error}");
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{verb} {name} {error}: nothing is left");
        }
        let only = ["-e", "trace=fsync,link,linkat,rename,renameat,renameat2"];
        let (code, _, trace) = traced(&root, &only, &args, "").expect("it could trace before");
        assert_eq!(code, 0, "{trace}");
        let lines: Vec<&str> = trace.lines().filter(|line| line.contains("/out")).collect();
        let at = |what: &dyn Fn(&str) -> bool| {
            lines.iter().position(|line| what(line)).unwrap_or_else(|| panic!("{trace}"))
        };
        let written = at(&|line| line.contains(" fsync(") && !line.contains("/out>)"));
        let named = at(&|line| line.contains(" link") || line.contains(" rename"));
        let kept = at(&|line| line.contains(" fsync(") && line.contains("/out>)"));
        assert!(written < named && named < kept, "{trace}");
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_kernel_that_fails_a_sync_is_believed_and_nothing_is_acknowledged() {
    if !has_program("strace") {
        return common::skip("there is no strace here");
    }
    for encoding in ["indexed", "zstd", "plain"] {
        for error in ["EIO", "ENOSPC", "EDQUOT"] {
            let root = Root::new();
            root.session("s", encoding, 1);
            let inject = format!("inject=fdatasync:error={error}:when=2");
            let rows: String = (1..4).map(row).collect();
            let Some((code, said, trace)) =
                traced(&root, &["-e", "trace=fdatasync", "-e", &inject], &["append", "s"], &rows)
            else {
                return;
            };
            assert!(trace.contains("(INJECTED)"), "{trace}");
            assert_eq!((code, said.as_str()), (1, "appended 1, next seq 2\n"), "{encoding} {error}");
            assert_eq!(root.events("s").len(), 2, "{encoding} {error}: what was refused is taken back");
            root.append("s", 2..4);
            assert_eq!(root.events("s").len(), 4);

            let inject = format!("inject=fsync:error={error}:when=1+");
            let args = ["new", "--id", "t", "--cwd", "/w", "--encoding", encoding];
            let (code, said, _) = traced(&root, &["-e", "trace=fsync", "-e", &inject], &args, "").unwrap();
            assert_eq!((code, said.as_str()), (1, ""), "{encoding} {error}");
            root.run(&["stat", "t"]).expect(3).says("the folder holds no log");
            root.run(&args).expect(0);
        }
    }
}
