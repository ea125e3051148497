//! Generated sessions on their way to the peers: a file of header lines and rows, and its events taken apart.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::{Check, Header};

use crate::Result;
use crate::data;

/// One event as every peer gets it: parts that are JSON text already.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    pub seq: u64,
    pub time: i64,
    /// The type.
    pub kind: &'a str,
    /// Everything behind `"data":` up to the closing brace: the data, and members that follow it.
    pub payload: &'a str,
    /// The whole row without a newline.
    pub row: &'a str,
}

impl<'a> Event<'a> {
    /// Takes a generated row apart.
    pub fn of_row(row: &'a str) -> Result<Self> {
        let event = seslog::row::Event::read(row.as_bytes(), Check::Envelope, &Limits::DEFAULT)
            .map_err(|fault| format!("{fault:?}"))?;
        Ok(Self {
            seq: event.seq().get(),
            time: event.time().get(),
            kind: event.event_type().raw(),
            payload: payload_of(row, event.data()),
            row,
        })
    }
}

/// The text of `row` from its `data` to before its closing brace.
pub fn payload_of<'a>(row: &'a str, data: &str) -> &'a str {
    let start = data.as_ptr() as usize - row.as_ptr() as usize;
    &row[start..row.len() - 1]
}

/// One session of a set.
#[derive(Debug)]
pub struct Session<'a> {
    pub header: Header,
    /// The header's line without a newline.
    pub line: &'a str,
    pub rows: Vec<&'a str>,
}

impl<'a> Session<'a> {
    pub fn id(&self) -> String {
        plain(self.header.id())
    }

    pub fn created_at(&self) -> i64 {
        self.header.created_at().get()
    }

    pub fn cwd(&self) -> String {
        self.header.cwd().map(plain).unwrap_or_default()
    }

    /// All events.
    pub fn events(&self) -> Result<Vec<Event<'a>>> {
        self.rows.iter().map(|row| Event::of_row(row)).collect()
    }
}

/// A text as a string. The generator makes nothing that is not Unicode.
pub fn plain(text: &Text) -> String {
    text.to_string_lossy().into_owned()
}

/// The sessions in the text of a set.
pub fn sessions(text: &str) -> Result<Vec<Session<'_>>> {
    let mut found: Vec<Session<'_>> = Vec::new();
    for line in text.split_terminator('\n') {
        if line.starts_with("{\"type\":\"session\"") {
            let header =
                Header::parse(line.as_bytes(), &Limits::DEFAULT).map_err(|fault| format!("{fault:?}"))?;
            found.push(Session { header, line, rows: Vec::new() });
        } else {
            found.last_mut().ok_or("a row before any header")?.rows.push(line);
        }
    }
    Ok(found)
}

/// How large the sets are.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub large_events: usize,
    pub small_sessions: u64,
    pub tiny_events: usize,
    /// Appends of one event, and of 32.
    pub appends: (usize, usize),
    /// Bytes of a log of an older generation.
    pub older_bytes: usize,
}

impl Sizes {
    pub const FULL: Self = Self {
        large_events: 20_000,
        small_sessions: 2_000,
        tiny_events: 150_000,
        appends: (2_000, 300),
        older_bytes: 32 << 20,
    };
    pub const QUICK: Self = Self {
        large_events: 2_500,
        small_sessions: 250,
        tiny_events: 18_750,
        appends: (250, 60),
        older_bytes: 4 << 20,
    };
}

/// The files of the sets.
#[derive(Clone, Debug)]
pub struct Sets {
    folder: PathBuf,
}

impl Sets {
    /// Generates all sets into `folder`.
    pub fn make(folder: &Path, sizes: Sizes) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let sets = Self { folder: folder.to_path_buf() };
        sets.store("large", &[data::large_of(sizes.large_events)])?;
        sets.store("tiny", &[data::tiny_of(sizes.tiny_events)])?;
        sets.store("small", &data::small_of(sizes.small_sessions))?;
        Ok(sets)
    }

    pub fn path(&self, set: &str) -> PathBuf {
        self.folder.join(set)
    }

    fn store(&self, set: &str, sessions: &[data::Session]) -> Result<()> {
        let mut file = std::io::BufWriter::new(fs::File::create(self.path(set))?);
        for session in sessions {
            let mut line = Vec::new();
            session.header.write(&mut line);
            file.write_all(&line)?;
            file.write_all(b"\n")?;
            file.write_all(&session.rows.text)?;
        }
        file.flush()?;
        Ok(())
    }
}

/// Bytes of the rows of a set, headers left out: what ratios are taken of.
pub fn logical_bytes(text: &str) -> u64 {
    text.split_inclusive('\n')
        .filter(|line| !line.starts_with("{\"type\":\"session\""))
        .map(|line| line.len() as u64)
        .sum()
}
