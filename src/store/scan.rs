//! The one way in which every verb and every handle reads a log: lines in order, damage in its place, and a verdict.
//!
//! Spec: `format-spec/04-rows.md`, "Damage", and `05-append-and-repair.md`, "Judging the end".

use std::ops::ControlFlow;

use super::log_file::LogFile;
use crate::container::{
    Arena, Block, BlockReader, Claim, Encoding, Fault, FileSource, IndexedReader, Kept, Outlook, ReadError,
    Skipped, Tail, TailState, indexed_at, read_ahead, reader, reader_at, reader_behind, resume,
};
use crate::error::{Damage, Error, Result, Unsupported};
use crate::row::{
    Check, DecodeCause, Evidence, Header, HeaderFault, PhysicalRow, Recovery, RowDecoder, RowFault, RowPlace,
};
use crate::units::{Generation, Seq, UnixMs};

/// How a scan treats what is not sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanOptions {
    /// How much of each row is looked at.
    pub check: Check,
    /// Goes on behind damage, and says what was skipped. Otherwise nothing is delivered behind the first damage.
    pub lenient: bool,
}

impl ScanOptions {
    /// Everything is checked, and the first damage ends the delivery.
    pub const STRICT: Self = Self { check: Check::Full, lenient: false };
    /// Everything is checked and all damage is found.
    pub const LENIENT: Self = Self { check: Check::Full, lenient: true };
}

/// Where a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// Number of the line in the text, the header being 1.
    pub line: u64,
    /// Number of the frame that holds it, the header's being 0.
    pub block: u64,
    /// File offset of the line (plain) or of its frame.
    pub file_at: u64,
    /// Offset of the line in the decompressed text, the header included.
    pub text_at: u64,
    /// Everything before its block is committed. Always so where the encoding marks no ends of appends.
    pub after_commit: bool,
}

/// What a scan delivers, in file order.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Item<'a> {
    /// The header line, without its newline. Always the first item.
    Header {
        /// Its bytes.
        line: &'a [u8],
        /// Its meaning, if it has one.
        header: Option<&'a Header>,
    },
    /// A row that belongs to the log.
    Row {
        /// The row.
        row: PhysicalRow<'a>,
        /// Where it stands.
        place: Place,
    },
    /// A line that does not, and why. Strict scans deliver the first one and then nothing more.
    Bad {
        /// The line, without its newline.
        line: &'a [u8],
        /// The row in it, if it is one that only its number keeps out.
        row: Option<PhysicalRow<'a>>,
        /// Where it stands.
        place: Place,
        /// What is wrong with it.
        fault: RowFault,
    },
    /// A row of a generation newer than this build, in a lenient scan: its bytes, which mean nothing here.
    Opaque {
        /// The line, without its newline.
        line: &'a [u8],
        /// Where it stands.
        place: Place,
    },
    /// Stored bytes that could not be read, and what a lenient scan skipped because of them.
    Hole {
        /// File offset of the damage.
        at: u64,
        /// What is wrong there.
        fault: Fault,
        /// What was passed over, if reading went on.
        skipped: Option<Skipped>,
    },
}

/// One finding of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What is wrong.
    pub damage: Damage,
    /// File offset: of the line in a plain log, else of the frame or trailer.
    pub at: u64,
    /// The line, for damage in a line.
    pub place: Option<Place>,
    /// Number of the frame, the header's being 0; markers count. `None` in the plain encoding, which has none.
    pub frame: Option<u64>,
    /// The seq that was due there.
    pub expected_seq: u64,
    /// Sound rows before it.
    pub rows_before: u64,
}

/// The verdict on a whole log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// Whole and committed.
    Sound,
    /// All rows are whole, but the append that wrote the last ones has no end.
    Unfinished,
    /// The last append was cut short by a crash.
    Torn,
    /// The end is damaged, and nothing proves that a crash did it.
    DamagedTail,
    /// Committed data is damaged.
    Corrupt,
    /// Intact, and beyond this build.
    Unsupported,
}

/// What a scan found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// The header, if it could be read.
    pub header: Option<Header>,
    /// The verdict.
    pub verdict: Verdict,
    /// The judged end, where the scan reached it; adjusted to rows in a plain log.
    pub tail: Option<Tail>,
    /// Data frames read, the header's included; 0 in the plain encoding.
    pub frames: u64,
    /// Rows that belong to the log.
    pub rows: u64,
    /// Events in the log: the seq that the next one gets.
    pub events: u64,
    /// Bytes of text read, the header included.
    pub content_bytes: u64,
    /// Unix milliseconds of the last event.
    pub last_time: Option<UnixMs>,
    /// The number of inherited events.
    pub inherited: u64,
    /// Everything that is not sound, in file order; at most [`FINDINGS_MAX`] are kept.
    pub findings: Vec<Finding>,
    /// How many there were.
    pub findings_total: u64,
    /// Events that are committed. Those from here on belong to an append that has no end, or none that was read.
    pub committed_events: u64,
    /// The scan was stopped by its visitor.
    pub stopped: bool,
    /// The last event read that ends inherited ones.
    pub(crate) marker: Option<Seq>,
}

