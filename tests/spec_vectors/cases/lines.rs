//! Files of the plain encoding, and what is wrong with single lines.

use super::{Case, HEADER, JUDGE, raw, row};
use crate::build::{Event, Row, content, line};
use crate::outcome::Outcome;

pub(super) fn cases() -> Vec<Case> {
    [whole(), ends(), headers(), rows(), packed(), cuts()].into_iter().flatten().collect()
}

const PLAIN: &str = "01-container.md#The plain encoding";
const V0: &str = r#"{"type":"session","version":0,"id":"v","createdAt":9,"delegationDepth":0}"#;

fn plain(name: &str, about: &str, spec: &[&'static str], bytes: Vec<u8>, outcome: Outcome) -> Case {
    let file_name =
        match bytes.windows(11).find(|bytes| bytes.starts_with(b"\"version\":")).map(|bytes| bytes[10]) {
            Some(b'0') => "session.jsonl",
            Some(b'1') => "session.v1.jsonl",
            Some(b'3') => "session.v3.jsonl",
            _ => "session.v2.jsonl",
        };
    let (name, about) = (name.to_owned(), about.to_owned());
    Case { name, about, spec: spec.to_vec(), encoding: "plain", file_name, bytes, outcome }
}

/// What a reader serves of the first `good` bytes of a text.
fn served(text: &[u8], good: usize, state: &str) -> Outcome {
    Outcome {
        detected: "plain".to_owned(),
        state: Some(state.to_owned()),
        good_end: Some(good as u64),
        ..Outcome::default()
    }
    .with_text(&text[..good])
}

fn events(rows: &[Row]) -> Option<Vec<Event>> {
    Some(rows.iter().flat_map(|row| row.events.clone()).collect())
}

fn log(header: &str, rows: &[Row]) -> Vec<u8> {
    [line(header), content(rows)].concat()
}

fn complete(name: &str, about: &str, spec: &[&'static str], header: &str, rows: &[Row]) -> Case {
    let bytes = log(header, rows);
    let outcome = Outcome { events: events(rows), ..served(&bytes, bytes.len(), "complete") };
    plain(name, about, spec, bytes, outcome)
}

fn event(seq: u64, time: i64, kind: &str, text: &str) -> Row {
    raw(text, vec![(seq, time, kind.to_owned())])
}

fn whole() -> Vec<Case> {
    let odd = [
        event(0, 10, "plan/mode", " {\"type\" : \"plan/mode\",\t\"seq\":0,\"time\":10, \"data\":{}} \r"),
        event(1, 11, "plan/mode", r#"{"data":{"a":1},"time":1.1e1,"seq":1.0,"type":"plan\/mode"}"#),
        event(2, 12, "last/one", r#"{"type":"first","seq":7,"time":12,"data":{},"type":"last/one","seq":2}"#),
        event(
            3,
            13,
            "plan/mode",
            r#"{"type":"plan/mode","seq":3,"time":13,"data":{"s":"\ud800","n":-0,"big":1e400,"__proto__":1}}"#,
        ),
        event(
            4,
            -9_007_199_254_740_991,
            "plan/mode",
            r#"{"type":"plan/mode","seq":4,"time":-9007199254740991,"data":{}}"#,
        ),
        event(5, 15, "x/unknown", r#"{"type":"x/unknown","seq":5,"time":15,"data":[1],"ignorable":true}"#),
        event(
            6,
            16,
            "user/message",
            concat!(
                r#"{"type":"user/message","seq":6,"time":16,"data":{},"#,
                r#""surfaceOp":{"op":"replace","start":1,"end":2},"sourceEventSeqs":[0,[2,4]]}"#
            ),
        ),
    ];
    vec![
        complete("plain-two-events", "a header and two events", &[PLAIN], HEADER, &[row(0, 10), row(1, 11)]),
        complete("plain-header-only", "a header and no rows", &[PLAIN], HEADER, &[]),
        complete(
            "rows-odd-spellings",
            "rows that no writer makes and every reader reads",
            &["04-rows.md#Text", "04-rows.md#Envelope"],
            HEADER,
            &odd,
        ),
    ]
}

fn ends() -> Vec<Case> {
    let rows = [row(0, 10), row(1, 11)];
    let whole = log(HEADER, &rows);
    let good = Outcome { events: events(&rows), ..served(&whole, whole.len(), "torn") };
    let good = Outcome { fault: Some("Truncated".into()), at: good.good_end, ..good };
    let behind = |bytes: &[u8]| [&whole[..], bytes].concat();
    let mut cases = vec![
        plain("plain-torn-line", "half a row", &[JUDGE], behind(b"{\"type\":\"plan/mo"), good.clone()),
        plain(
            "plain-torn-row-without-line-feed",
            "a whole row that lacks its line feed is torn all the same",
            &[JUDGE],
            behind(&row(2, 12).line[..60]),
            good.clone(),
        ),
        plain("plain-torn-zeros", "zeros to the end of the file", &[JUDGE], behind(&[0; 700]), good.clone()),
        plain(
            "plain-torn-line-and-zeros",
            "half a row and then zeros to the end",
            &[JUDGE],
            behind(&[&b"{\"type\""[..], &[0; 40]].concat()),
            good.clone(),
        ),
    ];
    let hole = [&b"{\"type\""[..], &[0; 40], b"data"].concat();
    let damaged = Outcome { state: Some("damaged".into()), ..good };
    let about = "zeros inside an incomplete line prove nothing here";
    cases.push(plain("plain-hole", about, &[JUDGE], behind(&hole), damaged));

    let text = HEADER.as_bytes().to_vec();
    let none = Outcome {
        detected: "plain".into(),
        fault: Some("HeaderLine".into()),
        at: Some(0),
        ..Outcome::default()
    };
    cases.push(plain(
        "plain-header-without-line-feed",
        "a header line without its line feed",
        &[PLAIN],
        text,
        none.clone().with_text(b""),
    ));
    let long = [&b"{\"type\":\"session\",\"id\":\""[..], &[b'x'; 1 << 20], b"\"}\n"].concat();
    let limit = Outcome { fault: Some("LineLimit".into()), ..none.clone() };
    let about = "no line feed within the limit of a header line";
    cases.push(plain("plain-header-line-limit", about, &[PLAIN], long, limit.with_text(b"")));
    let empty = Outcome { detected: "nothing".into(), ..none };
    cases.push(plain("plain-empty", "an empty file", &[PLAIN], Vec::new(), empty.with_text(b"")));
    cases
}

/// A log whose header line is refused.
fn header(name: &str, about: &str, text: &str, fault: &str, member: Option<&str>) -> Case {
    let bytes = log(text, &[row(0, 10)]);
    let detected = if text.starts_with('{') || text.starts_with('\u{feff}') { "plain" } else { "unknown" };
    let outcome = served(&bytes, bytes.len(), "complete");
    let outcome = Outcome {
        detected: detected.to_owned(),
        fault: Some(fault.to_owned()),
        at: Some(0),
        line: Some(1),
        member: member.map(str::to_owned),
        ..outcome
    };
    plain(&format!("header-{name}"), about, &["04-rows.md#Header"], bytes, outcome)
}

fn headers() -> Vec<Case> {
    let swap = |from: &str, to: &str| {
        assert!(HEADER.contains(from));
        HEADER.replace(from, to)
    };
    vec![
        header(
            "byte-order-mark",
            "a byte order mark is no part of JSON",
            &format!("\u{feff}{HEADER}"),
            "NotJson",
            None,
        ),
        header("not-json", "half a header", &HEADER[..40], "NotJson", None),
        header("not-an-object", "a header that is a list", "[1]", "NotObject", None),
        header("without-version", "no version", &swap("\"version\":2,", ""), "Missing", Some("version")),
        header(
            "version-string",
            "a version that is no number",
            &swap("2", "\"2\""),
            "Member",
            Some("version"),
        ),
        header(
            "newer",
            "a newer generation, whatever else it holds",
            r#"{"version":3,"strange":-0}"#,
            "Newer",
            None,
        ),
        header(
            "unknown-member",
            "a member that v2 does not have",
            &swap("\"id\"", "\"sandboxMode\":\"x\",\"id\""),
            "UnknownMember",
            None,
        ),
        header(
            "seed-length-in-v2",
            "seedLength is a member of v0 and v1 only",
            &swap("\"id\"", "\"seedLength\":0,\"id\""),
            "UnknownMember",
            None,
        ),
        header(
            "is-seeded-in-v0",
            "isSeeded is a member of v2 only",
            &V0.replace("\"id\"", "\"isSeeded\":false,\"id\""),
            "UnknownMember",
            None,
        ),
        header("other-type", "type is not session", &swap("session", "log"), "Member", Some("type")),
        header("without-id", "no id", &swap("\"id\":\"v\",", ""), "Missing", Some("id")),
        header(
            "created-at-negative",
            "createdAt below zero",
            &swap("\"createdAt\":9", "\"createdAt\":-9"),
            "Member",
            Some("createdAt"),
        ),
        header(
            "created-at-minus-zero",
            "createdAt is negative zero",
            &swap("\"createdAt\":9", "\"createdAt\":-0"),
            "Member",
            Some("createdAt"),
        ),
        header(
            "relative-cwd",
            "a working directory that is not absolute",
            &swap("\"isSeeded\"", "\"cwd\":\"a\",\"isSeeded\""),
            "Member",
            Some("cwd"),
        ),
        header("is-seeded-null", "isSeeded is null", &swap("false", "null"), "Member", Some("isSeeded")),
        header(
            "other-origin",
            "an origin that is not subagent",
            &swap("\"isSeeded\"", "\"origin\":\"user\",\"isSeeded\""),
            "Member",
            Some("origin"),
        ),
        header(
            "without-depth",
            "no delegationDepth",
            &swap(",\"delegationDepth\":0", ""),
            "Missing",
            Some("delegationDepth"),
        ),
    ]
}

/// A log whose fourth line, behind two good events, is refused, with a good one behind it.
fn bad(name: &str, about: &str, spec: &'static str, text: &[u8], fault: [&str; 3]) -> Case {
    bad_in(HEADER, name, about, spec, text, fault)
}

fn bad_in(header: &str, name: &str, about: &str, spec: &'static str, text: &[u8], fault: [&str; 3]) -> Case {
    let before = log(header, &[row(0, 10), row(1, 11)]);
    let bytes = [&before[..], text, b"\n", &row(3, 13).line].concat();
    let [fault, inside, member] = fault;
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let outcome = Outcome {
        fault: some(fault),
        inside: some(inside),
        member: some(member),
        at: Some(before.len() as u64),
        line: Some(4),
        events: events(&[row(0, 10), row(1, 11)]),
        ..served(&bytes, bytes.len(), "complete")
    };
    plain(&format!("row-{name}"), about, &[spec], bytes, outcome)
}

fn rows() -> Vec<Case> {
    const E: &str = "04-rows.md#Envelope";
    const S: &str = "04-rows.md#Seq ranges";
    let with = |extra: &str| format!(r#"{{"type":"plan/mode","seq":2,"time":12,"data":{{}}{extra}}}"#);
    let list = |list: &str| with(&format!(r#","sourceEventSeqs":{list}"#));
    let mut not_utf8 = with("").into_bytes();
    not_utf8[12] = 0xff;
    let mut cases = vec![
        bad("not-utf8", "a byte that is no UTF-8", E, &not_utf8, ["NotUtf8", "", ""]),
        bad("not-json", "half a row", E, br#"{"type":"plan/mo"#, ["NotJson", "", ""]),
        bad("empty", "an empty line", E, b"", ["NotJson", "", ""]),
        bad(
            "trailing",
            "something behind the value",
            E,
            br#"{"type":"plan/mode","seq":2,"time":12,"data":{}} 1"#,
            ["NotJson", "", ""],
        ),
        bad(
            "fused",
            "half a row and a whole one in one line",
            "04-rows.md#Damage",
            format!("{{\"type\":\"plan/mo{}", with("")).as_bytes(),
            ["FusedRows", "", ""],
        ),
        bad("not-an-object", "a row that is a number", E, b"1", ["NotObject", "", ""]),
        bad(
            "unknown-member",
            "a member that no row has",
            E,
            with(r#","extra":1"#).as_bytes(),
            ["UnknownMember", "", ""],
        ),
        bad("without-type", "no type", E, br#"{"seq":2,"time":12,"data":{}}"#, ["MissingMember", "", "type"]),
        bad(
            "seq-minus-zero",
            "a seq of negative zero",
            E,
            br#"{"type":"plan/mode","seq":-0,"time":11,"data":{}}"#,
            ["Member", "", "seq"],
        ),
        bad(
            "seq-too-large",
            "a seq above 2^53 - 1",
            E,
            br#"{"type":"plan/mode","seq":9007199254740992,"time":11,"data":{}}"#,
            ["Member", "", "seq"],
        ),
        bad(
            "time-fraction",
            "a time that is no integer",
            E,
            br#"{"type":"plan/mode","seq":2,"time":1.5,"data":{}}"#,
            ["Member", "", "time"],
        ),
        bad(
            "without-data",
            "no data",
            E,
            br#"{"type":"plan/mode","seq":2,"time":12}"#,
            ["MissingMember", "", "data"],
        ),
        bad(
            "ignorable-false",
            "ignorable is false",
            E,
            with(r#","ignorable":false"#).as_bytes(),
            ["Member", "", "ignorable"],
        ),
        bad("gap", "a seq is missing", E, &row(3, 13).line[..row(3, 13).line.len() - 1], ["Gap", "", ""]),
        bad(
            "repeat",
            "a seq is there twice",
            E,
            &row(0, 10).line[..row(0, 10).line.len() - 1],
            ["Repeat", "", ""],
        ),
        bad(
            "end-seed-payload",
            "a session/end-seed whose data is no object",
            E,
            br#"{"type":"session/end-seed","seq":2,"time":12,"data":1}"#,
            ["EndSeed", "", ""],
        ),
        bad(
            "packed-in-v2",
            "a packed row in v2",
            "04-rows.md#Packed rows",
            PACKED.as_bytes(),
            ["UnknownMember", "", ""],
        ),
    ];
    for (name, about, value, inside) in [
        ("not-array", "sourceEventSeqs is a number", "0", "NotArray"),
        ("entry", "an entry that is no seq", "[null]", "Entry"),
        ("backwards", "a range that runs backwards", "[[1,0]]", "Backwards"),
        ("own-seq", "the row's own seq", "[2]", "Later"),
        ("huge-range", "a range of 2^53 seqs is refused, not expanded", "[[0,9007199254740991]]", "Later"),
        ("repeated", "a seq twice", "[0,0]", "Repeated"),
        ("too-many", "more seqs than there are events before", "[1,0,0]", "TooMany"),
        ("not-ascending", "a range, and then a seq before its end", "[[0,0],0]", "NotAscending"),
    ] {
        cases.push(bad(
            &format!("sources-{name}"),
            about,
            S,
            list(value).as_bytes(),
            ["Provenance", inside, ""],
        ));
    }
    cases
}

const PACKED: &str = r#"{"type":"text-chunks","seq0":2,"time0":11,"data":{"turn":1,"step":1,"index":0,"dt":[4],"texts":["a","b"]}}"#;

fn packed() -> Vec<Case> {
    const P: &str = "04-rows.md#Packed rows";
    let chunk = |seq, time| (seq, time, "assistant/chunk".to_owned());
    let text = r#"{"data":{"texts":["On"," it",""],"dt":[4,-9],"index":0,"step":1,"turn":1},"time0":11,"seq0":1,"type":"text-chunks"}"#;
    let tool = concat!(
        r#"{"type":"tool-call-chunks","seq0":4,"time0":20,"#,
        r#""data":{"turn":1,"step":1,"index":1,"dt":[],"id":"c","name":"","args":["{}"]}}"#
    );
    let cited = r#"{"type":"assistant/message","seq":5,"time":30,"data":{},"sourceEventSeqs":[[1,4]],"surfaceOp":"append"}"#;
    let rows = [
        row(0, 10),
        raw(text, vec![chunk(1, 11), chunk(2, 15), chunk(3, 6)]),
        raw(tool, vec![chunk(4, 20)]),
        event(5, 30, "assistant/message", cited),
    ];
    let mut cases = vec![
        complete("v0-packed", "packed rows of two kinds, expanded", &[P, "04-rows.md#Seq ranges"], V0, &rows),
        complete("v1-packed", "the same in v1", &[P], &V0.replace("\"version\":0", "\"version\":1"), &rows),
    ];
    let swap = |from: &str, to: &str| {
        assert!(PACKED.contains(from));
        PACKED.replace(from, to)
    };
    let texts = r#""texts":["a","b"]"#;
    let bads: [(&str, &str, String, &str, &str); 14] = [
        (
            "envelope-member",
            "a seventh member in the envelope",
            swap("\"data\"", "\"seq\":2,\"data\""),
            "UnknownMember",
            "",
        ),
        (
            "data-member",
            "a member of another kind in data",
            swap("\"dt\"", "\"id\":\"c\",\"dt\""),
            "UnknownMember",
            "",
        ),
        ("without-seq0", "no seq0", swap("\"seq0\":2,", ""), "MissingMember", "seq0"),
        ("time0", "a time0 of negative zero", swap("\"time0\":11", "\"time0\":-0"), "Member", "time0"),
        (
            "data",
            "data is a list",
            swap("{\"turn\":1,\"step\":1,\"index\":0,\"dt\":[4],\"texts\":[\"a\",\"b\"]}", "[]"),
            "Member",
            "data",
        ),
        ("index", "an index below zero", swap("\"index\":0", "\"index\":-1"), "Member", "index"),
        ("without-dt", "no dt", swap("\"dt\":[4],", ""), "MissingMember", "dt"),
        ("fragment", "a fragment that is no string", swap("\"b\"", "2"), "Member", "texts"),
        ("empty", "no fragment", swap(texts, "\"texts\":[]"), "Empty", ""),
        ("gap", "a gap that is no integer", swap("[4]", "[0.5]"), "Member", "dt"),
        ("gap-minus-zero", "a gap of negative zero", swap("[4]", "[-0]"), "Member", "dt"),
        ("time-overflow", "a running time beyond 2^53 - 1", swap("[4]", "[9007199254740991]"), "Time", ""),
        ("lengths", "as many gaps as fragments", swap("[4]", "[4,4]"), "Lengths", ""),
        (
            "seq-overflow",
            "a last seq beyond 2^53 - 1",
            swap("\"seq0\":2", "\"seq0\":9007199254740991"),
            "SeqOverflow",
            "",
        ),
    ];
    for (name, about, text, inside, member) in bads {
        cases.push(bad_in(
            V0,
            &format!("packed-{name}"),
            about,
            P,
            text.as_bytes(),
            ["Packed", inside, member],
        ));
    }
    let no_id = r#"{"type":"tool-call-chunks","seq0":2,"time0":11,"data":{"turn":1,"step":1,"index":0,"dt":[],"id":"","args":["x"]}}"#;
    cases.push(bad_in(V0, "packed-empty-id", "an empty id", P, no_id.as_bytes(), ["Packed", "Member", "id"]));
    let late = PACKED.replace("\"seq0\":2", "\"seq0\":3");
    cases.push(bad_in(
        V0,
        "packed-seq-gap",
        "a packed row behind a gap",
        P,
        late.as_bytes(),
        ["Gap", "", ""],
    ));
    cases
}

fn cuts() -> Vec<Case> {
    const C: &str = "04-rows.md#Fork cut";
    let seeded = HEADER.replace("false", "true");
    let end_seed = |seq: u64, data: &str| {
        let text = format!(r#"{{"type":"session/end-seed","seq":{seq},"time":12,"data":{data}}}"#);
        event(seq, 12, "session/end-seed", &text)
    };
    let marked = r#"{"inherited":true}"#;
    let with = |case: Case, cut: Option<u64>, fault: Option<&str>| {
        let outcome = Outcome { cut, fault: fault.map(str::to_owned), ..case.outcome };
        Case { outcome, ..case }
    };
    let nested = [row(0, 10), end_seed(1, marked), row(2, 12), end_seed(3, marked), end_seed(4, "{}")];
    let counted = |count: u64| {
        V0.replace("\"delegationDepth\"", &format!("\"seedLength\":{count},\"delegationDepth\""))
    };
    vec![
        with(
            complete(
                "fork-v2",
                "a fork of a fork: the last marked session/end-seed counts",
                &[C],
                &seeded,
                &nested,
            ),
            Some(3),
            None,
        ),
        with(
            complete(
                "fork-v0",
                "a fork in v0 that inherited one event",
                &[C],
                &counted(1),
                &[row(0, 10), row(1, 11)],
            ),
            Some(1),
            None,
        ),
        with(
            complete("fork-v0-of-nothing", "seeded with nothing", &[C], &counted(0), &[row(0, 10)]),
            Some(0),
            None,
        ),
        with(
            complete(
                "fork-without-marker",
                "seeded, and no event marks the cut",
                &[C],
                &seeded,
                &[row(0, 10), end_seed(1, "{}")],
            ),
            None,
            Some("NoMarker"),
        ),
        with(
            complete(
                "fork-unseeded",
                "not seeded, and an event marks a cut",
                &[C],
                HEADER,
                &[end_seed(0, marked)],
            ),
            None,
            Some("Unseeded"),
        ),
        with(
            complete(
                "fork-beyond-events",
                "more inherited events than there are",
                &[C],
                &counted(2),
                &[row(0, 10)],
            ),
            None,
            Some("BeyondEvents"),
        ),
    ]
}
