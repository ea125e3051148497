use std::collections::HashMap;

use super::chunk::{BlockKind, Chunk, RawChunk, View, count};
use super::fault::StreamFault;
use super::lazy::{Peeked, PeekedRun};
use super::read::StreamReader;
use super::record::RunKind;
use super::usage::Usage;
use crate::units::UnixMs;

/// When an attempt's answer came, and how much of it.
///
/// Times are as recorded: they may repeat, and run backwards where the clock did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// The first chunk in stream order.
    pub first: Option<UnixMs>,
    /// The last chunk in stream order.
    pub last: Option<UnixMs>,
    /// The first token in stream order.
    pub first_token: Option<UnixMs>,
    /// The last token in stream order.
    pub last_token: Option<UnixMs>,
    /// Chunks of all kinds.
    pub chunks: u64,
    /// Chunks that are tokens ([`Chunk::is_token`]). A provider may put several tokens into one.
    pub tokens: u64,
    /// The last usage, if it counts tokens.
    pub usage: Option<Usage>,
    /// The blocks in order of first appearance. Raw chunks without a valid index belong to none.
    pub blocks: Vec<BlockTiming>,
}

/// When a block's part of an answer came, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockTiming {
    /// Its index in the stream.
    pub index: u64,
    /// What its first chunk says it is.
    pub kind: BlockKind,
    /// Its first chunk in stream order.
    pub first: UnixMs,
    /// Its first token in stream order.
    pub first_token: Option<UnixMs>,
    /// Its last token in stream order.
    pub last_token: Option<UnixMs>,
    /// When it ended; `None` for a block that did not.
    pub end: Option<UnixMs>,
    /// Its deltas, late ones included.
    pub deltas: u64,
    /// Its deltas that are tokens.
    pub tokens: u64,
}

impl Timing {
    /// Milliseconds from the first token to the last; 0 if the clock stepped back between them.
    #[must_use]
    pub fn token_span_ms(&self) -> Option<u64> {
        let span = self.last_token?.get().saturating_sub(self.first_token?.get());
        Some(u64::try_from(span).unwrap_or_default())
    }

    /// Output tokens as the provider counted them, or the chunks that are tokens if it did not.
    #[must_use]
    pub fn output_tokens(&self) -> u64 {
        self.usage.map_or(self.tokens, |usage| usage.output_tokens)
    }

    /// Output tokens a second between the first and the last; `None` where no time passed.
    #[must_use]
    pub fn tokens_per_second(&self) -> Option<f64> {
        let span = self.token_span_ms().filter(|span| *span > 0)?;
        #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
        Some(self.output_tokens() as f64 * 1000.0 / span as f64)
    }
}

impl StreamReader<'_> {
    /// The timing of the stream, from its records. Time O(bytes).
    ///
    /// # Errors
    /// As [`first_token_time`](Self::first_token_time).
    pub fn timing(self) -> Result<Timing, StreamFault> {
        let mut clock = Clock::default();
        let mut records = self.records();
        while let Some(record) = records.next()? {
            match record {
                Peeked::Run(run) => clock.run(run),
                Peeked::Raw { time, chunk } => clock.raw(UnixMs::new(time), chunk),
            }
        }
        Ok(clock.timing)
    }
}

#[derive(Default)]
struct Clock {
    timing: Timing,
    /// Where the block of an index stands in the timing.
    places: HashMap<u64, usize>,
}

impl Clock {
    fn run(&mut self, run: PeekedRun<'_>) {
        let kind = match run.head.kind {
            RunKind::Text => BlockKind::Text,
            RunKind::Reasoning => BlockKind::Reasoning,
            RunKind::ToolCall => BlockKind::ToolCall,
        };
        let (time0, index) = (UnixMs::new(run.head.time0), run.head.index);
        let named = run.head.name.is_some();
        let place = self.place(index, kind, time0);
        let Self { timing, .. } = self;
        let Some(block) = timing.blocks.get_mut(place) else { return };
        for (time, text) in run.members() {
            let time = UnixMs::new(time);
            timing.first.get_or_insert(time);
            timing.last = Some(time);
            timing.chunks = timing.chunks.saturating_add(1);
            block.deltas = block.deltas.saturating_add(1);
            if named || !text.is_empty() {
                timing.first_token.get_or_insert(time);
                timing.last_token = Some(time);
                timing.tokens = timing.tokens.saturating_add(1);
                block.token(time);
            }
        }
    }

    fn raw(&mut self, time: UnixMs, chunk: RawChunk<'_>) {
        self.timing.first.get_or_insert(time);
        self.timing.last = Some(time);
        self.timing.chunks = self.timing.chunks.saturating_add(1);
        let is_token = Chunk::Raw(chunk).is_token();
        if is_token {
            self.timing.first_token.get_or_insert(time);
            self.timing.last_token = Some(time);
            self.timing.tokens = self.timing.tokens.saturating_add(1);
        }
        let (index, kind) = match chunk.view() {
            Some(View::BlockStart { index, block_type }) => (index, BlockKind::named(block_type)),
            Some(View::TextDelta { index, .. }) => (index, BlockKind::Text),
            Some(View::ReasoningDelta { index, .. }) => (index, BlockKind::Reasoning),
            Some(View::ToolCallDelta { index, .. }) => (index, BlockKind::ToolCall),
            Some(View::BlockEnd { index, block }) => {
                (index, block.map_or(BlockKind::Other, BlockKind::of_block))
            }
            Some(View::Usage { usage }) => {
                self.timing.usage = usage.and_then(Usage::of_json);
                return;
            }
            Some(View::Finish { .. }) | None => return,
        };
        let Some(index) = count(index) else { return };
        let place = self.place(index, kind, time);
        let Some(block) = self.timing.blocks.get_mut(place) else { return };
        match chunk.view() {
            Some(View::BlockStart { .. }) => {}
            Some(View::BlockEnd { .. }) => {
                block.end.get_or_insert(time);
            }
            _ => {
                block.deltas = block.deltas.saturating_add(1);
                if is_token {
                    block.token(time);
                }
            }
        }
    }

    fn place(&mut self, index: u64, kind: BlockKind, first: UnixMs) -> usize {
        let blocks = &mut self.timing.blocks;
        *self.places.entry(index).or_insert_with(|| {
            blocks.push(BlockTiming {
                index,
                kind,
                first,
                first_token: None,
                last_token: None,
                end: None,
                deltas: 0,
                tokens: 0,
            });
            blocks.len().saturating_sub(1)
        })
    }
}

impl BlockTiming {
    fn token(&mut self, time: UnixMs) {
        self.first_token.get_or_insert(time);
        self.last_token = Some(time);
        self.tokens = self.tokens.saturating_add(1);
    }
}
