//! Sessions made from a seed: the same bytes on every run and machine.
//!
//! Shapes and sizes follow agent sessions as they are stored: settlements with compact streams, tool results of code-like
//! text, and small events between them. `SESLOG_BENCH=full` makes them as large as the issue on speed wants them;
//! otherwise they are an eighth of that.

// Each bench compiles this file for itself and uses only a part of it.
#![allow(dead_code, reason = "no single bench uses every set")]

pub(crate) mod older;
pub(crate) mod stream;
mod text;

use std::path::PathBuf;

use seslog::container::Encoding;
use seslog::json::{Text, write_string};
use seslog::row::Header;
use seslog::store::{Durability, FileStore, StoreOptions};
use seslog::units::{Generation, UnixMs};

use text::{Source, prose_token};

/// A generator of numbers (SplitMix64): small, seedable, and never changing.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `n - 1`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// A number from `low` to `high - 1`, small ones more often: a long tail.
    pub(crate) fn skewed(&mut self, low: usize, high: usize) -> usize {
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        low + ((high - low) as f64 * unit * unit) as usize
    }
}

/// Rows of one log, each with its newline, in one piece of memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    pub(crate) text: Vec<u8>,
    ends: Vec<usize>,
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The row at `index`, without its newline.
    pub(crate) fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index] - 1]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Keeps the first `count` rows.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

/// One session: its header and its events of generation 2.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) header: Header,
    pub(crate) rows: Rows,
}

impl Session {
    pub(crate) fn id(&self) -> &Text {
        self.header.id()
    }
}

/// Whether the sets are as large as the issue on speed wants them.
pub(crate) fn is_full() -> bool {
    std::env::var_os("SESLOG_BENCH").is_some_and(|size| size == "full")
}

/// One long session: 20,000 events and about 120 MB of rows in full size.
pub(crate) fn large() -> Session {
    large_of(if is_full() { 20_000 } else { 2_500 })
}

/// The first `events` of the long session.
pub(crate) fn large_of(events: usize) -> Session {
    Maker::new(1, "large", Shape::LARGE).events(events)
}

/// Many sessions of the everyday kind in 24 projects: 2,000 and about 160 MB of rows in full size.
pub(crate) fn small() -> Vec<Session> {
    small_of(if is_full() { 2_000 } else { 250 })
}

/// The first `count` sessions of the everyday kind.
pub(crate) fn small_of(count: u64) -> Vec<Session> {
    let mut rng = Rng::new(2);
    (0..count)
        .map(|n| {
            let events = 12 + rng.below(92);
            Maker::new(1_000 + n, &format!("small-{n:04}"), Shape::SMALL).events(events)
        })
        .collect()
}

/// The session number `n` of a root that holds very many: one short turn, 4 KB of rows on average.
pub(crate) fn brief(n: u64) -> Session {
    let events = 6 + (n % 9) as usize;
    Maker::new(1_000_000 + n, &format!("brief-{n:06}"), Shape::BRIEF).events(events)
}

/// One session of token-sized events: 150,000 in full size.
pub(crate) fn tiny() -> Session {
    tiny_of(if is_full() { 150_000 } else { 18_750 })
}

/// The first `events` of the session of token-sized events.
pub(crate) fn tiny_of(events: usize) -> Session {
    let mut maker = Maker::new(3, "tiny", Shape::SMALL);
    let mut token = String::new();
    for _ in 0..events {
        token.clear();
        prose_token(&mut maker.rng, &mut token);
        maker.row("assistant/chunk", ",\"ignorable\":true", |_, out| {
            out.extend_from_slice(
                b"{\"turn\":1,\"step\":1,\"chunk\":{\"type\":\"text-delta\",\"index\":0,\"text\":",
            );
            write_string(out, &token);
            out.extend_from_slice(b"}}");
        });
    }
    maker.finish()
}

/// A row from its time on, without `sourceEventSeqs`: what can be stored again under another seq.
pub(crate) fn body_without_citations(row: &[u8]) -> Vec<u8> {
    let at = memchr::memmem::find(row, b",\"time\":").expect("every row has a time");
    let mut body = row[at..].to_vec();
    if let Some(start) = memchr::memmem::rfind(&body, b",\"sourceEventSeqs\":[") {
        let end = start + memchr::memchr(b']', &body[start..]).expect("the list ends");
        body.drain(start..=end);
    }
    body
}

