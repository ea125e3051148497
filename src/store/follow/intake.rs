//! What a look takes out of a log: the rows behind those that were delivered, if these are still the same.

use std::hash::{BuildHasher as _, DefaultHasher, Hasher as _, RandomState};
use std::ops::ControlFlow;
use std::sync::LazyLock;

use crate::row::PhysicalRow;
use crate::store::events::Events;
use crate::store::scan::{Item, Place};

/// A fingerprint of rows in order, 64 bits wide. Keyed at random, so no log is made to collide.
#[derive(Clone, Debug)]
pub(super) struct RowsHash {
    rows: DefaultHasher,
    last: Option<u64>,
}

static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl RowsHash {
    /// That of no rows.
    pub(super) fn new() -> Self {
        Self { rows: KEYS.build_hasher(), last: None }
    }

    /// Adds a row.
    pub(super) fn push(&mut self, row: &[u8]) {
        self.rows.write_usize(row.len());
        self.rows.write(row);
        self.last = Some(hash_of(row));
    }

    /// Whether both saw the same rows.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.rows.finish() == other.rows.finish()
    }

    /// The fingerprint of the last row.
    pub(super) fn last(&self) -> Option<u64> {
        self.last
    }
}

/// The fingerprint of one row.
pub(super) fn hash_of(row: &[u8]) -> u64 {
    let mut hasher = KEYS.build_hasher();
    hasher.write(row);
    hasher.finish()
}

/// Takes the items of a scan: first the proof that what was delivered still stands there, then what is new.
#[derive(Debug)]
pub(super) struct Intake<'d> {
    first: u64,
    next: u64,
    proof: Proof<'d>,
    events: Events,
    /// Where the last row stands that was proved or taken.
    at: Option<u64>,
    /// How much of both is committed.
    committed: (usize, Option<u64>),
    block: Option<u64>,
    batch_bytes: usize,
}

#[derive(Debug)]
enum Proof<'d> {
    /// The row before `next` has this fingerprint.
    Row(u64),
    /// The rows `first..next` have this one.
    Rows {
        seen: Box<RowsHash>,
        delivered: &'d RowsHash,
    },
    Done,
    Failed,
}

impl<'d> Intake<'d> {
    /// Of a scan that begins with the block of the row before `next`, whose fingerprint is `hash`.
    pub(super) fn behind_row(first: u64, next: u64, hash: u64, batch_bytes: usize) -> Self {
        Self::new(first, next, Proof::Row(hash), batch_bytes)
    }

    /// Of a scan that begins at or before row `first`.
    pub(super) fn behind_rows(first: u64, next: u64, delivered: &'d RowsHash, batch_bytes: usize) -> Self {
        let seen = Box::new(RowsHash::new());
        Self::new(first, next, Proof::Rows { seen, delivered }, batch_bytes)
    }

    fn new(first: u64, next: u64, proof: Proof<'d>, batch_bytes: usize) -> Self {
        // Nothing was delivered: any log goes on from there.
        let proof = if first == next { Proof::Done } else { proof };
        Self {
            first,
            next,
            proof,
            events: Events::default(),
            at: None,
            committed: (0, None),
            block: None,
            batch_bytes,
        }
    }

    /// Whether the log holds what was delivered.
    pub(super) fn is_proved(&self) -> bool {
        matches!(self.proof, Proof::Done)
    }

    /// Whether there is nothing new.
    pub(super) fn is_empty(&self) -> bool {
        self.committed.0 == 0
    }

    /// All that was taken so far is committed.
    pub(super) fn commit(&mut self) {
        self.committed = (self.events.len(), self.at);
    }

    /// The committed events, and where the last delivered row stands, if that is known anew.
    pub(super) fn finish(mut self) -> (Events, Option<u64>) {
        self.events.truncate(self.committed.0);
        (self.events, self.committed.1)
    }

    /// Takes the next item.
    pub(super) fn item(&mut self, item: &Item<'_>) -> ControlFlow<()> {
        match item {
            Item::Row { row, place } => self.row(row, *place),
            _ => ControlFlow::Continue(()),
        }
    }

    fn row(&mut self, row: &PhysicalRow<'_>, place: Place) -> ControlFlow<()> {
        if self.block != Some(place.block) {
            self.block = Some(place.block);
            if place.after_commit {
                self.commit();
                if self.events.as_bytes().len() >= self.batch_bytes {
                    return ControlFlow::Break(());
                }
            }
        }
        let seq = row.first_seq().get();
        let line = row.line().as_bytes();
        if seq < self.first {
            return ControlFlow::Continue(());
        }
        if seq < self.next {
            return self.prove(seq, line, place);
        }
        let due = self.next.saturating_add(self.events.len() as u64);
        if !self.is_proved() || seq != due {
            self.proof = Proof::Failed;
            return ControlFlow::Break(());
        }
        self.events.push_line(line);
        self.at = Some(place.file_at);
        ControlFlow::Continue(())
    }

    fn prove(&mut self, seq: u64, line: &[u8], place: Place) -> ControlFlow<()> {
        let is_last = seq.saturating_add(1) == self.next;
        let holds = match &mut self.proof {
            Proof::Row(hash) => !is_last || hash_of(line) == *hash,
            Proof::Rows { seen, delivered } => {
                seen.push(line);
                !is_last || seen.is_like(delivered)
            }
            Proof::Done => true,
            Proof::Failed => false,
        };
        if !holds {
            self.proof = Proof::Failed;
            return ControlFlow::Break(());
        }
        if is_last {
            self.proof = Proof::Done;
            self.at = Some(place.file_at);
        }
        ControlFlow::Continue(())
    }
}
