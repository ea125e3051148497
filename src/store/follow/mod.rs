//! Following a log that somebody else writes: its committed events, each once, in order, whatever happens to the file.
//!
//! [`Follower::poll`] looks once and never waits; [`Watch`] waits until it is worth looking again.

mod intake;
mod place;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::intake::{Intake, RowsHash, hash_of};
use self::place::FollowPlace;
pub use self::watch::{Waker, Watch};
use super::events::Events;
use super::log_file::{LogFile, ReadMode};
use super::range::count_events;
use super::restore::restore_range_of;
use super::scan::{Item, ScanOptions, scan, scan_behind, scan_from};
use super::snapshot::{FileRevision, Revision};
use super::store::{FileStore, current_header};
use crate::container::Encoding;
use crate::container::disk::Disk;
use crate::error::{Error, Result};
use crate::json::Text;
use crate::limits::Limits;
use crate::row::{Check, Header};
use crate::units::{Generation, UnixMs};

/// Which event a follower begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// This one, be it stored already or not.
    Seq(u64),
    /// So many before the end of what is committed when the log is first seen.
    Last(u64),
}

/// What a look at a followed log found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Update {
    /// A log is there, and delivery begins. The first update there is; another one means that all that was delivered before is
    /// void.
    Begin(Beginning),
    /// The next events.
    Events {
        /// Seq of the first one: one above that of the last one delivered.
        first_seq: u64,
        /// The events, at least one, in the current generation.
        events: Events,
    },
    /// The log is gone. If it comes back with what was delivered (it was moved), delivery goes on; else it begins anew.
    Gone,
}

/// Where delivery begins, and why.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Beginning {
    /// The log's header, in the current generation.
    pub header: Header,
    /// Seq of the first event that will be delivered.
    pub first_seq: u64,
    /// Why it begins.
    pub cause: Cause,
}

/// Why a delivery begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// It is the first.
    First,
    /// Another session stands there: it was deleted and created again.
    OtherSession,
    /// The log does not hold the events that were delivered: it was replaced, or an append that never was acknowledged was undone.
    OtherEvents,
}

/// Delivers the committed events of one log, each once, in order.
///
/// What counts as committed: in an indexed log everything up to the last COMMIT, in a zstd log complete frames, in a plain log
/// complete lines. The position moves past delivered events only. It is kept as the place of the last one delivered and a
/// fingerprint of that row, so a look costs a listing of the folder, a stat and, where the file changed, the last block again
/// and what is new. When the file is another (a compaction, a copy put in its place, a migrated successor, a session that
/// was moved) or its rows are not those that were there, the log is read from the first delivered event on and compared with a
/// fingerprint of all that was delivered: it goes on where it was if they are the same, and says [`Update::Begin`] if not.
///
/// A log of an older generation is delivered as the current one. It is converted as a whole at each change, and an event whose
/// conversion depends on what comes later begins the delivery anew.
///
/// Event types are not looked at: a type that this build does not know is delivered like any other.
#[derive(Debug)]
pub struct Follower {
    disk: Arc<dyn Disk>,
    place: FollowPlace,
    start: Start,
    limits: Limits,
    batch_bytes: usize,
    delivered: Option<Delivered>,
    looked: Option<Looked>,
    doubt: Option<Doubt>,
    is_gone: bool,
}

/// What the consumer has, and where its last event stands.
#[derive(Debug)]
struct Delivered {
    id: Text,
    created_at: UnixMs,
    first: u64,
    next: u64,
    rows: RowsHash,
    last: Option<LastRow>,
}

/// The last row that was delivered.
#[derive(Clone, Copy, Debug)]
struct LastRow {
    device: u64,
    inode: u64,
    /// As [`Place::file_at`](super::scan::Place::file_at).
    at: u64,
    hash: u64,
}

/// A file of which everything that is committed was delivered, and that had been quiet.
#[derive(Debug, PartialEq, Eq)]
struct Looked {
    path: PathBuf,
    revision: Revision,
}

/// A failure that may be no more than a file caught in the middle of a change.
#[derive(Debug)]
struct Doubt {
    text: String,
    since_ns: i128,
    is_told: bool,
}

/// Bytes of rows in one update, unless a single append holds more.
const BATCH_BYTES: usize = 1 << 20;
/// The same of a log that is converted: all of it once for each update.
const CONVERTED_BATCH_BYTES: usize = 32 << 20;
/// A failure is told when it has lasted so long.
const PATIENCE_NS: i128 = 500_000_000;

impl Follower {
    /// Follows the log of the session folder at `path`, or the log file there.
    ///
    /// Nothing need be there yet. A file with a log's name stands for its folder, since a migration publishes the successor
    /// beside it; any other file is followed by itself.
    #[must_use]
    pub fn at(disk: Arc<dyn Disk>, path: &Path, start: Start, limits: Limits) -> Self {
        Self::new(disk, FollowPlace::Path(path.to_path_buf()), start, limits)
    }

