//! Sessions and findings in words and in JSON, the same in every verb.

use std::path::Path;

use anstyle::{AnsiColor, Style};
use seslog::container::Fault;
use seslog::row::{HeaderFault, RowFault};
use seslog::store::{Finding, Report, Snapshot, State, Verdict};
use seslog::{Damage, Error};

use crate::failure::chain;
use crate::json::Object;
use crate::root::Root;
use crate::vocabulary::Unknown;

/// A session as `ls` and `stat` give it.
pub(crate) fn session(snapshot: &Snapshot) -> Object {
    let mut object = Object::new();
    if let Some(header) = &snapshot.header {
        object.text("id", header.id());
    }
    object.path("path", &snapshot.path);
    if let Some(project) = &snapshot.project {
        object.string("project", project);
    }
    if let Some(header) = &snapshot.header {
        if let Some(cwd) = header.cwd() {
            object.text("cwd", cwd);
        }
        object.signed("createdAt", header.created_at().get());
        if let Some(parent) = header.parent_session() {
            object.text("parentSession", parent);
        }
        if header.is_origin_subagent() {
            object.string("origin", "subagent");
        }
        if let Some(preset) = header.agent_preset() {
            object.text("agentPreset", preset);
        }
        object.number("delegationDepth", header.delegation_depth());
        object.flag("isSeeded", header.seeding() != seslog::row::Seeding::Unseeded);
    }
    object.opt_number("generation", snapshot.generation.map(seslog::units::Generation::get));
    if let Some(encoding) = snapshot.encoding {
        object.string("encoding", encoding.name());
    }
    object.opt_number("eventCount", snapshot.event_count).opt_number("sizeBytes", snapshot.size_bytes);
    if let Some(time) = snapshot.last_time {
        object.signed("lastTime", time.get());
    }
    if let Some(revision) = &snapshot.revision {
        object.string("revision", &revision.to_string());
    }
    object.string("state", snapshot.state.as_str());
    object
}

/// The colour of a state.
pub(crate) fn state_style(state: State) -> Style {
    match state {
        State::Ok => AnsiColor::Green.on_default(),
        State::Torn | State::Empty => AnsiColor::Yellow.on_default(),
        _ => AnsiColor::Red.on_default().bold(),
    }
}

/// What is wrong with the log at `path`, in one line, with a remark where the bytes explain themselves.
pub(crate) fn error_text(root: &Root, path: &Path, state: State, error: &Error) -> String {
    if let (State::Empty, Error::Corruption { .. }) = (state, error) {
        return format!("{}: the log is empty: it has no header, and with it no identity", path.display());
    }
    let mut text = chain(error);
    let at_the_head = matches!(error, Error::Corruption { offset: 0, .. });
    if at_the_head && starts_with_a_mark(root, path) {
        text.push_str("; the file begins with a UTF-8 byte order mark, which some editor put there");
    }
    text
}

fn starts_with_a_mark(root: &Root, path: &Path) -> bool {
    let mut first = [0; 3];
    let file = root.disk().open(path, seslog::container::disk::Access::Read);
    file.and_then(|file| file.read_exact_at(0, &mut first)).is_ok() && first == [0xef, 0xbb, 0xbf]
}

/// One place of damage, as `verify` gives it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spot {
    /// Kind of damage, one of the contract's words.
    pub(crate) kind: &'static str,
    /// Byte offset in the file.
    pub(crate) at: Option<u64>,
    /// Number of the line, the header being 1.
    pub(crate) line: Option<u64>,
    /// The seq that was due there.
    pub(crate) seq: Option<u64>,
    /// What the place demands, and what it has, where both are numbers.
    pub(crate) expected: Option<u64>,
    pub(crate) got: Option<u64>,
    /// Byte offset in the text of the whole log.
    pub(crate) text_at: Option<u64>,
    /// Number of the frame.
    pub(crate) frame: Option<u64>,
    /// Sound rows on either side.
    pub(crate) rows_before: Option<u64>,
    pub(crate) rows_after: Option<u64>,
    /// The same in words.
    pub(crate) message: String,
}

impl Spot {
    /// The damage of a finding; `rows` is how many rows the log has in all.
    pub(crate) fn of(finding: &Finding, rows: u64) -> Self {
        let (expected, got) = numbers(&finding.damage);
        Self {
            kind: kind(&finding.damage),
            at: Some(finding.at),
            line: finding.place.map(|place| place.line),
            seq: Some(finding.expected_seq),
            expected,
            got,
            text_at: finding.place.map(|place| place.text_at),
            frame: finding.frame,
            rows_before: Some(finding.rows_before),
            rows_after: Some(rows.saturating_sub(finding.rows_before)),
            message: words(&finding.damage),
        }
    }

