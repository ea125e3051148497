//! What all lines of a log come to: how many count, what is wrong, and what follows from it.
//!
//! Spec: `format-spec/04-rows.md`, "Strict and recoverable reading" and "Damage".

use std::ops::ControlFlow;
use std::path::Path;

use super::log::View;
use crate::error::{Damage, Error, Result, Unsupported};
use crate::format::inventory::Inventory;
use crate::format::{Restore, Validation};
use crate::limits::Limits;
use crate::row::{Check, DecodeCause, Evidence, Header, PhysicalRow, Recovery, RowDecoder, RowPlace};
use crate::store::events::Events;
use crate::store::layout::printable;
use crate::store::snapshot::header_error;
use crate::units::{Generation, UnixMs};

/// The judgement of one state of a log.
#[derive(Debug)]
pub(super) struct Judged {
    /// The header in the current generation.
    pub(super) header: Header,
    /// Events that are served.
    pub(super) events: u64,
    pub(super) inherited: u64,
    /// Time of the last of them.
    pub(super) last_time: Option<UnixMs>,
    pub(super) verdict: Verdict,
    /// The first served event that a reader has to understand and does not know.
    unknown: Option<(u64, String)>,
    /// The events, where the log is of an older generation.
    pub(super) converted: Option<Events>,
}

/// The verdict on a log as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Sound,
    /// The last append has no end.
    Torn,
    /// A row is bad, and nothing proves that it had been committed: read up to there, and never written to.
    DamagedTail(Bad),
    Corrupt(Bad),
    /// A row is intact and not understood.
    Unsupported(Bad),
}

/// What is wrong, and the text offset of the line that it is wrong with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bad {
    pub(super) at: u64,
    pub(super) damage: Damage,
}

impl Judged {
    /// Refuses damage before the end, and types that nobody knows.
    pub(super) fn require(&self, path: &Path) -> Result<()> {
        self.require_known(path)?;
        self.require_sound(path)
    }

    /// As [`Judged::require`], and refuses a damaged end as well.
    pub(super) fn require_appendable(&self, path: &Path) -> Result<()> {
        self.require(path)?;
        match self.verdict {
            Verdict::DamagedTail(bad) => Err(self.damaged_tail(path, bad)),
            _ => Ok(()),
        }
    }

    /// Whether nothing is wrong with it.
    pub(super) fn is_clean(&self) -> bool {
        self.verdict == Verdict::Sound && self.unknown.is_none()
    }

    /// Refuses damage before the end.
    pub(super) fn require_sound(&self, path: &Path) -> Result<()> {
        let path = || path.to_path_buf();
        match self.verdict {
            Verdict::Sound | Verdict::Torn | Verdict::DamagedTail(_) => Ok(()),
            Verdict::Corrupt(Bad { at, damage }) => {
                Err(Error::Corruption { path: path(), offset: at, intact: self.events, source: damage })
            }
            Verdict::Unsupported(Bad { at, damage }) => Err(Error::FormatUnsupported {
                path: path(),
                reason: Unsupported::Shape { at, source: damage },
            }),
        }
    }

    fn require_known(&self, path: &Path) -> Result<()> {
        let Some((seq, event_type)) = &self.unknown else { return Ok(()) };
        Err(unknown_type(path, *seq, event_type.clone()))
    }

    pub(super) fn damaged_tail(&self, path: &Path, bad: Bad) -> Error {
        let (path, intact) = (path.to_path_buf(), self.events);
        Error::DamagedTail { path, offset: bad.at, intact, source: bad.damage }
    }
}

/// The refusal of an event that has to be understood.
pub(super) fn unknown_type(path: &Path, seq: u64, event_type: String) -> Error {
    let reason = Unsupported::EventType { seq, event_type };
    Error::FormatUnsupported { path: path.to_path_buf(), reason }
}

/// The header of the log as it is stored.
///
/// # Errors
/// What is wrong with it.
pub(super) fn stored_header(view: &View, limits: &Limits) -> Result<Header> {
    Header::parse(&view.log.header, limits).map_err(|fault| header_error(&view.path(), fault))
}

/// Checks that the log stands where its header says.
///
/// # Errors
/// [`Error::IdentityMismatch`].
pub(super) fn check_identity(view: &View, header: &Header) -> Result<()> {
    let mismatch = |what| Err(Error::IdentityMismatch { path: view.path(), what });
    let (named, stored) = (view.log.generation, header.generation());
    if named != stored {
        return mismatch(format!("the log stands as generation {named}, the header says {stored}"));
    }
    if *header.id() != view.id {
        let (wanted, found) = (printable(&view.id), printable(header.id()));
        return mismatch(format!("session {wanted} was asked for, the header's id is {found}"));
    }
    Ok(())
}

