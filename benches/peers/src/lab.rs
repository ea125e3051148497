//! The measuring parent: starts processes, drops the page cache, and notes what they say.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Result;
use crate::sample::Sample;
use crate::set::Sets;

/// Where the original is installed.
#[derive(Clone, Debug)]
pub struct Original {
    node: PathBuf,
    oracle: PathBuf,
}

#[derive(Debug)]
pub struct Lab {
    exe: PathBuf,
    /// Deleted when the lab is.
    folder: tempfile::TempDir,
    pub sets: Sets,
    pub original: Option<Original>,
    /// Whether the page cache can be dropped.
    pub can_drop: bool,
    pub skips: Vec<String>,
}

const DROP: &str = "/proc/sys/vm/drop_caches";

impl Lab {
    pub fn new(dir: &Path, make_sets: impl FnOnce(&Path) -> Result<Sets>) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let folder = tempfile::Builder::new().prefix("peers-").tempdir_in(dir)?;
        let sets = make_sets(&folder.path().join("sets"))?;
        let mut skips = Vec::new();
        let original = original();
        if original.is_none() {
            skips.push(
                "dsh: the original is not installed; `.ci/run oracle` does it, where npm is reachable"
                    .to_owned(),
            );
        }
        let can_drop = fs::OpenOptions::new().write(true).open(DROP).is_ok();
        if !can_drop {
            skips.push(format!("cold runs: {DROP} cannot be written"));
        }
        let exe = std::env::current_exe()?;
        Ok(Self { exe, folder, sets, original, can_drop, skips })
    }

    /// A place below the lab's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An empty folder.
    pub fn fresh(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Whether a contender can take part.
    pub fn has(&self, contender: &str) -> bool {
        !contender.starts_with("dsh") || self.original.is_some()
    }

    /// Writes back what is dirty and drops the page cache, except for the programs that are measured.
    pub fn drop_caches(&self) -> Result<()> {
        Command::new("sync").status()?;
        fs::write(DROP, "3")?;
        fs::read(&self.exe)?;
        Ok(())
    }

    /// The command that runs one task.
    fn command(
        &self,
        task: &str,
        contender: &str,
        folder: &Path,
        set: &Path,
        args: &[String],
    ) -> Result<Command> {
        let is_original = contender.starts_with("dsh");
        let mut command = match &self.original {
            Some(original) if is_original => original.command(contender, task, folder, set),
            None if is_original => return Err("the original is not here".into()),
            _ => {
                let mut command = Command::new(&self.exe);
                command.args(["--child", task, contender]).args([folder, set]);
                command
            }
        };
        command.args(args).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs one task in a process of its own.
    pub fn run(
        &self,
        task: &str,
        contender: &str,
        folder: &Path,
        set: &Path,
        args: &[String],
    ) -> Result<Sample> {
        let mut command = self.command(task, contender, folder, set, args)?;
        let start = Instant::now();
        let output = command.output()?;
        let took = start.elapsed().as_nanos() as f64;
        let stdout = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{contender} {task}: {} {}", output.status, stderr.trim()).into());
        }
        let line = stdout.lines().last().ok_or("a process without a sample")?;
        Ok(Sample::parse(line)?.with("process_ns", took))
    }

    /// System calls of a task, in all threads: `None` without `strace`.
    pub fn system_calls(&self, contender: &str, folder: &Path, set: &Path) -> Result<Option<f64>> {
        let out = self.path("strace");
        let mut traced = Command::new("strace");
        traced.args(["-f", "-c", "-o"]).arg(&out).arg(&self.exe);
        traced.args(["--child", "list", contender]).args([folder, set]).stdin(Stdio::null());
        let Ok(output) = traced.output() else { return Ok(None) };
        if !output.status.success() {
            return Err(format!("strace: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
        }
        // Its last line sums up: percent, seconds, microseconds a call, calls, perhaps errors, and `total`.
        let text = fs::read_to_string(out)?;
        let total =
            text.lines().find(|line| line.trim_end().ends_with(" total")).ok_or("strace printed no total")?;
        Ok(Some(total.split_whitespace().nth(3).ok_or("strace printed no calls")?.parse()?))
    }

    /// Wall-clock nanoseconds of the original's conversion of `log` in memory, without the start of its process.
    pub fn migrate_original(&self, log: &Path) -> Result<Sample> {
        let original = self.original.as_ref().ok_or("the original is not here")?;
        let out = self.fresh("migrated")?;
        let empty = self.path("empty.jsonl");
        let text = fs::read(log)?;
        fs::write(&empty, text.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default())?;
        let time = |how: &[&OsStr], path: &Path| -> Result<f64> {
            let mut command = Command::new(&original.node);
            command.arg(original.oracle.join("migrate.mjs")).args(["--recovery", "recoverable"]);
            command.args(how).arg(path).stdin(Stdio::null());
            let start = Instant::now();
            let output = command.output()?;
            let took = start.elapsed().as_nanos() as f64;
            let stderr = String::from_utf8_lossy(&output.stderr);
            if output.status.success() {
                Ok(took)
            } else {
                Err(format!("migrate.mjs: {}", stderr.trim()).into())
            }
        };
        let check = [OsStr::new("--check")];
        let start_up = time(&check, &empty)?;
        let took = time(&check, log)? - start_up;
        // What it makes of it, not timed.
        time(&[OsStr::new("--out"), out.as_os_str()], log)?;
        let name = log.file_name().ok_or("no file name")?;
        let migrated = fs::read(out.join(name))?;
        let rows = memchr::memchr_iter(b'\n', &migrated).count() as u64 - 1;
        let bytes = Some(migrated.len() as u64);
        let digest = crate::digest::Digest { rows: Some(rows), bytes, ..Default::default() };
        Ok(Sample::new(took, digest).with("bytes", text.len() as f64))
    }

    /// The stand-in for the original's stream functions; see `benches/node/stream.mjs`.
    pub fn stream_original(&self) -> Result<Sample> {
        let node = self.original.as_ref().map_or(Path::new("node"), |original| &original.node);
        let workload = crate::data::stream::Workload::make();
        let path = self.path("records.json");
        fs::write(&path, &workload.records)?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../node/stream.mjs");
        let output = Command::new(node).arg(script).arg(&path).arg("100").output()?;
        if !output.status.success() {
            return Err(format!("stream.mjs: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
        }
        let result: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let times = result["times"]["expand"].as_array().ok_or("no times")?;
        let times = times.iter().filter_map(serde_json::Value::as_f64).collect();
        let each = crate::stats::median(times).ok_or("no times")?;
        let digest = crate::digest::Digest { rows: result["digest"]["count"].as_u64(), ..Default::default() };
        let bytes = workload.records.len() as f64;
        Ok(Sample::new(each * crate::data::stream::DELTAS as f64, digest).with("bytes", bytes))
    }
}

impl Original {
    fn command(&self, contender: &str, task: &str, folder: &Path, set: &Path) -> Command {
        let task = if contender == "dsh-counts" { "list-counts" } else { task };
        let mut command = Command::new(&self.node);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/dsh.mjs"));
        command.arg(&self.oracle).arg(task).args([folder, set]);
        command
    }
}

/// The original, where it is installed.
fn original() -> Option<Original> {
    let named = std::env::var_os("SESLOG_ORACLE").map(PathBuf::from);
    let built = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/oracle"));
    let oracle = named.into_iter().chain([built]).find(|path| path.join("node_modules").is_dir())?;
    let oracle = fs::canonicalize(oracle).ok()?;
    let node = oracle.join("node_modules/.bin/node");
    Some(Original { node: if node.exists() { node } else { "node".into() }, oracle })
}
