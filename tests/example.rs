//! Does the tour of the library come to its end?

use std::path::PathBuf;
use std::process::Command;

/// Built by Cargo for every `cargo test` that builds this file.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

#[test]
fn the_agent_host_streams_is_killed_resumes_and_forks() {
    let ran = Command::new(example("agent_host")).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}\n{err}");
    for line in ["40 tokens streamed", "signal: 9", "\"kind\":\"interrupted\"", "tour-fork: Sound, 13 events"]
    {
        assert!(out.contains(line), "{line:?} is missing:\n{out}\n{err}");
    }
}
