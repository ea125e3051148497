use super::assemble::Assembler;
use super::chunk::{Chunk, ChunkKind, RawChunk, View};
use super::fault::StreamFault;
use super::lazy::{Peeked, PeekedMembers, PeekedRecords, PeekedRun};
use super::record::RunKind;
use super::value::string;
use crate::json::Text;
use crate::units::UnixMs;

/// Answers questions about a stream from its records, without expanding them.
///
/// Reads as far as the answer needs: the first token of a long stream costs a look past its gaps. In exchange it trusts
/// the stream. What is not one gives some answer, or the fault that was come across; [`expand`](super::expand) a stream
/// from outside once before it is asked. A run that has a member twice is not foreseen either, though it expands.
///
/// Spec: `format-spec/04-rows.md`, "Reading a stream".
#[derive(Clone, Copy, Debug)]
pub struct StreamReader<'a> {
    stream: &'a str,
}

impl<'a> StreamReader<'a> {
    /// A reader of the JSON text of an array of records.
    #[must_use]
    pub const fn new(stream: &'a str) -> Self {
        Self { stream }
    }

    /// The time of the first token in stream order, which need not be the earliest.
    ///
    /// # Errors
    /// [`StreamFault`] for a stream that is none, as far as it is read.
    pub fn first_token_time(self) -> Result<Option<UnixMs>, StreamFault> {
        self.token_times().next().transpose()
    }

    /// The times of all chunks that are tokens ([`Chunk::is_token`]), in stream order.
    pub fn token_times(self) -> impl Iterator<Item = Result<UnixMs, StreamFault>> + 'a {
        TokenTimes { records: self.records(), run: None, done: false }
    }

    /// Whether the stream has anything for a reader of the conversation ([`Chunk::is_visible`]).
    ///
    /// # Errors
    /// As [`first_token_time`](Self::first_token_time).
    pub fn has_visible_content(self) -> Result<bool, StreamFault> {
        self.any(|run| run.kind != RunKind::ToolCall, Chunk::is_visible)
    }

    /// Whether the stream has text of the answer that is not blank ([`Chunk::has_visible_text`]).
    ///
    /// # Errors
    /// As [`first_token_time`](Self::first_token_time).
    pub fn has_visible_text(self) -> Result<bool, StreamFault> {
        self.any(|run| run.kind == RunKind::Text, Chunk::has_visible_text)
    }

    /// Whether a run that `counts` has a fragment that is not blank, or `raw` holds for a raw chunk.
    fn any(
        self,
        counts: impl Fn(super::record::Head<'a>) -> bool,
        raw: impl Fn(Chunk<'a>) -> bool,
    ) -> Result<bool, StreamFault> {
        let mut records = self.records();
        while let Some(record) = records.next()? {
            let found = match record {
                Peeked::Run(run) => counts(run.head) && run.members().any(|(_, text)| !text.is_blank()),
                Peeked::Raw { chunk, .. } => raw(Chunk::Raw(chunk)),
            };
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The raw chunks of a kind in stream order. Deltas in runs are no raw chunks.
    pub fn raw_chunks(self, kind: ChunkKind) -> impl Iterator<Item = Result<RawChunk<'a>, StreamFault>> + 'a {
        let mut records = self.records();
        let mut done = false;
        std::iter::from_fn(move || {
            while !done {
                match records.next() {
                    Ok(Some(Peeked::Raw { chunk, .. })) if chunk.kind() == Some(kind) => {
                        return Some(Ok(chunk));
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => done = true,
                    Err(fault) => {
                        done = true;
                        return Some(Err(fault));
                    }
                }
            }
            None
        })
    }

    /// The last raw chunk of a kind.
    ///
    /// # Errors
    /// As [`first_token_time`](Self::first_token_time).
    pub fn last_raw_chunk(self, kind: ChunkKind) -> Result<Option<RawChunk<'a>>, StreamFault> {
        self.raw_chunks(kind).try_fold(None, |_, chunk| chunk.map(Some))
    }

    /// The text of all text deltas, over all blocks, in stream order.
    ///
    /// # Errors
    /// As [`first_token_time`](Self::first_token_time).
    pub fn joined_text(self) -> Result<Text, StreamFault> {
        let mut text = Text::new();
        let mut records = self.records();
        while let Some(record) = records.next()? {
            match record {
                Peeked::Run(run) if run.head.kind == RunKind::Text => {
                    run.members().for_each(|(_, fragment)| fragment.append_to(&mut text));
                }
                Peeked::Run(_) => {}
                Peeked::Raw { chunk, .. } => {
                    if let Some(View::TextDelta { text: Some(json), .. }) = chunk.view() {
                        string(json).into_iter().for_each(|fragment| fragment.append_to(&mut text));
                    }
                }
            }
        }
        Ok(text)
    }

    /// What the stream assembles to.
    ///
    /// # Errors
    /// As [`first_token_time`](Self::first_token_time), and [`StreamFault::Assemble`] for a chunk that an [`Assembler`]
    /// refuses.
    pub fn assemble(self) -> Result<Assembler, StreamFault> {
        let mut assembler = Assembler::new();
        let mut records = self.records();
        while let Some(record) = records.next()? {
            match record {
                Peeked::Run(run) => assembler.push_run(&run.head, run.members().map(|(_, text)| text)),
                Peeked::Raw { chunk, .. } => assembler.push(Chunk::Raw(chunk))?,
            }
        }
        Ok(assembler)
    }

    pub(super) fn records(self) -> PeekedRecords<'a> {
        PeekedRecords::of(self.stream)
    }
}

/// Iterator behind [`StreamReader::token_times`].
struct TokenTimes<'a> {
    records: PeekedRecords<'a>,
    run: Option<(bool, PeekedMembers<'a>)>,
    done: bool,
}

impl Iterator for TokenTimes<'_> {
    type Item = Result<UnixMs, StreamFault>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            if let Some((named, members)) = &mut self.run {
                // A tool-call delta with a name is a token, whatever it adds.
                let token = members.find(|(_, text)| *named || !text.is_empty());
                if let Some((time, _)) = token {
                    return Some(Ok(UnixMs::new(time)));
                }
                self.run = None;
            }
            match self.records.next() {
                Ok(Some(Peeked::Run(run))) => self.run = Some((is_named(run), run.members())),
                Ok(Some(Peeked::Raw { time, chunk })) => {
                    if Chunk::Raw(chunk).is_token() {
                        return Some(Ok(UnixMs::new(time)));
                    }
                }
                Ok(None) => self.done = true,
                Err(fault) => {
                    self.done = true;
                    return Some(Err(fault));
                }
            }
        }
        None
    }
}

