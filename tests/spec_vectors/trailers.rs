//! 03: members, worked bytes, skip distances, and the order of checks.

use std::collections::BTreeSet;

use seslog::container::{Encoding, Fault, ReadError, reader, spec};
use seslog::limits::Limits;

use crate::build::{ID, Layout, Log, Members, Segment, frame, jump, line, terms};
use crate::cases::{HEADER, row, two_events};
use crate::markdown::Doc;
use crate::outcome::{Outcome, fault_name};
use crate::vectors;

fn doc() -> Doc {
    Doc::read("03-trailer.md")
}

#[test]
fn members_stand_where_the_code_has_them_and_leave_no_byte_out() {
    let rows = doc().table("Members").select(["name", "offset", "size", "type"]);
    let text: Vec<(&str, usize, usize)> = rows
        .iter()
        .map(|[name, offset, size, _]| (name.as_str(), offset.parse().unwrap(), size.parse().unwrap()))
        .collect();
    assert_eq!(text, spec::TRAILER_MEMBERS);
    let mut next = 0;
    for ((_, offset, size), [_, _, _, kind]) in text.iter().zip(&rows) {
        assert_eq!(*offset, next);
        next += size;
        let of_kind = match kind.as_str() {
            "bytes" => *size,
            "u8" => 1,
            "u32le" => 4,
            "u64le" | "i64le" => 8,
            other => panic!("{other}"),
        };
        assert_eq!(of_kind, *size);
    }
    assert_eq!(next + spec::TRAILER_HEADER.len(), 64);
}

#[test]
fn the_worked_trailer_has_the_listed_values_and_seals_itself() {
    let stored = doc().hex("worked-trailer");
    assert_eq!(stored[..8], spec::TRAILER_HEADER);
    assert_eq!(&stored[8..10], b"SL");
    let layout = Layout::read();
    let rows = doc().table("A worked trailer").select(["name", "value"]);
    assert_eq!(rows.len(), spec::TRAILER_MEMBERS.len() - 1, "all members but the magic");
    let mut members = Members(Default::default());
    members.set("magic", 0x4c53);
    for [name, value] in &rows {
        assert_eq!(layout.get(&stored, name), value.parse::<u64>().unwrap(), "{name}");
        let name = spec::TRAILER_MEMBERS.iter().find(|member| member.0 == name).expect("a member").0;
        if name != "trailer_crc" {
            members.set(name, value.parse().unwrap());
        }
    }
    assert_eq!(layout.seal(&members, ID), stored);
}

#[test]
fn the_whole_file_is_its_vector() {
    let file = doc().hex("worked-small-file");
    let vector =
        vectors::read("valid").into_iter().find(|vector| vector.name == "worked-small-file").unwrap();
    assert_eq!(file, vector.bytes);
    let (outcome, _) = Outcome::of(Encoding::Indexed, &file);
    assert_eq!(outcome.state.as_deref(), Some("complete"));
    assert_eq!(outcome.events.map(|events| events.len()), Some(3));
}

#[test]
fn jumps_are_those_of_the_table_and_of_the_code() {
    let rows = doc().table("Skip distances").select(["n", "terms", "J(n)"]);
    assert!(rows.len() > 16);
    for [n, split, target] in rows {
        let n: u64 = n.parse().unwrap();
        let split: Vec<u64> =
            split.split(" + ").filter(|term| !term.is_empty()).map(|term| term.parse().unwrap()).collect();
        assert_eq!(terms(n), split, "{n}");
        assert_eq!(jump(n), target.parse::<u64>().unwrap(), "{n}");
        assert_eq!(u64::from(spec::jump(u32::try_from(n).unwrap())), jump(n), "{n}");
    }
    for n in 0..3_000 {
        assert_eq!(u64::from(spec::jump(u32::try_from(n).unwrap())), jump(n), "{n}");
    }
}

/// Trailers that "Seeking" in 01 reads from trailer `n` to find the last one that holds, which is `sought`.
fn steps(n: u64, sought: u64) -> u32 {
    if sought == n {
        return 1;
    }
    let (mut above, mut below, mut read) = (n, None, 1);
    while below != Some(above - 1) {
        let skipped = jump(above);
        let next = if below.is_none_or(|below| skipped > below) { skipped } else { above - 1 };
        read += 1;
        if next > sought {
            above = next;
        } else {
            below = Some(next);
        }
    }
    assert_eq!(below, Some(sought), "from {n}");
    read
}

#[test]
fn a_seek_reads_no_more_trailers_than_the_text_says() {
    let most = |n: u64| 3 * (n + 1).ilog2() + 1;
    for n in 1..300 {
        for sought in 0..=n {
            assert!(steps(n, sought) <= most(n), "{n} to {sought}: {}", steps(n, sought));
        }
    }
    for n in [65_534, 65_535, 999_999, 1_000_000] {
        assert!((0..n).step_by(997).all(|sought| steps(n, sought) <= most(n)), "{n}");
    }
    let text = std::fs::read_to_string(crate::markdown::folder().join("03-trailer.md")).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let stated = format!(
        "3 x floor(log2(n + 1)) + 1 trailers, n itself and failed looks included: {} among a million",
        most(1_000_000)
    );
    assert!(words.join(" ").contains(&stated), "{stated}");
}

