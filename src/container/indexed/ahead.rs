//! Segments decompressed ahead of whoever reads them, on other threads.
//!
//! The thread that reads walks the chain and proves each body; what is then left of a segment is work without any order:
//! its bytes in memory, a place for its content, and a decoder. Blocks come out in file order all the same, and what is
//! wrong is said when its turn comes.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::read::{IndexedReader, block_of};
use super::walk::{Segment, WalkStop};
use crate::container::fault::{Fault, ReadError};
use crate::container::frame::Frame;
use crate::container::read::{Block, BlockReader, Kept, Skipped, check_lines};
use crate::container::side::other_processors;
use crate::container::source::Source;
use crate::container::tail::Tail;
use crate::container::write::BlockWriter;
use crate::container::zstd::Decoder;
use crate::limits::Limits;

/// Stored bytes of a segment, and bytes of its content, beyond which it is read in its turn and not before: so much memory at
/// most is in use for each segment on the way.
const AHEAD_BYTES_MAX: u64 = 1 << 20;

/// Segments on their way at most: so many that neither side has to wait for the other, which costs a change of threads each time.
const DEPTH: usize = 48;

/// Memory for what is on its way, in bytes, if that is more than one segment for each thread; and for what is kept to be used again.
const WAY_BYTES: usize = 3 << 19;

/// A wait for one segment that is longer than this says that the thread which has it does not get to run: a megabyte takes less.
const PATIENCE: Duration = Duration::from_millis(2);

/// Such waits until this thread goes on alone. One may be chance: others had something to do for a moment.
const WAITS_MAX: u32 = 3;

/// Other threads that are worth their while: as many as there are other processors, up to 3, which keep a consumer busy with
/// rows.
pub(crate) fn other_threads() -> usize {
    other_processors().min(3)
}

/// What a reader that looks ahead needs to know of who reads.
#[derive(Debug)]
pub(crate) struct Outlook<'m> {
    /// Other threads at most.
    pub(crate) threads: usize,
    /// Nothing is looked at ahead behind the segment that holds this event.
    pub(crate) until: u64,
    /// Where contents are kept, if they are.
    pub(crate) room: Option<&'m mut [u8]>,
}

/// How a reading with others ended.
#[derive(Debug)]
pub(crate) struct Outcome<R> {
    pub(crate) result: R,
    /// Bytes of content that were given, and kept if there is room for that.
    pub(crate) used: usize,
    /// The room did not suffice, so that reading ended early.
    pub(crate) is_out_of_room: bool,
}

/// Runs `read` on a reader that gives what `inner` would, a few segments ahead of it on other threads, as many as the machine
/// has processors for. `inner` must not keep contents itself; where `read` ends at the end of the log, it stands there too.
///
/// With [`Outlook::room`] the contents lie one behind the other there, and a block's `content_start` counts in it, which begins
/// with the next block.
pub(crate) fn read_ahead<R>(
    inner: &mut IndexedReader,
    outlook: Outlook<'_>,
    read: impl FnOnce(&mut dyn BlockReader) -> R,
) -> Outcome<R> {
    let Outlook { threads, until, room } = outlook;
    let threads = if threads > 0 { threads.min(other_threads()) } else { 0 };
    let crew = Crew::default();
    let (result, used, is_out_of_room) = thread::scope(|scope| {
        let (crew, limits) = (&crew, inner.limits());
        for _ in 0..threads {
            // Without another thread, this one does all.
            let _refused = thread::Builder::new().spawn_scoped(scope, move || crew.work(limits));
        }
        let mut ahead = Ahead {
            crew,
            threads,
            until,
            rest: room,
            inner,
            way: VecDeque::new(),
            way_bytes: 0,
            waits: 0,
            stop: None,
            current: Content::default(),
            spare: Spare::default(),
            used: 0,
            next_number: 0,
            is_out_of_room: false,
        };
        // Also where it panics: the others would wait for ever, and this thread for them.
        let _end = Closing(crew);
        let result = read(&mut ahead);
        (result, ahead.used, ahead.is_out_of_room)
    });
    Outcome { result, used, is_out_of_room }
}

/// A job that another thread has taken: whoever waits for it gets an answer, even if that thread panics.
struct Owed<'c, 'm> {
    crew: &'c Crew<'m>,
    number: u64,
    done: Option<Done<'m>>,
}