/// Stores a session through `store` in appends of `batch` events, everything synced before the last append, as a writer
/// that waits for the disk leaves it. Returns the path of the log.
pub(crate) fn write_session(
    root: &std::path::Path,
    encoding: Encoding,
    session: &Session,
    batch: usize,
) -> PathBuf {
    let mut options = StoreOptions::default();
    options.encoding = encoding;
    options.durability = Durability::OnFlush;
    let store = FileStore::with_options(root, options);
    let handle = store.create(session.header.clone(), None).expect("the id is new");
    let rows: Vec<&[u8]> = session.rows.iter().collect();
    let last = rows.len().saturating_sub(1) / batch;
    for (index, rows) in rows.chunks(batch).enumerate() {
        if index == last {
            handle.flush().expect("the disk takes it");
        }
        handle.append(rows).expect("the rows are sound");
    }
    handle.close().expect("the disk takes it");
    store.stat(session.id()).expect("it is there").expect("it is there").path
}

/// How much of what a session holds.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Tokens of a model's answer, least and most.
    tokens: (usize, usize),
    /// Bytes of a tool's result, least and most.
    result: (usize, usize),
}

impl Shape {
    const LARGE: Self = Self { tokens: (500, 2_900), result: (1_000, 30_000) };
    const SMALL: Self = Self { tokens: (20, 900), result: (200, 16_000) };
    const BRIEF: Self = Self { tokens: (10, 80), result: (100, 1_200) };
}

/// Writes the rows of one session, turn after turn.
struct Maker {
    rng: Rng,
    shape: Shape,
    source: Source,
    header: Header,
    rows: Rows,
    time: i64,
    scratch: String,
}

impl Maker {
    fn new(seed: u64, name: &str, shape: Shape) -> Self {
        let mut rng = Rng::new(seed);
        let created_at = 1_767_225_600_000 + (rng.below(10_000_000_000)) as i64;
        let project = rng.below(24);
        let header = Header::new(
            Generation::V2,
            Text::from(format!("bench-{name}").as_str()),
            UnixMs::new(created_at),
        )
        .and_then(|header| header.with_cwd(Text::from(format!("/home/dev/project-{project:02}").as_str())))
        .expect("a plain header");
        let source = Source::new(rng.next());
        Self { rng, shape, source, header, rows: Rows::default(), time: created_at, scratch: String::new() }
    }

    fn finish(self) -> Session {
        Session { header: self.header, rows: self.rows }
    }

    /// Turns until there are `count` events; the last one may be cut short, as a session that is still open is.
    fn events(mut self, count: usize) -> Session {
        let mut turn = 0;
        while self.rows.len() < count {
            turn += 1;
            self.turn(turn);
        }
        self.rows.truncate(count);
        self.finish()
    }

    fn turn(&mut self, turn: usize) {
        self.row("turn/start", "", |_, out| out.extend_from_slice(format!("{{\"turn\":{turn}}}").as_bytes()));
        self.row("user/message", ",\"surfaceOp\":\"append\"", |maker, out| {
            out.extend_from_slice(b"{\"content\":[{\"type\":\"text\",\"text\":");
            let words = maker.rng.skewed(8, 160);
            maker.prose(words);
            write_string(out, &maker.scratch);
            out.extend_from_slice(b"}],\"source\":{\"kind\":\"user\"},\"role\":\"user\",\"id\":");
            maker.unique_id(out);
            out.push(b'}');
        });
        let steps = 1 + self.rng.skewed(1, 24);
        for step in 1..=steps {
            let place = format!("{{\"turn\":{turn},\"step\":{step}");
            self.row("step/start", "", |_, out| out.extend_from_slice(format!("{place}}}").as_bytes()));
            self.row("assistant/message", ",\"surfaceOp\":\"append\"", |maker, out| {
                maker.settlement(&place, out)
            });
            if step == steps {
                self.row("step/end", "", |_, out| out.extend_from_slice(format!("{place}}}").as_bytes()));
                break;
            }
            let call = format!("call_{:016x}", self.rng.next());
            self.row("tool/call", "", |maker, out| {
                let path = maker.source.path(&mut maker.rng);
                let line = maker.rng.below(900);
                out.extend_from_slice(
                    format!("{place},\"callId\":\"{call}\",\"name\":\"read\",\"arguments\":").as_bytes(),
                );
                write_string(out, &format!("{{\"file_path\":\"{path}\",\"offset\":{line},\"limit\":400}}"));
                out.push(b'}');
            });
            let cited = self.rows.len() - 1;
            let after = format!(",\"sourceEventSeqs\":[{cited}],\"surfaceOp\":\"append\"");
            self.row("tool/result", &after, |maker, out| maker.result(&place, &call, out));
            self.row("step/end", "", |_, out| out.extend_from_slice(format!("{place}}}").as_bytes()));
        }
        self.row("turn/end", "", |_, out| {
            out.extend_from_slice(
                format!("{{\"turn\":{turn},\"reason\":{{\"kind\":\"completed\"}}}}").as_bytes(),
            );
        });
    }