/// More findings than this are counted and not kept: a file of a million bad lines must not fill the memory.
pub const FINDINGS_MAX: usize = 1000;

/// Delivers the items of a log to `visit`, and judges it.
///
/// Rows that are delivered are contiguous from 0 on, unless the scan is lenient. `visit` may stop the scan; the report
/// then covers what was read. Memory: one frame and its content, whatever the log's length.
///
/// # Errors
/// [`Error::Io`], and whatever `visit` returns. Damage is no error here: see [`Report::verdict`] and [`Report::require`].
pub fn scan(log: &LogFile, options: ScanOptions, visit: Visit<'_>) -> Result<Report> {
    /// Shorter logs are read before another thread has found its place.
    const LONG: u64 = 1 << 20;
    let mut source = log.source()?;
    let mut blocks = Blocks::of(log);
    let mut scan = Scan::new(log, options);
    if let Blocks::Indexed(reader) = &mut blocks
        && !options.lenient
        && log.stamp().size >= LONG
    {
        let outlook = Outlook { threads: usize::MAX, until: u64::MAX, room: None };
        read_ahead(reader, outlook, |blocks| scan.run(&mut source, blocks, visit)).result?;
    } else {
        scan.run(&mut source, blocks.as_mut(), visit)?;
    }
    Ok(scan.finish(blocks.as_mut().tail()))
}

/// As [`scan`], but begins with the block that holds event `from`, found by the encoding's own means: O(log n) trailers in
/// an indexed log. What lies before is neither read nor checked, except the header, which is delivered first; counts in
/// the report that need it (frames, rows, text, the fork cut) cover what was read.
///
/// # Errors
/// As [`scan`].
pub fn scan_from(log: &LogFile, options: ScanOptions, from: u64, visit: Visit<'_>) -> Result<Report> {
    scan_from_of(log, options, from, None, visit)
}

/// [`scan_from`] of a log that is known to hold so many `events`: a place to start the search from, nothing more.
pub(crate) fn scan_from_of(
    log: &LogFile,
    options: ScanOptions,
    from: u64,
    events: Option<u64>,
    visit: Visit<'_>,
) -> Result<Report> {
    match scan_from_block(log, options, from, events, visit)? {
        Some(report) => Ok(report),
        None => scan(log, options, visit),
    }
}

/// A part of a compressed log that is to be scanned, its text kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The scan begins with the block that holds this event.
    pub(crate) from: u64,
    /// It ends behind the block that holds the event before this one; the visitor says where in it.
    pub(crate) to: u64,
    /// Events of the log, if they are known.
    pub(crate) total: Option<u64>,
    /// What its end was found to claim, if it was looked at.
    pub(crate) claim: Option<Claim>,
    /// Room for the text, in bytes.
    pub(crate) room: usize,
}

/// What became of a scan that keeps the text.
#[derive(Debug)]
pub(crate) enum Keeping {
    /// The text that was read: a row's [`Place::text_at`] is its place there.
    Text(Arena, Box<Report>),
    /// The room did not suffice. What was visited is void.
    OutOfRoom,
    /// The scan would begin before the block that holds [`Part::from`]. Nothing was visited.
    FromTheHead,
}

/// Scans a part of a compressed log, and hands out the text that it read. The header is delivered only if that is part of it.
///
/// # Errors
/// As [`scan`].
pub(crate) fn scan_keeping(
    log: &LogFile,
    options: ScanOptions,
    part: Part,
    visit: Visit<'_>,
) -> Result<Keeping> {
    let mut arena = Arena::with_room(part.room);
    if log.encoding() == Encoding::Indexed && !arena.spare().is_empty() {
        return scan_into(arena, log, options, part, visit);
    }
    let mut source = log.source()?;
    let Some((mut blocks, mut scan)) = begin(log, options, part, &mut source)? else {
        return Ok(Keeping::FromTheHead);
    };
    let blocks = blocks.as_mut();
    blocks.keep_in(Kept(arena));
    scan.run(&mut source, blocks, visit)?;
    let kept = blocks.take_kept().unwrap_or_default();
    Ok(Keeping::Text(kept.0, Box::new(scan.finish(blocks.tail()))))
}

