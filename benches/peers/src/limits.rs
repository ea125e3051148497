//! What the machine does at best with the same bytes.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write as _;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::value::RawValue;
use zstd_safe::DCtx;

use crate::Result;
use crate::digest::Digest;
use crate::peer::jsonl;
use crate::peer::jsonl_zstd::{LEVEL, compress, compressor};
use crate::sample::Sample;
use crate::set;
use crate::walk;

/// Runs the limit `peer` of a task. It reads what `seslog` stored in `folder`, or `set`.
pub fn measure(task: &str, peer: &str, folder: &Path, set: &Path, args: &[String]) -> Result<Sample> {
    let pieces = || args.get(2).ok_or("no pieces").map(|path| Pieces::read(Path::new(path)));
    match (task, peer) {
        ("append", "limit-write") => pieces()??.write(folder, false),
        ("append", "limit-overwrite") => pieces()??.write(folder, true),
        ("buffer", "limit-zstd") => batches(set, args, LEVEL),
        ("buffer", "limit-zstd-1") => batches(set, args, 1),
        ("list", "limit-stat") => each_log(folder, 1, |path| Ok(fs::metadata(path)?.len())),
        ("list", "limit-two-reads") => each_log(folder, 1, two_reads),
        ("list", "limit-two-reads-8") => each_log(folder, 8, two_reads),
        ("scan" | "load", "limit-zstd") => frames(folder),
        ("scan", "limit-memcpy") => text(set, |text, out| {
            out.clear();
            out.extend_from_slice(text.as_bytes());
            Ok(out.len())
        }),
        ("scan", "limit-newlines") => {
            text(set, |text, _| Ok(memchr::memchr_iter(b'\n', text.as_bytes()).count()))
        }
        ("scan", "limit-json-check") => text(set, |text, _| {
            each_line(text, |line| {
                seslog::json::check(line, seslog::limits::Limits::DEFAULT.nesting_max)
                    .map_err(|error| format!("{error:?}").into())
            })
        }),
        ("scan", "limit-serde-raw") => text(set, |text, _| {
            each_line(text, |line| {
                black_box(serde_json::from_slice::<&RawValue>(line)?);
                Ok(())
            })
        }),
        _ => Err(format!("no limit {peer} of {task}").into()),
    }
}

fn ns(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64
}

/// The bytes of each append, as `seslog` stored them.
struct Pieces {
    bytes: Vec<u8>,
    /// Where each piece begins, and where the last one ends.
    borders: Vec<usize>,
}

impl Pieces {
    fn read(path: &Path) -> Result<Self> {
        let borders = fs::read_to_string(path.with_extension("borders"))?;
        let borders = borders.lines().map(str::parse).collect::<std::result::Result<_, _>>()?;
        Ok(Self { bytes: fs::read(path)?, borders })
    }

    /// One write and one `fdatasync` a piece, to a file that grows or over blocks that are written already.
    fn write(&self, folder: &Path, over: bool) -> Result<Sample> {
        let mut file = File::options().create_new(true).write(true).open(folder.join("limit"))?;
        // The header stands before the first append.
        let before = if over { self.bytes.len() } else { self.borders.first().copied().unwrap_or(0) };
        file.write_all(&self.bytes[..before])?;
        file.sync_all()?;
        let mut each = Vec::with_capacity(self.borders.len());
        let start = Instant::now();
        for piece in self.borders.windows(2) {
            let start = Instant::now();
            file.write_all_at(&self.bytes[piece[0]..piece[1]], piece[0] as u64)?;
            file.sync_data()?;
            each.push(ns(start));
        }
        let total = ns(start);
        each.sort_by(f64::total_cmp);
        Ok(Sample::new(total, Digest::default())
            .with("p50_ns", each[each.len() / 2])
            .with("p99_ns", each[each.len() * 99 / 100]))
    }
}

