//! What a conversion keeps in memory does not grow with the log: `SESLOG_MEMORY_MB` sets the size of the log.

mod common;

use std::ops::ControlFlow;

use seslog::format::{Migration, TargetRow};
use seslog::limits::Limits;
use seslog::row::{Header, Recovery};

/// Highest resident memory of this process so far, in bytes.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

/// Writes rows one at a time, as a file would give them, or a megabyte of them.
struct Rows<'m> {
    migration: Migration,
    sink: &'m mut dyn FnMut(&TargetRow<'_>) -> ControlFlow<()>,
    line: String,
    /// Lines that are pushed at once.
    lines: Option<Vec<u8>>,
    seq: u64,
    bytes: usize,
}

impl Rows<'_> {
    fn push(&mut self, write: impl FnOnce(&mut String, u64), events: u64) {
        self.line.clear();
        write(&mut self.line, self.seq);
        self.seq += events;
        self.bytes += self.line.len() + 1;
        let flow = match &mut self.lines {
            None => self.migration.push(self.line.as_bytes(), self.sink),
            Some(lines) => {
                lines.extend_from_slice(self.line.as_bytes());
                lines.push(b'\n');
                if lines.len() < 1 << 20 {
                    return;
                }
                let flow = self.migration.push_lines(lines, self.sink);
                lines.clear();
                flow
            }
        };
        assert!(flow.expect("the rows convert").is_continue());
    }

    fn event(&mut self, kind: &str, data: &str, more: &str) {
        let write = |line: &mut String, seq| {
            *line = format!(r#"{{"type":"{kind}","seq":{seq},"time":5,"data":{data}{more}}}"#);
        };
        self.push(write, 1);
    }

    /// A turn whose one attempt has `packs` rows of a hundred deltas.
    fn turn(&mut self, turn: u64, packs: u64) {
        self.event("turn/start", &format!(r#"{{"turn":{turn}}}"#), "");
        self.event("step/start", &format!(r#"{{"turn":{turn},"step":1}}"#), "");
        let first = self.seq;
        for _ in 0..packs {
            let gaps = "1,".repeat(99);
            let texts = "\"some words\",".repeat(100);
            let (gaps, texts) = (gaps.trim_end_matches(','), texts.trim_end_matches(','));
            let data = format!(r#"{{"turn":{turn},"step":1,"index":0,"dt":[{gaps}],"texts":[{texts}]}}"#);
            let write = |line: &mut String, seq| {
                *line = format!(r#"{{"type":"text-chunks","seq0":{seq},"time0":5,"data":{data}}}"#);
            };
            self.push(write, 100);
        }
        let last = self.seq - 1;
        let source = r#"{"kind":"model","provider":"p","model":"m"}"#;
        let message = format!(r#"{{"id":"a{turn}","role":"assistant","content":[],"source":{source}}}"#);
        let data = format!(r#"{{"turn":{turn},"step":1,"message":{message}}}"#);
        self.event(
            "assistant/message",
            &data,
            &format!(r#","sourceEventSeqs":[[{first},{last}]],"surfaceOp":"append""#),
        );
        self.event("step/end", &format!(r#"{{"turn":{turn},"step":1}}"#), "");
        self.event("turn/end", &format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#), "");
    }
}

#[test]
fn memory_is_that_of_the_largest_attempt() {
    let Some(before) = peak() else {
        return common::skip("this system does not tell how much memory was used");
    };
    // One after the other: the peak is that of the process.
    for at_once in [false, true] {
        check(before, at_once);
    }
}

/// `before` is the peak before anything was converted.
fn check(before: usize, at_once: bool) {
    let megabytes = std::env::var("SESLOG_MEMORY_MB").map_or(48, |value| value.parse().expect("a number"));
    let header = br#"{"type":"session","version":1,"id":"s","createdAt":5,"delegationDepth":0}"#;
    let header = Header::parse(header, &Limits::DEFAULT).expect("a header");
    let migration = Migration::new(&header, Recovery::Strict, &Limits::DEFAULT).expect("an older log");
    let (mut events, mut largest) = (0_u64, 0);
    let mut sink = |row: &TargetRow<'_>| {
        events += 1;
        largest = largest.max(row.len());
        ControlFlow::Continue(())
    };
    let mut rows = Rows { migration, sink: &mut sink, line: String::new(), lines: None, seq: 0, bytes: 0 };
    rows.lines = at_once.then(Vec::new);
    let mut turn = 0;
    while rows.bytes < megabytes << 20 {
        turn += 1;
        // One attempt of some ten megabytes in the middle of small ones.
        rows.turn(turn, if turn == 100 { 6000 } else { 3 });
    }
    let Rows { mut migration, bytes, lines, .. } = rows;
    let _ = migration.push_lines(&lines.unwrap_or_default(), &mut sink).expect("the rows convert");
    let outcome = migration.finish(&mut sink).expect("the log converts");
    assert_eq!(outcome.events, events);
    let used = peak().expect("it was told before") - before;
    println!("{bytes} bytes of log, largest row {largest}, {used} bytes of memory, {events} events");
    assert!(largest > 8 << 20, "the large attempt was there");
    assert!(
        used < 2 * largest + (8 << 20),
        "{used} bytes for a log of {bytes} with a largest row of {largest}"
    );
}