impl<'m> Owed<'_, 'm> {
    fn pay(mut self, done: Done<'m>) {
        self.done = Some(done);
    }
}

impl Drop for Owed<'_, '_> {
    fn drop(&mut self) {
        let done = self.done.take().unwrap_or_else(|| Done {
            number: self.number,
            stored: Vec::new(),
            content: Content::default(),
            outcome: Err(Fault::FrameData),
        });
        self.crew.state.lock().done.push(done);
        self.crew.is_done.notify_one();
    }
}

/// Closes when it is dropped.
struct Closing<'c, 'm>(&'c Crew<'m>);

impl Drop for Closing<'_, '_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A segment to decompress.
struct Job<'m> {
    number: u64,
    frame: Frame,
    stored: Vec<u8>,
    content: Content<'m>,
}

/// A segment that was decompressed, or was not.
struct Done<'m> {
    number: u64,
    stored: Vec<u8>,
    content: Content<'m>,
    outcome: Result<(), Fault>,
}

/// Where the content of a segment lies or will lie.
enum Content<'m> {
    Own(Vec<u8>),
    Lent(&'m mut [u8]),
}

impl Default for Content<'_> {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl Content<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Lent(bytes) => bytes,
        }
    }
}

impl<'m> Job<'m> {
    fn run(self, decoder: &mut Decoder) -> Done<'m> {
        let Self { number, frame, stored, mut content } = self;
        let outcome = match &mut content {
            Content::Own(bytes) => decoder.decode_to(&frame, &stored, bytes),
            Content::Lent(bytes) => decoder.decode_to(&frame, &stored, &mut **bytes),
        };
        Done { number, stored, content, outcome }
    }
}

/// The threads and what they have to do.
#[derive(Default)]
struct Crew<'m> {
    state: Mutex<State<'m>>,
    /// There is a job, or there will be none.
    has_work: Condvar,
    /// A job is done.
    is_done: Condvar,
}

#[derive(Default)]
struct State<'m> {
    waiting: VecDeque<Job<'m>>,
    done: Vec<Done<'m>>,
    is_closed: bool,
}

impl<'m> Crew<'m> {
    /// What another thread does until there is nothing left to do.
    fn work(&self, limits: Limits) {
        let mut decoder = Decoder::new(limits);
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                drop(state);
                let owed = Owed { crew: self, number: job.number, done: None };
                let done = job.run(&mut decoder);
                owed.pay(done);
                state = self.state.lock();
            } else if state.is_closed {
                return;
            } else {
                self.has_work.wait(&mut state);
            }
        }
    }

    fn add(&self, job: Job<'m>) {
        self.state.lock().waiting.push_back(job);
        self.has_work.notify_one();
    }

    /// No job will come any more.
    fn close(&self) {
        self.state.lock().is_closed = true;
        self.has_work.notify_all();
    }

    /// Job `number`, done: by another thread, or with `decoder` by this one, which does others while it would have to wait. And
    /// how long it had to wait all the same.
    fn take(&self, number: u64, decoder: &mut Decoder) -> (Done<'m>, Duration) {
        let mut waited = Duration::ZERO;
        let mut state = self.state.lock();
        loop {
            if let Some(at) = state.done.iter().position(|done| done.number == number) {
                return (state.done.swap_remove(at), waited);
            }
            if let Some(job) = state.waiting.pop_front() {
                drop(state);
                let done = job.run(decoder);
                if done.number == number {
                    return (done, waited);
                }
                state = self.state.lock();
                state.done.push(done);
            } else {
                let start = Instant::now();
                self.is_done.wait(&mut state);
                waited = waited.saturating_add(start.elapsed());
            }
        }
    }
}

/// A segment that the walk has passed.
#[derive(Clone, Copy, Debug)]
struct Passed {
    segment: Segment,
    index: u64,
    begins_append: bool,
    /// Number of the job, and the memory that it takes; none for one that is decompressed in its turn.
    job: Option<(u64, usize)>,
}

