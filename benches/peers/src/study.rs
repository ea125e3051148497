//! What would make logs smaller: larger segments, higher levels, a wider window, a dictionary. Nothing that seslog does by itself.

use std::time::Instant;

use zstd_safe::{CCtx, CDict, CParameter, DCtx, DDict, DParameter};

use crate::Result;
use crate::data::{self, Session};

/// One way to store a set.
#[derive(Clone, Debug)]
pub struct Finding {
    pub set: &'static str,
    /// How rows are put into frames.
    pub frames: String,
    /// How frames are compressed.
    pub how: String,
    /// Stored bytes over bytes of rows, 64 bytes of trailer a frame included.
    pub ratio: f64,
    /// MB of rows a second, one core.
    pub compress: f64,
    pub decompress: f64,
}

/// Bytes of a dictionary.
const DICTIONARY: usize = 64 << 10;
const TRAILER: usize = 64;

/// Compresses samples of the three sets in all these ways.
pub fn run(is_quick: bool) -> Result<Vec<Finding>> {
    let scale: usize = if is_quick { 16 } else { 1 };
    // A dictionary is trained on other sessions than it is used for, or on an earlier part of the same.
    let small = data::small_of(400 / scale as u64 + 100);
    let (trained, small) = small.split_at(small.len() / 2);
    let large = data::large_of(5_000 / scale + 500);
    let tiny = data::tiny_of(60_000 / scale + 2_000);
    let mut found = Vec::new();
    let training = dictionary(trained.iter())?;
    study("small", small, 8, &training, &mut found)?;
    study("large", std::slice::from_ref(&large), 32, &training, &mut found)?;
    study("tiny", std::slice::from_ref(&tiny), 32, &training, &mut found)?;
    Ok(found)
}

/// A dictionary of the rows of some sessions.
fn dictionary<'a>(sessions: impl Iterator<Item = &'a Session>) -> Result<Vec<u8>> {
    let (mut samples, mut sizes) = (Vec::new(), Vec::new());
    for row in sessions.flat_map(|session| session.rows.iter()) {
        samples.extend_from_slice(row);
        sizes.push(row.len());
    }
    let mut dictionary = Vec::with_capacity(DICTIONARY);
    zstd_safe::train_from_buffer(&mut dictionary, &samples, &sizes).map_err(zstd_safe::get_error_name)?;
    Ok(dictionary)
}

fn study(
    set: &'static str,
    sessions: &[Session],
    batch: usize,
    dictionary: &[u8],
    found: &mut Vec<Finding>,
) -> Result<()> {
    let by_rows = |count: usize| frames(sessions, |rows, _| rows >= count);
    let by_bytes = |len: usize| frames(sessions, |_, bytes| bytes >= len);
    let cases: [(&str, Vec<Vec<u8>>); 5] = [
        ("1 row", by_rows(1)),
        (if batch == 8 { "8 rows" } else { "32 rows" }, by_rows(batch)),
        ("1 MiB", by_bytes(1 << 20)),
        ("8 MiB", by_bytes(8 << 20)),
        ("a session", by_rows(usize::MAX)),
    ];
    for (name, frames) in &cases {
        let is_whole = *name == "a session";
        let mut ways: Vec<(&str, i32, u32, &[u8])> = vec![("level 3", 3, 0, &[]), ("level 9", 9, 0, &[])];
        if is_whole {
            ways.extend([
                ("level 3, --long", 3, 27, &[][..]),
                ("level 9, --long", 9, 27, &[]),
                ("level 19, --long", 19, 27, &[]),
            ]);
        } else {
            ways.push(("level 3, trained dictionary", 3, 0, dictionary));
        }
        for (how, level, window, dictionary) in ways {
            let (stored, compress, decompress) = measure(frames, level, window, dictionary)?;
            let rows: usize = frames.iter().map(Vec::len).sum();
            let rate = |seconds: f64| rows as f64 / 1e6 / seconds;
            found.push(Finding {
                set,
                frames: (*name).to_owned(),
                how: how.to_owned(),
                ratio: (stored + frames.len() * TRAILER) as f64 / rows as f64,
                compress: rate(compress),
                decompress: rate(decompress),
            });
        }
    }
    Ok(())
}

/// The rows of sessions, in pieces that end when `is_full` says so of their rows and bytes, and with each session.
fn frames(sessions: &[Session], is_full: impl Fn(usize, usize) -> bool) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for session in sessions {
        let (mut frame, mut rows) = (Vec::new(), 0);
        for row in session.rows.iter() {
            frame.extend_from_slice(row);
            frame.push(b'\n');
            rows += 1;
            if is_full(rows, frame.len()) {
                frames.push(std::mem::take(&mut frame));
                rows = 0;
            }
        }
        if !frame.is_empty() {
            frames.push(frame);
        }
    }
    frames
}

/// Stored bytes, and the seconds that compressing and decompressing take. What comes back is compared.
fn measure(frames: &[Vec<u8>], level: i32, window: u32, dictionary: &[u8]) -> Result<(usize, f64, f64)> {
    let (cdict, ddict) = (CDict::create(dictionary, level), DDict::create(dictionary));
    let (mut compressor, mut decompressor) = (CCtx::create(), DCtx::create());
    let failed = |code| zstd_safe::get_error_name(code);
    compressor.set_parameter(CParameter::CompressionLevel(level)).map_err(failed)?;
    compressor.set_parameter(CParameter::ChecksumFlag(true)).map_err(failed)?;
    if window > 0 {
        compressor.set_parameter(CParameter::EnableLongDistanceMatching(true)).map_err(failed)?;
        compressor.set_parameter(CParameter::WindowLog(window)).map_err(failed)?;
        decompressor.set_parameter(DParameter::WindowLogMax(window)).map_err(failed)?;
    }
    if !dictionary.is_empty() {
        compressor.ref_cdict(&cdict).map_err(failed)?;
        decompressor.ref_ddict(&ddict).map_err(failed)?;
    }
    let mut stored = Vec::with_capacity(frames.len());
    let start = Instant::now();
    for frame in frames {
        let mut out = Vec::with_capacity(zstd_safe::compress_bound(frame.len()));
        compressor.compress2(&mut out, frame).map_err(failed)?;
        stored.push(out);
    }
    let compress = start.elapsed().as_secs_f64();
    let mut content = Vec::with_capacity(frames.iter().map(Vec::len).max().unwrap_or_default());
    let start = Instant::now();
    for (stored, frame) in stored.iter().zip(frames) {
        content.clear();
        decompressor.decompress(&mut content, stored).map_err(failed)?;
        if content.len() != frame.len() {
            return Err("a frame came back with another length".into());
        }
    }
    let decompress = start.elapsed().as_secs_f64();
    if frames.last() != Some(&content) && !frames.is_empty() {
        return Err("a frame came back changed".into());
    }
    Ok((stored.iter().map(Vec::len).sum(), compress, decompress))
}
