//! Logs by chance: turns, steps, messages, tools and replacements, sound or broken in one place.

use super::{APPEND, row};
pub(crate) use crate::common::chance::Dice;

/// How logs of a run are made.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) events: usize,
    /// Whether assistant messages cite, and chunks stand at top level.
    pub(crate) chunks: bool,
    /// Whether there may be a `session/end-seed`, which cannot be appended.
    pub(crate) markers: bool,
    /// Whether events that nobody knows may carry members of the surface.
    pub(crate) opaque: bool,
    /// One in this many events breaks a rule; 0 for none.
    pub(crate) broken_one_in: usize,
}

/// A log being made; what is on its surface is kept as a plain list.
struct Maker {
    dice: Dice,
    shape: Shape,
    rows: Vec<String>,
    /// Seq, and the text of a tool result.
    surface: Vec<(u64, Option<String>)>,
    turn: u64,
    step: u64,
    in_turn: bool,
    in_step: bool,
    /// Calls without a result.
    asked: Vec<String>,
    calls: u64,
}

/// The rows of log number `seed`.
pub(crate) fn rows(seed: u64, shape: Shape) -> Vec<String> {
    let mut maker = Maker {
        dice: Dice::new(seed),
        shape,
        rows: Vec::new(),
        surface: Vec::new(),
        turn: 0,
        step: 0,
        in_turn: false,
        in_step: false,
        asked: Vec::new(),
        calls: 0,
    };
    while maker.rows.len() < maker.shape.events {
        maker.next();
    }
    maker.rows
}

impl Maker {
    fn seq(&self) -> u64 {
        u64::try_from(self.rows.len()).expect("small")
    }

    fn push(&mut self, event_type: &str, data: &str, rest: &str) {
        let row = row(event_type, self.seq(), data, rest);
        self.rows.push(row);
    }

    fn breaks(&mut self) -> bool {
        self.shape.broken_one_in > 0 && self.dice.one_in(self.shape.broken_one_in)
    }

    fn next(&mut self) {
        if self.breaks() {
            return self.broken();
        }
        match self.dice.below(14) {
            0 | 1 => self.boundary(),
            2 | 3 => self.user(),
            4..=6 => self.assistant(),
            7 => self.call(),
            8 | 9 => self.result(),
            10 => self.replace(),
            11 => self.rewrite(),
            12 => self.request(),
            _ => self.other(),
        }
    }

