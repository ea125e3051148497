//! A line of an old log, read as far as no other line has a say in it.

use super::inventory::{Inventory, Kind, Place};
use super::physical::{Envelope, count};
use super::v1::{self, ChunkKind};
use super::written::{Deltas, WrittenChunk};
use crate::json::{Node, SyntaxErrorKind, Tape};
use crate::limits::Limits;
use crate::units::Generation;

/// How the lines of one log are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineReader {
    generation: Generation,
    limits: Limits,
}

/// What a line is by itself. Values are on the tape that it was read with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reading<'l> {
    /// Deltas as the original writes them; nothing is on the tape.
    Deltas(Deltas<'l>),
    /// A chunk event as the original writes it, with the text of its chunk, which fits its schema.
    Chunk { written: WrittenChunk<'l>, text: &'l str, kind: ChunkKind, is_canonical: bool },
    /// Any value, and what is known of the payload of the event that it may be.
    Row { text: &'l str, payload: Payload },
    /// No JSON that a row may be, and why.
    Unreadable(&'static str),
}

/// What is known of a payload without its log. Whatever is not known is found out when its turn comes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Payload {
    /// It fits its schema.
    pub(super) is_sound: bool,
    /// It is canonical text.
    pub(super) is_canonical: bool,
}

impl<'l> Reading<'l> {
    /// The text of the value that is on the tape, if one is.
    pub(super) fn text(&self) -> Option<&'l str> {
        match self {
            Self::Chunk { text, .. } | Self::Row { text, .. } => Some(text),
            Self::Deltas(_) | Self::Unreadable(_) => None,
        }
    }
}

impl LineReader {
    /// The reader of a log of `generation`, which is v0 or v1.
    pub(super) fn new(generation: Generation, limits: &Limits) -> Self {
        Self { generation, limits: *limits }
    }

    /// Reads a line, without its newline. Time O(bytes).
    pub(super) fn read<'l>(&self, line: &'l [u8], tape: &mut Tape) -> Reading<'l> {
        if self.is_too_long(line) {
            return Reading::Unreadable(TOO_LONG);
        }
        if let Some(deltas) = Deltas::read(line) {
            return Reading::Deltas(deltas);
        }
        if let Some(written) = WrittenChunk::read(line)
            && let Ok(text) = tape.index(written.chunk, self.limits.nesting_max.saturating_sub(2))
            && let Some(chunk) = tape.root(text)
            && Inventory::v1().is_chunk(chunk, Place { generation: Generation::V1, seq: written.seq })
        {
            let (kind, is_canonical) = (ChunkKind::of(chunk), chunk.is_canonical());
            return Reading::Chunk { written, text, kind, is_canonical };
        }
        self.read_generally(line, tape)
    }

    /// [`read`](Self::read) without a look at how the original writes lines.
    pub(super) fn read_generally<'l>(&self, line: &'l [u8], tape: &mut Tape) -> Reading<'l> {
        if self.is_too_long(line) {
            return Reading::Unreadable(TOO_LONG);
        }
        match tape.index(line, self.limits.nesting_max) {
            Ok(text) => Reading::Row { text, payload: Payload::default() },
            Err(error) if error.kind == SyntaxErrorKind::NotUtf8 => {
                Reading::Unreadable("the line is not UTF-8")
            }
            Err(_) => Reading::Unreadable("the line is not JSON"),
        }
    }

    /// [`read`](Self::read) by one who has the time to look at payloads as well.
    pub(super) fn read_closely<'l>(&self, line: &'l [u8], tape: &mut Tape) -> Reading<'l> {
        match self.read(line, tape) {
            Reading::Row { text, .. } => {
                let payload = tape.root(text).and_then(|row| self.payload(row)).unwrap_or_default();
                Reading::Row { text, payload }
            }
            other => other,
        }
    }

    fn payload(&self, row: Node<'_>) -> Option<Payload> {
        let envelope = Envelope::of(row)?;
        let data = envelope.data?;
        let is_canonical = data.is_canonical();
        // Payloads of v0 are checked after they were renewed.
        let kind = (self.generation == Generation::V1).then(|| kind_of(&envelope)).flatten();
        let kind = kind.filter(|kind| *kind != Kind::AssistantChunk && Inventory::v1().has(*kind));
        // An event is accepted only under the seq that it states.
        let seq = envelope.seq.and_then(count);
        let is_sound = kind.zip(seq).is_some_and(|(kind, seq)| v1::check_payload(kind, data, seq).is_ok());
        Some(Payload { is_sound, is_canonical })
    }

    fn is_too_long(&self, line: &[u8]) -> bool {
        u64::try_from(line.len()).is_ok_and(|bytes| bytes >= self.limits.row_bytes_max)
    }
}

/// The type of an event, if it is in an inventory.
pub(super) fn kind_of(envelope: &Envelope<'_>) -> Option<Kind> {
    let name = envelope.type_name()?;
    match name.as_plain() {
        Some(name) => Kind::from_name(name),
        None => Kind::from_name(&name.to_string_lossy()),
    }
}

const TOO_LONG: &str = "the line is longer than a row may be";
