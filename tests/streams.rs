//! Settlements of real logs: they verify, are written again byte for byte, and their readers agree with an expansion.

mod common;

use std::collections::BTreeMap;
use std::fs;

use seslog::json::Tape;
use seslog::stream::{
    BlockKind, BlockTiming, Chunk, Expansion, Settlement, SettlementKind, StreamReader, Timed, Timing, Usage,
    View, expand,
};
use seslog::units::UnixMs;

/// The data of all settlements in the v2 logs of the corpus, with where they stand.
fn settlements() -> Option<Vec<(String, SettlementKind, String)>> {
    let corpus = common::shared()?.join("corpus");
    let mut found = Vec::new();
    for folder in ["dsh-v2", "migrated/v2"] {
        for entry in fs::read_dir(corpus.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "jsonl") {
                continue;
            }
            for (line, row) in fs::read_to_string(&path).unwrap().lines().enumerate() {
                let mut tape = Tape::default();
                let row = tape.parse(row.as_bytes(), 10_000).unwrap();
                let event_type = row.get("type").unwrap().as_str().unwrap().to_string_lossy().into_owned();
                if let Some(kind) = SettlementKind::of_event(&event_type) {
                    let place = format!("{}:{}", path.display(), line + 1);
                    found.push((place, kind, row.get("data").unwrap().raw().to_owned()));
                }
            }
        }
    }
    Some(found)
}

#[test]
fn settlements_of_real_logs_agree_with_their_streams() {
    let Some(settlements) = settlements() else { return };
    let (mut messages, mut attempts, mut chunks) = (0, 0, 0);
    for (place, kind, data) in &settlements {
        let settlement = Settlement::read(*kind, data).unwrap_or_else(|fault| panic!("{place}: {fault}"));
        settlement.verify().unwrap_or_else(|fault| panic!("{place}: {fault}: {fault:?}"));
        match settlement.kind() {
            SettlementKind::Message => messages += 1,
            _ => attempts += 1,
        }
        let stream = expand(settlement.stream.as_bytes()).unwrap();
        let mut written = Vec::new();
        stream.write_json(&mut written);
        assert_eq!(std::str::from_utf8(&written).unwrap(), settlement.stream, "{place}: written again");
        chunks += stream.len();
    }
    assert!(messages >= 90 && attempts >= 1 && chunks >= 5000, "{messages} {attempts} {chunks}");
    println!("{messages} messages, {attempts} attempts, {chunks} chunks");
}

#[test]
fn timing_from_records_is_that_of_a_plain_expansion() {
    let Some(settlements) = settlements() else { return };
    let mut tokens = 0;
    for (place, kind, data) in &settlements {
        let reader = Settlement::read(*kind, data).unwrap().reader();
        let stream = expand(Settlement::read(*kind, data).unwrap().stream.as_bytes()).unwrap();
        let timing = reader.timing().unwrap();
        compare(place, &timing, &plain_timing(&stream));
        assert_eq!(reader.first_token_time().unwrap(), timing.first_token, "{place}");
        let times: Vec<UnixMs> = reader.token_times().map(Result::unwrap).collect();
        let expected = stream.chunks().filter(|timed| timed.chunk.is_token()).map(|timed| timed.time);
        assert_eq!(times, expected.collect::<Vec<_>>(), "{place}");
        tokens += timing.tokens;
    }
    assert!(tokens >= 5000, "{tokens}");
}

fn compare(place: &str, timing: &Timing, plain: &Plain) {
    assert_eq!((timing.first, timing.last), (plain.first, plain.last), "{place}");
    assert_eq!((timing.first_token, timing.last_token), (plain.first_token, plain.last_token), "{place}");
    assert_eq!((timing.chunks, timing.tokens), (plain.chunks, plain.tokens), "{place}");
    assert_eq!(timing.usage, plain.usage, "{place}");
    assert_eq!(timing.blocks.len(), plain.blocks.len(), "{place}");
    for block in &timing.blocks {
        let facts = (block.first, block.first_token, block.last_token, block.end, block.deltas, block.tokens);
        assert_eq!(plain.blocks.get(&block.index), Some(&facts), "{place}: block {}", block.index);
    }
}

type BlockFacts = (UnixMs, Option<UnixMs>, Option<UnixMs>, Option<UnixMs>, u64, u64);

#[derive(Default)]
struct Plain {
    first: Option<UnixMs>,
    last: Option<UnixMs>,
    first_token: Option<UnixMs>,
    last_token: Option<UnixMs>,
    chunks: u64,
    tokens: u64,
    usage: Option<Usage>,
    blocks: BTreeMap<u64, BlockFacts>,
}