/// Memory to use again, not too much of it.
#[derive(Default)]
struct Spare {
    vectors: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spare {
    fn put(&mut self, vector: Vec<u8>) {
        let bytes = self.bytes.saturating_add(vector.capacity());
        if vector.capacity() > 0 && bytes <= WAY_BYTES {
            self.bytes = bytes;
            self.vectors.push(vector);
        }
    }

    /// An empty vector.
    fn take(&mut self) -> Vec<u8> {
        let mut vector = self.vectors.pop().unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(vector.capacity());
        vector.clear();
        vector
    }
}

/// See [`read_ahead`].
struct Ahead<'c, 'm> {
    crew: &'c Crew<'m>,
    inner: &'c mut IndexedReader,
    /// Other threads; 0 where nobody else is there to take a segment.
    threads: usize,
    until: u64,
    /// What is left of the room, if contents are kept.
    rest: Option<&'m mut [u8]>,
    way: VecDeque<Passed>,
    /// Memory that what is on the way takes.
    way_bytes: usize,
    /// Times that this thread had to wait too long.
    waits: u32,
    /// What the walk met behind the last segment on the way.
    stop: Option<WalkStop>,
    /// The content of the block that was given last.
    current: Content<'m>,
    spare: Spare,
    /// Bytes of content given so far.
    used: usize,
    next_number: u64,
    is_out_of_room: bool,
}

impl std::fmt::Debug for Ahead<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ahead").field("inner", &self.inner).field("way", &self.way).finish_non_exhaustive()
    }
}

impl<'m> Ahead<'_, 'm> {
    /// Whether one more segment may be sent on its way.
    fn has_room_on_the_way(&self) -> bool {
        let few = if self.threads > 0 { self.threads.saturating_add(2) } else { 1 };
        let count = self.way.len();
        count < few || (self.threads > 0 && count < DEPTH && self.way_bytes < WAY_BYTES)
    }

    /// Sends segments on their way, as many as may be.
    fn look_ahead(&mut self, source: &mut dyn Source) -> Result<(), ReadError> {
        while self.stop.is_none() && self.has_room_on_the_way() {
            let last = self.way.back();
            let is_far =
                |passed: &Passed| passed.job.is_none() || passed.segment.trailer.next_seq >= self.until;
            if last.is_some_and(is_far) {
                break;
            }
            let begins_append = self.inner.begins_append();
            let index = self.inner.next_index();
            let segment = match self.inner.step(source) {
                Ok(segment) => segment,
                Err(stop) => {
                    self.stop = Some(stop);
                    break;
                }
            };
            // A marker has no body; it only commits what stands before it.
            let Some(frame) = segment.frame else { continue };
            let job = self.send(source, &frame, index)?;
            self.way_bytes = self.way_bytes.saturating_add(job.map_or(0, |(_, bytes)| bytes));
            self.way.push_back(Passed { segment, index, begins_append, job });
            if segment.trailer.next_seq >= self.until {
                self.crew.close();
            }
        }
        if self.stop.is_some() {
            self.crew.close();
        }
        Ok(())
    }

    /// Hands a segment over, if it is one for others: its number, and the memory that it takes.
    fn send(
        &mut self,
        source: &mut dyn Source,
        frame: &Frame,
        index: u64,
    ) -> Result<Option<(u64, usize)>, ReadError> {
        if self.threads == 0 {
            return Ok(None);
        }
        let is_small = frame.stored_len() <= AHEAD_BYTES_MAX
            && frame.content_size.is_some_and(|size| size <= AHEAD_BYTES_MAX);
        let (Some(size), Ok(stored_len)) = (frame.content_size, usize::try_from(frame.stored_len())) else {
            return Ok(None);
        };
        let Some(size) = usize::try_from(size).ok().filter(|_| is_small && index > 0) else {
            return Ok(None);
        };
        let mut bytes = stored_len;
        let content = match self.rest.take() {
            None => {
                let mut own = self.spare.take();
                own.reserve(size);
                bytes = bytes.saturating_add(size);
                Content::Own(own)
            }
            // Said when its turn comes.
            Some(rest) if rest.len() < size => {
                self.rest = Some(rest);
                return Ok(None);
            }
            Some(rest) => {
                let (lent, rest) = rest.split_at_mut(size);
                self.rest = Some(rest);
                Content::Lent(lent)
            }
        };
        let mut stored = self.spare.take();
        stored.extend_from_slice(source.get(frame.start, stored_len)?);
        source.confirm()?;
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        self.crew.add(Job { number, frame: *frame, stored, content });
        Ok(Some((number, bytes)))
    }

    /// Decompresses a segment in its turn.
    fn decode_here(&mut self, source: &mut dyn Source, passed: &Passed) -> Result<(), ReadError> {
        if passed.index > 0
            && let Some(lent) = self.inner.decode_to(source, &passed.segment, &mut self.rest)?
        {
            self.current = Content::Lent(lent);
            return Ok(());
        }
        let at = passed.segment.body.0;
        let content = self.inner.decode(source, &passed.segment, passed.index)?;
        self.current = match self.rest.take() {
            None => Content::Own(content.to_vec()),
            Some(rest) => match rest.split_at_mut_checked(content.len()) {
                Some((lent, rest)) => {
                    lent.copy_from_slice(content);
                    self.rest = Some(rest);
                    Content::Lent(lent)
                }
                None => {
                    self.is_out_of_room = true;
                    let limit = self.used as u64;
                    return Err(ReadError::bad(
                        at,
                        Fault::ContentLimit { content: content.len() as u64, limit },
                    ));
                }
            },
        };
        Ok(())
    }
}