    fn new(disk: Arc<dyn Disk>, place: FollowPlace, start: Start, limits: Limits) -> Self {
        let batch_bytes = BATCH_BYTES;
        Self {
            disk,
            place,
            start,
            limits,
            batch_bytes,
            delivered: None,
            looked: None,
            doubt: None,
            is_gone: false,
        }
    }

    /// The same follower with updates of so many bytes of rows; never less than one append where the encoding knows appends.
    #[must_use]
    pub fn with_batch_bytes(self, batch_bytes: usize) -> Self {
        Self { batch_bytes, ..self }
    }

    /// Seq of the event that is delivered next; `None` as long as no log was seen.
    #[must_use]
    pub fn next_seq(&self) -> Option<u64> {
        self.delivered.as_ref().map(|delivered| delivered.next)
    }

    /// Folders in which something changes when there is something new: those of the log, or where it would appear.
    #[must_use]
    pub fn watched(&self) -> Vec<PathBuf> {
        self.place.watched(&*self.disk)
    }

    /// Looks once. `None`: nothing new, look again when something changed. Otherwise look again at once.
    ///
    /// # Errors
    /// What is wrong with the log, when it has been so for half a second: an end that is being written, a repair or a
    /// replacement never is. Events before the damage were delivered. An error is told once, and further polls see whether the
    /// log is mended: polling may go on.
    pub fn poll(&mut self) -> Result<Option<Update>> {
        let error = match self.step() {
            Ok(update) => {
                self.doubt = None;
                return Ok(update);
            }
            Err(error) if error.is_shrunk() => return Ok(None),
            Err(error) => error,
        };
        let now_ns = self.disk.now_ns();
        let text = error.to_string();
        match &mut self.doubt {
            Some(doubt) if doubt.text == text => {
                let is_due = !doubt.is_told && doubt.since_ns.saturating_add(PATIENCE_NS) <= now_ns;
                doubt.is_told |= is_due;
                if is_due { Err(error) } else { Ok(None) }
            }
            doubt => {
                *doubt = Some(Doubt { text, since_ns: now_ns, is_told: false });
                Ok(None)
            }
        }
    }

    fn step(&mut self) -> Result<Option<Update>> {
        let disk = Arc::clone(&self.disk);
        // The clock first: whatever changes behind this moment has a later stamp.
        let now_ns = disk.now_ns();
        let stamp = match self.place.locate(&*disk)? {
            Some(path) => {
                disk.stamp(&path).map_err(Error::io(&path, "looking at"))?.map(|stamp| (path, stamp))
            }
            None => None,
        };
        let Some((path, stamp)) = stamp else {
            self.looked = None;
            let is_news = self.delivered.is_some() && !self.is_gone;
            self.is_gone |= is_news;
            return Ok(is_news.then_some(Update::Gone));
        };
        let looked = Looked { path, revision: Revision::of(&stamp) };
        if self.looked.as_ref() == Some(&looked) {
            return Ok(None);
        }
        self.looked = None;
        let log = LogFile::open(&disk, &looked.path, self.limits, ReadMode::Read)?;
        self.is_gone = false;
        let (update, is_all) = self.look(&log)?;
        let is_quiet = FileRevision::of(&stamp).was_quiet(now_ns);
        if is_all && is_quiet && Revision::of(log.stamp()) == looked.revision {
            self.looked = Some(looked);
        }
        Ok(update)
    }

    /// Reads what is new in `log`, and tells whether that was all.
    fn look(&mut self, log: &LogFile) -> Result<(Option<Update>, bool)> {
        if log.stamp().size == 0 {
            // Created, and not yet written to: other programs do it in two steps.
            return Ok((None, true));
        }
        let generation = log.generation()?;
        log.check_name(generation)?;
        let header = current_header(log)?;
        self.place.check(log.path(), header.id())?;
        let is_same = |one: &Delivered| one.id == *header.id() && one.created_at == header.created_at();
        let delivered = match &mut self.delivered {
            None => return self.begin(log, header, Cause::First),
            Some(delivered) if !is_same(delivered) => return self.begin(log, header, Cause::OtherSession),
            Some(delivered) => delivered,
        };
        let taken = if generation == Generation::CURRENT {
            delivered.take(log, self.batch_bytes)?
        } else {
            delivered.take_converted(log, self.batch_bytes.max(CONVERTED_BATCH_BYTES))?
        };
        match taken {
            Some(Taken { events, is_all, .. }) if events.is_empty() => Ok((None, is_all)),
            Some(Taken { first_seq, events, .. }) => Ok((Some(Update::Events { first_seq, events }), false)),
            None => self.begin(log, header, Cause::OtherEvents),
        }
    }