/// The timing as one computes it who has all chunks before him.
fn plain_timing(stream: &Expansion<'_>) -> Plain {
    let mut plain = Plain::default();
    for Timed { time, chunk, .. } in stream {
        plain.first.get_or_insert(time);
        plain.last = Some(time);
        plain.chunks += 1;
        let is_token = chunk.is_token();
        if is_token {
            plain.first_token.get_or_insert(time);
            plain.last_token = Some(time);
            plain.tokens += 1;
        }
        let (index, is_delta, ends) = match chunk {
            Chunk::TextDelta { index, .. } | Chunk::ReasoningDelta { index, .. } => (index, true, false),
            Chunk::ToolCallDelta { index, .. } => (index, true, false),
            Chunk::Raw(raw) => match raw.view().unwrap() {
                View::BlockStart { index, .. } => (index.unwrap().parse().unwrap(), false, false),
                View::BlockEnd { index, .. } => (index.unwrap().parse().unwrap(), false, true),
                View::Usage { usage } => {
                    plain.usage = Usage::of_json(usage.unwrap());
                    continue;
                }
                View::Finish { .. } => continue,
                _ => panic!("a raw delta in the corpus"),
            },
            _ => panic!("a new kind of chunk"),
        };
        let block = plain.blocks.entry(index).or_insert((time, None, None, None, 0, 0));
        block.4 += u64::from(is_delta);
        block.5 += u64::from(is_token);
        if is_token {
            block.1.get_or_insert(time);
            block.2 = Some(time);
        }
        if ends {
            block.3.get_or_insert(time);
        }
    }
    plain
}

#[test]
fn timing_counts_blocks_tokens_and_rates() {
    let stream = concat!(
        r#"[{"type":"chunk","time":1000,"chunk":{"type":"block-start","index":3,"blockType":"reasoning"}},"#,
        r#"{"type":"reasoning-chunks","time0":1500,"index":3,"dt":[0,250],"texts":["","Hm","."]},"#,
        r#"{"type":"chunk","time":1800,"chunk":{"type":"block-end","index":3,"block":{"type":"reasoning","text":"Hm."}}},"#,
        r#"{"type":"tool-call-chunks","time0":2000,"index":0,"dt":[500],"id":"c","name":"f","args":["",""]},"#,
        r#"{"type":"chunk","time":2600,"chunk":{"type":"usage","usage":{"inputTokens":5,"outputTokens":30}}},"#,
        r#"{"type":"chunk","time":2600,"chunk":{"type":"finish","reason":{"kind":"tool-calls"}}}]"#
    );
    let timing = StreamReader::new(stream).timing().unwrap();
    let at = |ms| Some(UnixMs::new(ms));
    assert_eq!((timing.first, timing.last), (at(1000), at(2600)));
    assert_eq!((timing.first_token, timing.last_token), (at(1500), at(2500)));
    assert_eq!((timing.chunks, timing.tokens), (9, 4));
    assert_eq!((timing.token_span_ms(), timing.output_tokens()), (Some(1000), 30));
    assert_eq!(timing.tokens_per_second(), Some(30.0));
    let [reasoning, call]: [BlockTiming; 2] = timing.blocks.try_into().unwrap();
    assert_eq!(
        (reasoning.index, reasoning.kind, reasoning.deltas, reasoning.tokens),
        (3, BlockKind::Reasoning, 3, 2)
    );
    assert_eq!(
        (reasoning.first, reasoning.first_token, reasoning.end),
        (UnixMs::new(1000), at(1500), at(1800))
    );
    assert_eq!(
        (call.index, call.kind, call.deltas, call.tokens, call.end),
        (0, BlockKind::ToolCall, 2, 2, None)
    );
}

#[test]
fn no_rate_is_made_up_where_no_time_passed() {
    let timing = |json| StreamReader::new(json).timing().unwrap();
    let empty = timing("[]");
    assert_eq!((empty.token_span_ms(), empty.tokens_per_second(), empty.output_tokens()), (None, None, 0));
    let burst = timing(r#"[{"type":"text-chunks","time0":7,"index":0,"dt":[0],"texts":["a","b"]}]"#);
    assert_eq!((burst.token_span_ms(), burst.tokens_per_second(), burst.output_tokens()), (Some(0), None, 2));
    let backwards = timing(r#"[{"type":"text-chunks","time0":7,"index":0,"dt":[-5],"texts":["a","b"]}]"#);
    assert_eq!((backwards.token_span_ms(), backwards.tokens_per_second()), (Some(0), None));
}
