//! Many lines at a time: other cores read them ahead of the thread that converts them.
//!
//! What a line means to a conversion depends on all lines before it, but not what it is: its JSON, its schema. So helpers
//! read pieces of some hundred lines, and the converting thread takes them in order. What nobody has begun it reads itself, and
//! while somebody is at the piece that is due, it reads another: on a busy machine little is lost but the start of threads
//! that find nothing to do.

use std::ops::{ControlFlow, Range};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::reading::{LineReader, Reading};
use crate::container::other_threads;
use crate::json::{Node, Tape, Values};

/// A piece ends with the first line that reaches so many bytes.
const PIECE_BYTES: usize = if cfg!(test) { 256 } else { 64 << 10 };

/// Lines of a piece that are read ahead: of tiny lines not all, for each takes room.
const PIECE_LINES: usize = if cfg!(test) { 5 } else { 512 };

/// A longer piece is one huge line and is read where it is converted, so that there is one tape of its size.
const AHEAD_BYTES_MAX: usize = 2 * PIECE_BYTES;

/// Reading takes about as long as converting, so that more helpers than this wait for the conversion.
const HELPERS_MAX: usize = 2;

/// A wait for one piece that is longer than this says that the thread which has it does not get to run.
const PATIENCE: Duration = Duration::from_millis(1);

/// Fewer pieces are not worth the start of a thread.
const PIECES_MIN: usize = 4;

/// Helpers for lines of so many bytes.
pub(super) fn helpers_for(bytes: usize) -> usize {
    if bytes < PIECES_MIN.saturating_mul(PIECE_BYTES) { 0 } else { other_threads().min(HELPERS_MAX) }
}

/// Takes a line, what it is, and the value that it holds, if it was read as one.
pub(super) type Take<'l, 't> = dyn FnMut(&'l [u8], &Reading<'l>, Option<Node<'_>>) -> ControlFlow<()> + 't;

/// The lines of `text`, in order, to `take` until it breaks; up to `helpers` other threads read them.
pub(super) fn each<'l>(reader: LineReader, text: &'l [u8], helpers: usize, take: &mut Take<'l, '_>) {
    let window = helpers.saturating_add(1).saturating_mul(4);
    let ahead = Ahead {
        reader,
        pieces: pieces(text),
        window,
        state: Mutex::default(),
        wanted: Condvar::new(),
        handed_in: Condvar::new(),
    };
    thread::scope(|scope| {
        for _ in 0..helpers {
            let thread = thread::Builder::new().name("seslog-read".to_owned());
            // Without a thread the work is done where it was wanted.
            if thread.spawn_scoped(scope, || ahead.help()).is_err() {
                break;
            }
        }
        let _end = End(&ahead);
        ahead.take_all(take);
    });
}

/// Lines of a text, without their newlines.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let (line, after) = rest.split_at_checked(end)?;
        rest = after.get(1..).unwrap_or_default();
        Some(line)
    })
}

/// `text` in whole lines, as many as make a piece.
fn pieces(text: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::with_capacity(text.len() / PIECE_BYTES);
    let mut rest = text;
    while !rest.is_empty() {
        let behind = rest.get(PIECE_BYTES..).unwrap_or_default();
        let newline =
            memchr::memchr(b'\n', behind).map(|at| at.saturating_add(PIECE_BYTES).saturating_add(1));
        let (piece, after) = rest.split_at_checked(newline.unwrap_or(rest.len())).unwrap_or((rest, &[]));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

struct Ahead<'l> {
    reader: LineReader,
    pieces: Vec<&'l [u8]>,
    /// Pieces from the one that is converted on that may have been read.
    window: usize,
    state: Mutex<State<'l>>,
    /// There is something to read for those who had nothing.
    wanted: Condvar,
    handed_in: Condvar,
}

#[derive(Default)]
struct State<'l> {
    /// The first piece that nobody has begun.
    next: usize,
    /// The piece that is converted.
    converted: usize,
    /// Pieces that were read, or that a helper broke off.
    read: Vec<(usize, Option<Piece<'l>>)>,
    /// Room for more.
    rooms: Vec<Piece<'l>>,
    is_over: bool,
}

/// A piece that was read.
#[derive(Debug, Default)]
struct Piece<'l> {
    lines: Vec<(&'l [u8], Reading<'l>, Range<usize>)>,
    values: Values,
    /// Lines that were too many.
    rest: &'l [u8],
}