/// [`scan_keeping`] of an indexed log, with room that is there: what is read has its place in it too, and long parts are
/// decompressed by several threads.
fn scan_into(
    mut arena: Arena,
    log: &LogFile,
    options: ScanOptions,
    part: Part,
    visit: Visit<'_>,
) -> Result<Keeping> {
    let spare = arena.spare();
    let Some((text, input)) = spare.split_at_mut_checked(place_of_input(part.room, spare.len())) else {
        return Ok(Keeping::OutOfRoom);
    };
    let mut source = log.source()?;
    if let Some(input) = input.get_mut(..FileSource::READ_AHEAD) {
        source = source.with_buffer(input);
    }
    let Some((Blocks::Indexed(mut reader), mut scan)) = begin(log, options, part, &mut source)? else {
        return Ok(Keeping::FromTheHead);
    };
    let threads = threads_for(log, &reader, part.to, part.total);
    let outlook = Outlook { threads, until: part.to, room: Some(text) };
    let outcome = read_ahead(&mut reader, outlook, |blocks| scan.run(&mut source, blocks, visit));
    if outcome.is_out_of_room {
        return Ok(Keeping::OutOfRoom);
    }
    outcome.result?;
    drop(source);
    arena.grown(outcome.used);
    Ok(Keeping::Text(arena, Box::new(scan.finish(reader.tail()))))
}

/// A reader that stands before the block with which a part begins, and the scan of it. `None` where that is not known.
fn begin<'l>(
    log: &'l LogFile,
    options: ScanOptions,
    part: Part,
    source: &mut FileSource<'_>,
) -> Result<Option<(Blocks, Scan<'l>)>> {
    if part.from == 0 {
        return Ok(Some((Blocks::of(log), Scan::new(log, options))));
    }
    let Some((_, header)) = head_of(log)? else { return Ok(None) };
    let blocks = position(log, source, header.generation(), &part)?;
    Ok(blocks.map(|blocks| (blocks, Scan::in_the_middle(log, options, header.clone()))))
}

/// Where in `spare` bytes of room the input lies behind the text, which may take `text` bytes of it.
fn place_of_input(text: usize, spare: usize) -> usize {
    let behind = spare.saturating_sub(FileSource::READ_AHEAD);
    let first_page = Arena::HUGE_PAGE.saturating_sub(FileSource::READ_AHEAD);
    if text <= first_page { behind.min(first_page) } else { behind }
}

/// How many other threads decompress segments up to event `to`, ahead of this one.
fn threads_for(log: &LogFile, reader: &IndexedReader, to: u64, total: Option<u64>) -> usize {
    /// Stored bytes that are worth a thread: milliseconds of work. Where the processors are busy, waiting for one that has to
    /// wait for its turn costs as much.
    const A_THREAD: u128 = 512 << 10;
    let (first, start) = reader.place();
    let left = log.stamp().size.saturating_sub(start);
    let events = total.map_or(1, |total| total.saturating_sub(first)).max(1);
    let wanted = to.saturating_sub(first).min(events);
    let bytes = u128::from(left).saturating_mul(u128::from(wanted)).checked_div(u128::from(events));
    // This thread takes its share.
    let threads = bytes.unwrap_or(0).checked_div(A_THREAD).unwrap_or(0).saturating_sub(1);
    usize::try_from(threads).unwrap_or(usize::MAX)
}

/// Scans from the block that holds event `from` on. `None` where a scan from the head is the way.
fn scan_from_block(
    log: &LogFile,
    options: ScanOptions,
    from: u64,
    events: Option<u64>,
    visit: Visit<'_>,
) -> Result<Option<Report>> {
    if from == 0 {
        return Ok(None);
    }
    let Some((line, header)) = head_of(log)? else { return Ok(None) };
    let mut source = log.source()?;
    let part = Part { from, to: u64::MAX, total: events, claim: None, room: 0 };
    let Some(mut blocks) = position(log, &mut source, header.generation(), &part)? else {
        return Ok(None);
    };
    let flow = visit(Item::Header { line, header: Some(header) })?;
    let mut scan = Scan::in_the_middle(log, options, header.clone());
    if flow.is_break() {
        scan.report.stopped = true;
        return Ok(Some(scan.finish(None)));
    }
    scan.run(&mut source, blocks.as_mut(), visit)?;
    Ok(Some(scan.finish(blocks.as_mut().tail())))
}

/// A reader of blocks, of which the indexed kind can be read ahead.
enum Blocks {
    Indexed(Box<IndexedReader>),
    Other(Box<dyn BlockReader>),
}

impl Blocks {
    /// At the head of a log.
    fn of(log: &LogFile) -> Self {
        match log.encoding() {
            Encoding::Indexed => Self::Indexed(Box::new(IndexedReader::new(*log.limits()))),
            encoding => Self::Other(reader(encoding, *log.limits())),
        }
    }