    fn begin(&mut self, log: &LogFile, header: Header, cause: Cause) -> Result<(Option<Update>, bool)> {
        let first_seq = match self.start {
            Start::Seq(seq) => seq,
            Start::Last(count) => committed_count(log)?.saturating_sub(count),
        };
        self.delivered = Some(Delivered {
            id: header.id().clone(),
            created_at: header.created_at(),
            first: first_seq,
            next: first_seq,
            rows: RowsHash::new(),
            last: None,
        });
        Ok((Some(Update::Begin(Beginning { header, first_seq, cause })), false))
    }
}

impl FileStore {
    /// Follows the session `id`, wherever in the root it stands, also when it moves to another project. It need not exist yet.
    #[must_use]
    pub fn follow(&self, id: &Text, start: Start) -> Follower {
        let disk = Arc::clone(self.shared().disk());
        Follower::new(disk, FollowPlace::session(self.clone(), id.clone()), start, self.options().limits)
    }
}

/// New events, and whether there are more.
struct Taken {
    first_seq: u64,
    events: Events,
    is_all: bool,
}

impl Delivered {
    /// Reads on in a log of the current generation. `None` if it does not hold what was delivered.
    fn take(&mut self, log: &LogFile, batch_bytes: usize) -> Result<Option<Taken>> {
        // Where no checksum vouches for the payloads, half a row and a whole one on one line may look like an event.
        let check = if log.encoding() == Encoding::Plain { Check::Full } else { Check::Envelope };
        let options = ScanOptions { check, ..ScanOptions::STRICT };
        let stamp = *log.stamp();
        let here =
            |last: &LastRow| last.device == stamp.device && last.inode == stamp.inode && last.at < stamp.size;
        let mut found = None;
        if let Some(last) = self.last.filter(here) {
            let mut intake = Intake::behind_row(self.first, self.next, last.hash, batch_bytes);
            let report = scan_behind(log, options, last.at, &mut |item| Ok(intake.item(&item)))?;
            found = report.filter(|_| intake.is_proved()).map(|report| (intake, report));
        }
        let (mut intake, report) = match found {
            Some(found) => found,
            None => {
                let mut intake = Intake::behind_rows(self.first, self.next, &self.rows, batch_bytes);
                let report = scan_from(log, options, self.first, &mut |item| Ok(intake.item(&item)))?;
                (intake, report)
            }
        };
        if report.tail.is_some_and(|tail| tail.committed) {
            intake.commit();
        }
        if !intake.is_proved() || intake.is_empty() {
            // Damage before the place that proves it says nothing about what was delivered.
            report.require_appendable(log)?;
        }
        if !intake.is_proved() {
            return Ok(None);
        }
        let (events, at) = intake.finish();
        let first_seq = self.next;
        self.accept(&events);
        if let Some(at) = at {
            let hash = events.row(events.len().wrapping_sub(1)).map(hash_of).or(self.rows.last());
            self.last = hash.map(|hash| LastRow { device: stamp.device, inode: stamp.inode, at, hash });
        }
        Ok(Some(Taken { first_seq, events, is_all: !report.stopped }))
    }

    /// Converts a log of an older generation and takes what is new. `None` if it does not begin with what was delivered.
    fn take_converted(&mut self, log: &LogFile, batch_bytes: usize) -> Result<Option<Taken>> {
        let mut events = Events::default();
        let mut again = RowsHash::new();
        let mut is_all = true;
        let mut line = Vec::new();
        let restored = restore_range_of(log, self.first, &mut |seq, row| {
            if seq < self.next || events.as_bytes().len() < batch_bytes {
                line.clear();
                row.write_to(&mut line);
                if seq < self.next { again.push(&line) } else { events.push_line(&line) }
            } else {
                is_all = false;
            }
        })?;
        if (self.next > self.first && restored.events < self.next) || !again.is_like(&self.rows) {
            return Ok(None);
        }
        let first_seq = self.next;
        self.accept(&events);
        self.last = None;
        Ok(Some(Taken { first_seq, events, is_all }))
    }

    fn accept(&mut self, events: &Events) {
        events.rows().for_each(|row| self.rows.push(row));
        self.next = self.next.saturating_add(events.len() as u64);
    }
}

/// Events of the log that are committed, in the current generation.
fn committed_count(log: &LogFile) -> Result<u64> {
    if log.generation()? != Generation::CURRENT {
        return restore_range_of(log, u64::MAX, &mut |_, _| {}).map(|restored| restored.events);
    }
    if let Some(events) = count_events(log) {
        return Ok(events);
    }
    let options = ScanOptions { check: Check::Envelope, ..ScanOptions::STRICT };
    let report = scan(log, options, &mut |_: Item<'_>| Ok(std::ops::ControlFlow::Continue(())))?;
    Ok(report.committed_events)
}