/// Sends helpers home when the converting thread is done, or unwinds.
struct End<'a, 'l>(&'a Ahead<'l>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        let Self(ahead) = self;
        ahead.state.lock().is_over = true;
        ahead.wanted.notify_all();
    }
}

/// Hands in what was made of a piece, even by a thread that unwinds.
struct Begun<'a, 'l> {
    ahead: &'a Ahead<'l>,
    index: usize,
    piece: Option<Piece<'l>>,
}

impl Drop for Begun<'_, '_> {
    fn drop(&mut self) {
        self.ahead.state.lock().read.push((self.index, self.piece.take()));
        self.ahead.handed_in.notify_one();
    }
}

impl<'l> Ahead<'l> {
    /// Begins the next piece, if it may be read ahead. Gives room for its lines.
    fn begin(&self, state: &mut State<'l>) -> Option<(usize, Piece<'l>)> {
        let index = state.next;
        let in_window = index < state.converted.saturating_add(self.window);
        self.pieces.get(index).filter(|piece| in_window && piece.len() <= AHEAD_BYTES_MAX)?;
        state.next = index.saturating_add(1);
        Some((index, state.rooms.pop().unwrap_or_default()))
    }

    fn read(&self, index: usize, mut room: Piece<'l>, tape: &mut Tape) {
        let mut begun = Begun { ahead: self, index, piece: None };
        let text = self.pieces.get(index).copied().unwrap_or_default();
        room.lines.clear();
        room.values.clear();
        room.rest = text;
        for line in lines(text).take(PIECE_LINES) {
            let reading = self.reader.read_closely(line, tape);
            let values = if reading.text().is_some() { room.values.push(tape) } else { 0..0 };
            room.lines.push((line, reading, values));
            room.rest = room.rest.get(line.len().saturating_add(1)..).unwrap_or_default();
        }
        begun.piece = Some(room);
    }

    /// Reads pieces until there are none.
    fn help(&self) {
        let mut tape = Tape::default();
        let mut state = self.state.lock();
        while !state.is_over && state.next < self.pieces.len() {
            match self.begin(&mut state) {
                Some((index, room)) => {
                    drop(state);
                    self.read(index, room, &mut tape);
                    state = self.state.lock();
                }
                None => self.wanted.wait(&mut state),
            }
        }
    }

    fn take_all(&self, take: &mut Take<'l, '_>) {
        let mut tape = Tape::default();
        for (index, text) in self.pieces.iter().enumerate() {
            let piece = self.piece(index, &mut tape);
            let mut unread = *text;
            if let Some(piece) = &piece {
                unread = piece.rest;
                for (line, reading, values) in &piece.lines {
                    let value = reading.text().and_then(|text| piece.values.root(values.clone(), text));
                    if take(line, reading, value).is_break() {
                        return;
                    }
                }
            }
            for line in lines(unread) {
                let reading = self.reader.read(line, &mut tape);
                let value = reading.text().and_then(|text| tape.root(text));
                if take(line, &reading, value).is_break() {
                    return;
                }
            }
            if let Some(piece) = piece {
                self.state.lock().rooms.push(piece);
            }
        }
    }

