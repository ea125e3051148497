//! The measured process: one task of one peer, and a line that says how it went.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use seslog::store::BehindOptions;

use crate::digest::Digest;
use crate::live::{self, Load};
use crate::peer::{self, Each, Listed, Peer, Row, Sync};
use crate::sample::Sample;
use crate::set::{self, Event, Session};
use crate::supply::Supply;
use crate::{Result, limits, live_sqlite, rival};

/// How often a read is repeated on what is open.
const REPEATS: usize = 20;

/// A task as the parent spells it.
#[derive(Debug)]
pub struct Task<'a> {
    pub name: &'a str,
    pub peer: &'a str,
    pub folder: &'a Path,
    /// The file of the set.
    pub set: &'a Path,
    pub args: &'a [String],
}

impl Task<'_> {
    fn number<T: std::str::FromStr>(&self, index: usize) -> Result<T> {
        let arg =
            self.args.get(index).ok_or_else(|| format!("{}: argument {index} is missing", self.name))?;
        arg.parse().map_err(|_| format!("{}: {arg} is no number", self.name).into())
    }

    /// The id of the session that the sets `large` and `tiny` consist of.
    fn id(&self) -> Result<String> {
        let text = first_line(self.set)?;
        Ok(set::sessions(&text)?.first().ok_or("an empty set")?.id())
    }
}

/// Runs a task and prints its sample.
pub fn run(task: &Task<'_>) -> Result<()> {
    let sample = measure(task)?;
    let (rss, anon) = memory()?;
    println!("{}", sample.with("rss_kib", rss).with("anon_kib", anon));
    Ok(())
}

fn measure(task: &Task<'_>) -> Result<Sample> {
    if task.peer.starts_with("limit-") {
        return limits::measure(task.name, task.peer, task.folder, task.set, task.args);
    }
    match task.name {
        "nothing" => return Ok(Sample::new(0.0, Digest::NONE)),
        "migrate" => return rival::migrate(task.folder),
        "stream" => return rival::stream(task.peer),
        "live" => return live(task),
        _ => {}
    }
    let peer = peer::by_name(task.peer).ok_or_else(|| format!("no peer {}", task.peer))?;
    match task.name {
        "write" => write(&*peer, task),
        "write-brief" => write_brief(task),
        "append" => append(&*peer, task),
        "buffer" => buffer(&*peer, task),
        "fill" => fill(&*peer, task),
        "pieces" => pieces(&*peer, task),
        "list" => list(&*peer, task),
        "scan" => visit(task, |id, each| peer.scan(task.folder, id, each)),
        "load" => visit(task, |id, each| peer.load(task.folder, id, each)),
        "check" => check(&*peer, task),
        "last" => part(&*peer, task, |reader, each| reader.last(50, each)),
        "middle" => {
            let seq = task.number(0)?;
            part(&*peer, task, |reader, each| reader.range(seq, 50, each))
        }
        "open-write" => crate::seslog_only::open_write(task.peer, task.folder, &task.id()?),
        "stat" => crate::seslog_only::stat(task.peer, task.folder, &task.id()?),
        name => Err(format!("no task {name}").into()),
    }
}

/// Peak resident memory and resident memory that is no file's, in KiB.
fn memory() -> Result<(f64, f64)> {
    let status = fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").trim().parse::<f64>().ok()
    };
    let found = field("VmHWM:").zip(field("RssAnon:"));
    found.ok_or_else(|| "this kernel does not say how much memory a process has".into())
}

fn first_line(path: &Path) -> Result<String> {
    use std::io::BufRead as _;
    let mut line = String::new();
    std::io::BufReader::new(fs::File::open(path)?).read_line(&mut line)?;
    Ok(line)
}

fn ns(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64
}

fn digest_of(events: &[Event<'_>]) -> Digest {
    let mut digest = Digest::NONE;
    events.iter().for_each(|event| digest.add(&as_row(event)));
    digest
}

fn as_row<'a>(event: &Event<'a>) -> Row<'a> {
    let (kind, payload) = (event.kind.as_bytes(), event.payload.as_bytes());
    Row { seq: event.seq, time: event.time, kind, payload }
}

/// Stores a whole set in durable batches: what the reading tasks read.
fn write(peer: &dyn Peer, task: &Task<'_>) -> Result<Sample> {
    let batch: usize = task.number(0)?;
    let text = fs::read_to_string(task.set)?;
    let start = Instant::now();
    let mut writer = peer.writer(task.folder, Sync::Batch)?;
    for session in set::sessions(&text)? {
        writer.begin(&session)?;
        for events in session.events()?.chunks(batch) {
            writer.append(events)?;
        }
        writer.end()?;
    }
    writer.sync()?;
    drop(writer);
    Ok(Sample::new(ns(start), Digest::NONE))
}