    fn as_mut(&mut self) -> &mut dyn BlockReader {
        match self {
            Self::Indexed(blocks) => &mut **blocks,
            Self::Other(blocks) => &mut **blocks,
        }
    }
}

/// As [`scan`], but begins with the block at file offset `start`, where an earlier scan of this file met a row: its
/// [`Place::file_at`]. `None` if none can start there. That its rows are those that stood there then is for the caller to check.
///
/// # Errors
/// As [`scan`].
pub(crate) fn scan_behind(
    log: &LogFile,
    options: ScanOptions,
    start: u64,
    visit: Visit<'_>,
) -> Result<Option<Report>> {
    let Some((_, header)) = head_of(log)? else { return Ok(None) };
    let mut source = log.source()?;
    scan_stretch(log, &mut source, header.clone(), options, start, visit)
}

/// As [`scan_behind`], to the end of `source`, which holds the log or a beginning of it that ends with a block, and whatever of
/// it was looked at last.
///
/// # Errors
/// As [`scan`].
pub(crate) fn scan_stretch(
    log: &LogFile,
    source: &mut FileSource<'_>,
    header: Header,
    options: ScanOptions,
    start: u64,
    visit: Visit<'_>,
) -> Result<Option<Report>> {
    let blocks = reader_behind(source, log.encoding(), *log.limits(), start);
    let Some(mut blocks) = blocks.map_err(|error| Error::read(log.path(), 0, error))? else {
        return Ok(None);
    };
    let mut scan = Scan::in_the_middle(log, options, header);
    scan.run(source, &mut *blocks, visit)?;
    Ok(Some(scan.finish(blocks.tail())))
}

/// Scans the end of a log as far as an append needs it, and hands out the reader, whose writer goes on behind the last block.
///
/// `None` where only a scan from the head can say how the log ends. Header and middle are checked as
/// [`resume`] says; the report's counts of frames, rows and text cover what was read.
///
/// # Errors
/// As [`scan`].
pub(crate) fn scan_end_to_writer(
    log: &LogFile,
    visit: Visit<'_>,
) -> Result<Option<(Report, Box<dyn BlockReader>)>> {
    let Some((_, header)) = head_of(log)? else { return Ok(None) };
    let mut source = log.probe_source();
    let blocks = resume(&mut source, log.encoding(), *log.limits());
    let Some(mut blocks) = blocks.map_err(|error| Error::read(log.path(), 0, error))? else {
        return Ok(None);
    };
    let mut scan = Scan::in_the_middle(log, ScanOptions::STRICT, header.clone());
    scan.run(&mut source, &mut *blocks, visit)?;
    let report = scan.finish(blocks.tail());
    Ok((report.rows > 0).then_some((report, blocks)))
}

/// The header and its line; `None` for what is none, which a scan from the head names.
fn head_of(log: &LogFile) -> Result<Option<(&[u8], &Header)>> {
    match log.first_line() {
        Ok(first) => Ok(first.header.as_ref().ok().map(|header| (first.line(), header))),
        Err(error @ ReadError::Io(_)) => Err(Error::read(log.path(), 0, error)),
        Err(ReadError::Bad { .. }) => Ok(None),
    }
}

/// A reader that stands before the first event of a part; `None` where reading from the head is the way.
fn position(
    log: &LogFile,
    source: &mut FileSource<'_>,
    generation: Generation,
    part: &Part,
) -> Result<Option<Blocks>> {
    let &Part { from, to, total, claim, .. } = part;
    let found = if log.encoding() == Encoding::Indexed {
        indexed_at(source, *log.limits(), from..to.max(from), claim)
            .map(|found| found.map(|reader| Blocks::Indexed(Box::new(reader))))
    } else {
        let mut seq_of = |line: &[u8]| {
            let row = PhysicalRow::read(line, generation, Check::Envelope, log.limits());
            row.ok().map(|row| row.first_seq().get())
        };
        reader_at(source, log.encoding(), *log.limits(), from, total, &mut seq_of)
            .map(|found| found.map(Blocks::Other))
    };
    found.map_err(|error| Error::read(log.path(), 0, error))
}

/// As [`scan`], and hands out the reader, whose writer goes on behind the last block.
pub(crate) fn scan_to_writer(
    log: &LogFile,
    options: ScanOptions,
    visit: Visit<'_>,
) -> Result<(Report, Box<dyn BlockReader>)> {
    let mut source = log.source()?;
    let mut blocks = reader(log.encoding(), *log.limits());
    let mut scan = Scan::new(log, options);
    scan.run(&mut source, &mut *blocks, visit)?;
    Ok((scan.finish(blocks.tail()), blocks))
}

