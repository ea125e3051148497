use super::event::{Check, Event, check_text, text_of};
use super::fault::RowFault;
use super::lex::{self, Members, Opening};
use super::packed::{Packed, PackedKind};
use crate::limits::Limits;
use crate::units::{Generation, Seq, UnixMs};

/// One row as stored: a line, which is one event or a packed run of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a row of any generation is one of the two")]
pub enum PhysicalRow<'a> {
    /// One event.
    Event(Event<'a>),
    /// A run of chunk events, in v0 and v1.
    Packed(Packed<'a>),
}

impl<'a> PhysicalRow<'a> {
    /// Reads `line`, a row of `generation` without its newline.
    ///
    /// Nothing is compared with the rows around it: for that there is [`RowDecoder`](super::RowDecoder). Packed rows are
    /// always checked in full.
    ///
    /// # Errors
    /// [`RowFault::FusedRows`] for a line that is not JSON and has a complete row at its end; else as
    /// [`Event::read`] and [`Packed::read`].
    pub fn read(
        line: &'a [u8],
        generation: Generation,
        check: Check,
        limits: &Limits,
    ) -> Result<Self, RowFault> {
        match Self::read_unfused(line, generation, check, limits) {
            Err(fault @ (RowFault::NotUtf8 { .. } | RowFault::NotJson(_))) => {
                Err(find_fused(line, generation, limits)
                    .map_or(fault, |row_at| RowFault::FusedRows { row_at }))
            }
            read => read,
        }
    }

    fn read_unfused(
        line: &'a [u8],
        generation: Generation,
        check: Check,
        limits: &Limits,
    ) -> Result<Self, RowFault> {
        let text = text_of(line, limits)?;
        if !generation.has_chunk_events() {
            return Event::read_text(text, check, limits).map(Self::Event);
        }
        if let Some(event) = Event::scan_sound(text, check, limits)
            && PackedKind::of(event.event_type()).is_none()
        {
            return Ok(Self::Event(event));
        }
        check_text(text, limits)?;
        let members = Members::of(text).ok_or(RowFault::NotObject)?;
        let packed = members
            .clone()
            .filter(|member| lex::literal(member.name).eq_str("type"))
            .last()
            .and_then(|member| lex::string(member.value))
            .and_then(PackedKind::of);
        match packed {
            Some(_) => Packed::from_members(text, members).map(Self::Packed).map_err(RowFault::Packed),
            None => Event::from_members(text, members).map(Self::Event),
        }
    }

    /// The whole row as stored, without its newline.
    #[must_use]
    pub const fn line(&self) -> &'a str {
        match self {
            Self::Event(event) => event.line(),
            Self::Packed(packed) => packed.line(),
        }
    }

    /// The seq of its only or first event.
    #[must_use]
    pub const fn first_seq(&self) -> Seq {
        match self {
            Self::Event(event) => event.seq(),
            Self::Packed(packed) => packed.first_seq(),
        }
    }

    /// How many events it holds: one or more.
    #[must_use]
    pub const fn event_count(&self) -> u64 {
        match self {
            Self::Event(_) => 1,
            Self::Packed(packed) => packed.event_count(),
        }
    }

    /// The number of events in a log that ends with this row: the seq after its last. Up to 2^53, which is no seq.
    #[must_use]
    pub const fn next_seq(&self) -> u64 {
        self.first_seq().get().saturating_add(self.event_count())
    }

    /// The time of its only or last event.
    #[must_use]
    pub const fn last_time(&self) -> UnixMs {
        match self {
            Self::Event(event) => event.time(),
            Self::Packed(packed) => packed.last_time(),
        }
    }
}

/// Where in `line`, which is not JSON, a complete row of `generation` starts that runs to the line's end.
///
/// Such a line is what an append leaves that followed half a row without a newline. At most one place can do: read
/// backwards from the end, brackets close in one way only. Time O(bytes).
///
/// Spec: `format-spec/04-rows.md`, "Damage".
#[must_use]
pub fn find_fused(line: &[u8], generation: Generation, limits: &Limits) -> Option<usize> {
    let Opening::At(at) = lex::opening(line, usize::MAX) else { return None };
    let row = line.get(at..).filter(|_| at > 0)?;
    PhysicalRow::read_unfused(row, generation, Check::Full, limits).ok().map(|_| at)
}
