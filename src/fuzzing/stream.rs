//! Targets `stream_expand` and `stream_accumulate`: records that nobody wrote, and chunks that somebody could.

use std::borrow::BorrowMut;

use crate::json::{Tape, Text, write_i64, write_text, write_u64};
use crate::stream::{
    Accumulator, Assembler, Chunk, ChunkKind, Expansion, Record, RecordFault, Scratch, StreamFault,
    StreamReader, expand, expand_generally,
};
use crate::units::UnixMs;

const SAFE: i64 = 9_007_199_254_740_991;

/// Reads `data` as a stream: refused, or the same by every way to read it, and the same again after writing it.
pub fn fuzz_stream_expand(data: &[u8]) {
    // Readers trust their stream. One that is none must not harm them.
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = StreamReader::new(text).timing();
        let _ = StreamReader::new(text).assemble();
    }
    let fast = expand(data);
    let general = expand_generally(data);
    let (stream, general) = match (fast, general) {
        (Ok(stream), Ok(general)) => (stream, general),
        (fast, general) => return assert_eq!(fast.err(), general.err(), "both ways to check name one fault"),
    };
    let chunks = chunks_of(&stream);
    assert_eq!(chunks, chunks_of(&general), "both ways to check find the same chunks");
    assert_eq!(stream.len(), chunks.len());

    let mut written = Vec::new();
    stream.write_json(&mut written);
    let again = expand(&written).expect("what is written is a stream");
    assert_eq!(chunks_of(&again), chunks);
    assert_eq!(again.records().len(), stream.records().len());
    let mut rewritten = Vec::new();
    again.write_json(&mut rewritten);
    assert_eq!(rewritten, written, "written once is written for good");

    readers_agree(std::str::from_utf8(data).expect("a stream is UTF-8"), &stream);
    accumulates_again(&stream);
}

/// The timed chunks as JSON.
fn chunks_of(stream: &Expansion<'_>) -> Vec<String> {
    let json = |out: &mut Vec<u8>| String::from_utf8(std::mem::take(out)).expect("JSON is UTF-8");
    let mut out = Vec::new();
    stream
        .chunks()
        .map(|timed| {
            timed.write_json(&mut out);
            json(&mut out)
        })
        .collect()
}

/// Readers that do not expand answer as one that does.
fn readers_agree(text: &str, stream: &Expansion<'_>) {
    let reader = StreamReader::new(text);
    if let Err(StreamFault::Record { fault: RecordFault::MemberSet, .. }) = reader.timing() {
        return; // a run has a member twice: readers say that they do not foresee it
    }
    let tokens: Result<Vec<UnixMs>, StreamFault> = reader.token_times().collect();
    let expected: Vec<UnixMs> =
        stream.chunks().filter(|timed| timed.chunk.is_token()).map(|timed| timed.time).collect();
    assert_eq!(reader.first_token_time(), Ok(expected.first().copied()));
    assert_eq!(tokens, Ok(expected));
    let visible = stream.chunks().any(|timed| timed.chunk.is_visible());
    let visible_text = stream.chunks().any(|timed| timed.chunk.has_visible_text());
    assert_eq!(reader.has_visible_content(), Ok(visible));
    assert_eq!(reader.has_visible_text(), Ok(visible_text));
    assert!(reader.joined_text().is_ok());

    let mut assembler = Assembler::new();
    let pushed = stream.chunks().try_for_each(|timed| assembler.push(timed.chunk));
    match (pushed, reader.assemble()) {
        (Ok(()), Ok(other)) => {
            let blocks = |assembler: &Assembler| {
                let mut out = Vec::new();
                assembler.blocks().map(|blocks| {
                    blocks.iter().for_each(|block| block.write_json(&mut out));
                    out
                })
            };
            assert_eq!(blocks(&assembler), blocks(&other));
            assert_eq!(assembler.replay_state(), other.replay_state());
            assert_eq!((assembler.usage(), assembler.finish()), (other.usage(), other.finish()));
        }
        (pushed, other) => assert_eq!(pushed.err().map(StreamFault::Assemble), other.err()),
    }

    let timing = reader.timing().expect("a checked stream has a timing");
    assert_eq!(timing.chunks, u64::try_from(stream.len()).unwrap_or_default());
    let mut times = stream.chunks().map(|timed| timed.time);
    assert_eq!((timing.first, timing.last), (times.next(), times.last().or(timing.first)));
}

