//! One stored log: what a file is elsewhere.

use std::path::PathBuf;
use std::sync::Arc;

use super::judge::Judged;
use super::rows::Rows;
use crate::container::Encoding;
use crate::json::Text;
use crate::store::events::Checked;
use crate::store::layout::{log_name, session_dir_name};
use crate::store::snapshot::Revision;
use crate::units::Generation;

/// A log. A clone shows it as it stood then, whatever is added later, and costs no copy of its rows.
#[derive(Clone, Debug)]
pub(super) struct Log {
    /// The generation that it is stored as, which its header should name too.
    pub(super) generation: Generation,
    /// The header line without its newline.
    pub(super) header: Arc<[u8]>,
    pub(super) rows: Arc<Rows>,
    /// Whole lines in `rows` that belong to this state of the log.
    pub(super) lines: usize,
    /// Their bytes, newlines included.
    pub(super) rows_bytes: u64,
    /// Lines whose append has an end. The others are complete, and the next append takes them over.
    pub(super) committed: usize,
    /// Lines that no crash takes away.
    pub(super) durable: usize,
    /// Half a line behind the whole ones: what an append left that was cut short.
    pub(super) fragment: Arc<[u8]>,
    /// Number of the change that made the log what it is.
    pub(super) change: u64,
    /// The instance whose appends a crash would take away.
    pub(super) accepted_by: Option<u64>,
    /// What a full reading of this state found.
    pub(super) judged: Option<Arc<Judged>>,
}

impl Log {
    /// A log of a header and one batch, all of it durable.
    pub(super) fn published(header: Vec<u8>, batch: Checked) -> Self {
        let (lines, bytes) = (batch.marks.len(), batch.content.len() as u64);
        let rows = Rows::default();
        rows.push(batch);
        Self::whole(Generation::CURRENT, header, rows, lines, bytes)
    }

    /// A log of these rows, all of them durable and committed.
    pub(super) fn whole(
        generation: Generation,
        header: Vec<u8>,
        rows: Rows,
        lines: usize,
        rows_bytes: u64,
    ) -> Self {
        Self {
            generation,
            header: header.into(),
            rows: Arc::new(rows),
            lines,
            rows_bytes,
            committed: lines,
            durable: lines,
            fragment: Arc::default(),
            change: 0,
            accepted_by: None,
            judged: None,
        }
    }

    /// Adds a batch behind the last whole line, and with it the end of an append that has none.
    pub(super) fn append(&mut self, batch: Checked) {
        self.lines = self.lines.saturating_add(batch.marks.len());
        self.rows_bytes = self.rows_bytes.saturating_add(batch.content.len() as u64);
        self.committed = self.lines;
        self.rows.push(batch);
    }

    /// Cuts the log behind its first `lines` lines, and leaves `fragment` there.
    pub(super) fn cut(&mut self, lines: usize, committed: usize, fragment: &[u8]) {
        let rows = self.rows.prefix(lines);
        self.lines = lines;
        self.rows_bytes = rows.bytes();
        self.committed = committed.min(lines);
        self.durable = self.durable.min(lines);
        self.fragment = fragment.into();
        self.rows = Arc::new(rows);
    }

    /// Whether the last append has an end, and nothing stands behind it.
    pub(super) fn has_an_end(&self) -> bool {
        self.fragment.is_empty() && self.committed == self.lines
    }

    /// Bytes of the log as text: header, rows, and what stands behind them.
    pub(super) fn size_bytes(&self) -> u64 {
        (self.header.len() as u64)
            .saturating_add(1)
            .saturating_add(self.rows_bytes)
            .saturating_add(self.fragment.len() as u64)
    }

    /// Text offset of the end of the whole lines.
    pub(super) fn rows_end(&self) -> u64 {
        self.size_bytes().saturating_sub(self.fragment.len() as u64)
    }
}

/// A session's newest log as it stood at one moment, and its name.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) storage: u64,
    pub(super) id: Text,
    pub(super) log: Log,
    /// Generations of the older logs that stand beside it.
    pub(super) older: Vec<Generation>,
}

impl View {
    /// What errors and snapshots call the log. No such file exists.
    pub(super) fn path(&self) -> PathBuf {
        log_path(self.storage, &self.id, self.log.generation)
    }

    pub(super) fn older_paths(&self) -> Vec<PathBuf> {
        self.older.iter().map(|&generation| log_path(self.storage, &self.id, generation)).collect()
    }

    pub(super) fn revision(&self) -> Revision {
        Revision::counted(self.storage, self.log.change)
    }
}

/// `memory:1/<session>`: what stands for the folder of a session.
pub(super) fn session_path(storage: u64, id: &Text) -> PathBuf {
    storage_path(storage).join(session_dir_name(id).unwrap_or_default())
}

/// `memory:1`: what stands for the root.
pub(super) fn storage_path(storage: u64) -> PathBuf {
    PathBuf::from(format!("memory:{storage}"))
}

fn log_path(storage: u64, id: &Text, generation: Generation) -> PathBuf {
    session_path(storage, id).join(log_name(generation, Encoding::Plain))
}
