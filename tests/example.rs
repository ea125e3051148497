//! Does the tour of the library come to its end?

use std::path::{Path, PathBuf};
use std::process::Command;

/// The example as it is now: a run of this test alone would find an old one, or none.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "--no-default-features"]);
    // With the features of this test, nothing has to be compiled anew.
    for (is_on, feature) in [
        (cfg!(feature = "cli"), "cli"),
        (cfg!(feature = "fault"), "fault"),
        (cfg!(feature = "tokio"), "tokio"),
        (cfg!(feature = "fuzzing"), "fuzzing"),
    ] {
        if is_on {
            cargo.args(["--features", feature]);
        }
    }
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let built = cargo.args(["--example", name]).arg("--target-dir").arg(profile.parent().unwrap()).status();
    assert!(built.unwrap().success());
    profile.join("examples").join(Path::new(name).with_extension(std::env::consts::EXE_EXTENSION))
}

#[test]
fn the_agent_host_streams_is_killed_resumes_and_forks() {
    let ran = Command::new(built("agent_host")).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}\n{err}");
    for line in ["40 tokens streamed", "signal: 9", "\"kind\":\"interrupted\"", "tour-fork: Sound, 13 events"]
    {
        assert!(out.contains(line), "{line:?} is missing:\n{out}\n{err}");
    }
}