impl BlockReader for Ahead<'_, '_> {
    fn next<'a>(&'a mut self, source: &'a mut dyn Source) -> Result<Option<Block<'a>>, ReadError> {
        if let Content::Own(bytes) = std::mem::take(&mut self.current) {
            self.spare.put(bytes);
        }
        if self.inner.tail().is_some() {
            return Ok(None);
        }
        self.look_ahead(source)?;
        let Some(passed) = self.way.pop_front() else {
            return match self.stop.take() {
                Some(stop) => self.inner.conclude(source, stop).map(|()| None),
                None => Ok(None),
            };
        };
        self.inner.set_index(passed.index);
        let bad = |fault| ReadError::bad(passed.segment.frame.map_or(0, |frame| frame.start), fault);
        match passed.job {
            None => self.decode_here(source, &passed)?,
            Some((number, bytes)) => {
                self.way_bytes = self.way_bytes.saturating_sub(bytes);
                let (done, waited) = self.crew.take(number, self.inner.decoder());
                if waited > PATIENCE {
                    self.waits = self.waits.saturating_add(1);
                }
                if self.waits >= WAITS_MAX && self.threads > 0 {
                    // Others have the processors: from now on this thread is on its own.
                    self.threads = 0;
                    self.crew.close();
                }
                self.spare.put(done.stored);
                self.current = done.content;
                done.outcome.map_err(bad)?;
            }
        }
        let content = self.current.bytes();
        check_lines(passed.index == 0, content, self.inner.limits()).map_err(bad)?;
        self.used = self.used.saturating_add(content.len());
        let place = self.inner.take_place(content.len());
        Ok(Some(block_of(&passed.segment, passed.index, passed.begins_append, place, content)))
    }

    fn skip(&mut self, _source: &mut dyn Source) -> Result<Option<Skipped>, ReadError> {
        // The walk is ahead of what was given. Whoever wants to read on behind damage does not look ahead.
        Ok(None)
    }

    fn keep_in(&mut self, _arena: Kept) {}

    fn index(&self) -> u64 {
        self.inner.index()
    }

    fn tail(&self) -> Option<Tail> {
        self.inner.tail()
    }

