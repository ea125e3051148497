//! What the numbers were measured on.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A machine, as far as it says.
#[derive(Clone, Debug)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_mib: u64,
    pub kernel: String,
    /// File system and device of the stores.
    pub disk: String,
    pub rustc: String,
    pub commit: String,
    pub date: String,
}

impl Machine {
    /// Looks at this machine; `folder` is where the stores are.
    pub fn here(folder: &Path) -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let cpu = field(&cpuinfo, "model name").unwrap_or("unknown processor").to_owned();
        let memory =
            field(&read("/proc/meminfo"), "MemTotal").and_then(|text| text.split(' ').next()?.parse().ok());
        let memory_mib = memory.map_or(0, |kib: u64| kib / 1024);
        let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let commit = output(Command::new("git").args(["-C", top, "rev-parse", "--short=12", "HEAD"]));
        let changed =
            output(Command::new("git").args(["-C", top, "status", "--porcelain", "--untracked-files=no"]));
        Self {
            cpu,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            disk: disk(folder).unwrap_or_else(|| "unknown".to_owned()),
            rustc: output(Command::new("rustc").arg("--version")),
            commit: if changed.is_empty() { commit } else { format!("{commit} with changes") },
            date: output(Command::new("date").arg("+%F")),
        }
    }

    /// A name for folders: the processor and its cores.
    pub fn slug(&self) -> String {
        let mut slug = String::new();
        for c in self.cpu.to_lowercase().replace("(r)", "").replace("(tm)", "").chars() {
            if c.is_ascii_alphanumeric() {
                slug.push(c);
            } else if !slug.ends_with('-') && !slug.is_empty() {
                slug.push('-');
            }
        }
        format!("{}-{}cpu", slug.trim_end_matches('-'), self.cores)
    }
}

/// The load averages of now.
pub fn load() -> String {
    read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// The versions that the lock file says are compared.
pub fn versions() -> Vec<(&'static str, &'static str)> {
    let lock = include_str!("../Cargo.lock");
    let version = |name: &'static str| {
        let at = lock.find(&format!("name = \"{name}\"\n"))?;
        let version = lock[at..].lines().nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')?;
        Some((name, version))
    };
    let names = [
        "seslog",
        "rusqlite",
        "libsqlite3-sys",
        "redb",
        "fjall",
        "lsm-tree",
        "mcap",
        "zstd-sys",
        "serde_json",
    ];
    names.into_iter().filter_map(version).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.split_once(':')?.1.trim()))
}

fn output(command: &mut Command) -> String {
    let output = command.output().ok().filter(|output| output.status.success());
    output.map_or_else(String::new, |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The file system that holds `folder`, and what its device says of itself.
fn disk(folder: &Path) -> Option<String> {
    let folder = fs::canonicalize(folder).ok()?;
    let mounts = read("/proc/self/mounts");
    let mounts = mounts.lines().filter_map(|line| {
        let mut parts = line.split(' ');
        Some((parts.next()?, parts.next()?, parts.next()?))
    });
    let (device, _, kind) =
        mounts.filter(|(_, at, _)| folder.starts_with(at)).max_by_key(|(_, at, _)| at.len())?;
    let name = device.rsplit('/').next().unwrap_or(device);
    let queue = |what: &str| read(&format!("/sys/class/block/{name}/queue/{what}")).trim().to_owned();
    let mut text = format!("{kind} on {device}");
    for (what, value) in [("cache", queue("write_cache")), ("read-ahead KiB", queue("read_ahead_kb"))] {
        if !value.is_empty() {
            text.push_str(&format!(", {what} {value}"));
        }
    }
    Some(text)
}