/// Stores so many short sessions, on several threads where a peer can, and nobody waits for the disk.
fn write_brief(task: &Task<'_>) -> Result<Sample> {
    let count: u64 = task.number(0)?;
    let threads = if task.peer.starts_with("seslog") { 8 } else { 1 };
    let start = Instant::now();
    let work = |first: u64| -> Result<()> {
        let peer = peer::by_name(task.peer).ok_or_else(|| format!("no peer {}", task.peer))?;
        let mut writer = peer.writer(task.folder, Sync::End)?;
        for n in (first..count).step_by(threads) {
            let made = crate::data::brief(n);
            let mut line = Vec::new();
            made.header.write(&mut line);
            let text = [&line, "\n".as_bytes(), &made.rows.text].concat();
            let text = String::from_utf8(text)?;
            let sessions = set::sessions(&text)?;
            writer.begin(&sessions[0])?;
            writer.append(&sessions[0].events()?)?;
            writer.end()?;
        }
        writer.sync()
    };
    std::thread::scope(|scope| -> Result<()> {
        let others: Vec<_> = (1..threads as u64).map(|first| scope.spawn(move || work(first))).collect();
        work(0)?;
        others.into_iter().try_for_each(|other| other.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(Sample::new(ns(start), Digest { seqs: Some(count), ..Digest::default() }))
}

fn with_first_session<T>(
    path: &Path,
    rows: usize,
    run: impl FnOnce(&Session<'_>, &[Event<'_>]) -> Result<T>,
) -> Result<T> {
    let text = fs::read_to_string(path)?;
    let mut sessions = set::sessions(&text)?;
    let session = sessions.first_mut().ok_or("an empty set")?;
    session.rows.truncate(rows);
    run(session, &session.events()?)
}

/// Durable appends of so many batches of so many events, each on disk before the next begins.
fn append(peer: &dyn Peer, task: &Task<'_>) -> Result<Sample> {
    let (batches, size): (usize, usize) = (task.number(0)?, task.number(1)?);
    with_first_session(task.set, batches * size, |session, events| {
        let mut writer = peer.writer(task.folder, Sync::Batch)?;
        writer.begin(session)?;
        let mut each = Vec::with_capacity(batches);
        let start = Instant::now();
        for batch in events.chunks(size) {
            let start = Instant::now();
            writer.append(batch)?;
            each.push(ns(start));
        }
        let total = ns(start);
        writer.end()?;
        writer.sync()?;
        each.sort_by(f64::total_cmp);
        let bytes: usize = events.iter().map(|event| event.row.len() + 1).sum();
        Ok(Sample::new(total, digest_of(events))
            .with("p50_ns", each[each.len() / 2])
            .with("p99_ns", each[each.len() * 99 / 100])
            .with("bytes", bytes as f64))
    })
}

/// Appends of a whole session that nobody waits for, and the sync at the end.
fn buffer(peer: &dyn Peer, task: &Task<'_>) -> Result<Sample> {
    let size: usize = task.number(0)?;
    with_first_session(task.set, usize::MAX, |session, events| {
        let mut writer = peer.writer(task.folder, Sync::End)?;
        writer.begin(session)?;
        let start = Instant::now();
        for batch in events.chunks(size) {
            writer.append(batch)?;
        }
        let appended = ns(start);
        writer.sync()?;
        let synced = ns(start);
        writer.end()?;
        let bytes: usize = events.iter().map(|event| event.row.len() + 1).sum();
        Ok(Sample::new(appended, digest_of(events)).with("sync_ns", synced).with("bytes", bytes as f64))
    })
}

/// Stores about so many bytes of rows: the session of the set over and over, its seqs going on.
fn fill(peer: &dyn Peer, task: &Task<'_>) -> Result<Sample> {
    let wanted: u64 = task.number(0)?;
    with_first_session(task.set, usize::MAX, |session, events| {
        let mut supply = Supply::new(events);
        let mut writer = peer.writer(task.folder, Sync::End)?;
        writer.begin(session)?;
        let (mut spent, mut bytes, mut rows) = (0.0, 0, 0);
        while bytes < wanted {
            let batch = supply.take(32);
            let batch: Vec<Event<'_>> = batch.iter().map(|row| row.event()).collect();
            bytes += batch.iter().map(|event| event.row.len() as u64 + 1).sum::<u64>();
            rows += batch.len();
            let start = Instant::now();
            writer.append(&batch)?;
            spent += ns(start);
        }
        let start = Instant::now();
        writer.end()?;
        writer.sync()?;
        let digest = Digest { rows: Some(rows as u64), ..Digest::default() };
        Ok(Sample::new(spent + ns(start), digest).with("bytes", bytes as f64))
    })
}

/// The log after durable appends, and beside it a list of where each append began and the last one ended.
fn pieces(peer: &dyn Peer, task: &Task<'_>) -> Result<Sample> {
    let (batches, size): (usize, usize) = (task.number(0)?, task.number(1)?);
    let out = Path::new(task.args.get(2).ok_or("no place for the pieces")?);
    with_first_session(task.set, batches * size, |session, events| {
        let mut writer = peer.writer(task.folder, Sync::Batch)?;
        writer.begin(session)?;
        let log = crate::walk::largest_file(task.folder)?;
        let mut borders = vec![fs::metadata(&log)?.len()];
        for batch in events.chunks(size) {
            writer.append(batch)?;
            borders.push(fs::metadata(&log)?.len());
        }
        writer.end()?;
        fs::copy(log, out)?;
        let borders: Vec<String> = borders.iter().map(u64::to_string).collect();
        fs::write(out.with_extension("borders"), borders.join("\n"))?;
        Ok(Sample::new(0.0, Digest::NONE))
    })
}

/// So many live sessions for so many seconds, and explicit appends beside them: the median of these.
fn live(task: &Task<'_>) -> Result<Sample> {
    let (sessions, seconds) = (task.number(0)?, task.number(1)?);
    let load = Load { sessions, rate: 50, probes: 8, time: Duration::from_secs_f64(seconds) };
    let root = task.folder.join("live");
    let outcome = match task.peer {
        "seslog" => live::run(&live::ours::Ours::new(&root, load, BehindOptions::default()), load),
        "sqlite-full" => live::run(&live_sqlite::Sqlite::new(&root), load),
        peer => return Err(format!("no live sessions of {peer}").into()),
    };
    let digest = Digest { seqs: Some(sessions as u64), ..Digest::default() };
    Ok(Sample::new(outcome.append_ms(500) * 1e6, digest)
        .with("p99_ns", outcome.append_ms(990) * 1e6)
        .with("thousandths_of_cores", outcome.cores * 1e3))
}

/// Sums of a listing.
pub fn digest_of_list(listed: &[Listed]) -> Digest {
    let sum = |of: &dyn Fn(&Listed) -> u64| Some(listed.iter().map(of).fold(0, u64::wrapping_add));
    Digest {
        rows: sum(&|one| one.events),
        seqs: Some(listed.len() as u64),
        times: sum(&|one| one.last_time.cast_unsigned()),
        bytes: sum(&|one| one.created_at.cast_unsigned() + (one.id.len() + one.cwd.len()) as u64),
    }
}

fn list(peer: &dyn Peer, task: &Task<'_>) -> Result<Sample> {
    let start = Instant::now();
    let listed = peer.list(task.folder)?;
    let took = ns(start);
    if listed.iter().any(|one| one.stored == 0) {
        return Err("a session without a size".into());
    }
    Ok(Sample::new(took, digest_of_list(&listed)))
}

fn visit(task: &Task<'_>, read: impl FnOnce(&str, Each<'_>) -> Result<()>) -> Result<Sample> {
    let id = task.id()?;
    let mut digest = Digest::NONE;
    let start = Instant::now();
    read(&id, &mut |row| digest.add(row))?;
    Ok(Sample::new(ns(start), digest))
}

/// Sessions of a set that are compared byte by byte: opening one is dear for some.
const CHECKED_MAX: usize = 100;

/// Every byte of every row, in order, against the set itself; of many sessions, some.
fn check(peer: &dyn Peer, task: &Task<'_>) -> Result<Sample> {
    fn hash(hasher: &mut crc32fast::Hasher, row: &Row<'_>) {
        hasher.update(&row.seq.to_le_bytes());
        hasher.update(&row.time.to_le_bytes());
        hasher.update(row.kind);
        hasher.update(b"\0");
        hasher.update(row.payload);
    }
    let text = fs::read_to_string(task.set)?;
    let mut digest = Digest::NONE;
    let sessions = set::sessions(&text)?;
    for session in sessions.iter().step_by(sessions.len().div_ceil(CHECKED_MAX)) {
        let (mut wanted, mut found) = (crc32fast::Hasher::new(), crc32fast::Hasher::new());
        session.events()?.iter().for_each(|event| hash(&mut wanted, &as_row(event)));
        peer.load(task.folder, &session.id(), &mut |row| {
            hash(&mut found, row);
            digest.add(row);
        })?;
        if wanted.finalize() != found.finalize() {
            return Err(format!("{}: other rows than were written to {}", task.peer, session.id()).into());
        }
    }
    Ok(Sample::new(0.0, digest))
}

/// Opens a session and reads a part of it, then reads that again on what is open.
fn part(
    peer: &dyn Peer,
    task: &Task<'_>,
    mut read: impl FnMut(&mut dyn peer::Reader, Each<'_>) -> Result<()>,
) -> Result<Sample> {
    let id = task.id()?;
    let mut digest = Digest::NONE;
    let start = Instant::now();
    let mut reader = peer.reader(task.folder, &id)?;
    read(&mut *reader, &mut |row| digest.add(row))?;
    let first = ns(start);
    let mut again = Vec::new();
    for _ in 0..REPEATS {
        let mut repeated = Digest::NONE;
        let start = Instant::now();
        read(&mut *reader, &mut |row| repeated.add(row))?;
        again.push(ns(start));
        if black_box(repeated) != digest {
            return Err("another answer the second time".into());
        }
    }
    again.sort_by(f64::total_cmp);
    Ok(Sample::new(first, digest).with("again_ns", again[again.len() / 2]))
}
