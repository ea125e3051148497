//! Megabytes a second of a conversion from v0 and v1 to v2, and of the verification that follows it.
//!
//! `cargo bench --bench migrate [-- PART-OF-A-NAME]`. With `SESLOG_ORACLE` the published packages convert the same files in the same run.

use std::ops::ControlFlow;
use std::process::Command;

use seslog::format::catalog::{Classified, classify};
use seslog::format::{Migration, PayloadCheck, TargetRow, Verifier};
use seslog::limits::Limits;
use seslog::row::{Header, Recovery};

/// Bytes of each log.
const LOG_BYTES: usize = 32 << 20;
const ROUNDS: usize = 9;

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// Deltas packed as the original packs them.
    Packed,
    /// One row for each chunk, as the first releases wrote them.
    Plain,
    /// Few chunks: large tool results and request headers.
    Bulky,
}

fn main() {
    // `cargo bench --bench migrate -- plain` runs the logs whose name has that in it.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    println!("{:12} {:>10} {:>10} {:>10} {:>13}", "log", "migrate", "verify", "packages", "memory");
    for (version, shape) in [(1, Shape::Packed), (1, Shape::Plain), (1, Shape::Bulky), (0, Shape::Packed)] {
        let name = match shape {
            Shape::Packed => "packed",
            Shape::Plain => "plain",
            Shape::Bulky => "bulky",
        };
        let label = format!("v{version}-{name}");
        if wanted.as_ref().is_some_and(|wanted| !label.contains(wanted.as_str())) {
            continue;
        }
        let log = build(version, shape);
        let (mut best, mut best_verify, mut memory) = (f64::MAX, f64::MAX, 0);
        let mut out = Vec::new();
        for _ in 0..ROUNDS {
            out.clear();
            let start = cpu_seconds();
            memory = migrate(&log, &mut out);
            best = best.min(cpu_seconds() - start);
            let start = cpu_seconds();
            verify(&out);
            best_verify = best_verify.min(cpu_seconds() - start);
        }
        let rate = |bytes: usize, seconds: f64| format!("{:.0} MB/s", bytes as f64 / 1e6 / seconds);
        let theirs = packages(&log).map_or_else(|| "-".to_owned(), |seconds| rate(log.len(), seconds));
        println!(
            "{label:12} {:>10} {:>10} {theirs:>10} {:>9} KiB",
            rate(log.len(), best),
            rate(out.len(), best_verify),
            memory >> 10
        );
    }
}

/// The lines of a log, without their newlines.
fn lines(log: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    memchr::memchr_iter(b'\n', log).map(move |end| &log[std::mem::replace(&mut at, end + 1)..end])
}

/// Processor time of this thread: other work on the machine does not count.
fn cpu_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn migrate(log: &[u8], out: &mut Vec<u8>) -> usize {
    let mut lines = lines(log);
    let Classified::MigrationRequired { stored, .. } =
        classify(lines.next().expect("a header"), &Limits::DEFAULT)
    else {
        panic!("an older log")
    };
    let mut migration =
        Migration::new(&stored, Recovery::Recoverable, &Limits::DEFAULT).expect("an older log");
    migration.header().write(out);
    out.push(b'\n');
    let mut sink = |row: &TargetRow<'_>| {
        row.write_to(out);
        out.push(b'\n');
        ControlFlow::Continue(())
    };
    for line in lines {
        let _ = migration.push(line, &mut sink).expect("the log converts");
    }
    migration.finish(&mut sink).expect("the log converts");
    migration.memory()
}

fn verify(log: &[u8]) {
    let mut lines = lines(log);
    let header = Header::parse(lines.next().expect("a header"), &Limits::DEFAULT).expect("a header");
    let mut verifier = Verifier::new(&header, PayloadCheck::Messages, &Limits::DEFAULT).expect("a v2 log");
    let mut events = 0;
    for line in lines {
        verifier.push(line).expect("the row reads back");
        events += 1;
    }
    verifier.finish(header.id(), events).expect("the log verifies");
}

