//! What a session starts with: its header, its seed, and the marker between what came and what it adds itself.

use super::intake::{Demands, EventFault, Intake};
use super::kind::Kind;
use super::log::Log;
use super::profile::{CutForm, Profile};
use super::request::RequestHeader;
use super::settings::{Admission, Settings};
use crate::json::{Node, Tape};
use crate::row::{Check, Event, Header, NewEvent, RowFault, Seeding};
use crate::units::{Generation, Seq};

/// Why a session cannot start so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateFault {
    /// The header is not of the generation that the settings are for.
    #[error("the header is of generation {header}, and the session would be of {wanted}")]
    Generation {
        /// The header's.
        header: Generation,
        /// The profile's.
        wanted: Generation,
    },
    /// The header says that events are inherited, and there is no seed.
    #[error("a seeded session needs a seed")]
    NoSeed,
    /// The header says that events are inherited, and nobody says how many.
    #[error("a seeded session needs the number of its inherited events")]
    NoCut,
    /// The header says that no events are inherited, and the caller says otherwise.
    #[error("{cut} inherited events in a session that is not seeded")]
    UnseededCut {
        /// The number given.
        cut: u64,
    },
    /// More events would be inherited than there are.
    #[error("{cut} inherited events in a seed of {events}")]
    CutBeyond {
        /// The number given.
        cut: u64,
        /// Events in the seed.
        events: u64,
    },
    /// A new seeded session whose seed is not exactly what it inherits.
    #[error("{cut} inherited events, but a new session inherits its whole seed of {events}")]
    CutInside {
        /// The number given.
        cut: u64,
        /// Events in the seed.
        events: u64,
    },
    /// The header and the markers in the log say different things about what is inherited.
    #[error("header, cut and the session/end-seed of a log do not agree: {}", marked_words(*.marked))]
    Marker {
        /// The last marker of inherited events.
        marked: Option<u64>,
    },
    /// The seed does not begin at the start of a log.
    #[error("a seed begins with event 0, and this one with {base}")]
    Stretch {
        /// Its first seq.
        base: u64,
    },
    /// An event of the seed is not sound.
    #[error("event {index} of the seed: {fault}")]
    Event {
        /// Its position.
        index: u64,
        /// Why.
        #[source]
        fault: EventFault,
    },
}

fn marked_words(marked: Option<u64>) -> String {
    marked.map_or_else(|| "none is marked".to_owned(), |seq| format!("the last is marked at seq {seq}"))
}

/// Where the events of a session come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From the caller: a fork's prefix, or a replay.
    New,
    /// From the store of this very session.
    Stored,
}

/// A session's log at its start, checked, with everything that follows from it.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) log: Log,
    pub(crate) intake: Intake,
    pub(crate) inherited: u64,
    pub(crate) first_live: u64,
    pub(crate) request: Option<RequestHeader>,
    /// The seq of the last `request/context`.
    pub(crate) context: Option<u64>,
}

impl Start {
    /// A session without a seed.
    pub(crate) fn empty(header: &Header, settings: &Settings) -> Result<Self, CreateFault> {
        check_generation(header, settings)?;
        if header.seeding() != Seeding::Unseeded {
            return Err(CreateFault::NoSeed);
        }
        Ok(Self {
            log: Log::new(),
            intake: Intake::new(settings.profile()),
            inherited: 0,
            first_live: 0,
            request: None,
            context: None,
        })
    }

    /// A session with a seed, which may be empty.
    pub(crate) fn of_seed(
        header: &Header,
        seed: &Log,
        cut: Option<u64>,
        origin: Origin,
        settings: &Settings,
    ) -> Result<Self, CreateFault> {
        check_generation(header, settings)?;
        let inherited = check_cut(header, seed, cut, origin)?;
        if seed.base() != 0 {
            return Err(CreateFault::Stretch { base: seed.base() });
        }
        let demands = match origin {
            Origin::Stored => Demands::STORED,
            Origin::New => Demands {
                lossless: true,
                known: settings.admission() == Admission::Readable,
                shapes: true,
                unretired: settings.admission() == Admission::Readable
                    || settings.profile().refuses_retired(),
            },
        };
        let mut start = Self {
            log: seed.clone(),
            intake: Intake::new(settings.profile()),
            inherited,
            first_live: seed.end(),
            request: None,
            context: None,
        };
        let mut tape = Tape::default();
        let (mut last_kind, mut marked) = (None, None);
        for event in seed.iter() {
            let index = event.seq().get();
            let admitted = start
                .intake
                .judge(&event, seed, demands)
                .map_err(|fault| CreateFault::Event { index, fault })?;
            start.intake.commit(admitted);
            match admitted.kind {
                Some(Kind::RequestHeader) => {
                    start.request = RequestHeader::read(&event, &mut tape).or(start.request)
                }
                Some(Kind::RequestContext) => start.context = Some(index),
                Some(Kind::SessionEndSeed) => {
                    let is_tagged = read_marker(&event, &mut tape, settings.profile())
                        .map_err(|fault| CreateFault::Event { index, fault })?;
                    marked = if is_tagged { Some(index) } else { marked };
                }
                _ => {}
            }
            last_kind = admitted.kind;
        }
        check_marker(header, inherited, marked, origin, settings)?;
        start.mark(header, last_kind, origin, settings)?;
        Ok(start)
    }

