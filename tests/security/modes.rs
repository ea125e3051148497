//! Who may read what is written: nobody but its owner, whatever the umask.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{Root, row, run};

/// Runs a verb under a umask.
#[track_caller]
fn under(umask: &str, root: &Root, args: &[&str], input: &str, code: i32) {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_seslog"))
        .arg("--root")
        .arg(root.path())
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    run(command, input.as_bytes()).expect(code);
}

/// Checks every file and folder below `dir`, itself included; gives their number.
fn private(dir: &Path, umask: &str) -> u64 {
    let mut count = 0;
    let mut open = vec![dir.to_path_buf()];
    while let Some(path) = open.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        let mode = metadata.permissions().mode() & 0o7777;
        assert_eq!(mode, expected, "{} is {mode:o} under {umask}", path.display());
        count += 1;
        if metadata.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    count
}

#[test]
fn everything_that_is_created_is_private_under_any_umask() {
    for umask in ["000", "022", "077"] {
        let root = Root::new();
        let out = root.scratch().join("out");
        fs::create_dir(&out).unwrap();
        fs::set_permissions(&out, fs::Permissions::from_mode(0o700)).unwrap();
        let out_of = |name: &str| out.join(name).to_str().unwrap().to_owned();
        for encoding in ["indexed", "zstd", "plain"] {
            let rows = |seqs: std::ops::Range<u64>| seqs.map(row).collect::<String>();
            under(umask, &root, &["new", "--id", encoding, "--cwd", "/w", "--encoding", encoding], "", 0);
            under(umask, &root, &["append", encoding, "--batch", "9"], &rows(0..9), 0);
            under(umask, &root, &["fork", encoding, "--id", &format!("{encoding}-child")], "", 0);
            let path = root.log(encoding);
            under(umask, &root, &["convert", encoding, &out_of(&format!("{encoding}.jsonl"))], "", 0);
            under(
                umask,
                &root,
                &["import", path.to_str().unwrap(), "--id", &format!("{encoding}-copy")],
                "",
                0,
            );
            // A torn end: set aside by an append, by a recovery, and saved.
            for verb in ["append", "recover"] {
                under(umask, &root, &["append", encoding, "--batch", "9"], &rows(9..12), 0);
                let bytes = fs::read(&path).unwrap();
                fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
                let saved = out_of(&format!("{encoding}-{verb}.jsonl"));
                under(umask, &root, &["recover", encoding, "--salvage", &saved], "", 3);
                let next = root.events(encoding).len() as u64;
                under(
                    umask,
                    &root,
                    &[verb, encoding],
                    if verb == "append" { row(next) } else { String::new() }.as_str(),
                    0,
                );
                let next = root.events(encoding).len() as u64;
                // Back to the nine from before, by a new session of the same rows.
                if verb == "append" {
                    fs::remove_dir_all(path.parent().unwrap()).unwrap();
                    under(
                        umask,
                        &root,
                        &["new", "--id", encoding, "--cwd", "/w", "--encoding", encoding],
                        "",
                        0,
                    );
                    under(umask, &root, &["append", encoding, "--batch", "9"], &rows(0..9), 0);
                }
                assert!(next >= 9);
            }
        }
        // An older generation, where its own writer put it.
        let folder = root.path().join("_no-cwd/old");
        under(umask, &root, &["new", "--id", "beside"], "", 0);
        fs::create_dir_all(&folder).unwrap();
        let old =
            "{\"type\":\"session\",\"version\":0,\"id\":\"old\",\"createdAt\":5,\"delegationDepth\":0}\n";
        fs::write(
            folder.join("session.jsonl"),
            format!("{old}{{\"type\":\"plan/mode\",\"seq\":0,\"time\":6,\"data\":{{\"active\":true}}}}\n"),
        )
        .unwrap();
        under(umask, &root, &["migrate", root.path().to_str().unwrap()], "", 0);
        let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("session.v2.jsonl"), mode("session.lock")), (0o600, 0o600), "{umask}");
        fs::remove_dir_all(&folder).unwrap();
        let project = folder.parent().unwrap();
        if fs::read_dir(project).unwrap().next().is_none() {
            fs::remove_dir(project).unwrap();
        }
        let count = private(&root.path(), umask) + private(&out, umask);
        assert!(count > 40, "{umask}: {count}");
    }
}
