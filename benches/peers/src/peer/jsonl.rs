//! Plain JSONL: one file a session, a header line, then rows. Read with `serde_json`, payloads borrowed and unread.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::disk::{Growing, files, map};
use super::{Each, Listed, Peer, Reader, Row, Sync, Writer};
use crate::Result;
use crate::set::{Event, Session, payload_of};

#[derive(Debug)]
pub struct Jsonl;

/// The envelope of a row. Members behind `data` are of the payload as far as this comparison goes.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    #[serde(rename = "type")]
    pub kind: &'a str,
    pub seq: u64,
    pub time: i64,
    #[serde(borrow)]
    pub data: &'a RawValue,
    #[serde(borrow, rename = "sourceEventSeqs")]
    _source_event_seqs: Option<&'a RawValue>,
    #[serde(borrow, rename = "surfaceOp")]
    _surface_op: Option<&'a RawValue>,
}

/// The header's line.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    pub id: String,
    pub cwd: String,
    pub created_at: i64,
}

/// Parses one row.
pub fn parse(line: &[u8]) -> Result<Row<'_>> {
    let line = std::str::from_utf8(line)?;
    let row: Envelope<'_> = serde_json::from_str(line)?;
    let payload = payload_of(line, row.data.get()).as_bytes();
    Ok(Row { seq: row.seq, time: row.time, kind: row.kind.as_bytes(), payload })
}

/// Visits each line of a text that ends in a newline.
pub fn lines<'t>(text: &'t [u8], mut each: impl FnMut(&'t [u8]) -> Result<()>) -> Result<()> {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', text) {
        each(&text[start..end])?;
        start = end + 1;
    }
    Ok(())
}

/// Events as lines.
pub fn write(events: &[Event<'_>], out: &mut Vec<u8>) {
    out.clear();
    for event in events {
        out.extend_from_slice(event.row.as_bytes());
        out.push(b'\n');
    }
}

fn path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.jsonl"))
}

impl Peer for Jsonl {
    fn writer(&self, folder: &Path, sync: Sync) -> Result<Box<dyn Writer>> {
        Ok(Box::new(JsonlWriter { folder: folder.to_path_buf(), sync, file: None, text: Vec::new() }))
    }

    /// Counts newlines; parses the first line and the last.
    fn list(&self, folder: &Path) -> Result<Vec<Listed>> {
        let mut text = Vec::new();
        let listed = files(folder)?.into_iter().map(|path| {
            text.clear();
            File::open(path)?.read_to_end(&mut text)?;
            listed(&text, text.len() as u64)
        });
        listed.collect()
    }

    fn scan(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        let text = map(&path(folder, id))?;
        let mut is_header = true;
        lines(&text, |line| {
            if !std::mem::take(&mut is_header) {
                each(&parse(line)?);
            }
            Ok(())
        })
    }

    /// The map is what keeps the rows.
    fn load(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        let text = map(&path(folder, id))?;
        let mut rows = Vec::new();
        let mut is_header = true;
        lines(&text, |line| {
            if !std::mem::take(&mut is_header) {
                rows.push(parse(line)?);
            }
            Ok(())
        })?;
        rows.iter().for_each(each);
        Ok(())
    }

    fn reader(&self, folder: &Path, id: &str) -> Result<Box<dyn Reader>> {
        Ok(Box::new(JsonlReader { file: File::open(path(folder, id))?, path: path(folder, id) }))
    }
}

/// What a text of a header and rows says of its session.
pub fn listed(text: &[u8], stored: u64) -> Result<Listed> {
    let first = memchr::memchr(b'\n', text).ok_or("no header")?;
    let head: Head = serde_json::from_slice(&text[..first])?;
    let rows = memchr::memchr_iter(b'\n', &text[first + 1..]).count();
    Ok(Listed {
        id: head.id,
        cwd: head.cwd,
        created_at: head.created_at,
        last_time: if rows == 0 { 0 } else { last_time(text)? },
        events: rows as u64,
        stored,
    })
}

/// The time of the last row of a text.
pub fn last_time(text: &[u8]) -> Result<i64> {
    let body = text.strip_suffix(b"\n").ok_or("a cut line")?;
    Ok(parse(&body[memchr::memrchr(b'\n', body).map_or(0, |at| at + 1)..])?.time)
}

struct JsonlWriter {
    folder: PathBuf,
    sync: Sync,
    file: Option<Growing>,
    text: Vec<u8>,
}

impl Writer for JsonlWriter {
    fn begin(&mut self, session: &Session<'_>) -> Result<()> {
        let mut file = Growing::create(&path(&self.folder, &session.id()), self.sync)?;
        file.append(format!("{}\n", session.line).as_bytes())?;
        self.file = Some(file);
        Ok(())
    }

    fn append(&mut self, events: &[Event<'_>]) -> Result<()> {
        write(events, &mut self.text);
        self.file.as_mut().ok_or("no session")?.append(&self.text)
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

struct JsonlReader {
    file: File,
    path: PathBuf,
}

impl Reader for JsonlReader {
    /// Reads backwards until there are enough newlines.
    fn last(&mut self, count: u64, each: Each<'_>) -> Result<()> {
        let len = self.file.metadata()?.len();
        let mut want = 64 << 10;
        loop {
            let start = len.saturating_sub(want);
            let mut text = vec![0; usize::try_from(len - start)?];
            self.file.read_exact_at(&mut text, start)?;
            let found = memchr::memrchr_iter(b'\n', &text).nth(usize::try_from(count)?);
            if let Some(at) = found {
                return lines(&text[at + 1..], |line| {
                    each(&parse(line)?);
                    Ok(())
                });
            }
            if start == 0 {
                return Err("fewer rows than asked for".into());
            }
            want *= 4;
        }
    }

    /// Counts newlines from the start: a file of lines has no other way to line k.
    fn range(&mut self, seq: u64, count: u64, each: Each<'_>) -> Result<()> {
        let text = map(&self.path)?;
        let mut ends = memchr::memchr_iter(b'\n', &text);
        let start = ends.nth(usize::try_from(seq)?).ok_or("no such row")? + 1;
        let end = ends.nth(usize::try_from(count)? - 1).ok_or("no such row")?;
        lines(&text[start..=end], |line| {
            each(&parse(line)?);
            Ok(())
        })
    }
}