/// What an accumulator makes of the chunks is a stream of the same chunks, and never changes again.
fn accumulates_again(stream: &Expansion<'_>) {
    let mut accumulator = Accumulator::new();
    // Never sees a chunk that the other refused: whatever a refusal changes shows in the end.
    let mut spared = Accumulator::new();
    let mut accepted = Vec::new();
    for timed in stream {
        if let Ok(copy) = accumulator.push(timed.time, timed.chunk) {
            accepted.push(compacted(copy.time, copy.chunk));
            assert!(spared.push(timed.time, timed.chunk).is_ok());
        }
    }
    assert_eq!(spared.snapshot(), accumulator.snapshot(), "a refused push changes nothing");
    let snapshot = accumulator.snapshot();
    let again = expand(snapshot.as_bytes()).expect("a snapshot is a stream");
    let chunks: Vec<String> = again.chunks().map(|timed| compacted(timed.time, timed.chunk)).collect();
    assert_eq!(chunks, accepted);
    is_canonical(&snapshot);
}

/// A timed chunk without what compaction loses and in one spelling.
fn compacted(time: UnixMs, chunk: Chunk<'_>) -> String {
    let mut out = Vec::new();
    let mut one = Accumulator::with(&mut out, Scratch::default());
    one.push(time, chunk).expect("the chunk was accepted before");
    one.finish();
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// A snapshot has one spelling and no two runs that should be one.
fn is_canonical(snapshot: &str) {
    let mut tape = Tape::default();
    let node = tape.parse(snapshot.as_bytes(), u32::MAX).expect("a snapshot is JSON");
    let mut canonical = Vec::new();
    node.write_canonical(&mut canonical);
    assert_eq!(canonical, snapshot.as_bytes());

    let stream = expand(snapshot.as_bytes()).expect("a snapshot is a stream");
    let mut written = Vec::new();
    stream.write_json(&mut written);
    assert_eq!(written, snapshot.as_bytes());
    for (a, b) in stream.records().zip(stream.records().skip(1)) {
        if let (Record::Run(a), Record::Run(b)) = (a, b)
            && (a.kind(), a.index(), a.id(), a.name()) == (b.kind(), b.index(), b.id(), b.name())
        {
            let (last, _) = a.members().last().expect("a run has members");
            assert!(b.time0().get().abs_diff(last.get()) > SAFE.unsigned_abs(), "runs are merged");
        }
    }

    let mut accumulator = Accumulator::new();
    for timed in &stream {
        accumulator.push(timed.time, timed.chunk).expect("a snapshot holds chunks that were accepted");
    }
    assert_eq!(accumulator.snapshot(), snapshot);
}

/// Chunks that one input makes at most: a stream of a hundred crosses every border that one of thousands does.
const CHUNKS_MAX: usize = 100;

/// Makes chunks out of `data` and takes them in: `expand(accumulate(chunks))` is the chunks.
pub fn fuzz_stream_accumulate(data: &[u8]) {
    let mut feed = Feed { data, time: 0 };
    let mut buffer = b"kept".to_vec();
    // One takes JSON and sees every chunk. The other takes parts and never sees a chunk that must be refused: whatever those
    // change in the first shows in the end.
    let mut owned = Accumulator::new();
    let mut spared = Accumulator::with(&mut buffer, Scratch::default());
    let mut expected = Vec::new();
    let mut early = None;
    let mut copied = Vec::new();
    for _ in 0..CHUNKS_MAX {
        let Some(made) = feed.chunk() else { break };
        let copy = owned.push_json(UnixMs::new(made.time), made.json.as_bytes());
        assert_eq!(copy.is_ok(), made.is_good, "{}", made.json);
        if let Ok(copy) = copy {
            copied.clear();
            copy.chunk.write_json(&mut copied);
            let is_copy = copied == made.json.as_bytes() || same(&copied, made.json.as_bytes());
            assert!(is_copy, "the copy is what was pushed");
            expected.push(made.timed());
            assert!(made.push(&mut spared), "{}", made.json);
        } else {
            assert!(!made.push(&mut owned), "{}", made.json);
        }
        if early.is_none() && feed.data.len() < data.len() / 2 {
            early = Some((owned.snapshot(), expected.len()));
        }
    }
    let snapshot = owned.snapshot();
    assert_eq!(spared.snapshot(), snapshot, "a refused push changes nothing");
    spared.finish();
    assert_eq!(buffer, format!("kept{snapshot}").as_bytes());
    let stream = expand(snapshot.as_bytes()).expect("a snapshot is a stream");
    let chunks = chunks_of(&stream);
    assert_eq!(chunks, expected);
    // Half a stream is looked at for one input in four.
    if let Some((early, len)) = early.filter(|_| data.len().is_multiple_of(4)) {
        let stream = expand(early.as_bytes()).expect("an early snapshot is a stream");
        assert_eq!(chunks_of(&stream), chunks.get(..len).unwrap_or_default());
    }
    is_canonical(&snapshot);
    readers_agree(&snapshot, &stream);
}

fn same(a: &[u8], b: &[u8]) -> bool {
    let (mut of_a, mut of_b) = (Tape::default(), Tape::default());
    let (a, b) = (of_a.parse(a, u32::MAX), of_b.parse(b, u32::MAX));
    a.is_ok_and(|a| b.is_ok_and(|b| a.deep_eq(b)))
}

/// A chunk that was made out of bytes.
struct Made {
    time: i64,
    /// Canonical, so that it comes back just so.
    json: String,
    /// Whether an accumulator must take it.
    is_good: bool,
    /// The same as parts, if no string of it holds half a character.
    parts: Option<(ChunkKind, u64, String, Option<String>, String)>,
}

impl Made {
    fn timed(&self) -> String {
        format!("{{\"time\":{},\"chunk\":{}}}", self.time, self.json)
    }

    /// Pushes it by its parts if it has some; whether it was taken.
    fn push<B: BorrowMut<Vec<u8>>>(&self, accumulator: &mut Accumulator<B>) -> bool {
        let time = UnixMs::new(self.time);
        match &self.parts {
            Some((ChunkKind::TextDelta, index, _, _, text)) => {
                accumulator.push_text(time, *index, text).is_ok()
            }
            Some((ChunkKind::ReasoningDelta, index, _, _, text)) => {
                accumulator.push_reasoning(time, *index, text).is_ok()
            }
            Some((_, index, id, name, text)) => {
                accumulator.push_tool_call(time, *index, id, name.as_deref(), text).is_ok()
            }
            None => accumulator.push_json(time, self.json.as_bytes()).is_ok(),
        }
    }
}

/// Decisions, taken from bytes.
struct Feed<'d> {
    data: &'d [u8],
    time: i64,
}

