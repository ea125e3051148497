//! The program as a process, and folders to run it in.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A root in a scratch folder that is removed at the end.
pub(crate) struct Root {
    dir: tempfile::TempDir,
}

/// What a run gave.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    what: String,
}

/// The program with nothing of the caller's environment that it looks at.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seslog"));
    for name in ["SESLOG_ROOT", "DSH_HOME", "XDG_DATA_HOME", "NO_COLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    // Listings of all tests share one, as they would on a machine.
    command.env("SESLOG_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/cli-cache"));
    command.env("TZ", "UTC").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program with `args` and `input` on stdin.
pub(crate) fn seslog<S: AsRef<OsStr>>(args: &[S], input: &[u8]) -> Ran {
    let mut command = command();
    command.args(args);
    run(command, input)
}

/// Runs `command` with `input` on stdin.
pub(crate) fn run(mut command: Command, input: &[u8]) -> Ran {
    let what = format!("{command:?}");
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || {
        // It may stop reading early: its exit status says why.
        let _unread = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("the program ends");
    feeder.join().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran { code: output.status.code().unwrap_or(-1), stdout: output.stdout, stderr, what }
}

impl Ran {
    /// Checks the exit status.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            code,
            "{}\n{}\n{}",
            self.what,
            String::from_utf8_lossy(&self.stdout),
            self.stderr
        );
        self
    }

    /// stdout as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Lines of stdout, which need not be UTF-8.
    pub(crate) fn lines(&self) -> Vec<&[u8]> {
        let text = self.stdout.strip_suffix(b"\n").unwrap_or(&self.stdout);
        if text.is_empty() { Vec::new() } else { text.split(|&byte| byte == b'\n').collect() }
    }

    /// Lines of stdout as JSON objects.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<Value> {
        let parse = |line: &[u8]| {
            serde_json::from_slice(line).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
        };
        self.lines().into_iter().map(parse).collect()
    }

    /// The one line of stdout as a JSON object.
    #[track_caller]
    pub(crate) fn object(&self) -> Value {
        let mut objects = self.json();
        assert_eq!(objects.len(), 1, "{}", self.text());
        objects.remove(0)
    }

    /// Checks that stderr says `words`.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert!(self.stderr.contains(words), "{words:?} is not in: {}", self.stderr);
        self
    }
}

impl Root {
    /// An empty root, which does not exist yet.
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a scratch folder") }
    }

    /// A copy of `from` as the root.
    pub(crate) fn copy_of(from: &Path) -> Self {
        let root = Self::new();
        copy(from, &root.path());
        root
    }

    /// The root folder.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// The scratch folder around it.
    pub(crate) fn scratch(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a verb on this root.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, b"")
    }

    /// Runs a verb on this root, with `input` on stdin.
    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut all: Vec<OsString> = vec!["--root".into(), self.path().into()];
        all.extend(args.iter().map(OsString::from));
        seslog(&all, input)
    }

    /// Starts a verb on this root and leaves it running.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        let mut command = command();
        command.arg("--root").arg(self.path()).args(args).stdin(Stdio::piped());
        command.spawn().expect("the program starts")
    }

    /// Creates a session of `encoding` with `events` rows, in one append; gives the path of its log.
    pub(crate) fn session(&self, id: &str, encoding: &str, events: u64) -> PathBuf {
        self.run(&["new", "--id", id, "--cwd", "/w", "--encoding", encoding]).expect(0);
        if events > 0 {
            self.append(id, 0..events);
        }
        self.log(id)
    }

    /// Appends events `seqs` to a session, in one append.
    pub(crate) fn append(&self, id: &str, seqs: std::ops::Range<u64>) {
        let batch = (seqs.end - seqs.start).to_string();
        let rows: String = seqs.map(row).collect();
        self.run_with(&["append", id, "--batch", &batch], rows.as_bytes()).expect(0);
    }

    /// Path of a session's log.
    pub(crate) fn log(&self, id: &str) -> PathBuf {
        let stat = self.run(&["stat", id, "--json"]);
        PathBuf::from(stat.object()["path"].as_str().expect("a session has a path"))
    }

    /// The events of a session as lines; the session may be torn.
    #[track_caller]
    pub(crate) fn events(&self, id: &str) -> Vec<String> {
        let ran = self.run(&["cat", id, "--no-header"]);
        assert!(matches!(ran.code, 0 | 3), "{}", ran.stderr);
        ran.lines().into_iter().map(|line| String::from_utf8(line.to_vec()).unwrap()).collect()
    }
}

/// A row whose payload says which event it is, and is long enough and random enough that a frame of them is no few bytes.
pub(crate) fn row(seq: u64) -> String {
    let noise = (0..4_u64).fold(String::new(), |text, part| {
        format!("{text}{:016x}", (seq * 4 + part + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
    });
    format!(
        "{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":{},\"data\":{{\"active\":true,\"n\":{seq},\"x\":\"{noise}\"}}}}\n",
        1_700_000_000_000 + seq
    )
}

/// Copies a file or a folder with everything in it, writable.
pub(crate) fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::write(to, fs::read(from).unwrap()).unwrap();
    }
}

/// Everything below a folder, with its bytes, in order of path.
pub(crate) fn tree(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}

/// Checks that a folder holds what it held before, lock files aside.
#[track_caller]
pub(crate) fn expect_tree(dir: &Path, before: &[(PathBuf, Vec<u8>)]) {
    let logs = |tree: &[(PathBuf, Vec<u8>)]| -> Vec<(PathBuf, Vec<u8>)> {
        tree.iter().filter(|(path, _)| path.file_name().unwrap() != "session.lock").cloned().collect()
    };
    let (before, after) = (logs(before), logs(&tree(dir)));
    let changed: Vec<&PathBuf> = before
        .iter()
        .filter(|file| !after.contains(file))
        .chain(after.iter().filter(|file| !before.contains(file)))
        .map(|(path, _)| path)
        .collect();
    assert!(changed.is_empty(), "changed: {changed:?}");
}

/// A small generator of numbers that differ from run to run.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new() -> Self {
        Self(
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1,
        )
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Whether a program can be started.
pub(crate) fn has_program(name: &str) -> bool {
    let found = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok()
}
