//! What several test files share: the reference material beside the checkout, and the oracle that is built from it.

// Each test binary compiles this file for itself and uses only a part of it.
#![allow(dead_code, reason = "no single test binary uses every helper")]

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

pub(crate) mod chance;
pub(crate) mod sessions;

/// Says on the real stderr that something was not tested, and why.
///
/// `eprintln!` would not do: the harness captures it and shows it only when the test fails. `.ci/run` counts these lines.
pub(crate) fn skip(why: &str) {
    let mut line = format!("SKIPPED: {why}");
    if let Some(test) = thread::current().name() {
        line = format!("{line} [{test}]");
    }
    // One write, so that lines of parallel tests do not interleave. Nothing can be done about a closed stderr.
    let _closed = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Returns the folder of reference material: `$SESLOG_SHARED`, else `../shared` beside the checkout.
///
/// When it is not there the test has nothing to compare with: a skip line is printed, and the caller returns.
pub(crate) fn shared() -> Option<PathBuf> {
    let path = std::env::var_os("SESLOG_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    match path.canonicalize() {
        Ok(path) if path.is_dir() => Some(path),
        _ => {
            skip("../shared is not here");
            None
        }
    }
}

/// Returns the installed oracle: `$SESLOG_ORACLE`, else what `.ci/run oracle` left in `target/oracle`.
///
/// When neither is there a skip line is printed, and the caller returns.
pub(crate) fn oracle() -> Option<Oracle> {
    let dir = std::env::var_os("SESLOG_ORACLE")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/oracle"), PathBuf::from);
    if dir.join("node_modules").is_dir() {
        Some(Oracle { dir })
    } else {
        skip("the oracle is not installed (`.ci/run oracle` does it)");
        None
    }
}

/// The published TypeScript backend, run as a process. Starting it costs about half a second.
pub(crate) struct Oracle {
    dir: PathBuf,
}

impl Oracle {
    /// The folder that holds the oracle's scripts and its `node_modules`.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs `npm run COMMAND -- ARGS` with `input` on its standard input.
    ///
    /// COMMAND is `write`, `read` or `migrate`. Relative paths in `args` count from the crate's folder.
    ///
    /// # Panics
    /// If npm cannot be started, is killed, or says that it was used wrongly (status 2).
    pub(crate) fn run<S: AsRef<OsStr>>(&self, command: &str, args: &[S], input: &[u8]) -> OracleOutput {
        let mut child = Command::new("npm")
            .arg("--prefix")
            .arg(&self.dir)
            .args(["run", "--silent", command, "--"])
            .args(args)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("npm starts");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let output = thread::scope(|scope| {
            // A child that fills its stdout before it has read all input must not wait for us.
            scope.spawn(move || {
                // It may well stop reading early: what it printed says why.
                let _unread = stdin.write_all(input);
            });
            child.wait_with_output().expect("npm can be waited for")
        });
        let stdout = String::from_utf8(output.stdout).expect("the oracle prints UTF-8");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let status = output.status.code().expect("the oracle was not killed");
        assert!(status < 2, "the oracle's {command} was used wrongly: {stderr}");
        OracleOutput { refused: status == 1, stdout, stderr }
    }
}

/// What one run of the oracle printed.
pub(crate) struct OracleOutput {
    /// Something was refused; a line of `stdout` (of `stderr` for `migrate`) says what.
    pub(crate) refused: bool,
    /// Canonical JSON lines of `write` and `read`; the migrated log of `migrate`.
    pub(crate) stdout: String,
    /// Refusals of `migrate`, else empty.
    pub(crate) stderr: String,
}

impl OracleOutput {
    /// Iterates over the lines as they were printed.
    ///
    /// The way to compare text that serde cannot hold: lone surrogates, nesting deeper than 128.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.stdout.lines()
    }

    /// Parses each line.
    ///
    /// # Panics
    /// If a line is no JSON, or holds a lone surrogate or nesting deeper than 128.
    pub(crate) fn values(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.lines().map(parse).collect()
    }

    /// Returns the line of session `id` in what `read` printed, if there is one.
    ///
    /// # Panics
    /// As [`OracleOutput::values`].
    pub(crate) fn session(&self, id: &str) -> Option<Value> {
        self.values().into_iter().find(|line| line.get("id").and_then(Value::as_str) == Some(id))
    }
}