    /// The torn end of a log.
    pub(crate) fn torn(at: u64, events: u64, message: String) -> Self {
        Self { kind: "torn", at: Some(at), seq: Some(events), message, ..Self::default() }
    }

    /// An event that must be understood and is not. The bytes are sound.
    pub(crate) fn unknown_type(unknown: &Unknown, has_frames: bool) -> Self {
        Self {
            kind: "unknown type",
            at: Some(unknown.place.file_at),
            line: Some(unknown.place.line),
            seq: Some(unknown.seq),
            text_at: Some(unknown.place.text_at),
            frame: has_frames.then_some(unknown.place.block),
            message: format!("the required type {} is not known to this build", unknown.event_type),
            ..Self::default()
        }
    }

    /// The members of the contract, and a few more.
    pub(crate) fn object(&self) -> Object {
        let mut object = Object::new();
        object.string("kind", self.kind).opt_number("at", self.at).opt_number("line", self.line);
        object.opt_number("seq", self.seq).opt_number("expected", self.expected).opt_number("got", self.got);
        object.opt_number("textAt", self.text_at).opt_number("frame", self.frame);
        object.opt_number("rowsBefore", self.rows_before).opt_number("rowsAfter", self.rows_after);
        object.string("message", &self.message);
        object
    }

    /// The place and the damage in one line.
    pub(crate) fn line_text(&self) -> String {
        let mut text = self.kind.to_owned();
        let mut place = |word: &str, number: Option<u64>| {
            if let Some(number) = number {
                text.push_str(&format!(", {word} {number}"));
            }
        };
        place("byte", self.at);
        place("frame", self.frame);
        place("line", self.line);
        place("text byte", self.text_at.filter(|_| self.frame.is_some()));
        place("where seq", self.seq);
        if self.seq.is_some() {
            text.push_str(" was due");
        }
        format!("{text}: {}", self.message)
    }
}

/// The word for a kind of damage.
pub(crate) fn kind(damage: &Damage) -> &'static str {
    match damage {
        Damage::Bytes(fault) if fault.is_unsupported() => "unsupported",
        Damage::Bytes(fault) if fault.is_checksum() => "checksum",
        Damage::Bytes(Fault::Truncated) => "torn",
        Damage::Header(HeaderFault::NotUtf8 { .. }) => "not UTF-8",
        Damage::Header(HeaderFault::NotJson(_)) => "not JSON",
        Damage::Header(HeaderFault::UnknownMember { .. }) => "unknown member",
        Damage::Header(HeaderFault::Newer { .. }) => "unsupported",
        Damage::Row(fault) => fault.kind().as_str(),
        _ => "structure",
    }
}

/// What a place demands, and what it has.
fn numbers(damage: &Damage) -> (Option<u64>, Option<u64>) {
    match *damage {
        Damage::Row(RowFault::Gap { expected, got } | RowFault::Repeat { expected, got }) => {
            (Some(expected.get()), Some(got.get()))
        }
        Damage::Bytes(Fault::Chain { expected, got, .. }) => (Some(expected), Some(got)),
        Damage::Bytes(Fault::EventCount { stored, got }) => (Some(got), Some(stored)),
        Damage::Bytes(Fault::ContentSize { stated, got }) => (Some(stated), Some(got)),
        Damage::Bytes(Fault::TrailerCrc { stored, computed } | Fault::BodyCrc { stored, computed }) => {
            (Some(u64::from(stored)), Some(u64::from(computed)))
        }
        _ => (None, None),
    }
}

/// The damage in words, with what is missing where numbers are.
pub(crate) fn words(damage: &Damage) -> String {
    let text = damage.to_string();
    match *damage {
        Damage::Row(RowFault::Gap { expected, got }) => {
            let missing = got.get().saturating_sub(expected.get());
            format!("{text} ({missing} missing, from {expected} on)")
        }
        _ => text,
    }
}

/// How a log is called whose scan gave `verdict`, if its name and its place are in order.
pub(crate) fn state_of(report: &Report, is_empty: bool) -> State {
    match report.verdict {
        Verdict::Corrupt if is_empty => State::Empty,
        verdict => verdict.into(),
    }
}