impl Feed<'_> {
    fn byte(&mut self) -> u8 {
        match self.data.split_first() {
            Some((byte, rest)) => {
                self.data = rest;
                *byte
            }
            None => 0,
        }
    }

    fn chunk(&mut self) -> Option<Made> {
        if self.data.is_empty() {
            return None;
        }
        let (time, is_safe) = self.next_time();
        let choice = self.byte();
        if choice >= 0xf0 {
            return Some(self.raw_chunk(time, is_safe));
        }
        let kind = match choice % 4 {
            0 | 1 => ChunkKind::TextDelta,
            2 => ChunkKind::ReasoningDelta,
            _ => ChunkKind::ToolCallDelta,
        };
        let index = match choice >> 2 & 7 {
            0..=5 => 0,
            6 => 1,
            _ => SAFE.unsigned_abs().saturating_sub(u64::from(choice >> 5)),
        };
        let mut json = format!("{{\"type\":\"{}\",\"index\":", kind.name()).into_bytes();
        write_u64(&mut json, index);
        let (mut id, mut name) = (Text::new(), None);
        if kind == ChunkKind::ToolCallDelta {
            let choice = self.byte();
            id = if choice < 0xc0 { Text::from("c") } else { self.text() };
            name = match choice % 4 {
                0 => None,
                1 | 2 => Some(Text::from("f")),
                _ => Some(self.text()),
            };
            json.extend_from_slice(b",\"id\":");
            write_text(&mut json, &id);
            if let Some(name) = &name {
                json.extend_from_slice(b",\"name\":");
                write_text(&mut json, name);
            }
            json.extend_from_slice(b",\"argumentsDelta\":");
        } else {
            json.extend_from_slice(b",\"text\":");
        }
        let text = self.text();
        write_text(&mut json, &text);
        json.push(b'}');
        let whole = |text: &Text| text.as_str().map(str::to_owned);
        let parts = match (whole(&id), name.as_ref().map(whole), whole(&text)) {
            (Some(id), None, Some(text)) => Some((kind, index, id, None, text)),
            (Some(id), Some(Some(name)), Some(text)) => Some((kind, index, id, Some(name), text)),
            _ => None,
        };
        Some(Made { time, json: String::from_utf8(json).unwrap_or_default(), is_good: is_safe, parts })
    }

    /// The time of the next chunk, and whether it is a safe integer.
    fn next_time(&mut self) -> (i64, bool) {
        let choice = self.byte();
        let gap = match choice {
            0..=0x9f => i64::from(choice % 40),
            0xa0..=0xbf => i64::from(self.byte()),
            0xc0..=0xd7 => i64::from(self.byte()).saturating_mul(997).saturating_mul(i64::from(self.byte())),
            0xd8..=0xe7 => 0_i64.saturating_sub(i64::from(self.byte())),
            0xe8..=0xf3 => i64::from(self.byte()).saturating_mul(1 << 28),
            0xf4..=0xf9 => SAFE.saturating_sub(i64::from(self.byte() % 2)),
            0xfa..=0xfd => -SAFE,
            _ => return (SAFE.saturating_add(1).saturating_add(i64::from(self.byte())), false),
        };
        self.time = self.time.saturating_add(gap).clamp(-SAFE, SAFE);
        (self.time, true)
    }

    /// A chunk that is none of the deltas, in part not acceptable.
    fn raw_chunk(&mut self, time: i64, is_safe: bool) -> Made {
        let mut number = Vec::new();
        write_i64(&mut number, i64::from(self.byte()).saturating_sub(9));
        let number = String::from_utf8(number).unwrap_or_default();
        let (json, is_chunk) = match self.byte() % 12 {
            0 => ("{\"type\":\"block-start\",\"index\":0,\"blockType\":\"text\"}".to_owned(), true),
            1 => (format!("{{\"type\":\"block-start\",\"index\":{number},\"blockType\":\"image\"}}"), true),
            2 => ("{\"type\":\"block-end\",\"index\":0,\"block\":{\"type\":\"text\",\"text\":\" \"}}".to_owned(), true),
            3 => (format!("{{\"type\":\"block-end\",\"index\":{number},\"block\":{{\"type\":\"x\"}}}}"), true),
            4 => (format!("{{\"type\":\"usage\",\"usage\":{{\"inputTokens\":{number},\"outputTokens\":7}}}}"), true),
            5 => ("{\"type\":\"finish\",\"reason\":{\"kind\":\"max-tokens\"}}".to_owned(), true),
            6 => (format!("{{\"type\":\"finish\",\"replayState\":{{\"blocks\":[{number}]}}}}"), true),
            7 => ("{\"type\":\"usage\",\"usage\":-0}".to_owned(), false),
            8 => ("{\"type\":\"text-delta\",\"index\":0.5,\"text\":\"a\"}".to_owned(), false),
            9 => ("{\"type\":\"tool-call-delta\",\"index\":0,\"id\":\"c\",\"name\":null,\"argumentsDelta\":\"\"}".to_owned(), false),
            10 => (format!("[{number}]"), false),
            _ => ("{\"type\":\"sparkle\"}".to_owned(), false),
        };
        Made { time, json, is_good: is_safe && is_chunk, parts: None }
    }

    /// A string of a few code units, halves of characters among them.
    fn text(&mut self) -> Text {
        const UNITS: [u16; 16] = [
            0x61, 0x20, 0x22, 0x5c, 0x0a, 0x2c, 0x5d, 0x00, 0x1f, 0x7f, 0xe9, 0xfeff, 0x2028, 0xd83d, 0xde00,
            0x75,
        ];
        let choice = self.byte();
        match choice {
            0..=0x1f => Text::new(),
            0x20..=0x7f => Text::from(" the"),
            // Long enough that fragments cross blocks of the scanner.
            0xf8..=0xff => Text::from("w,\"]\\".repeat(usize::from(choice & 7).saturating_mul(9)).as_str()),
            _ => {
                let mut text = Text::new();
                for _ in 0..choice % 9 {
                    let unit = self.byte();
                    text.push_unit(UNITS.get(usize::from(unit & 15)).copied().unwrap_or_default());
                }
                text
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Streams as they are written, with something of each kind.
    const STREAMS: &[&str] = &[
        "[]",
        concat!(
            r#"[{"type":"text-chunks","time0":5,"index":0,"dt":[0,12,123,1234567,0,7],"#,
            r#""texts":["a","","\n","\"]","é\ud83d","\ude00\\","x"]}]"#
        ),
        concat!(
            r#"[{"type":"tool-call-chunks","time0":-5,"index":2,"dt":[-1,3000000000],"id":"c","name":"f","#,
            r#""args":["{","\"a\":1","}"]},"#,
            r#"{"type":"tool-call-chunks","time0":0,"index":2,"dt":[],"id":"c","args":["{"]}]"#
        ),
        concat!(
            r#"[{"type":"chunk","time":1,"chunk":{"type":"block-start","index":0,"blockType":"text"}},"#,
            r#"{"type":"reasoning-chunks","time0":2,"index":1,"dt":[],"texts":["r"]},"#,
            r#"{"type":"chunk","time":9,"chunk":{"type":"finish","reason":{"kind":"stop"},"#,
            r#""replayState":{"response":1,"blocks":[1,2]}}}]"#
        ),
        concat!(
            r#" [ {"texts" : [ "x" , "y"],"dt":[ 4.0e0 ],"index":1,"time0":9,"\u0074ype":"reasoning-chunks"} , "#,
            r#"{"chunk":{"type":"usage","usage":1},"time":-0,"type":"chunk"} ] "#
        ),
    ];

    /// Bytes that mean something in a stream.
    const BYTES: &[u8] = b"\"\\,:[]{} 0129-.eE+\n\x1fua\xc3";

    proptest! {
        #[test]
        fn any_chunks_come_back(data in prop::collection::vec(any::<u8>(), 0..600)) {
            fuzz_stream_accumulate(&data);
        }

        #[test]
        fn any_bytes_are_refused_or_round_trip(data in prop::collection::vec(any::<u8>(), 0..60)) {
            fuzz_stream_expand(&data);
        }

        /// One or two bytes away from a stream lie the streams that a fast reader gets wrong.
        #[test]
        fn streams_with_a_byte_changed_are_read_alike_by_both_ways(
            which in 0..STREAMS.len(),
            edits in prop::collection::vec((any::<prop::sample::Index>(), 0u8..3, prop::sample::select(BYTES)), 1..3),
        ) {
            let mut data = STREAMS[which].as_bytes().to_vec();
            for (place, edit, byte) in edits {
                if data.is_empty() { break }
                let at = place.index(data.len());
                match edit {
                    0 => data[at] = byte,
                    1 => data.insert(at, byte),
                    _ => { data.remove(at); }
                }
            }
            fuzz_stream_expand(&data);
        }

        /// Long runs, so that every boundary of a block falls on every byte of the pattern.
        #[test]
        fn long_runs_are_read_alike_by_both_ways(
            gaps in prop::collection::vec(prop_oneof![
                8 => 0i64..100, 2 => 0i64..10_000_000, 1 => -50i64..0, 1 => -SAFE / 100..SAFE / 100,
            ], 0..150),
            sizes in prop::collection::vec(0usize..70, 151),
            time0 in prop_oneof![Just(1_760_000_000_000), -100i64..100],
        ) {
            let mut accumulator = Accumulator::new();
            let mut time = time0;
            for (at, size) in sizes.iter().take(gaps.len() + 1).enumerate() {
                if at > 0 { time += gaps[at - 1]; }
                let text: String = "ab\\\"\n,]é\u{1f600} ".chars().cycle().skip(at).take(*size).collect();
                accumulator.push_text(UnixMs::new(time), 0, &text).unwrap();
            }
            fuzz_stream_expand(accumulator.snapshot().as_bytes());
        }
    }

    #[test]
    fn readers_pass_white_space_and_see_a_member_that_stands_twice() {
        let run = r#"{"type":"text-chunks","time0":5,"index":0,"dt":[],"texts":["a"]"#;
        fuzz_stream_expand(format!("[{run} }},{run}\n}}]").as_bytes());
        let twice = format!(r#"[{run},"texts":[""]}}]"#);
        assert_eq!(chunks_of(&expand(twice.as_bytes()).unwrap()).len(), 1);
        let fault = StreamFault::Record { record: 0, fault: RecordFault::MemberSet };
        assert_eq!(StreamReader::new(&twice).timing(), Err(fault));
    }

    #[test]
    fn written_streams_hold_and_so_do_their_beginnings() {
        for stream in STREAMS {
            assert!(expand(stream.as_bytes()).is_ok(), "{stream}");
            for cut in 0..=stream.len() {
                fuzz_stream_expand(&stream.as_bytes()[..cut]);
            }
        }
    }
}