/// Bare compression of the same batches.
fn batches(set: &Path, args: &[String], level: i32) -> Result<Sample> {
    let size: usize = args.first().ok_or("no size")?.parse()?;
    let text = fs::read_to_string(set)?;
    let sessions = set::sessions(&text)?;
    let (mut context, mut content, mut frame) = (compressor(level), Vec::new(), Vec::new());
    let events = sessions.first().ok_or("an empty set")?.events()?;
    let mut stored = 0;
    let start = Instant::now();
    for batch in events.chunks(size) {
        jsonl::write(batch, &mut content);
        compress(&mut context, &content, &mut frame)?;
        stored += frame.len();
    }
    let took = ns(start);
    let bytes: usize = events.iter().map(|event| event.row.len() + 1).sum();
    black_box(stored);
    Ok(Sample::new(took, Digest::default()).with("sync_ns", took).with("bytes", bytes as f64))
}

/// The logs of a root: what is no lock.
fn logs(folder: &Path) -> Result<Vec<PathBuf>> {
    let is_log =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".jsonl"));
    Ok(walk::files(folder)?.into_iter().filter(is_log).collect())
}

fn each_log(folder: &Path, threads: usize, look: fn(&Path) -> Result<u64>) -> Result<Sample> {
    let start = Instant::now();
    let logs = logs(folder)?;
    let next = AtomicUsize::new(0);
    let work = || -> Result<u64> {
        let mut bytes = 0;
        while let Some(log) = logs.get(next.fetch_add(1, Ordering::Relaxed)) {
            bytes += look(log)?;
        }
        Ok(bytes)
    };
    let bytes = std::thread::scope(|scope| -> Result<u64> {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut bytes = work()?;
        for other in others {
            bytes += other.join().map_err(|_| "a thread panicked")??;
        }
        Ok(bytes)
    })?;
    black_box(bytes);
    Ok(Sample::new(ns(start), Digest { seqs: Some(logs.len() as u64), ..Digest::default() }))
}

/// Opens a file, reads 4 KiB at its head and at its tail, closes it: the least that tells what a log holds.
fn two_reads(path: &Path) -> Result<u64> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut page = [0; 4096];
    let head = file.read_at(&mut page, 0)?;
    let tail = file.read_at(&mut page, len.saturating_sub(4096))?;
    if head == 0 || tail == 0 { Err("an empty log".into()) } else { Ok(len) }
}

/// The data frames of a compressed log, skippable frames left out.
fn data_frames(log: &[u8]) -> Result<Vec<Range<usize>>> {
    let (mut frames, mut at) = (Vec::new(), 0);
    while at < log.len() {
        let len = zstd_safe::find_frame_compressed_size(&log[at..]).map_err(zstd_safe::get_error_name)?;
        let magic = log[at..].first_chunk::<4>().map(|magic| u32::from_le_bytes(*magic));
        if magic == Some(zstd_safe::MAGICNUMBER) {
            frames.push(at..at + len);
        }
        at += len;
    }
    Ok(frames)
}

/// Bare decompression of the frames of a log: one context, one buffer, nothing looked at.
fn frames(folder: &Path) -> Result<Sample> {
    let stored = fs::read(logs(folder)?.first().ok_or("no log")?)?;
    let frames = data_frames(&stored)?;
    let mut context = DCtx::create();
    let mut content = Vec::with_capacity(64 << 20);
    let mut total = 0;
    let start = Instant::now();
    for frame in frames {
        content.clear();
        total += context.decompress(&mut content, &stored[frame]).map_err(zstd_safe::get_error_name)?;
    }
    let took = ns(start);
    Ok(Sample::new(took, Digest::default()).with("bytes", total as f64))
}

/// Work on the text of a set that is in memory, once unmeasured.
fn text(set: &Path, mut work: impl FnMut(&str, &mut Vec<u8>) -> Result<usize>) -> Result<Sample> {
    let text = fs::read_to_string(set)?;
    let mut out = Vec::new();
    let first = work(&text, &mut out)?;
    let start = Instant::now();
    let second = work(&text, &mut out)?;
    let took = ns(start);
    if first != second {
        return Err("another answer the second time".into());
    }
    Ok(Sample::new(took, Digest::default()).with("bytes", text.len() as f64))
}

fn each_line(text: &str, mut check: impl FnMut(&[u8]) -> Result<()>) -> Result<usize> {
    let mut count = 0;
    jsonl::lines(text.as_bytes(), |line| {
        count += 1;
        check(line)
    })?;
    Ok(count)
}
