//! 04: numbers, headers, seq ranges, packed rows, and which rows count.

use seslog::json::{Tape, Text};
use seslog::limits::Limits;
use seslog::row::{
    DecodeCause, Header, HeaderFault, Packed, Recovery, RowDecoder, RowFault, RowPlace, Seeding, range,
};
use seslog::units::{Generation, Seq, UnixMs};

use crate::markdown::{Doc, code};
use crate::outcome::fault_name;
use crate::vectors;

fn doc() -> Doc {
    Doc::read("04-rows.md")
}

#[test]
fn numbers_of_the_table_are_judged_so() {
    let rows = doc().table("Numbers").select(["text", "count", "safe integer"]);
    assert!(rows.len() > 10);
    let mut tape = Tape::default();
    for [text, count, integer] in rows {
        let text = code(&text).as_bytes();
        let number = tape.parse(text, 1).unwrap().as_number().unwrap();
        let stated = |cell: &str| (cell != "no").then(|| cell.to_owned());
        assert_eq!(number.as_count().map(|count| count.to_string()), stated(&count), "{}", number.raw());
        assert_eq!(number.as_safe_integer().map(|n| n.to_string()), stated(&integer), "{}", number.raw());
    }
}

#[test]
fn headers_are_written_in_the_order_of_the_table_and_read_in_any() {
    let rows = doc().tables("Header")[0].select(["member", "v0, v1", "v2"]);
    for (generation, seeding, column) in [
        (Generation::V0, Seeding::Counted(2), 1),
        (Generation::V1, Seeding::Counted(2), 1),
        (Generation::V2, Seeding::Marked, 2),
    ] {
        let header = Header::new(generation, Text::from("kid"), UnixMs::new(1_700_000_000_000)).unwrap();
        let header = header.with_cwd(Text::from("/a")).unwrap().with_parent_session(Text::from("base"));
        let header = header.with_origin_subagent().with_agent_preset(Text::from("coding"));
        let header = header.with_seeding(generation, seeding).unwrap();
        let mut line = Vec::new();
        header.write(&mut line);
        assert_eq!(Header::parse(&line, &Limits::DEFAULT).unwrap(), header);
        let mut tape = Tape::default();
        let node = tape.parse(&line, 4).unwrap();
        let members: Vec<(String, String)> = (node.members().unwrap())
            .map(|(name, value)| (format!("`{}`", name.to_string_lossy()), value.raw().to_owned()))
            .collect();
        let listed: Vec<&String> =
            rows.iter().filter(|row| row[column] != "none").map(|row| &row[0]).collect();
        assert_eq!(members.iter().map(|(name, _)| name).collect::<Vec<_>>(), listed, "{generation}");

        let reversed = |without: &str| {
            let kept = members.iter().rev().filter(|(name, _)| name != without);
            let kept: Vec<String> = kept.map(|(name, value)| format!("\"{}\":{value}", code(name))).collect();
            format!("{{{}}}", kept.join(","))
        };
        assert_eq!(Header::parse(reversed("").as_bytes(), &Limits::DEFAULT).unwrap(), header);
        for row in rows.iter().filter(|row| row[column] != "none") {
            let read = Header::parse(reversed(&row[0]).as_bytes(), &Limits::DEFAULT);
            match (row[column].as_str(), read) {
                ("required", Err(HeaderFault::Missing(member))) => assert_eq!(member.as_str(), code(&row[0])),
                ("optional", Ok(_)) => {}
                (rule, read) => panic!("{} is {rule} in {generation}: {read:?}", row[0]),
            }
        }
    }
}

#[test]
fn examples_of_headers_are_headers_as_written() {
    let doc = doc();
    let lines = doc.json_lines("Header");
    assert_eq!(lines.len(), 2);
    for line in lines {
        let mut written = Vec::new();
        Header::parse(line.as_bytes(), &Limits::DEFAULT).unwrap().write(&mut written);
        assert_eq!(String::from_utf8(written).unwrap(), line);
    }
}

#[test]
fn each_fault_of_headers_and_rows_that_a_small_file_can_show_has_a_vector() {
    let doc = doc();
    let named: Vec<String> =
        vectors::read("invalid").iter().filter_map(|vector| vector.outcome().fault).collect();
    let inside: Vec<String> =
        vectors::read("invalid").iter().filter_map(|vector| vector.outcome().inside).collect();
    let listed = |section: &str, column: &str| -> Vec<String> {
        let table =
            doc.tables(section).into_iter().find(|table| table.columns.iter().any(|name| name == column));
        let cells = table.expect("a table of faults").select([column]);
        let words = cells.iter().flat_map(|[cell]| cell.split(|c: char| !c.is_alphanumeric()));
        words.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase())).map(str::to_owned).collect()
    };
    for fault in
        [listed("Header", "fault"), listed("Envelope", "fault"), listed("Fork cut", "fault")].concat()
    {
        assert!(named.contains(&fault) || fault == "TooLong", "{fault}");
    }
    for fault in [listed("Packed rows", "fault inside Packed"), listed("Seq ranges", "fault")].concat() {
        assert!(inside.contains(&fault), "{fault}");
    }
}

#[test]
fn seq_lists_of_the_tables_are_stored_and_refused_so() {
    let tables = doc().tables("Seq ranges");
    for [list, stored, bound] in tables[0].select(["list", "stored", "L"]) {
        let seqs: Vec<u64> = list.split(' ').filter_map(|seq| seq.parse().ok()).collect();
        let mut written = Vec::new();
        range::encode(&seqs, &mut written);
        assert_eq!(String::from_utf8(written).unwrap(), code(&stored), "{list}");
        let mut read = Vec::new();
        range::decode(code(&stored), Seq::new(bound.parse().unwrap()).unwrap(), &mut read).unwrap();
        assert_eq!(read, seqs, "{stored}");
    }
    for [stored, bound, fault] in tables[2].select(["stored", "L", "fault"]) {
        let found = range::check(code(&stored), Seq::new(bound.parse().unwrap()).unwrap()).unwrap_err();
        assert_eq!(fault_name(&found), fault, "{stored}");
    }
}

