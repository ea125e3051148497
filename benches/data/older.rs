//! Logs of the first two generations, as the original wrote them.

/// What a log consists of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Deltas packed as the original packs them.
    Packed,
    /// One row for each chunk, as the first releases wrote them.
    Plain,
    /// Few chunks: large tool results and request headers.
    Bulky,
}

/// A log of turns with two steps each: a tool call and its result, then an answer; `len` bytes
/// or a turn more.
pub(crate) fn log(version: u64, shape: Shape, len: usize) -> Vec<u8> {
    let mut log = Log { out: Vec::new(), seq: 0, time: 1_790_000_000_000 };
    let header = format!(
        r#"{{"type":"session","version":{version},"id":"bench","createdAt":1790000000000,"cwd":"/w","delegationDepth":0}}"#
    );
    log.line(&header);
    let (deltas, bytes) = if shape == Shape::Bulky { (3, 20_000) } else { (60, 1_500) };
    let mut turn = 0;
    while log.out.len() < len {
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