/// The fault of the first segment, or at the end, that reading gives.
fn fault_of(bytes: &[u8]) -> Fault {
    let mut source = bytes;
    let mut blocks = reader(Encoding::Indexed, Limits::DEFAULT);
    loop {
        match blocks.next(&mut source) {
            Ok(Some(_)) => {}
            Ok(None) => return blocks.tail().expect("judged").fault.expect("a fault"),
            Err(ReadError::Bad { fault, .. }) => return fault,
            Err(error) => panic!("{error}"),
        }
    }
}

fn member_of(fault: Fault) -> &'static str {
    match fault {
        Fault::Chain { member, .. } => member,
        other => panic!("{other}"),
    }
}

/// A marker behind two events, with the given members broken.
fn broken_marker(broken: &[&str]) -> Vec<u8> {
    let mut log = two_events();
    let change = |members: &mut Members| {
        for name in broken {
            let name = spec::TRAILER_MEMBERS.iter().find(|member| member.0 == *name).expect("a member").0;
            let wrong = match name {
                "flags" => 0,
                "events" => {
                    // The sum is a rule of its own.
                    let next_seq = members.get("next_seq");
                    members.set("next_seq", next_seq + 1);
                    1
                }
                _ => members.get(name) + 1,
            };
            members.set(name, wrong);
        }
    };
    log.segment(Segment { rows: &[], body: Vec::new(), commit: true, change: &change });
    log.bytes
}

#[test]
fn chain_rules_are_checked_in_the_order_of_the_table() {
    let tables = doc().tables("Chain rules");
    let members: Vec<String> = tables[0].select(["member"]).into_iter().map(|[member]| member).collect();
    assert_eq!(members.iter().collect::<BTreeSet<_>>().len(), 8);
    for (at, first) in members.iter().enumerate() {
        // A marker that states a length is no marker, so the rules for markers do not bind it.
        let alone = if first == "body_len" { broken_marker(&["body_len"]) } else { broken_marker(&[first]) };
        assert_eq!(member_of(fault_of(&alone)), first);
        for second in &members[at + 1..] {
            let fault = fault_of(&broken_marker(&[first, second]));
            assert_eq!(member_of(fault), first, "{first} before {second}");
        }
    }
}

#[test]
fn rules_for_the_first_trailer_are_checked_in_the_order_of_the_table() {
    let tables = doc().tables("Chain rules");
    let members: Vec<String> = tables[1].select(["member"]).into_iter().map(|[member]| member).collect();
    assert_eq!(members.iter().collect::<BTreeSet<_>>().len(), 7);
    let broken = |broken: &[&String]| {
        let change = |members: &mut Members| {
            for name in broken {
                let name =
                    spec::TRAILER_MEMBERS.iter().find(|member| member.0 == **name).expect("a member").0;
                let value = if name == "flags" { 0 } else { members.get(name) + 1 };
                members.set(name, value);
            }
        };
        member_of(fault_of(&Log::with(ID, HEADER, frame(&line(HEADER)), 9, &change).bytes))
    };
    for (at, first) in members.iter().enumerate() {
        assert_eq!(broken(&[first]), first);
        for second in &members[at + 1..] {
            assert_eq!(broken(&[first, second]), first, "{first} before {second}");
        }
    }
}

/// A segment behind two events in which everything from check `from` on is broken, and nothing before it.
fn broken_from(from: usize) -> Vec<u8> {
    let mut log = two_events();
    let start = log.end();
    let rows = [row(2, 12)];
    let mut body = frame(&rows[0].line);
    // Check 8: the content's checksum. Check 7: the body's CRC. Check 6: the chain.
    let last = body.len() - 1;
    body[last] ^= 1;
    let change = |members: &mut Members| {
        if from <= 7 {
            members.set("body_crc", 5);
        }
        if from <= 6 {
            members.set("segment", 9);
        }
        if from <= 5 {
            members.set("flags", 0b1111);
        }
        if from <= 4 {
            members.set("version", 2);
        }
        if from <= 3 {
            members.set("trailer_crc", 5);
        }
    };
    log.segment(Segment { rows: &rows, body, commit: true, change: &change });
    let trailer = log.trailer(2);
    if from <= 2 {
        log.bytes[trailer + 8] ^= 1;
    }
    if from <= 1 {
        log.bytes[start] ^= 1;
    }
    log.bytes
}

#[test]
fn checks_of_a_segment_come_in_the_order_of_the_table() {
    let rows = doc().table("Order of checks").select(["#", "fault"]);
    assert_eq!(rows.len(), 8);
    let expected = [
        "FrameMagic",
        "TrailerMagic",
        "TrailerCrc",
        "TrailerVersion",
        "TrailerFlags",
        "Chain",
        "BodyCrc",
        "FrameChecksum",
    ];
    for ([number, faults], expected) in rows.iter().zip(expected) {
        let fault = fault_of(&broken_from(number.parse().unwrap()));
        assert_eq!(fault_name(&fault), expected, "check {number}");
        // Checks 1 and 8 name other sections.
        assert!(
            faults.contains(expected) || ["1", "8"].contains(&number.as_str()),
            "check {number}: {faults}"
        );
    }
}
