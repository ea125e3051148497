//! The verdict on one log, session or folder: what `verify` says of it, in JSON and in words.

use std::ffi::OsStr;
use std::path::PathBuf;

use seslog::container::{Encoding, Skim};
use seslog::row::Header;
use seslog::store::layout::{Beside, classify_beside, parse_log_name};
use seslog::store::{FINDINGS_MAX, LogFile, State};
use seslog::units::Generation;

use crate::failure::Failure;
use crate::json::Object;
use crate::out::{Out, clean, clean_path, counted, human_bytes};
use crate::report::{Spot, state_style};
use crate::vocabulary::Unknown;

/// What is said of one log, session or folder.
#[derive(Debug)]
pub(crate) struct Verdicts {
    pub(crate) path: PathBuf,
    pub(crate) state: State,
    pub(crate) generation: Option<Generation>,
    pub(crate) encoding: Option<Encoding>,
    pub(crate) frames: Option<u64>,
    pub(crate) rows: Option<u64>,
    pub(crate) events: Option<u64>,
    pub(crate) size: Option<u64>,
    pub(crate) content: Option<u64>,
    /// Events before the tear, and where it is and how long.
    pub(crate) torn: Option<(u64, u64, u64)>,
    pub(crate) error: Option<String>,
    pub(crate) error_at: Option<u64>,
    pub(crate) damage: Vec<Spot>,
    pub(crate) damage_total: u64,
    pub(crate) strays: Vec<PathBuf>,
    pub(crate) older: Vec<PathBuf>,
    pub(crate) quick: bool,
}

impl Verdicts {
    /// Nothing but a state.
    pub(crate) fn of(path: PathBuf, state: State) -> Self {
        Self {
            path,
            state,
            generation: None,
            encoding: None,
            frames: None,
            rows: None,
            events: None,
            size: None,
            content: None,
            torn: None,
            error: None,
            error_at: None,
            damage: Vec::new(),
            damage_total: 0,
            strays: Vec::new(),
            older: Vec::new(),
            quick: false,
        }
    }

    /// A log that was looked over and is clean in that sense.
    pub(crate) fn skimmed(log: &LogFile, header: &Header, skim: Skim) -> Self {
        Self {
            generation: Some(header.generation()),
            encoding: Some(log.encoding()),
            frames: (log.encoding() != Encoding::Plain).then_some(skim.frames),
            rows: skim.lines.map(|lines| lines.saturating_sub(1)),
            events: skim.events,
            size: Some(log.stamp().size),
            quick: true,
            ..Self::of(log.path().to_path_buf(), State::Ok)
        }
    }

    /// One JSON object, as a line.
    pub(crate) fn json(&self) -> Vec<u8> {
        let mut object = Object::new();
        object.path("path", &self.path).string("state", self.state.as_str());
        object.opt_number("generation", self.generation.map(Generation::get));
        if let Some(encoding) = self.encoding {
            object.string("encoding", encoding.name());
        }
        object
            .opt_number("frames", self.frames)
            .opt_number("rows", self.rows)
            .opt_number("events", self.events);
        object.opt_number("sizeBytes", self.size).opt_number("contentBytes", self.content);
        if let Some((events, bytes, at)) = self.torn {
            object.number("recoverableEvents", events).number("tornBytes", bytes).number("tornAt", at);
        }
        if let Some(error) = &self.error {
            object.string("error", error);
        }
        object.opt_number("errorAt", self.error_at);
        if !self.damage.is_empty() {
            object.objects("damage", self.damage.iter().map(Spot::object));
        }
        if self.damage_total > self.damage.len() as u64 {
            object.number("damageTotal", self.damage_total);
        }
        if !self.strays.is_empty() {
            object.paths("strays", &self.strays);
        }
        if !self.older.is_empty() {
            object.paths("older", &self.older);
        }
        if self.quick {
            object.flag("quick", true);
        }
        object.into_line()
    }

    /// Lines for people.
    pub(crate) fn write(&self, out: &mut Out) -> Result<(), Failure> {
        let mut facts = Vec::new();
        facts.extend(self.generation.map(|generation| generation.to_string()));
        facts.extend(self.encoding.map(|encoding| encoding.to_string()));
        facts.extend(self.frames.map(|frames| counted(frames, "frame", "frames")));
        facts.extend(self.rows.map(|rows| counted(rows, "row", "rows")));
        facts.extend(self.events.map(|events| counted(events, "event", "events")));
        facts.extend(self.size.map(human_bytes));
        facts.extend(self.quick.then(|| "quick look".to_owned()));
        if !self.older.is_empty() {
            facts.push(format!(
                "{} in order",
                counted(self.older.len() as u64, "older generation", "older generations")
            ));
        }
        let is_log = self.encoding.is_some() || self.state != State::Ok;
        let facts = if facts.is_empty() { String::new() } else { format!("  {}", facts.join(", ")) };
        let state = if is_log {
            out.styled(state_style(self.state), &format!("{:<11}", self.state.as_str()))
        } else {
            format!("{:<11}", "")
        };
        out.line(&format!("{state} {}{facts}", clean_path(&self.path)))?;
        let indent = |text: &str| format!("{:<11}   {}", "", clean(text));
        if let Some((events, bytes, at)) = self.torn {
            out.line(&indent(&format!(
                "{} from byte {at} on; {} recoverable",
                counted(bytes, "torn byte", "torn bytes"),
                counted(events, "event is", "events are")
            )))?;
        }
        for spot in self.damage.iter().filter(|spot| self.torn.is_none() || spot.kind != "torn") {
            out.line(&indent(&spot.line_text()))?;
        }
        let hidden = self.damage_total.saturating_sub(self.damage.len() as u64);
        if hidden > 0 {
            out.line(&indent(&format!("and {hidden} more")))?;
        }
        for stray in &self.strays {
            let name = stray.file_name().unwrap_or_default().to_string_lossy();
            let is_left_over = stray.file_name().is_some_and(is_left_over);
            let word = if is_left_over { "left over from an interrupted write" } else { "stray" };
            out.line(&indent(&format!("{word}: {name}")))?;
        }
        Ok(())
    }
}

fn is_left_over(name: &OsStr) -> bool {
    parse_log_name(name).is_none() && classify_beside(name) == Beside::Temporary
}

/// What a scan of one log came upon.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) events: u64,
    pub(crate) unknown: Vec<Unknown>,
    pub(crate) unknown_total: u64,
}

impl Seen {
    /// Adds an event that is not understood.
    pub(crate) fn note(&mut self, unknown: Unknown) {
        self.unknown_total = self.unknown_total.saturating_add(1);
        if self.unknown.len() < FINDINGS_MAX {
            self.unknown.push(unknown);
        }
    }
}