/// Processor time that the published packages take for the log, without the start of their process.
fn packages(log: &[u8]) -> Option<f64> {
    let oracle = std::path::PathBuf::from(std::env::var_os("SESLOG_ORACLE")?);
    let folder = tempfile::tempdir().ok()?;
    let path = folder.path().join("log.jsonl");
    let empty = folder.path().join("empty.jsonl");
    std::fs::write(&path, log).ok()?;
    let header = log.split(|byte| *byte == b'\n').next()?;
    std::fs::write(&empty, [header, b"\n"].concat()).ok()?;
    let run = |path: &std::path::Path| {
        // `times` prints the processor time of the shell and, on the second line, of its children.
        let output = Command::new("bash")
            .args(["-c", "\"$@\" || exit 1; times", "bash"])
            .arg(oracle.join("node_modules/.bin/node"))
            .arg(oracle.join("migrate.mjs"))
            .args(["--recovery", "recoverable", "--out"])
            .arg(folder.path().join("out"))
            .arg(path)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        let seconds = |word: &str| {
            let (minutes, seconds) = word.trim_end_matches('s').split_once('m')?;
            Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
        };
        text.lines().nth(1)?.split_whitespace().map(seconds).sum::<Option<f64>>()
    };
    let start_up = run(&empty)?;
    Some(run(&path)? - start_up)
}