/// Reads the whole log, and converts it if it is of an older generation.
///
/// # Errors
/// What is wrong with the header, and [`Error::Refused`] for a log that does not convert. Damage is in the answer.
pub(super) fn judge(view: &View, limits: &Limits) -> Result<Judged> {
    let header = stored_header(view, limits)?;
    if header.generation() == Generation::CURRENT {
        Ok(decode(view, header, limits))
    } else {
        convert(view, limits)
    }
}

/// Reads the rows of a log of any generation as they are stored.
pub(super) fn decode(view: &View, header: Header, limits: &Limits) -> Judged {
    let generation = header.generation();
    let evidence = if generation.has_chunk_events() { Evidence::Decoded } else { Evidence::Parsed };
    let mut decoder =
        RowDecoder::new(generation, Recovery::Recoverable).with_limits(*limits).with_evidence(evidence);
    let vocabulary = (generation == Generation::CURRENT).then(|| Inventory::of(generation));
    let mut last_time = None;
    let mut unknown = None;
    let mut cause = None;
    let mut line = 1_u64;
    let mut offset = (view.log.header.len() as u64).saturating_add(1);
    view.log.rows.each(0, view.log.lines, &mut |text| {
        line = line.saturating_add(1);
        let place = RowPlace { line, offset };
        offset = offset.saturating_add(text.len() as u64).saturating_add(1);
        match decoder.push(place, text) {
            Ok(Some(row)) => {
                last_time = Some(row.last_time());
                let event =
                    vocabulary.filter(|_| unknown.is_none()).and_then(|known| known.unknown_event(&row));
                unknown = unknown.take().or_else(|| {
                    event.map(|event| (event.seq().get(), printable(&event.event_type().to_text())))
                });
                ControlFlow::Continue(())
            }
            // Dropped; what follows decides what that means.
            Ok(None) => ControlFlow::Continue(()),
            Err(fault) => {
                cause = Some(fault.cause);
                ControlFlow::Break(())
            }
        }
    });
    let cut = decoder.finish(&header);
    let verdict = match decoder.issue() {
        Some(issue) => {
            let bad = Bad { at: issue.place.offset, damage: Damage::Row(issue.fault) };
            match cause {
                Some(DecodeCause::Refused) => Verdict::Unsupported(bad),
                _ if !issue.fault.kind().is_damage() => Verdict::Unsupported(bad),
                Some(_) => Verdict::Corrupt(bad),
                None => Verdict::DamagedTail(bad),
            }
        }
        None => match cut {
            Err(fault) => Verdict::Corrupt(Bad { at: 0, damage: Damage::Cut(fault) }),
            Ok(_) if view.log.has_an_end() => Verdict::Sound,
            Ok(_) => Verdict::Torn,
        },
    };
    let (events, inherited) = (decoder.events(), cut.unwrap_or(0));
    Judged { header, events, inherited, last_time, verdict, unknown, converted: None }
}

fn convert(view: &View, limits: &Limits) -> Result<Judged> {
    let refused = |source| Error::Refused { path: view.path(), source };
    let mut restore = Restore::new(&view.log.header, Recovery::Recoverable, Validation::Transformed, limits)
        .map_err(refused)?;
    let mut events = Events::default();
    let mut last_time = None;
    let mut text = Vec::new();
    let mut sink = |row: &crate::format::TargetRow<'_>| {
        text.clear();
        row.write_to(&mut text);
        events.push_line(&text);
        last_time = Some(row.time());
        ControlFlow::Continue(())
    };
    let mut refusal = None;
    view.log.rows.each(0, view.log.lines, &mut |line| match restore.push(line, &mut sink) {
        Ok(flow) => flow,
        Err(found) => {
            refusal = Some(found);
            ControlFlow::Break(())
        }
    });
    let restored = match refusal {
        Some(refusal) => Err(refusal),
        None => restore.finish(&mut sink),
    };
    let restored = restored.map_err(refused)?;
    Ok(Judged {
        header: restore.header().clone(),
        events: restored.events,
        inherited: restored.inherited,
        last_time,
        verdict: if view.log.has_an_end() { Verdict::Sound } else { Verdict::Torn },
        unknown: None,
        converted: Some(events),
    })
}

/// Events and time of the last line, if it is a row.
pub(super) fn last_row(view: &View, generation: Generation, limits: &Limits) -> Option<(u64, UnixMs)> {
    let line = view.log.rows.line(view.log.lines.checked_sub(1)?)?;
    let row = PhysicalRow::read(&line, generation, Check::Full, limits).ok()?;
    Some((row.next_seq(), row.last_time()))
}