    /// One answer of a model: its text, and the stream in which it came.
    fn settlement(&mut self, place: &str, out: &mut Vec<u8>) {
        let (low, high) = self.shape.tokens;
        let tokens = self.rng.skewed(low, high);
        let (mut text, mut texts, mut gaps) = (String::new(), Vec::new(), String::new());
        let first = self.time;
        let mut token = String::new();
        for index in 0..tokens {
            token.clear();
            if self.rng.below(5) < 3 {
                self.source.token(&mut self.rng, &mut token)
            } else {
                prose_token(&mut self.rng, &mut token)
            }
            text.push_str(&token);
            if index > 0 {
                let gap = self.rng.skewed(0, 60) as i64;
                self.time += gap;
                if index > 1 {
                    gaps.push(',');
                }
                gaps.push_str(&gap.to_string());
                texts.push(b',');
            }
            write_string(&mut texts, &token);
        }
        out.extend_from_slice(
            format!(
                "{place},\"message\":{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":"
            )
            .as_bytes(),
        );
        write_string(out, &text);
        out.extend_from_slice(
            b"}],\"source\":{\"kind\":\"model\",\"provider\":\"bench\",\"model\":\"bench-1\"},\"id\":",
        );
        self.unique_id(out);
        out.extend_from_slice(
            format!(
                "}},\"usage\":{{\"inputTokens\":{},\"outputTokens\":{tokens}}},\"stream\":[{{\"type\":\"chunk\",\"time\":{first},\
                 \"chunk\":{{\"type\":\"block-start\",\"index\":0,\"blockType\":\"text\"}}}},\
                 {{\"type\":\"text-chunks\",\"time0\":{first},\"index\":0,\"dt\":[{gaps}],\"texts\":[",
                self.rng.below(150_000)
            )
            .as_bytes(),
        );
        out.extend_from_slice(&texts);
        out.extend_from_slice(
            format!(
                "]}},{{\"type\":\"chunk\",\"time\":{0},\"chunk\":{{\"type\":\"finish\",\"reason\":{{\"kind\":\"stop\"}}}}}}]}}",
                self.time
            )
            .as_bytes(),
        );
    }

    /// What a tool gave back: a window of a source file, the hits of a search, a test log, a listing.
    fn result(&mut self, place: &str, call: &str, out: &mut Vec<u8>) {
        let (low, high) = self.shape.result;
        let bytes = self.rng.skewed(low, high);
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        self.source.output(&mut self.rng, bytes, &mut text);
        out.extend_from_slice(
            format!(
                "{place},\"message\":{{\"source\":{{\"kind\":\"tool\",\"callId\":\"{call}\"}},\"content\":[{{\"type\":\"tool-result\",\
                 \"toolCallId\":\"{call}\",\"content\":[{{\"type\":\"text\",\"text\":"
            )
            .as_bytes(),
        );
        write_string(out, &text);
        self.scratch = text;
        out.extend_from_slice(b"}],\"isError\":false}],\"role\":\"user\",\"id\":");
        self.unique_id(out);
        out.extend_from_slice(b"}}");
    }

    fn prose(&mut self, words: usize) {
        self.scratch.clear();
        for _ in 0..words {
            prose_token(&mut self.rng, &mut self.scratch);
        }
    }

    fn unique_id(&mut self, out: &mut Vec<u8>) {
        let (high, low) = (self.rng.next(), self.rng.next());
        let id = format!(
            "\"{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}\"",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        );
        out.extend_from_slice(id.as_bytes());
    }

    /// One row; `data` writes its payload, `after` is what stands behind it.
    fn row(&mut self, kind: &str, after: &str, data: impl FnOnce(&mut Self, &mut Vec<u8>)) {
        let seq = self.rows.len();
        let mut payload = Vec::new();
        data(self, &mut payload);
        self.time += self.rng.skewed(0, 400) as i64;
        let text = &mut self.rows.text;
        text.extend_from_slice(
            format!("{{\"type\":\"{kind}\",\"seq\":{seq},\"time\":{},\"data\":", self.time).as_bytes(),
        );
        text.extend_from_slice(&payload);
        text.extend_from_slice(after.as_bytes());
        text.extend_from_slice(b"}\n");
        self.rows.ends.push(text.len());
    }
}