#[test]
fn examples_of_packed_rows_expand_to_the_stated_seqs_and_times() {
    let doc = doc();
    let lines = doc.json_lines("Packed rows");
    let expected = [[(40, 9000), (41, 9007), (42, 9007)], [(43, 9010), (44, 9011), (45, 9008)]];
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.iter().zip(expected) {
        let row = Packed::read(line.as_bytes(), &Limits::DEFAULT).unwrap();
        let members: Vec<_> = row.members().map(|member| (member.seq.get(), member.time.get())).collect();
        assert_eq!(members, expected);
        let chunks = doc.tables("Packed rows")[0].select(["`type`", "chunk of one event"]);
        let [_, chunk] =
            chunks.iter().find(|[kind, _]| code(kind) == row.kind().row_type()).expect("its kind is listed");
        let shape = code(chunk).split(",without").next().expect("a shape");
        let shape = shape.split('`').next().expect("a shape");
        for member in row.members() {
            let mut out = Vec::new();
            row.write_member(&member, &mut out);
            let out = String::from_utf8(out).unwrap();
            let fragment = format!("\"{}\"", member.fragment.raw());
            let shape = shape
                .replace(":I,", &format!(":{},", row.index()))
                .replace(":ID,", "\u{1}")
                .replace(":NAME,", "\u{2}")
                .replace(":F}", &format!(":{fragment}}}"));
            let name =
                |text: Option<seslog::json::Str<'_>>| format!(":\"{}\",", text.map_or("", |text| text.raw()));
            let shape = shape.replace('\u{1}', &name(row.id())).replace('\u{2}', &name(row.name()));
            let data = format!("{{\"turn\":{},\"step\":{},\"chunk\":{shape}}}", row.turn(), row.step());
            let event = format!(
                "{{\"type\":\"assistant/chunk\",\"seq\":{},\"time\":{},\"data\":{data}}}",
                member.seq.get(),
                member.time.get()
            );
            assert_eq!(out, event);
        }
    }
}

/// A row of the table, as a line.
fn line_of(word: &str) -> String {
    let event = |kind: &str, seq: &str| format!(r#"{{"type":"{kind}","seq":{seq},"time":1,"data":{{}}}}"#);
    match word.split_once('@') {
        Some(("a", seq)) => event("x/y", seq),
        Some(("TE", seq)) => event("turn/end", seq),
        _ if word == "half" => "{\"type\":\"x".to_owned(),
        _ => word.to_owned(),
    }
}

#[test]
fn rows_of_the_table_are_recovered_or_refused_so() {
    let tables = doc().tables("Strict and recoverable reading");
    let rows = tables[1].select(["rows", "v0", "v2"]);
    assert!(rows.len() > 8);
    for [rows, v0, v2] in rows {
        for (generation, expected) in [(Generation::V0, v0), (Generation::V2, v2)] {
            let mut decoder = RowDecoder::new(generation, Recovery::Recoverable);
            let mut failed = None;
            for (index, word) in rows.split("` `").map(|word| word.trim_matches('`')).enumerate() {
                let place = RowPlace { line: index as u64 + 2, offset: 0 };
                if let Err(fault) = decoder.push(place, line_of(word).as_bytes()) {
                    failed = Some(fault);
                    break;
                }
            }
            let found = match failed {
                Some(fault) if fault.cause == DecodeCause::Refused => {
                    format!("refused: line {}", fault.issue.place.line)
                }
                Some(fault) => {
                    let proof = fault.proof.expect("a recoverable read fails by evidence");
                    format!("fails: line {}, evidence line {}", fault.issue.place.line, proof.line)
                }
                None => format!("{} event", decoder.events()),
            };
            assert_eq!(found, expected, "{generation}: {rows}");
        }
    }
}

#[test]
fn kinds_of_damage_are_those_of_the_table() {
    let rows = doc().table("Damage").select(["kind", "faults"]);
    let some = |text: &str, generation| {
        let mut decoder = RowDecoder::new(generation, Recovery::Strict);
        decoder.push(RowPlace::default(), text.as_bytes()).unwrap_err().issue.fault
    };
    let v2 = |text: &str| some(text, Generation::V2);
    let half = "{\"type\":\"x";
    let whole = line_of("a@0");
    let examples: [RowFault; 10] = [
        v2("[1]"),
        v2("{}"),
        v2(half),
        v2(&format!("{half}{whole}")),
        v2(&line_of("a@1")),
        v2(&whole.replace("\"data\"", "\"x\":1,\"data\"")),
        v2(&whole.replace("\"data\":{}", "\"data\":{},\"sourceEventSeqs\":[0]")),
        v2(&whole.replace("\"seq\":0", "\"seq\":-1")),
        v2(&whole.replace("x/y", "session/end-seed").replace("{}", "1")),
        some(r#"{"type":"text-chunks"}"#, Generation::V0),
    ];
    for fault in examples {
        let name = fault_name(&fault);
        let kind = rows.iter().find(|[_, faults]| faults.split(", ").any(|listed| listed == name));
        let [kind, _] = kind.unwrap_or_else(|| panic!("{name} is not listed"));
        assert_eq!(fault.kind().as_str(), kind, "{name}");
        assert_eq!(fault.kind().is_damage(), !["unknown member", "too long"].contains(&kind.as_str()));
    }
}
