//! File systems of a test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common;

const INSIDE: &str = "SESLOG_TEST_MOUNTS";

/// Runs this very test again in a mount namespace of its own, where `inside` is called; skips where that is not allowed.
///
/// Root takes a namespace alone; others become root in a user namespace, which may mount a tmpfs but no block device.
pub(crate) fn in_own_mounts(inside: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let flags = if is_root() { "-m" } else { "-rm" };
    if !Command::new("unshare").args([flags, "true"]).output().is_ok_and(|output| output.status.success()) {
        return common::skip("no mount namespace may be made here");
    }
    let thread = std::thread::current();
    let name = thread.name().expect("tests have names");
    let output = Command::new("unshare")
        .arg(flags)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    // What was skipped inside is skipped.
    err.lines().filter_map(|line| line.strip_prefix("SKIPPED: ")).for_each(common::skip);
    // The harness writes in front of the first.
    out.lines()
        .filter_map(|line| line.find("faults: ").map(|at| &line[at..]))
        .for_each(|line| println!("{line}"));
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Mounts a tmpfs of `size` on a new folder; none where that is not allowed.
pub(crate) fn tmpfs(parent: &Path, size: &str) -> Option<PathBuf> {
    let at = parent.join("tmpfs");
    fs::create_dir(&at).unwrap();
    let mounted =
        run("mount", &["-t", "tmpfs", "-o", &format!("size={size},mode=0700"), "seslog", at.to_str()?]);
    if !mounted {
        common::skip("no tmpfs may be mounted here");
    }
    mounted.then_some(at)
}

/// Whether a program was there and said that all is well.
pub(crate) fn run(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

/// Whether `program` takes `input`, with what it says.
pub(crate) fn accepts(shell: &str) -> (bool, String) {
    let output = Command::new("sh").args(["-c", shell]).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}
