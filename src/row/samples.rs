//! Generated rows for the tests of this module.

use proptest::prelude::*;

/// Strings that look like the structure around them.
const NASTY: [&str; 18] = [
    "",
    "a",
    "\"",
    "\\",
    "\\\"",
    "}",
    "}}",
    "{",
    "]",
    ",\"surfaceOp\":\"append\"}",
    "\"surfaceOp\":\"append\"",
    "},\"surfaceOp\":{\"op\":\"replace\",\"start\":1,\"end\":2}}",
    ",\"sourceEventSeqs\":[1,2]}",
    ",\"ignorable\":true}",
    "{\"type\":\"turn/end\",\"seq\":0,\"time\":0,\"data\":{}}",
    "surfaceOp",
    "\u{1}\n\u{7f}\u{2028}",
    "😀é",
];

/// The text of a string literal, sometimes with escapes that no writer uses.
pub(crate) fn string() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        prop::sample::select(&NASTY[..]).prop_map(str::to_owned),
        "[a-z]{0,6}",
        prop::collection::vec(prop::sample::select(&NASTY[..]), 0..4).prop_map(|parts| parts.concat()),
    ];
    (value, 0_u8..12, prop::sample::select(&["\\ud83d", "\\udc00", "\\/", "\\u0022", "\\uD83D\\uDE00"][..]))
        .prop_map(|(value, mode, escape)| {
            let mut out = Vec::new();
            crate::json::write_string(&mut out, &value);
            let mut text = String::from_utf8(out).unwrap();
            if mode == 0 {
                text.insert_str(1, escape);
            }
            if mode == 1 {
                text.insert_str(text.len() - 1, escape);
            }
            text
        })
}

/// The text of a JSON value of up to four levels.
pub(crate) fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        string(),
        prop::sample::select(
            &["0", "-0", "12", "1.5e3", "1e400", "true", "false", "null", "{}", "[]", "[ ]"][..]
        )
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            object(inner.clone()),
            prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
        ]
    })
}

fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let name =
        prop_oneof![string(), prop::sample::select(&MEMBERS[..]).prop_map(|name| format!("\"{name}\""))];
    prop::collection::vec((name, value), 0..4).prop_map(|members| {
        let members: Vec<_> = members.iter().map(|(name, value)| format!("{name}:{value}")).collect();
        format!("{{{}}}", members.join(","))
    })
}

const MEMBERS: [&str; 10] = [
    "type",
    "seq",
    "time",
    "data",
    "ignorable",
    "sourceEventSeqs",
    "surfaceOp",
    "surfaceO\\u0070",
    "dat\\u0061",
    "futureField",
];

/// A payload as every known type has one: an object.
pub(crate) fn payload() -> impl Strategy<Value = String> {
    object(value())
}

/// A row in the spelling of writers, with any of the members after the payload in any order.
pub(crate) fn canonical_row(seq: u64) -> impl Strategy<Value = String> {
    let last = seq.saturating_sub(1);
    let tail = Just([
        ",\"surfaceOp\":\"append\"".to_owned(),
        format!(",\"sourceEventSeqs\":[[0,{last}]]"),
        ",\"ignorable\":true".to_owned(),
    ])
    .prop_shuffle();
    let replace = prop::bool::ANY;
    ("[a-z]{1,8}/[a-z]{1,8}", any::<i32>(), payload(), tail, 0_usize..4, replace).prop_map(
        move |(event_type, time, data, tail, members, replace)| {
            let mut tail: String = tail.into_iter().take(members).collect();
            if replace {
                tail =
                    tail.replace("\"append\"", "{\"op\":\"replace\",\"start\":0,\"end\":9007199254740991}");
            }
            if seq == 0 {
                tail = tail.replace("[[0,0]]", "[]");
            }
            format!("{{\"type\":\"{event_type}\",\"seq\":{seq},\"time\":{time},\"data\":{data}{tail}}}")
        },
    )
}

/// An object of envelope members with any values in any number and order, and spaces here and there.
pub(crate) fn odd_row() -> impl Strategy<Value = String> {
    let member = prop_oneof![
        4 => (prop::sample::select(&MEMBERS[..]), value()),
        1 => (Just("type"), string()),
        2 => (Just("seq"), prop::sample::select(&["0", "7", "-0", "1.0", "9007199254740992"][..]).prop_map(str::to_owned)),
        2 => (Just("time"), prop::sample::select(&["0", "-3", "1.5", "2e0"][..]).prop_map(str::to_owned)),
        2 => (Just("data"), payload()),
        1 => (Just("sourceEventSeqs"), prop::sample::select(&["[]", "[0]", "[0,0]", "[[0,2],5]", "[ 1 ]"][..]).prop_map(str::to_owned)),
    ];
    let head = prop::sample::select(
        &[
            "",
            "\"type\":\"a\",\"seq\":7,\"time\":1,\"data\":{}",
            "\"type\":\"a\",\"seq\":7,\"time\":1,\"data\":{\"b\":[1]}",
        ][..],
    );
    (
        head,
        prop::collection::vec((member, prop::sample::select(&["", "", "", " ", "\t"][..])), 0..6),
        any::<bool>(),
    )
        .prop_map(|(head, members, shut)| {
            let members =
                members.into_iter().map(|((name, value), space)| format!("\"{name}\":{space}{value}{space}"));
            let members: Vec<_> =
                Some(head.to_owned()).into_iter().filter(|head| !head.is_empty()).chain(members).collect();
            format!("{{{}{}", members.join(","), if shut { "}" } else { "} " })
        })
}

/// `text` with one byte changed, removed or doubled; may be ill-formed UTF-8.
pub(crate) fn damaged(text: &str, at: prop::sample::Index, how: u8) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    if bytes.is_empty() {
        return bytes;
    }
    let at = at.index(bytes.len());
    match how % 8 {
        0 => drop(bytes.remove(at)),
        1 => bytes.insert(at, b'"'),
        2 => bytes[at] = b'\\',
        3 => bytes[at] = b'}',
        4 => bytes[at] ^= 0x80,
        5 => bytes.truncate(at),
        6 => bytes.insert(at, bytes[at]),
        _ => bytes[at] = b',',
    }
    bytes
}
