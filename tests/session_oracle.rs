//! Generated logs through the original's published session package and through this crate: surface, messages, request
//! header and closers, by the rules of generation 0, which are the package's.
//!
//! `SESLOG_ORACLE` names a folder with the installed oracle (see ../shared/oracle/README.md). `SESLOG_ORACLE_LOGS` sets how
//! many generated logs are compared, `SESLOG_ORACLE_SEED` the first seed.

mod common;
mod sessions;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use seslog::json::{Tape, Text};
use seslog::limits::Limits;
use seslog::row::{Check, Event, Header};
use seslog::session::{
    CreateFault, EventFault, OpenTurn, Profile, RequestFault, RequestHeader, Session, SurfaceFault, Trace,
    derive_messages, fold_surface,
};
use seslog::units::{Generation, UnixMs};

use sessions::generate::{self, Dice, Shape};
use sessions::*;

/// What the package says of each line.
fn ask(oracle: &Path, lines: &[String]) -> Vec<Value> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/independent/session_oracle.mjs");
    let mut child = Command::new(oracle.join("node_modules/.bin/node"))
        .arg(script)
        .arg(oracle)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the oracle's node starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            for line in lines {
                writeln!(stdin, "{line}").expect("the oracle reads all lines");
            }
        });
        child.wait_with_output().expect("node can be waited for")
    });
    assert!(output.status.success(), "the oracle's script failed");
    let output = String::from_utf8(output.stdout).expect("the oracle prints UTF-8");
    let said: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(said.len(), lines.len());
    said
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|text| text.as_str().expect("text").to_owned()).collect()
}

fn seqs(list: &Value) -> Vec<u64> {
    list.as_array().expect("a list").iter().map(|seq| seq.as_u64().expect("a seq")).collect()
}

/// JSON in one spelling.
fn canonical(text: &str) -> String {
    let mut out = Vec::new();
    Tape::default().parse(text.as_bytes(), 64).expect("JSON").write_canonical(&mut out);
    String::from_utf8(out).expect("UTF-8")
}

#[derive(Default)]
struct Tally {
    folded: u64,
    refused: u64,
    replacements: u64,
    closers: u64,
    messages: u64,
    opaque: u64,
}

