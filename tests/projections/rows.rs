//! Sessions by chance: all that a built-in projection looks at, in any order, and things that it must pass over.

pub(crate) use crate::common::chance::Dice;

const WORDS: [&str; 8] = [
    "fix the build",
    "  two\\n lines\\tand a tab ",
    "\\ud83d\\ude00 and \\ud83d alone",
    "",
    "   ",
    "a text that goes on and on, well behind what a preview shows, and then a little further, so that it has to be cut somewhere in the middle \
     of what it says, which is not much anyway, but long",
    "日本語のテキスト",
    "\\u0000\\u001b[2J",
];

const MODELS: [&str; 3] = ["m-small", "m-large", "m\\\"odd"];

/// The next row of a session, continuing at `seq`.
pub(crate) fn row(dice: &mut Dice, seq: u64) -> String {
    let time = 1_700_000_000_000_i64 + seq as i64 * 7 - dice.below(20) as i64;
    let word = |dice: &mut Dice| dice.pick(&WORDS);
    let model = |dice: &mut Dice| dice.pick(&MODELS);
    let (kind, data, more) = match dice.below(16) {
        0 => ("turn/start", format!(r#"{{"turn":{}}}"#, seq + 1), ""),
        1 => ("turn/end", format!(r#"{{"turn":{},"reason":{{"kind":"completed"}}}}"#, seq + 1), ""),
        2 => ("step/start", r#"{"turn":1,"step":1}"#.to_owned(), ""),
        3 => ("step/end", r#"{"turn":1,"step":1}"#.to_owned(), ""),
        4 | 5 => {
            let kind = dice.pick(&["user", "user", "plugin", "goal", "of-tomorrow"]);
            let text = block(dice);
            let data =
                format!(r#"{{"role":"user","id":"u{seq}","content":[{text}],"source":{{"kind":"{kind}"}}}}"#);
            ("user/message", data, surface(dice))
        }
        6..=8 => {
            let usage = usage(dice).map_or_else(String::new, |usage| format!(r#""usage":{usage},"#));
            let (first, second) = (block(dice), block(dice));
            let data = format!(
                r#"{{"turn":1,"step":1,"message":{{"id":"a{seq}","role":"assistant","content":[{first},{second}],"source":{{"kind":"model","provider":"{}","model":"{}"}}}},{usage}"stream":[]}}"#,
                dice.pick(&["p", "q"]),
                model(dice),
            );
            ("assistant/message", data, surface(dice))
        }
        9 => {
            let chunk = |usage: String| {
                format!(r#"{{"type":"chunk","time":5,"chunk":{{"type":"usage","usage":{usage}}}}}"#)
            };
            let chunks: Vec<String> = (0..dice.below(3)).filter_map(|_| usage(dice)).map(chunk).collect();
            let data = format!(r#"{{"turn":1,"step":1,"stream":[{}]}}"#, chunks.join(","));
            ("assistant/attempt", data, "")
        }
        10 => ("request/context", format!(r#"{{"provider":"p","model":"{}"}}"#, model(dice)), ""),
        11 => {
            let kind = dice.pick(&["provider", "fallback", "user", "else"]);
            let data =
                format!(r#"{{"title":"{}","messageSeqs":[],"source":{{"kind":"{kind}"}}}}"#, word(dice));
            ("session/title", data, "")
        }
        12 => {
            let usage = usage(dice).map_or_else(String::new, |usage| format!(r#","usage":{usage}"#));
            let data = format!(
                r#"{{"compactionId":"c","summary":[],"shadowedRange":{{"start":0,"end":0}},"shadowedSeqs":[0],"shadowedTokenCount":1,"provider":"p","model":"{}"{usage}}}"#,
                model(dice),
            );
            ("compaction/summary", data, "")
        }
        13 => {
            let data = r#"{"turn":1,"step":1,"callId":"c","name":"sh","arguments":"{\"usage\":1}"}"#;
            ("tool/call", data.to_owned(), "")
        }
        14 => ("plan/mode", format!(r#"{{"active":true,"text":"{}"}}"#, word(dice)), ""),
        _ => ("of/a-plugin", r#"{"title":"not this one"}"#.to_owned(), r#","ignorable":true"#),
    };
    format!(r#"{{"type":"{kind}","seq":{seq},"time":{time},"data":{data}{more}}}"#)
}

/// Rows `from..from + count` of a session.
pub(crate) fn rows(dice: &mut Dice, from: u64, count: u64) -> Vec<String> {
    (from..from + count).map(|seq| row(dice, seq)).collect()
}

fn surface(dice: &mut Dice) -> &'static str {
    const REPLACE: &str = r#","surfaceOp":{"op":"replace","start":0,"end":0}"#;
    if dice.below(5) == 0 { REPLACE } else { r#","surfaceOp":"append""# }
}

fn block(dice: &mut Dice) -> String {
    let word = dice.pick(&WORDS);
    match dice.below(4) {
        0 => r#"{"type":"tool-call","id":"c","name":"sh","arguments":"{}"}"#.to_owned(),
        1 => format!(r#"{{"type":"reasoning","text":"{word}"}}"#),
        _ => format!(r#"{{"type":"text","text":"{word}"}}"#),
    }
}

fn usage(dice: &mut Dice) -> Option<String> {
    let n = |dice: &mut Dice| dice.below(5000);
    let (input, output) = (n(dice), n(dice));
    match dice.below(4) {
        0 => None,
        1 => Some(format!(r#"{{"inputTokens":{input},"outputTokens":{output}}}"#)),
        _ => Some(format!(
            r#"{{"inputTokens":{input},"outputTokens":{output},"cacheReadTokens":{},"cacheWriteTokens":{},"reasoningTokens":{}}}"#,
            n(dice),
            n(dice),
            n(dice),
        )),
    }
}