    fn boundary(&mut self) {
        let (turn, step) = (self.turn, self.step);
        if !self.in_turn {
            (self.turn, self.step, self.in_turn) = (turn + 1, 0, true);
            self.push("turn/start", &format!(r#"{{"turn":{}}}"#, turn + 1), "");
        } else if !self.in_step && (self.step == 0 || self.dice.one_in(2)) {
            (self.step, self.in_step) = (step + 1, true);
            self.push("step/start", &format!(r#"{{"turn":{turn},"step":{}}}"#, step + 1), "");
        } else if self.in_step {
            self.in_step = false;
            self.asked.clear();
            self.push("step/end", &format!(r#"{{"turn":{turn},"step":{step}}}"#), "");
        } else {
            self.in_turn = false;
            self.asked.clear();
            let reason = self.dice.pick(&[
                r#"{"kind":"completed"}"#,
                r#"{"kind":"aborted","reason":{"kind":"user"}}"#,
                r#"{"kind":"of-an-extension","more":[1]}"#,
            ]);
            self.push("turn/end", &format!(r#"{{"turn":{turn},"reason":{reason}}}"#), "");
        }
    }

    fn sources(&mut self) -> String {
        let seq = self.seq();
        if seq == 0 || !self.dice.one_in(4) {
            return String::new();
        }
        let earlier = self.dice.below(usize::try_from(seq).expect("small"));
        format!(r#","sourceEventSeqs":[{earlier}]"#)
    }

    fn user(&mut self) {
        let (seq, sources) = (self.seq(), self.sources());
        let data = super::user(&format!("u{seq}"));
        self.push("user/message", &data, &format!("{sources}{APPEND}"));
        self.surface.push((seq, None));
    }

    fn assistant(&mut self) {
        let seq = self.seq();
        let mut blocks = Vec::new();
        for _ in 0..self.dice.below(4) {
            if self.dice.one_in(2) {
                blocks.push(r#"{"type":"text","text":"é \u00e9 so"}"#.to_owned());
            } else {
                // Now and then an id that is pending already.
                let id = match self.asked.len() {
                    open if open > 0 && self.dice.one_in(6) => self.asked[self.dice.below(open)].clone(),
                    _ => {
                        self.calls += 1;
                        format!("c{}", self.calls)
                    }
                };
                if !self.asked.contains(&id) {
                    self.asked.push(id.clone());
                }
                blocks.push(format!(r#"{{"type":"tool-call","id":"{id}","name":"sh","arguments":"{{}}"}}"#));
            }
        }
        let stream = if self.shape.chunks { "" } else { r#","stream":[]"# };
        let data = format!(
            r#"{{"turn":{},"step":{},"message":{{"id":"a{seq}","role":"assistant","content":[{}],"source":{{"kind":"model","provider":"p","model":"m"}}}}{stream}}}"#,
            self.turn,
            self.step,
            blocks.join(",")
        );
        let sources = match (self.shape.chunks, self.dice.below(3)) {
            (true, 0) => r#","sourceEventSeqs":[]"#.to_owned(),
            (true, 1) => self.sources(),
            _ => String::new(),
        };
        self.push("assistant/message", &data, &format!("{sources}{APPEND}"));
        self.surface.push((seq, None));
    }

    fn call(&mut self) {
        let id = match self.asked.len() {
            0 => "nobody-asked".to_owned(),
            open => self.asked[self.dice.below(open)].clone(),
        };
        let data = format!(
            r#"{{"turn":{},"step":{},"callId":"{id}","name":"sh","arguments":"{{}}"}}"#,
            self.turn, self.step
        );
        self.push("tool/call", &data, "");
    }

    fn result(&mut self) {
        if self.asked.is_empty() {
            return self.other();
        }
        let id = self.asked.remove(self.dice.below(self.asked.len()));
        let seq = self.seq();
        let extra = self.dice.pick(&[
            "",
            r#","meta":{"a":1,"b":[{"c":null}]}"#,
            r#","error":{"name":"E","code":"X"}"#,
            r#","error":{"name":"ToolNotStartedError","code":"TOOL_NOT_STARTED"}"#,
        ]);
        let flag = self.dice.pick(&["", r#","isError":true"#, r#","isError":false"#]);
        let data = format!(
            r#"{{"turn":{},"step":{},"message":{{"id":"r{seq}","role":"user","source":{{"kind":"tool","callId":"{id}"}},"content":[{{"type":"tool-result","toolCallId":"{id}"{flag},"content":[{{"type":"text","text":"out"}}]}}]}}{extra}}}"#,
            self.turn, self.step
        );
        self.push("tool/result", &data, APPEND);
        self.surface.push((seq, Some(data)));
    }

    /// A sound replacement of a range by a user message.
    fn replace(&mut self) {
        if self.surface.is_empty() {
            return self.user();
        }
        let first = self.dice.below(self.surface.len());
        let last = first + self.dice.below((self.surface.len() - first).min(6));
        let seq = self.seq();
        let mut sources: Vec<u64> = self.surface[first..=last].iter().map(|(seq, _)| *seq).collect();
        let (start, end) = (sources[0], sources[sources.len() - 1]);
        if self.dice.one_in(3) {
            let more = u64::try_from(self.dice.below(self.rows.len())).expect("small");
            if !sources.contains(&more) {
                sources.push(more);
            }
        }
        if self.dice.one_in(2) {
            sources.sort_unstable();
        }
        self.push("user/message", &super::user(&format!("s{seq}")), &super::replace(start, end, &sources));
        self.surface.splice(first..=last, [(seq, None)]);
    }

    /// A sound rewrite of a tool result.
    fn rewrite(&mut self) {
        let results: Vec<usize> =
            (0..self.surface.len()).filter(|at| self.surface[*at].1.is_some()).collect();
        if results.is_empty() {
            return self.user();
        }
        let at = results[self.dice.below(results.len())];
        let (target, former) = self.surface[at].clone();
        let seq = self.seq();
        let former = former.expect("a result");
        let data = former
            .replace(r#"[{"type":"text","text":"out"}]"#, r#"[{"type":"text","text":"cut"},{"type":"x"}]"#);
        self.push("tool/result", &data, &super::replace(target, target, &[target]));
        self.surface[at] = (seq, Some(data));
    }

    fn request(&mut self) {
        if self.dice.one_in(3) {
            let data = format!(r#"{{"provider":"p","model":"m","contextWindow":{}}}"#, self.seq());
            return self.push("request/context", &data, "");
        }
        let stop = self.dice.pick(&["", r#","stop":[]"#, r#","stop":["x"]"#, r#","temperature":0.50"#]);
        let more = self.dice.pick(&[
            "",
            r#","system":"""#,
            r#","system":"be \u00e9""#,
            r#","tools":[]"#,
            r#","tools":[{"name":"t","parameters":{"b":1,"a":2}}]"#,
            r#","adapterDefaults":{"maxTokens":true}"#,
        ]);
        let reason = self.dice.pick(&["initial", "resume", "change"]);
        let data = format!(
            r#"{{"header":{{"config":{{"model":"m","provider":"p","maxTokens":7{stop}}}{more}}},"reason":"{reason}"}}"#
        );
        self.push("request/header", &data, "");
    }

    fn other(&mut self) {
        match self.dice.below(5) {
            0 => self.push("todo/write", r#"{"todos":[]}"#, ""),
            1 if self.shape.markers => self.push("session/end-seed", "{}", ""),
            2 => {
                // Opaque to whoever does not know it, whatever it carries.
                let carried = match self.shape.opaque {
                    true => self.dice.pick(&[APPEND, r#","surfaceOp":{"op":"replace","start":0,"end":0}"#]),
                    false => "",
                };
                self.push(
                    "plugin/of-others",
                    r#"{"n":[1,{"x":null}]}"#,
                    &format!(",\"ignorable\":true{carried}"),
                );
            }
            3 if self.shape.chunks => {
                let data = format!(
                    r#"{{"turn":{},"step":{},"chunk":{{"type":"text","index":0,"text":"x"}}}}"#,
                    self.turn, self.step
                );
                self.push("assistant/chunk", &data, "");
            }
            _ => self.push("todo/write", r#"{"todos":[{"content":"x","status":"pending"}]}"#, ""),
        }
    }

    /// One event that breaks a rule of the surface, or would in most logs.
    fn broken(&mut self) {
        let seq = self.seq();
        let user = super::user("broken");
        let any = |maker: &mut Self| match maker.surface.len() {
            0 => 0,
            len => maker.surface[maker.dice.below(len)].0,
        };
        let (a, b) = (any(self), any(self));
        let result =
            self.surface.iter().find_map(|(seq, result)| result.clone().map(|result| (*seq, result)));
        match self.dice.below(12) {
            0 => self.push("user/message", &user, ""),
            1 => self.push("todo/write", "{}", APPEND),
            2 => self.push("todo/write", "{}", r#","sourceEventSeqs":[0]"#),
            3 => self.push("user/message", &user, &super::replace(a, b, &[a, b, 0, 1].map(|n| n.min(seq)))),
            4 => self.push("user/message", &user, &super::replace(a, b, &[a])),
            5 => self.push("user/message", &user, &super::replace(a, a, &[a])),
            6 => self.push("user/message", &user, r#","sourceEventSeqs":[],"surfaceOp":"append""#),
            7 => self.push(
                "user/message",
                &user,
                &format!(r#","sourceEventSeqs":[{seq}],"surfaceOp":"append""#),
            ),
            8 => self.push("user/message", &user, r#","surfaceOp":{"op":"replace","start":0}"#),
            9 => self.push("user/message", &user, r#","surfaceOp":"prepend""#),
            10 => match result {
                Some((target, result)) => {
                    let changed = self.dice.pick(&[r#""turn":77"#, r#""x":1,"turn":1"#, r#""turn":1.0"#]);
                    let data = result.replacen(r#""turn":1"#, changed, 1);
                    self.push("tool/result", &data, &super::replace(target, target, &[target]));
                }
                None => self.push("user/message", &user, ""),
            },
            _ => match result {
                Some((_, result)) => self.push("tool/result", &result, &super::replace(a, b, &[a, b])),
                None => self.push("user/message", &user, ""),
            },
        }
        // What of this is sound has changed the surface; the log ends here, so nobody needs to know how.
        self.shape.events = self.rows.len();
    }
}

/// Events of the types that the trace speaks of, as type and payload, each fitting what came before or not. A rewritten
/// result has no payload here: which one it rewrites is for the live log to say.
pub(crate) fn trace(seed: u64, events: usize) -> Vec<(&'static str, String)> {
    let mut dice = Dice::new(seed);
    let (mut turn, mut step) = (1, 1);
    (0..events)
        .map(|_| {
            let place = |turn: usize, step: usize| format!(r#""turn":{turn},"step":{step}"#);
            // Mostly the numbers that are due or open, and now and then others.
            let (t, s) = match dice.below(12) {
                0 => (turn + 1, step),
                1 => (turn, step + 1),
                2 => (turn.max(2) - 1, step),
                _ => (turn, step),
            };
            let at = place(t, s);
            let id = dice.pick(&["a", "b", "c"]);
            match dice.below(15) {
                0 | 1 => ("turn/start", format!(r#"{{"turn":{t}}}"#)),
                2 => {
                    (turn, step) = if dice.one_in(2) { (turn + 1, 1) } else { (turn, step) };
                    ("turn/end", format!(r#"{{"turn":{t},"reason":{{"kind":"completed"}}}}"#))
                }
                3 | 4 => ("step/start", format!("{{{at}}}")),
                5 => {
                    step += usize::from(dice.one_in(2));
                    ("step/end", format!("{{{at}}}"))
                }
                6 => {
                    let data = super::assistant("m", &[id]);
                    ("assistant/message", data.replace(r#""turn":1,"step":1"#, &at))
                }
                7 | 8 => ("tool/call", super::call(id).replace(r#""turn":1,"step":1"#, &at)),
                9 | 10 => {
                    let data = super::result(id, "long").replace(r#""turn":1,"step":1"#, &at);
                    let error = r#""error":{"name":"E","code":"TOOL_NOT_STARTED"}"#;
                    let data = match dice.below(4) {
                        0 => data.replace(r#""isError":false"#, r#""isError":true"#),
                        1 => data.replace(r#","meta""#, &format!(r#",{error},"meta""#)),
                        2 => {
                            let data = data.replace(r#""isError":false"#, r#""isError":true"#);
                            data.replace(r#","meta""#, &format!(r#",{error},"meta""#))
                        }
                        _ => data,
                    };
                    ("tool/result", data)
                }
                11 => ("rewrite", String::new()),
                12 => (
                    "request/header",
                    r#"{"header":{"config":{"provider":"p","model":"m"}},"reason":"initial"}"#.to_owned(),
                ),
                13 => ("request/context", r#"{"provider":"p","model":"m"}"#.to_owned()),
                _ => ("user/message", super::user("u")),
            }
        })
        .collect()
}
