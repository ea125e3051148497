//! JSONL with a Zstandard frame a batch: what the original keeps on disk, without anything around it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use zstd_safe::{CCtx, CParameter, DCtx};

use super::disk::{Growing, files, map};
use super::jsonl::{self, lines, parse};
use super::{Each, Listed, Peer, Reader, Row, Sync, Writer};
use crate::Result;
use crate::set::{Event, Session};

/// The level that everybody here compresses with.
pub const LEVEL: i32 = 3;

#[derive(Debug)]
pub struct JsonlZstd;

/// A compressor as the original sets it: level 3, checksums on.
pub fn compressor(level: i32) -> CCtx<'static> {
    let mut context = CCtx::create();
    context.set_parameter(CParameter::CompressionLevel(level)).expect("a level");
    context.set_parameter(CParameter::ChecksumFlag(true)).expect("a flag");
    context
}

/// Compresses `content` as one frame over what is in `out`.
pub fn compress(context: &mut CCtx<'_>, content: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    out.reserve(zstd_safe::compress_bound(content.len()));
    context.compress2(out, content).map_err(zstd_safe::get_error_name)?;
    Ok(())
}

/// Decompresses the frame at the start of `stored` over what is in `out`, and returns its stored length.
fn decompress(context: &mut DCtx<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<usize> {
    let len = zstd_safe::find_frame_compressed_size(stored).map_err(zstd_safe::get_error_name)?;
    let content =
        zstd_safe::get_frame_content_size(&stored[..len]).ok().flatten().ok_or("no content size")?;
    out.clear();
    out.reserve(usize::try_from(content)?);
    context.decompress(out, &stored[..len]).map_err(zstd_safe::get_error_name)?;
    Ok(len)
}

fn path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.jsonl.zst"))
}

impl Peer for JsonlZstd {
    fn writer(&self, folder: &Path, sync: Sync) -> Result<Box<dyn Writer>> {
        Ok(Box::new(ZstdWriter {
            folder: folder.to_path_buf(),
            sync,
            file: None,
            context: compressor(LEVEL),
            text: Vec::new(),
            frame: Vec::new(),
        }))
    }

    /// Decompresses everything to count it.
    fn list(&self, folder: &Path) -> Result<Vec<Listed>> {
        let (mut context, mut stored, mut text) = (DCtx::create(), Vec::new(), Vec::new());
        let listed = files(folder)?.into_iter().map(|path| {
            stored.clear();
            File::open(path)?.read_to_end(&mut stored)?;
            let mut at = decompress(&mut context, &stored, &mut text)?;
            let mut listed = jsonl::listed(&text, stored.len() as u64)?;
            while at < stored.len() {
                at += decompress(&mut context, &stored[at..], &mut text)?;
                listed.events += memchr::memchr_iter(b'\n', &text).count() as u64;
            }
            if listed.events > 0 {
                listed.last_time = jsonl::last_time(&text)?;
            }
            Ok(listed)
        });
        listed.collect()
    }

    fn scan(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        let stored = map(&path(folder, id))?;
        let (mut context, mut text) = (DCtx::create(), Vec::new());
        let mut is_header = true;
        let mut at = 0;
        while at < stored.len() {
            at += decompress(&mut context, &stored[at..], &mut text)?;
            lines(&text, |line| {
                if !std::mem::take(&mut is_header) {
                    each(&parse(line)?);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn load(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        let stored = map(&path(folder, id))?;
        let (mut context, mut texts) = (DCtx::create(), Vec::new());
        let mut at = 0;
        while at < stored.len() {
            let mut text = Vec::new();
            at += decompress(&mut context, &stored[at..], &mut text)?;
            texts.push(text);
        }
        let mut rows: Vec<Row<'_>> = Vec::new();
        for text in texts.iter().skip(1) {
            lines(text, |line| {
                rows.push(parse(line)?);
                Ok(())
            })?;
        }
        rows.iter().for_each(each);
        Ok(())
    }

    fn reader(&self, folder: &Path, id: &str) -> Result<Box<dyn Reader>> {
        Ok(Box::new(ZstdReader { stored: map(&path(folder, id))? }))
    }
}

struct ZstdWriter {
    folder: PathBuf,
    sync: Sync,
    file: Option<Growing>,
    context: CCtx<'static>,
    text: Vec<u8>,
    frame: Vec<u8>,
}

impl ZstdWriter {
    fn store(&mut self) -> Result<()> {
        compress(&mut self.context, &self.text, &mut self.frame)?;
        self.file.as_mut().ok_or("no session")?.append(&self.frame)
    }
}

impl Writer for ZstdWriter {
    fn begin(&mut self, session: &Session<'_>) -> Result<()> {
        self.file = Some(Growing::create(&path(&self.folder, &session.id()), self.sync)?);
        self.text = format!("{}\n", session.line).into_bytes();
        self.store()
    }

    fn append(&mut self, events: &[Event<'_>]) -> Result<()> {
        jsonl::write(events, &mut self.text);
        self.store()
    }

    fn end(&mut self) -> Result<()> {
        if self.sync == Sync::Batch {
            self.sync()?;
        }
        self.file = None;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file.as_mut().map_or(Ok(()), Growing::sync)
    }
}

struct ZstdReader {
    stored: memmap2::Mmap,
}

impl Reader for ZstdReader {
    /// Walks the frames without decompressing them, and then takes as many of the last ones as it needs.
    fn last(&mut self, count: u64, each: Each<'_>) -> Result<()> {
        let mut starts = Vec::new();
        let mut at = 0;
        while at < self.stored.len() {
            starts.push(at);
            at += zstd_safe::find_frame_compressed_size(&self.stored[at..])
                .map_err(zstd_safe::get_error_name)?;
        }
        let mut context = DCtx::create();
        let (mut texts, mut found) = (Vec::new(), 0);
        while found < count {
            let mut text = Vec::new();
            decompress(&mut context, &self.stored[starts.pop().ok_or("too few rows")?..], &mut text)?;
            found += memchr::memchr_iter(b'\n', &text).count() as u64;
            texts.push(text);
        }
        let mut skip = found - count;
        for text in texts.iter().rev() {
            lines(text, |line| {
                if skip == 0 {
                    each(&parse(line)?);
                } else {
                    skip -= 1;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Decompresses from the start: only counting tells which frame holds a row.
    fn range(&mut self, seq: u64, count: u64, each: Each<'_>) -> Result<()> {
        let (mut context, mut text) = (DCtx::create(), Vec::new());
        // The header is line 0.
        let (mut at, mut line_at) = (0, 0);
        while at < self.stored.len() && line_at < seq + 1 + count {
            at += decompress(&mut context, &self.stored[at..], &mut text)?;
            let rows = memchr::memchr_iter(b'\n', &text).count() as u64;
            if line_at + rows > seq + 1 {
                let mut line_here = line_at;
                lines(&text, |line| {
                    if (seq + 1..seq + 1 + count).contains(&line_here) {
                        each(&parse(line)?);
                    }
                    line_here += 1;
                    Ok(())
                })?;
            }
            line_at += rows;
        }
        Ok(())
    }
}