    /// Appends the marker that the seed calls for.
    fn mark(
        &mut self,
        header: &Header,
        last_kind: Option<Kind>,
        origin: Origin,
        settings: &Settings,
    ) -> Result<(), CreateFault> {
        let is_marked = settings.profile().cut() == CutForm::Marked;
        let data = match origin {
            Origin::New if is_marked && header.seeding() != Seeding::Unseeded => "{\"inherited\":true}",
            _ if last_kind == Some(Kind::SessionEndSeed) => return Ok(()),
            _ => "{}",
        };
        let index = self.log.end();
        let seq = Seq::new(index).expect("a log that fits into memory has fewer than 2^53 events");
        let marker = NewEvent {
            event_type: Kind::SessionEndSeed.name(),
            seq,
            time: settings.now(),
            data,
            ignorable: false,
            source_event_seqs: None,
            surface_op: None,
        };
        let mut row = Vec::new();
        marker.write(&mut row);
        // A clock may show a time that no event can have.
        let event = Event::read(&row, Check::Envelope, settings.limits())
            .map_err(|fault| CreateFault::Event { index, fault: EventFault::Row(fault) })?;
        self.log.push_event(&event);
        Ok(())
    }
}

fn check_generation(header: &Header, settings: &Settings) -> Result<(), CreateFault> {
    let (header, wanted) = (header.generation(), settings.profile().generation());
    if header == wanted { Ok(()) } else { Err(CreateFault::Generation { header, wanted }) }
}

fn check_cut(header: &Header, seed: &Log, cut: Option<u64>, origin: Origin) -> Result<u64, CreateFault> {
    let events = seed.len();
    let cut = match (header.seeding(), cut) {
        (Seeding::Unseeded, cut) => {
            let cut = cut.unwrap_or(0);
            return if cut == 0 { Ok(0) } else { Err(CreateFault::UnseededCut { cut }) };
        }
        (_, None) => return Err(CreateFault::NoCut),
        (Seeding::Counted(stored), Some(cut)) if stored != cut => {
            return Err(CreateFault::Marker { marked: Some(stored) });
        }
        (_, Some(cut)) => cut,
    };
    if cut > events {
        return Err(CreateFault::CutBeyond { cut, events });
    }
    if origin == Origin::New && cut != events {
        return Err(CreateFault::CutInside { cut, events });
    }
    Ok(cut)
}

/// Where a log is marked as inherited up to `marked`, its header and its cut say the same.
fn check_marker(
    header: &Header,
    inherited: u64,
    marked: Option<u64>,
    origin: Origin,
    settings: &Settings,
) -> Result<(), CreateFault> {
    if settings.profile().cut() == CutForm::Counted {
        return Ok(());
    }
    let agrees = match (header.seeding(), origin) {
        (Seeding::Unseeded, _) => marked.is_none(),
        (_, Origin::Stored) => marked == Some(inherited),
        // Markers of ancestors may be inherited; the one that counts is still to come.
        (_, Origin::New) => true,
    };
    if agrees { Ok(()) } else { Err(CreateFault::Marker { marked }) }
}

/// Whether a `session/end-seed` is marked as the end of what is inherited.
fn read_marker(event: &Event<'_>, tape: &mut Tape, profile: &Profile) -> Result<bool, EventFault> {
    let data = tape.parse(event.data().as_bytes(), u32::MAX).map_err(RowFault::NotJson)?;
    if profile.cut() == CutForm::Marked && data.members().is_none() {
        return Err(RowFault::EndSeed.into());
    }
    Ok(data.get("inherited").and_then(Node::as_bool) == Some(true))
}