/// A log of turns with two steps each: a tool call and its result, then an answer.
fn build(version: u64, shape: Shape) -> Vec<u8> {
    let mut log = Log { out: Vec::new(), seq: 0, time: 1_790_000_000_000 };
    let header = format!(
        r#"{{"type":"session","version":{version},"id":"bench","createdAt":1790000000000,"cwd":"/w","delegationDepth":0}}"#
    );
    log.line(&header);
    let (deltas, bytes) = if shape == Shape::Bulky { (3, 20_000) } else { (60, 1_500) };
    let mut turn = 0;
    while log.out.len() < LOG_BYTES {
        turn += 1;
        log.event("turn/start", &format!(r#"{{"turn":{turn}}}"#), "");
        let trust = r#"{"type":"text","text":"Please look at the failing test in the parser module and fix it.\nIt worked before."}"#;
        log.event(
            "user/message",
            &format!(r#"{{"id":"u{turn}","role":"user","content":[{trust}],"source":{{"kind":"user"}}}}"#),
            r#","surfaceOp":"append""#,
        );
        for step in 1..=2 {
            log.event("step/start", &format!(r#"{{"turn":{turn},"step":{step}}}"#), "");
            if step == 1 {
                let tools = (0..if shape == Shape::Bulky { 12 } else { 1 })
                    .map(|tool| {
                        let about = "Runs a command in the workspace and returns what it prints.";
                        let parameters = r#"{"type":"object","properties":{"command":{"type":"string"}}}"#;
                        format!(
                            r#"{{"name":"tool{tool}","description":"{about}","parameters":{parameters}}}"#
                        )
                    })
                    .collect::<Vec<_>>()
                    .join(",");
                let config = r#"{"provider":"acme","model":"m"}"#;
                let header = format!(r#"{{"config":{config},"system":"Answer briefly.","tools":[{tools}]}}"#);
                log.event("request/header", &format!(r#"{{"header":{header},"reason":"change"}}"#), "");
            }
            let first = log.seq;
            let text = log.chunks(turn, step, "text", 0, deltas, shape);
            let call = format!("call_{turn}");
            let mut content = format!(r#"{{"type":"text","text":"{text}"}}"#);
            let mut finish = "stop";
            if step == 1 {
                let arguments = log.chunks(turn, step, &call, 1, deltas / 2, shape);
                content.push_str(&format!(
                    r#",{{"type":"tool-call","id":"{call}","name":"shell","arguments":"{arguments}"}}"#
                ));
                finish = "tool-calls";
            }
            log.chunk(
                turn,
                step,
                r#"{"type":"usage","usage":{"inputTokens":1200,"outputTokens":340,"cacheReadTokens":900}}"#,
            );
            log.chunk(turn, step, &format!(r#"{{"type":"finish","reason":{{"kind":"{finish}"}}}}"#));
            let last = log.seq - 1;
            let source = r#"{"kind":"model","provider":"acme","model":"m"}"#;
            let message = format!(
                r#"{{"id":"a{turn}-{step}","role":"assistant","content":[{content}],"source":{source}}}"#
            );
            let usage = r#"{"inputTokens":1200,"outputTokens":340,"cacheReadTokens":900}"#;
            log.event(
                "assistant/message",
                &format!(r#"{{"turn":{turn},"step":{step},"message":{message},"usage":{usage}}}"#),
                &format!(r#","sourceEventSeqs":[[{first},{last}]],"surfaceOp":"append""#),
            );
            if step == 1 {
                let arguments = text_of(1, deltas / 2);
                let place = format!(r#""turn":{turn},"step":{step}"#);
                let call_data =
                    format!(r#"{{{place},"callId":"{call}","name":"shell","arguments":"{arguments}"}}"#);
                log.event("tool/call", &call_data, "");
                let result = "running 12 tests\\ntest parser::tests::nested ... ok\\n".repeat(bytes / 52);
                log.event(
                    "tool/result",
                    &format!(
                        r#"{{{place},"message":{{"id":"r{turn}","role":"user","content":[{}],"source":{}}}}}"#,
                        format_args!(
                            r#"{{"type":"tool-result","toolCallId":"{call}","content":[{}],"isError":false}}"#,
                            format_args!(r#"{{"type":"text","text":"{result}"}}"#)
                        ),
                        format_args!(r#"{{"kind":"tool","callId":"{call}"}}"#)
                    ),
                    r#","surfaceOp":"append""#,
                );
            }
            log.event("step/end", &format!(r#"{{"turn":{turn},"step":{step}}}"#), "");
        }
        log.event("turn/end", &format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#), "");
    }
    log.out
}

struct Log {
    out: Vec<u8>,
    seq: u64,
    time: u64,
}

const PARTS: [&str; 6] = ["The", " parser", " fails", " on", " nested\\n", " input,"];

fn text_of(index: usize, deltas: usize) -> String {
    (0..deltas).map(|at| PARTS[(at + index) % PARTS.len()]).collect()
}

impl Log {
    fn line(&mut self, line: &str) {
        self.out.extend_from_slice(line.as_bytes());
        self.out.push(b'\n');
    }

    fn event(&mut self, kind: &str, data: &str, more: &str) {
        self.time += 17;
        let line =
            format!(r#"{{"type":"{kind}","seq":{},"time":{},"data":{data}{more}}}"#, self.seq, self.time);
        self.line(&line);
        self.seq += 1;
    }

    fn chunk(&mut self, turn: u64, step: u64, chunk: &str) {
        self.event("assistant/chunk", &format!(r#"{{"turn":{turn},"step":{step},"chunk":{chunk}}}"#), "");
    }

    /// A block of deltas; a tool call if `kind` is the id of one. Returns its text.
    fn chunks(
        &mut self,
        turn: u64,
        step: u64,
        kind: &str,
        index: usize,
        deltas: usize,
        shape: Shape,
    ) -> String {
        let is_call = kind != "text";
        let block = if is_call { "tool-call" } else { "text" };
        self.chunk(turn, step, &format!(r#"{{"type":"block-start","index":{index},"blockType":"{block}"}}"#));
        let text = text_of(index, deltas);
        if shape == Shape::Plain {
            for at in 0..deltas {
                let part = PARTS[(at + index) % PARTS.len()];
                let chunk = if is_call {
                    format!(
                        r#"{{"type":"tool-call-delta","index":{index},"id":"{kind}","name":"shell","argumentsDelta":"{part}"}}"#
                    )
                } else {
                    format!(r#"{{"type":"text-delta","index":{index},"text":"{part}"}}"#)
                };
                self.chunk(turn, step, &chunk);
            }
        } else {
            let gaps = (1..deltas).map(|at| (at % 40).to_string()).collect::<Vec<_>>().join(",");
            let parts = (0..deltas)
                .map(|at| format!("\"{}\"", PARTS[(at + index) % PARTS.len()]))
                .collect::<Vec<_>>()
                .join(",");
            let (row, tail) = if is_call {
                ("tool-call-chunks", format!(r#""id":"{kind}","name":"shell","args":[{parts}]"#))
            } else {
                ("text-chunks", format!(r#""texts":[{parts}]"#))
            };
            let line = format!(
                r#"{{"type":"{row}","seq0":{},"time0":{},"data":{{"turn":{turn},"step":{step},"index":{index},"dt":[{gaps}],{tail}}}}}"#,
                self.seq, self.time
            );
            self.line(&line);
            self.seq += deltas as u64;
        }
        let end = if is_call {
            format!(r#"{{"type":"tool-call","id":"{kind}","name":"shell","arguments":"{text}"}}"#)
        } else {
            format!(r#"{{"type":"text","text":"{text}"}}"#)
        };
        self.chunk(turn, step, &format!(r#"{{"type":"block-end","index":{index},"block":{end}}}"#));
        text
    }
}