    /// Piece `index`, which is the next to convert; `None` if it has to be read here.
    fn piece(&self, index: usize, tape: &mut Tape) -> Option<Piece<'l>> {
        let mut state = self.state.lock();
        state.converted = index;
        // What came too late for one who had no patience.
        state.read.retain(|(read, _)| *read >= index);
        let is_unread = state.next == index;
        if is_unread {
            state.next = index.saturating_add(1);
        }
        // Who waits for room is called when there is room for several pieces: to wake a thread takes long.
        if is_unread || state.next <= index.saturating_add(self.window / 2) {
            self.wanted.notify_all();
        }
        if is_unread {
            return None;
        }
        loop {
            if let Some(at) = state.read.iter().position(|(read, _)| *read == index) {
                return state.read.swap_remove(at).1;
            }
            match self.begin(&mut state) {
                Some((index, room)) => {
                    drop(state);
                    self.read(index, room, tape);
                    state = self.state.lock();
                }
                None if self.handed_in.wait_for(&mut state, PATIENCE).timed_out() => return None,
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::units::Generation;

    fn read_by(text: &[u8], helpers: usize, enough: usize) -> Vec<(Vec<u8>, String)> {
        let mut taken = Vec::new();
        each(
            LineReader::new(Generation::V1, &Limits::DEFAULT),
            text,
            helpers,
            &mut |line, reading, value| {
                let reading = match reading {
                    Reading::Row { .. } => "a row".to_owned(),
                    reading => format!("{reading:?}"),
                };
                taken.push((line.to_vec(), format!("{reading} {value:?}")));
                if taken.len() == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        taken
    }

    #[test]
    fn lines_come_in_order_whoever_reads_them() {
        let mut text = Vec::new();
        for n in 0..900_usize {
            let line = match n % 9 {
                0 => String::new(),
                1 => "no JSON".to_owned(),
                2 => format!("[{n},\"{}\"]", "x".repeat(n)),
                // Too long to be read ahead.
                3 if n % 7 == 0 => format!("{{\"n\":\"{}\"}}", "y".repeat(AHEAD_BYTES_MAX)),
                4 => format!(
                    r#"{{"type":"text-chunks","seq0":{n},"time0":5,"data":{{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"]}}}}"#
                ),
                5 => format!(
                    r#"{{"type":"assistant/chunk","seq":{n},"time":5,"data":{{"turn":1,"step":1,"chunk":{{"type":"finish","reason":{{"kind":"stop"}}}}}}}}"#
                ),
                _ => format!(r#"{{"type":"turn/start","seq":{n},"time":5,"data":{{"turn":1}}}}"#),
            };
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
        let expected = read_by(&text, 0, usize::MAX);
        let lines: Vec<&[u8]> = expected.iter().map(|(line, _)| line.as_slice()).collect();
        assert_eq!([lines.join(&b'\n').as_slice(), b"\n"].concat(), text);
        for helpers in [1, 2, 5] {
            for _ in 0..20 {
                assert_eq!(read_by(&text, helpers, usize::MAX), expected);
            }
            assert_eq!(read_by(&text, helpers, 77), expected[..77]);
        }
        assert!(read_by(b"", 2, 1).is_empty());
        assert_eq!(read_by(b"\n5", 1, 9).len(), 2, "a last line without its newline is one");
    }

    #[test]
    fn a_reader_that_never_gets_to_run_is_not_waited_for() {
        let text = b"1\n2\n3\n4\n".repeat(20);
        let ahead = Ahead {
            reader: LineReader::new(Generation::V1, &Limits::DEFAULT),
            pieces: pieces(&text),
            window: 4,
            state: Mutex::default(),
            wanted: Condvar::new(),
            handed_in: Condvar::new(),
        };
        // Somebody began the first two pieces; the second comes in when it is too late.
        ahead.state.lock().next = 2;
        let mut count = 0;
        ahead.take_all(&mut |_, _, _| {
            count += 1;
            if count == 7 {
                drop(Begun { ahead: &ahead, index: 1, piece: Some(Piece::default()) });
            }
            ControlFlow::Continue(())
        });
        assert_eq!(count, 80);
    }
}