fn is_named(run: PeekedRun<'_>) -> bool {
    run.head.name.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = r#"{"type":"text-chunks","time0":10,"index":0,"dt":[1,2],"texts":["","a","b"]}"#;

    #[test]
    fn readers_stop_where_the_answer_is() {
        // What follows the first token is cut off, which nobody would miss who does not look.
        let cut = &LONG[..LONG.len() - 6];
        let stream = format!("[{cut}");
        let reader = StreamReader::new(&stream);
        assert_eq!(reader.first_token_time(), Ok(Some(UnixMs::new(11))));
        assert_eq!((reader.has_visible_content(), reader.has_visible_text()), (Ok(true), Ok(true)));
        assert!(reader.joined_text().is_err() && reader.timing().is_err());
        assert!(reader.last_raw_chunk(ChunkKind::Usage).is_err());
        let mut times = reader.token_times();
        assert!(times.any(|time| time.is_err()) && times.next().is_none(), "a fault ends the times");
    }

    #[test]
    fn the_first_token_is_the_first_in_stream_order() {
        let first = |stream: &str| StreamReader::new(stream).first_token_time().unwrap().map(UnixMs::get);
        let named =
            r#"{"type":"tool-call-chunks","time0":50,"index":1,"dt":[1],"id":"c","name":"f","args":["",""]}"#;
        let nameless =
            r#"{"type":"tool-call-chunks","time0":40,"index":1,"dt":[1],"id":"c","args":["","{"]}"#;
        let empty = r#"{"type":"reasoning-chunks","time0":30,"index":1,"dt":[],"texts":[""]}"#;
        assert_eq!(first(&format!("[{named},{LONG}]")), Some(50));
        assert_eq!(first(&format!("[{nameless},{LONG}]")), Some(41));
        assert_eq!(first(&format!("[{empty},{LONG}]")), Some(11));
        assert_eq!(first(&format!("[{empty}]")), None);
        assert_eq!(first("[]"), None);
        // Numbers and arrays in other spellings, and members in another order.
        let loose = r#"[ {"texts":[ "" , "x"],"dt":[ -1e1 ],"index":0,"time0":5.0,"type":"text-chunks"} ]"#;
        assert_eq!(first(loose), Some(-5));
        let spaced =
            r#"[{"type":"text-chunks","time0":5,"index":0,"dt":[ 1.0 , 2 ],"texts":[ "","" , "x" ] }]"#;
        assert_eq!(first(spaced), Some(8));
    }

    #[test]
    fn raw_chunks_come_in_order_and_the_last_wins() {
        let stream = concat!(
            r#"[{"type":"chunk","time":1,"chunk":{"type":"usage","usage":1}},"#,
            r#"{"type":"chunk","time":2,"chunk":{"type":"finish"}},"#,
            r#"{"type":"chunk","time":3,"chunk":{"usage":2,"type":"usage"}}]"#
        );
        let reader = StreamReader::new(stream);
        let usages: Vec<_> =
            reader.raw_chunks(ChunkKind::Usage).map(|chunk| chunk.unwrap().member("usage")).collect();
        assert_eq!(usages, [Some("1"), Some("2")]);
        let last = reader.last_raw_chunk(ChunkKind::Usage).unwrap().unwrap();
        assert_eq!(last.member("usage"), Some("2"));
        assert!(reader.last_raw_chunk(ChunkKind::BlockEnd).unwrap().is_none());
    }

    #[test]
    fn text_is_joined_over_blocks_and_kinds_of_records() {
        let stream = concat!(
            r#"[{"type":"text-chunks","time0":1,"index":0,"dt":[],"texts":["a\ud83d"]},"#,
            r#"{"type":"reasoning-chunks","time0":1,"index":1,"dt":[],"texts":["no"]},"#,
            r#"{"type":"chunk","time":1,"chunk":{"type":"text-delta","index":9,"text":"\ude00"}},"#,
            r#"{"type":"chunk","time":1,"chunk":{"type":"block-end","index":0,"block":{"type":"text","text":"no"}}},"#,
            r#"{"type":"text-chunks","time0":1,"index":2,"dt":[0],"texts":["","b"]}]"#
        );
        assert_eq!(StreamReader::new(stream).joined_text().unwrap(), "a\u{1f600}b");
    }

    #[test]
    fn a_stream_that_is_none_gives_a_fault() {
        for stream in ["", "{}", "[", "[1]", "[{}]", "[]x", "[{\"type\":\"chunk\"}]", "[\"a"] {
            let found = StreamReader::new(stream).timing();
            assert_eq!(found.is_err(), stream != "[]x", "{stream}"); // nobody looks behind the array
        }
    }
}