#[test]
fn r029_r042_the_package_folds_derives_and_closes_generated_logs_as_this_crate_does() {
    let Some(oracle) = common::oracle() else { return };
    let (first, count) = (number("SESLOG_ORACLE_SEED", 1), number("SESLOG_ORACLE_LOGS", 600));
    let logs: Vec<Vec<String>> = (first..first + count)
        .map(|seed| {
            let events = 10 + usize::try_from(seed % 110).expect("small");
            let broken_one_in = if seed % 3 == 0 { 40 } else { 0 };
            generate::rows(
                seed,
                Shape { events, chunks: true, markers: true, opaque: seed % 20 == 0, broken_one_in },
            )
        })
        .collect();
    let lines: Vec<String> =
        logs.iter().map(|rows| format!(r#"{{"events":[{}]}}"#, rows.join(","))).collect();
    let mut tally = Tally::default();
    for ((rows, said), seed) in logs.iter().zip(ask(oracle.dir(), &lines)).zip(first..) {
        compare(rows, &said, seed, &mut tally);
    }
    println!(
        "{count} logs: {} folded alike with {} replacements, {} refused by both, {} with opaque members; {} messages and {} closers alike",
        tally.folded, tally.replacements, tally.refused, tally.opaque, tally.messages, tally.closers
    );
    assert!(tally.folded > count / 2 && tally.refused > 0 && tally.closers > 0);
}

fn compare(rows: &[String], said: &Value, seed: u64, tally: &mut Tally) {
    let profile = Profile::of(Generation::V0).expect("generation 0 has a profile");
    let whole = match try_log(rows) {
        Ok(whole) => whole,
        // A list of sources that is none is refused with its row here, and by the fold there.
        Err((index, fault)) => {
            assert!(
                said["surface"]["refused"].is_string(),
                "log {seed}: only we refuse row {index}: {fault}"
            );
            assert!(said["live"]["refused"].is_string(), "log {seed}");
            tally.refused += 1;
            return;
        }
    };
    let mut open = OpenTurn::default();
    whole.iter().for_each(|event| open.push(&event));
    let closers: Vec<String> =
        open.closers().into_iter().map(|row| String::from_utf8(row).expect("UTF-8")).collect();
    assert_eq!(closers, texts(&said["closers"]), "log {seed}");
    tally.closers += closers.len() as u64;
    let header = RequestHeader::fold(&whole, None).map(|header| header.as_json().to_owned());
    assert_eq!(header.as_deref(), said["header"].as_str(), "log {seed}");

    let v0 = Header::new(Generation::V0, Text::from("s"), UnixMs::new(5)).expect("a sound header");
    let made = Session::seeded(v0, &whole, None, &settings().with_profile(profile));
    match fold_surface(profile, &whole) {
        Ok(_) if said["surface"]["refused"].is_string() => {
            // The package's release refuses surface members of events that nobody knows; part D of the reference keeps
            // such events as they are.
            let opaque = rows.iter().any(|row| row.contains("plugin/of-others") && row.contains("surfaceOp"));
            assert!(opaque, "log {seed}: only they refuse: {}", said["surface"]["refused"]);
            tally.opaque += 1;
        }
        Ok(fold) => {
            let theirs = &said["surface"]["ok"];
            assert_eq!(fold.nodes, seqs(&theirs["nodes"]), "log {seed}");
            let replacements = theirs["replacements"].as_array().expect("a list");
            assert_eq!(fold.replacements.len(), replacements.len(), "log {seed}");
            for (ours, theirs) in fold.replacements.iter().zip(replacements) {
                let ends =
                    [&theirs["seq"], &theirs["start"], &theirs["end"]].map(|n| n.as_u64().expect("a seq"));
                assert_eq!([ours.seq, ours.start, ours.end], ends, "log {seed}");
                assert_eq!(ours.shadowed, seqs(&theirs["shadowedSeqs"]), "log {seed}");
                tally.replacements += 1;
            }
            tally.folded += 1;
            let theirs = &said["live"]["ok"];
            assert!(theirs.is_object(), "log {seed}: {}", said["live"]["refused"]);
            let made = made.unwrap_or_else(|fault| panic!("log {seed}: {fault}"));
            assert_eq!(made.surface(), seqs(&theirs["nodes"]), "log {seed}");
            assert_eq!(Some(made.replace_generation()), theirs["generation"].as_u64(), "log {seed}");
            assert_eq!(Some(made.first_live_seq()), theirs["first"].as_u64(), "log {seed}");
            assert_eq!(Some(made.next_seq()), theirs["length"].as_u64(), "log {seed}");
            let messages: Vec<String> = made.messages().iter().map(canonical).collect();
            assert_eq!(messages, texts(&theirs["messages"]), "log {seed}");
            let derived = derive_messages(profile, &whole).expect("it folds");
            assert!(derived.iter().eq(made.messages().iter()), "log {seed}");
            tally.messages += messages.len() as u64;
            let header = made.request_header().map(|header| header.as_json().to_owned());
            assert_eq!(header.as_deref(), theirs["header"].as_str(), "log {seed}");
            let context = made.request_context().map(|context| canonical(&context));
            assert_eq!(context.as_deref(), theirs["context"].as_str(), "log {seed}");
        }
        Err(fault) => {
            assert!(said["surface"]["refused"].is_string(), "log {seed}: only we refuse: {fault}");
            assert!(said["live"]["refused"].is_string() && made.is_err(), "log {seed}: {fault}");
            let known = matches!(fault.fault, EventFault::Surface(fault) if fault != SurfaceFault::TooLong);
            assert!(known, "log {seed}: {fault}");
            tally.refused += 1;
        }
    }
}

#[test]
fn r035_the_package_finds_the_same_headers_equal() {
    let Some(oracle) = common::oracle() else { return };
    let mut dice = Dice::new(7);
    let mut header = || {
        let config =
            dice.pick(&["", r#","stop":[]"#, r#","stop":["a"]"#, r#","temperature":1"#, r#","zzz":1"#]);
        let effort = dice.pick(&["", r#","reasoningEffort":"low""#, r#","maxTokens":3"#]);
        let system = dice.pick(&["", r#","system":"""#, r#","system":"s""#]);
        let tools = dice.pick(&[
            "",
            r#","tools":[]"#,
            r#","tools":[{"a":1,"b":2}]"#,
            r#","tools":[{"b":2,"a":1}]"#,
            r#","tools":[{"a":1},{"b":2}]"#,
        ]);
        let marks = dice.pick(&["", r#","adapterDefaults":{}"#, r#","adapterDefaults":{"maxTokens":true}"#]);
        format!(r#"{{"config":{{"provider":"p","model":"m"{config}{effort}}}{marks}{system}{tools}}}"#)
    };
    let mut pairs: Vec<(String, String)> = (0..2000).map(|_| (header(), header())).collect();
    // Half of them differ in one place only, or not at all.
    for (a, b) in pairs.iter_mut().step_by(2) {
        b.clone_from(a);
        if a.contains(r#","system":"""#) {
            *b = b.replace(r#","system":"""#, "");
        } else {
            *b = b.replace(r#","tools":[]"#, "").replace(r#","adapterDefaults":{}"#, "");
        }
    }
    let lines: Vec<String> = pairs.iter().map(|(a, b)| format!(r#"{{"headers":[{a},{b}]}}"#)).collect();
    let of = |text: &str| RequestHeader::of(Tape::default().parse(text.as_bytes(), 64).expect("JSON"));
    let mut equal = 0;
    for ((a, b), said) in pairs.iter().zip(ask(oracle.dir(), &lines)) {
        let same = of(a).is_same(&of(b));
        assert_eq!(Some(same), said.as_bool(), "{a}\n{b}");
        equal += u64::from(same);
    }
    println!("{} pairs of headers, {equal} of them equal", pairs.len());
    assert!(equal > 500 && equal < 2000);
}

#[test]
fn the_packages_companion_finds_the_same_events_out_of_place() {
    let Some(oracle) = common::oracle() else { return };
    let profile = Profile::of(Generation::V0).expect("generation 0 has a profile");
    let count = number("SESLOG_ORACLE_LOGS", 600) / 4;
    let traces: Vec<_> = (0..count).map(|seed| generate::trace(seed, 150)).collect();
    let lines: Vec<String> = traces
        .iter()
        .map(|steps| {
            let steps: Vec<String> = steps
                .iter()
                .map(|(name, data)| format!("[\"{name}\",{}]", if data.is_empty() { "null" } else { data }))
                .collect();
            format!(r#"{{"steps":[{}]}}"#, steps.join(","))
        })
        .collect();
    let (mut in_place, mut out_of_place) = (0, 0);
    for ((steps, said), seed) in traces.iter().zip(ask(oracle.dir(), &lines)).zip(0..) {
        let mut trace = Trace::new(profile);
        for (((name, data), said), seq) in steps.iter().zip(said.as_array().expect("a list")).zip(0..) {
            if said == "nothing" {
                continue;
            }
            let line = match *name {
                // Whatever it rewrites: the trace does not look.
                "rewrite" => row("tool/result", seq, &result("z", ""), &replace(0, 0, &[0])),
                name => {
                    let known = ["user/message", "assistant/message", "tool/result"].contains(&name);
                    row(name, seq, data, if known { APPEND } else { "" })
                }
            };
            // A row may cite what no log here holds.
            let line = line.replace(r#""sourceEventSeqs":[0],"#, "");
            let event = Event::read(line.as_bytes(), Check::Full, &Limits::DEFAULT).expect("a row");
            let ours = trace.push(&event);
            let theirs = said["refused"].as_str();
            assert_eq!(ours.is_err(), theirs.is_some(), "trace {seed}, {name} {data}: {ours:?}, {theirs:?}");
            *if ours.is_ok() { &mut in_place } else { &mut out_of_place } += 1;
        }
    }
    println!("{count} traces: {in_place} events in place, {out_of_place} out of place");
    assert!(in_place > 1000 && out_of_place > 1000);
}

/// One event of a message type or a request header, sound or with one part replaced.
fn shapes() -> Vec<String> {
    let answer = result("c", "x");
    let request =
        r#"{"header":{"config":{"provider":"p","model":"m","maxTokens":1}},"reason":"initial"}"#.to_owned();
    let sound = [
        ("user/message", user("u")),
        ("assistant/message", assistant("a", &["c"])),
        ("tool/result", answer),
        ("request/header", request),
    ];
    let parts = [
        (r#""id":"u""#, r#""id":"""#),
        (r#""id":"a","#, ""),
        (r#""id":"r-c""#, r#""id":7"#),
        (r#""role":"user""#, r#""role":"assistant""#),
        (r#""role":"user""#, r#""role":"tool""#),
        (r#""role":"assistant""#, r#""role":"user""#),
        (r#""role":"user","#, ""),
        (r#"{"kind":"user"}"#, "{}"),
        (r#"{"kind":"user"}"#, r#"{"kind":""}"#),
        (r#"{"kind":"user"}"#, r#"{"kind":"of-others","x":[1]}"#),
        (r#""kind":"model""#, r#""kind":"user""#),
        (r#""provider":"p""#, r#""provider":"""#),
        (r#","model":"m""#, ""),
        (r#""kind":"tool""#, r#""kind":"user""#),
        (r#","callId":"c""#, ""),
        (r#""callId":"c""#, r#""callId":"d""#),
        (r#""toolCallId":"c","#, ""),
        (r#""type":"tool-result""#, r#""type":"text""#),
        (r#"[{"type":"tool-result""#, r#"[{"type":"text","text":""},{"type":"tool-result""#),
        (r#""content":[{"type":"text","text":"x"}]"#, r#""content":"x""#),
        (r#""content":["#, r#""contents":["#),
        (r#""message""#, r#""massage""#),
        (r#""isError":false"#, r#""isError":"no""#),
        (r#""meta":{"ms":1}"#, r#""meta":null"#),
        (r#""type":"tool-call""#, r#""type":"of-others""#),
        (r#""initial""#, r#""resume""#),
        (r#""initial""#, r#""fallback""#),
        (r#""initial""#, r#""whim""#),
        (r#""maxTokens":1"#, r#""reasoningEffort":"""#),
        (r#""maxTokens":1"#, r#""reasoningEffort":"low""#),
        (r#"}},"reason""#, r#"},"adapterDefaults":{"maxTokens":true}},"reason""#),
        (r#"}},"reason""#, r#"},"adapterDefaults":{"maxTokens":false}},"reason""#),
        (r#"}},"reason""#, r#"},"adapterDefaults":{"reasoningEffort":true}},"reason""#),
        (r#"}},"reason""#, r#"},"adapterDefaults":{"other":true}},"reason""#),
    ];
    let mut rows = Vec::new();
    for (name, data) in sound {
        let rest = if name == "request/header" { "" } else { APPEND };
        rows.push(row(name, 0, &data, rest));
        for (from, to) in parts.iter().filter(|(from, _)| data.contains(from)) {
            rows.push(row(name, 0, &data.replacen(from, to, 1), rest));
        }
    }
    rows
}

#[test]
fn r004_the_package_takes_the_same_messages_and_request_headers() {
    let Some(oracle) = common::oracle() else { return };
    let profile = Profile::of(Generation::V0).expect("generation 0 has a profile");
    let rows = shapes();
    let lines: Vec<String> = rows.iter().map(|row| format!(r#"{{"events":[{row}]}}"#)).collect();
    let mut differ = Vec::new();
    let (mut taken, mut refused) = (0, 0);
    for (row, said) in rows.iter().zip(ask(oracle.dir(), &lines)) {
        let v0 = Header::new(Generation::V0, Text::from("s"), UnixMs::new(5)).expect("a sound header");
        let ours = Session::seeded(v0, &log(&[row]), None, &settings().with_profile(profile));
        let theirs = said["live"]["refused"].as_str();
        *if ours.is_ok() { &mut taken } else { &mut refused } += 1;
        // The package's release lets any other reason pass than the retired one.
        let is_known =
            matches!(&ours, Err(CreateFault::Event { fault: EventFault::Request(RequestFault::Reason), .. }));
        if ours.is_err() != theirs.is_some() && !is_known {
            differ.push(format!("{row}\n  ours {:?}\n  theirs {theirs:?}", ours.err()));
        }
    }
    println!("{taken} messages and request headers taken, {refused} refused");
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