struct Scan<'l> {
    log: &'l LogFile,
    options: ScanOptions,
    report: Report,
    line: u64,
    /// Number of the frame that was looked at last.
    frame: u64,
    /// Judges the rows as a log; its first issue decides the verdict.
    decoder: RowDecoder,
    /// Reads on behind the first damage, in a lenient scan.
    behind: Option<RowDecoder>,
    /// Something is known to be missing before the next row: its number may jump forward.
    lost: bool,
    /// A later `turn/end` proves that the place of the first issue had been committed.
    issue_is_fatal: bool,
    /// A row that no writer makes and that the original takes for an event all the same: neither damage nor understood.
    is_refused: bool,
    /// Damage in the bytes; the first one decides.
    hole: Option<Fault>,
    header_fault: Option<HeaderFault>,
    /// The header is of a generation newer than this build.
    is_opaque: bool,
    /// The first row's own seq is the one to begin with.
    starts_in_the_middle: bool,
    /// What lies before was not read, so nothing is said of the whole.
    from_the_middle: bool,
}

/// The sink of a scan. Breaking ends it.
pub type Visit<'v> = &'v mut dyn FnMut(Item<'_>) -> Result<ControlFlow<()>>;

impl<'l> Scan<'l> {
    fn new(log: &'l LogFile, options: ScanOptions) -> Self {
        let report = Report {
            header: None,
            verdict: Verdict::Sound,
            tail: None,
            frames: 0,
            rows: 0,
            events: 0,
            committed_events: 0,
            content_bytes: 0,
            last_time: None,
            inherited: 0,
            findings: Vec::new(),
            findings_total: 0,
            stopped: false,
            marker: None,
        };
        let generation = log.named().map_or(Generation::CURRENT, |(generation, _)| generation);
        Self {
            log,
            options,
            report,
            line: 0,
            frame: 0,
            decoder: decoder(log, generation, Recovery::Recoverable, options.check),
            behind: None,
            lost: false,
            issue_is_fatal: false,
            is_refused: false,
            hole: None,
            header_fault: None,
            is_opaque: false,
            starts_in_the_middle: false,
            from_the_middle: false,
        }
    }

    /// A scan whose first block is not the header's.
    fn in_the_middle(log: &'l LogFile, options: ScanOptions, header: Header) -> Self {
        let mut scan = Self::new(log, options);
        scan.decoder = decoder(log, header.generation(), Recovery::Recoverable, options.check);
        scan.report.header = Some(header);
        scan.line = 1;
        scan.starts_in_the_middle = true;
        scan.from_the_middle = true;
        scan
    }

    fn run(
        &mut self,
        source: &mut FileSource<'_>,
        blocks: &mut dyn BlockReader,
        visit: Visit<'_>,
    ) -> Result<()> {
        loop {
            let (at, fault) = match blocks.next(source) {
                Ok(Some(block)) => match self.block(&block, visit)? {
                    ControlFlow::Break(()) => {
                        self.report.stopped = true;
                        return Ok(());
                    }
                    ControlFlow::Continue(None) => continue,
                    ControlFlow::Continue(Some(fault)) => (block.start, fault),
                },
                Ok(None) => match blocks.tail() {
                    Some(tail) if self.options.lenient && tail.state == TailState::Damaged => {
                        (tail.good_end, tail.fault.unwrap_or(Fault::Truncated))
                    }
                    _ => {
                        self.frame = blocks.index();
                        return Ok(());
                    }
                },
                Err(ReadError::Bad { at, fault }) if fault != Fault::Shrunk => (at, fault),
                Err(error) => return Err(Error::read(self.log.path(), self.report.events, error)),
            };
            self.frame = blocks.index();
            self.find(Damage::Bytes(fault), at, None);
            self.hole.get_or_insert(fault);
            let skipped = if self.options.lenient {
                blocks
                    .skip(source)
                    .map_err(|error| Error::read(self.log.path(), self.report.events, error))?
            } else {
                None
            };
            let flow = visit(Item::Hole { at, fault, skipped })?;
            if skipped.is_none() || flow.is_break() {
                return Ok(());
            }
            self.go_on_behind();
            self.lost = true;
            // Without a header frame the first line that can be read is a row.
            self.line = self.line.max(1);
        }
    }

    /// Delivers the lines of a block; gives a fault if an indexed trailer counted other events than there are.
    fn block(&mut self, block: &Block<'_>, visit: Visit<'_>) -> Result<ControlFlow<(), Option<Fault>>> {
        let is_plain = self.log.encoding() == Encoding::Plain;
        if !is_plain {
            self.report.frames = self.report.frames.saturating_add(1);
        }
        self.report.content_bytes = self.report.content_bytes.saturating_add(block.content.len() as u64);
        self.frame = block.index;
        let events_before = self.report.events;
        if block.begins_append {
            self.report.committed_events = events_before;
        }
        // Once for all lines; where it fails, each line is looked at by itself.
        let text = simdutf8::basic::from_utf8(block.content).ok();
        let mut start = 0;
        let ends = memchr::memchr_iter(b'\n', block.content).chain(
            // Only damage leaves a last line without its newline.
            block.content.last().filter(|&&last| last != b'\n').map(|_| block.content.len()),
        );
        for end in ends {
            self.line = self.line.saturating_add(1);
            let text_at = block.content_start.saturating_add(start as u64);
            let file_at = if is_plain { text_at } else { block.start };
            let after_commit = block.begins_append;
            let place = Place { line: self.line, block: block.index, file_at, text_at, after_commit };
            let line = block.content.get(start..end).unwrap_or_default();
            let text = text.and_then(|text| text.get(start..end));
            start = end.saturating_add(1);
            let flow = if block.index == 0 {
                self.header(line, visit)?
            } else {
                self.row(line, text, place, visit)?
            };
            if flow.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        // A scan that begins in the middle learns where it is from its first row.
        let events_before = if events_before == 0 {
            block.counted.map_or(0, |counted| counted.first_seq)
        } else {
            events_before
        };
        let got = self.report.events.saturating_sub(events_before);
        let miscounted =
            block.counted.map(|counted| u64::from(counted.events)).filter(|&stored| stored != got);
        let clean = self.decoder.issue().is_none() && self.behind.is_none() && !self.is_opaque;
        Ok(ControlFlow::Continue(
            miscounted.filter(|_| clean).map(|stored| Fault::EventCount { stored, got }),
        ))
    }

    fn header(&mut self, line: &[u8], visit: Visit<'_>) -> Result<ControlFlow<()>> {
        let mut readable = true;
        match Header::parse(line, self.log.limits()) {
            Ok(header) => {
                self.decoder =
                    decoder(self.log, header.generation(), Recovery::Recoverable, self.options.check);
                self.report.last_time = Some(header.created_at());
                self.report.header = Some(header);
            }
            Err(fault) => {
                self.header_fault = Some(fault);
                self.find(
                    Damage::Header(fault),
                    0,
                    Some(Place { line: 1, block: 0, file_at: 0, text_at: 0, after_commit: true }),
                );
                // Rows of a newer generation mean something else; other rows are read as the file's name says.
                self.is_opaque = matches!(fault, HeaderFault::Newer { .. });
                readable = self.options.lenient;
            }
        }
        let flow = visit(Item::Header { line, header: self.report.header.as_ref() })?;
        Ok(if readable { flow } else { ControlFlow::Break(()) })
    }

    /// `text` is the line, if it is known to be UTF-8.
    fn row(
        &mut self,
        line: &[u8],
        text: Option<&str>,
        place: Place,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>> {
        if self.is_opaque {
            self.report.rows = self.report.rows.saturating_add(1);
            return visit(Item::Opaque { line, place });
        }
        if std::mem::take(&mut self.starts_in_the_middle)
            && let Ok(row) =
                PhysicalRow::read(line, self.decoder.generation(), self.options.check, self.log.limits())
        {
            self.decoder.expect(row.first_seq());
            self.report.events = row.first_seq().get();
            if place.after_commit {
                self.report.committed_events = self.report.events;
            }
        }
        let row_place = RowPlace { line: place.line, offset: place.text_at };
        let is_clean = self.decoder.issue().is_none() && self.behind.is_none();
        if is_clean || (self.behind.is_none() && !self.issue_is_fatal) || self.options.lenient {
            let pushed = match text {
                Some(text) => self.decoder.push_str(row_place, text),
                None => self.decoder.push(row_place, line),
            };
            match pushed {
                Ok(Some(row)) if is_clean => {
                    accept(&mut self.report, &row);
                    return visit(Item::Row { row, place });
                }
                Ok(_) => {}
                Err(error) if error.cause == DecodeCause::Refused => self.is_refused = true,
                Err(_) => self.issue_is_fatal = true,
            }
        }
        if !self.options.lenient {
            return if is_clean {
                self.first_issue(line, place, visit)
            } else {
                Ok(ControlFlow::Continue(()))
            };
        }
        self.go_on_behind();
        self.lenient_row(line, place, visit)
    }

    /// A strict scan met the first row that does not belong to the log.
    fn first_issue(&mut self, line: &[u8], place: Place, visit: Visit<'_>) -> Result<ControlFlow<()>> {
        let log = self.log;
        let generation = self.decoder.generation();
        let fault = self.fault_of(line);
        self.find(Damage::Row(fault), place.file_at, Some(place));
        let row = PhysicalRow::read(line, generation, self.options.check, log.limits()).ok();
        let flow = visit(Item::Bad { line, row, place, fault })?;
        // In complete frames every row was proved by a checksum, so one that does not belong is damage whatever follows.
        // In a plain log a later turn end decides, and the search for it goes on.
        Ok(if log.encoding() == Encoding::Plain { flow } else { ControlFlow::Break(()) })
    }

    fn fault_of(&self, line: &[u8]) -> RowFault {
        let mut probe = decoder(self.log, self.decoder.generation(), Recovery::Strict, self.options.check);
        probe.expect(Seq::new(self.report.events).unwrap_or(Seq::MAX));
        match probe.push(RowPlace { line: self.line, offset: 0 }, line) {
            Err(error) => error.issue.fault,
            Ok(_) => RowFault::NotObject,
        }
    }

    fn lenient_row(&mut self, line: &[u8], place: Place, visit: Visit<'_>) -> Result<ControlFlow<()>> {
        let row_place = RowPlace { line: place.line, offset: place.text_at };
        let generation = self.decoder.generation();
        let Some(behind) = &mut self.behind else { return Ok(ControlFlow::Continue(())) };
        let fault = match behind.push(row_place, line) {
            Ok(Some(row)) => {
                self.lost = false;
                accept(&mut self.report, &row);
                return visit(Item::Row { row, place });
            }
            Ok(None) => return Ok(ControlFlow::Continue(())),
            Err(error) => error.issue.fault,
        };
        let row = PhysicalRow::read(line, generation, self.options.check, self.log.limits()).ok();
        let expected_gap = self.lost && matches!(fault, RowFault::Gap { .. });
        if !expected_gap {
            self.find(Damage::Row(fault), place.file_at, Some(place));
        }
        let Some(row) = row else {
            self.lost = true;
            return visit(Item::Bad { line, row: None, place, fault });
        };
        // Its number is out of order, not the row; what follows is judged by it.
        self.lost = false;
        accept(&mut self.report, &row);
        if let Some(behind) = &mut self.behind {
            behind.expect(Seq::new(row.next_seq()).unwrap_or(Seq::MAX));
        }
        if expected_gap {
            visit(Item::Row { row, place })
        } else {
            visit(Item::Bad { line, row: Some(row), place, fault })
        }
    }

    fn go_on_behind(&mut self) {
        if self.behind.is_none() {
            let mut behind =
                decoder(self.log, self.decoder.generation(), Recovery::Strict, self.options.check);
            behind.expect(Seq::new(self.report.events).unwrap_or(Seq::MAX));
            self.behind = Some(behind);
        }
    }

    fn find(&mut self, damage: Damage, at: u64, place: Option<Place>) {
        self.report.findings_total = self.report.findings_total.saturating_add(1);
        if self.report.findings.len() < FINDINGS_MAX {
            let (expected_seq, rows_before) = (self.report.events, self.report.rows);
            let frame = (self.log.encoding() != Encoding::Plain).then_some(self.frame);
            self.report.findings.push(Finding { damage, at, place, frame, expected_seq, rows_before });
        }
    }

    fn finish(mut self, tail: Option<Tail>) -> Report {
        self.report.tail = tail;
        if tail.is_some_and(|tail| tail.committed) {
            self.report.committed_events = self.report.events;
        }
        self.report.marker = self.decoder.marker();
        self.report.verdict = self.verdict();
        self.report
    }

    fn verdict(&mut self) -> Verdict {
        if let Some(fault) = self.header_fault {
            return if fault.is_unsupported() { Verdict::Unsupported } else { Verdict::Corrupt };
        }
        if let Some(fault) = self.hole {
            let damaged_end = self.report.tail.is_some_and(|tail| tail.state == TailState::Damaged);
            return match fault {
                fault if fault.is_unsupported() => Verdict::Unsupported,
                _ if damaged_end && self.report.findings_total == 1 => Verdict::DamagedTail,
                _ => Verdict::Corrupt,
            };
        }
        if self.is_refused {
            return Verdict::Unsupported;
        }
        if let Some(issue) = self.decoder.issue() {
            return self.verdict_on_rows(issue.fault);
        }
        if self.issue_is_fatal {
            return Verdict::Corrupt;
        }
        if self.report.stopped {
            return Verdict::Sound;
        }
        let whole = !self.from_the_middle;
        match self
            .report
            .header
            .as_ref()
            .filter(|_| whole)
            .map_or(Ok(0), |header| self.decoder.finish(header))
        {
            Ok(inherited) => self.report.inherited = inherited,
            Err(fault) => {
                self.find(Damage::Cut(fault), 0, None);
                return Verdict::Corrupt;
            }
        }
        match self.report.tail.map(|tail| (tail.state, tail)) {
            Some((TailState::Complete, _)) | None => Verdict::Sound,
            Some((TailState::Unfinished, _)) => Verdict::Unfinished,
            Some((TailState::Torn, _)) => Verdict::Torn,
            Some((TailState::Damaged, tail)) => {
                self.find(Damage::Bytes(tail.fault.unwrap_or(Fault::Truncated)), tail.good_end, None);
                Verdict::DamagedTail
            }
            Some((TailState::Corrupt, _)) => Verdict::Corrupt,
            Some((TailState::Unsupported, _)) => Verdict::Unsupported,
        }
    }

    /// The verdict on a log whose first bad row has `fault`.
    fn verdict_on_rows(&mut self, fault: RowFault) -> Verdict {
        if !fault.kind().is_damage() {
            return Verdict::Unsupported;
        }
        if self.log.encoding() != Encoding::Plain || self.issue_is_fatal {
            return Verdict::Corrupt;
        }
        let first = self.report.findings.iter().find_map(|finding| finding.place);
        if let (Some(tail), Some(place)) = (&mut self.report.tail, first) {
            tail.state = TailState::Damaged;
            tail.good_end = place.file_at;
            tail.durable = place.file_at;
        }
        Verdict::DamagedTail
    }
}

fn accept(report: &mut Report, row: &PhysicalRow<'_>) {
    report.rows = report.rows.saturating_add(1);
    report.events = row.next_seq();
    report.last_time = Some(row.last_time());
}

fn decoder(log: &LogFile, generation: Generation, recovery: Recovery, check: Check) -> RowDecoder {
    let evidence = if generation.has_chunk_events() { Evidence::Decoded } else { Evidence::Parsed };
    // Reading less than the whole line relies on a checksum over it, which a plain log does not have.
    let check = if log.encoding() == Encoding::Plain { Check::Full } else { check };
    RowDecoder::new(generation, recovery).with_check(check).with_limits(*log.limits()).with_evidence(evidence)
}

impl Report {
    /// Turns a verdict that nobody may build on into its error. A torn or unfinished end is none: it was not acknowledged.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::FormatUnsupported`].
    pub fn require(&self, log: &LogFile) -> Result<()> {
        let path = || log.path().to_path_buf();
        match self.verdict {
            Verdict::Sound | Verdict::Unfinished | Verdict::Torn | Verdict::DamagedTail => Ok(()),
            Verdict::Unsupported => Err(self.unsupported(log)),
            Verdict::Corrupt => {
                let finding = self.findings.first();
                Err(Error::Corruption {
                    path: path(),
                    offset: finding.map_or(0, |finding| finding.at),
                    intact: finding.map_or(0, |finding| finding.expected_seq),
                    source: finding.map_or(Damage::Bytes(Fault::Truncated), |finding| finding.damage),
                })
            }
        }
    }

    /// What to say of an end that may be read up to and not relied on; `None` where there is nothing to say.
    #[must_use]
    pub fn end_error(&self, log: &LogFile) -> Option<Error> {
        let path = log.path().to_path_buf();
        match self.verdict {
            Verdict::Torn | Verdict::Unfinished => {
                let tail = self.tail?;
                Some(Error::TornTail {
                    path,
                    offset: tail.good_end,
                    torn: tail.excess(),
                    intact: self.events,
                })
            }
            Verdict::DamagedTail => self.require_appendable(log).err(),
            Verdict::Sound | Verdict::Corrupt | Verdict::Unsupported => None,
        }
    }

    /// As [`Report::require`], and refuses a damaged end as well: for everyone who wants to write.
    ///
    /// # Errors
    /// [`Error::DamagedTail`], and those of [`Report::require`].
    pub fn require_appendable(&self, log: &LogFile) -> Result<()> {
        self.require(log)?;
        match (self.verdict, self.findings.first()) {
            (Verdict::DamagedTail, Some(finding)) => Err(Error::DamagedTail {
                path: log.path().to_path_buf(),
                offset: self.tail.map_or(finding.at, |tail| tail.good_end),
                intact: finding.expected_seq,
                source: finding.damage,
            }),
            _ => Ok(()),
        }
    }

    fn unsupported(&self, log: &LogFile) -> Error {
        let path = log.path().to_path_buf();
        let newest = Generation::CURRENT;
        let finding = self.findings.first();
        let reason = match finding.map(|finding| (finding.damage, finding.at)) {
            Some((Damage::Header(HeaderFault::Newer { version }), _)) => {
                Unsupported::Newer { stored: Generation::new(version), newest }
            }
            Some((Damage::Bytes(source), at)) => Unsupported::Container { at, source },
            Some((damage, at)) => Unsupported::Shape { at, source: damage },
            None => Unsupported::Newer { stored: newest, newest },
        };
        Error::FormatUnsupported { path, reason }
    }
}