    fn writer(&self, durable: u64, level: i32) -> Box<dyn BlockWriter> {
        self.inner.writer(durable, level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{Batch, Encoding, LogId, RowMark, create};

    /// A log of segments of about `bytes` bytes each, `commits` saying which of them end an append.
    fn log(commits: &[bool], bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let id = LogId::new(7).unwrap();
        let mut writer = create(Encoding::Indexed, id, b"{\"type\":\"session\"}\n", 0, 3, &mut out).unwrap();
        writer.accept(true);
        for (number, &commits) in commits.iter().enumerate() {
            let content = format!("{{\"a\":\"{}\"}}\n", format!("{number} and ").repeat(bytes / 6));
            let mark = RowMark { end: content.len(), events: 1, last_time: 5 };
            let batch = Batch { content: content.as_bytes(), rows: &[mark] };
            let staged =
                if commits { writer.stage(&batch, &mut out) } else { writer.stage_part(&batch, &mut out) };
            staged.unwrap();
            writer.accept(number % 2 == 0);
            if number % 5 == 4 {
                writer.stage_marker(&mut out).unwrap();
                writer.accept(true);
            }
        }
        out
    }

    /// Everything that a reader gives of a log, and how it ends.
    fn read(blocks: &mut dyn BlockReader, log: &[u8]) -> (Vec<String>, String) {
        let mut source = log;
        let mut given = Vec::new();
        loop {
            match blocks.next(&mut source) {
                Ok(Some(block)) => given.push(format!("{block:?}")),
                end => {
                    let end = end.map(|block| block.is_some());
                    return (given, format!("{end:?} at {}, {:?}", blocks.index(), blocks.tail()));
                }
            }
        }
    }

    fn in_turn(log: &[u8]) -> (Vec<String>, String) {
        read(&mut IndexedReader::new(Limits::DEFAULT), log)
    }

    fn ahead(log: &[u8], threads: usize, room: Option<&mut [u8]>) -> Outcome<(Vec<String>, String)> {
        let outlook = Outlook { threads, until: u64::MAX, room };
        read_ahead(&mut IndexedReader::new(Limits::DEFAULT), outlook, |blocks| read(blocks, log))
    }

    #[test]
    fn blocks_and_the_end_are_those_of_a_reader_that_takes_its_turns() {
        let bytes = log(&[true, false, true, true, false, false, true, true, true, false, true], 9000);
        for threads in 0..3 {
            assert_eq!(ahead(&bytes, threads, None).result, in_turn(&bytes));
            for cut in (0..bytes.len()).step_by(11) {
                let cut = &bytes[..cut];
                assert_eq!(ahead(cut, threads, None).result, in_turn(cut), "cut to {}", cut.len());
            }
        }
    }

    #[test]
    fn damage_is_met_in_its_turn() {
        let bytes = log(&[true, false, true, true, true, true], 400);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x41;
            assert_eq!(ahead(&changed, 1, None).result, in_turn(&changed), "byte {at}");
        }
    }

    #[test]
    fn contents_are_kept_one_behind_the_other() {
        // One of the segments is too long to be read ahead.
        let bytes = [log(&[true; 12], 30_000), log(&[true; 3], 3 << 20)];
        for bytes in &bytes {
            let mut text = Vec::new();
            let mut source = bytes.as_slice();
            let mut reader = IndexedReader::new(Limits::DEFAULT);
            while let Some(block) = reader.next(&mut source).unwrap() {
                assert_eq!(block.content_start, text.len() as u64);
                text.extend_from_slice(block.content);
            }
            for threads in 0..3 {
                let mut room = vec![0; text.len()];
                let outcome = ahead(bytes, threads, Some(&mut room));
                assert!(!outcome.is_out_of_room);
                assert_eq!(outcome.result, in_turn(bytes));
                assert_eq!(outcome.used, text.len());
                assert!(room == text);
            }
        }
    }

    #[test]
    fn room_that_does_not_suffice_is_told() {
        let bytes = log(&[true; 90], 60_000);
        for threads in 0..3 {
            let mut room = vec![0; 1 << 20];
            let outcome = ahead(&bytes, threads, Some(&mut room));
            assert!(outcome.is_out_of_room);
            let (given, _) = outcome.result;
            assert_eq!(given, in_turn(&bytes).0[..given.len()]);
            assert!(ahead(&bytes, threads, Some(&mut [])).is_out_of_room);
        }
    }

    #[test]
    fn memory_to_use_again_is_bounded() {
        let mut spare = Spare::default();
        for _ in 0..10 {
            spare.put(Vec::with_capacity(WAY_BYTES / 4));
        }
        assert_eq!(spare.vectors.len(), 4);
        assert!(spare.bytes <= WAY_BYTES);
        assert!((0..5).all(|_| spare.take().is_empty()));
        assert_eq!(spare.bytes, 0);
    }

    #[test]
    fn nothing_is_looked_at_behind_what_is_wanted_before_somebody_asks_for_it() {
        let bytes = log(&[true; 40], 3000);
        let outlook = Outlook { threads: 1, until: 7, room: None };
        let mut reader = IndexedReader::new(Limits::DEFAULT);
        read_ahead(&mut reader, outlook, |blocks| {
            let mut source = bytes.as_slice();
            for _ in 0..=7 {
                assert!(
                    blocks.next(&mut source).unwrap().is_some(),
                    "the header, and seven segments of one event"
                );
            }
        });
        assert_eq!(reader.place().0, 7);
        let outlook = Outlook { threads: 1, until: 7, room: None };
        let mut reader = IndexedReader::new(Limits::DEFAULT);
        let all = read_ahead(&mut reader, outlook, |blocks| read(blocks, &bytes));
        assert_eq!(all.result, in_turn(&bytes));
    }
}
