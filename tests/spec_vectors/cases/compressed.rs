//! Files with compressed blocks, made by the crate once and kept: another version of the compressor gives other bytes.

use seslog::container::{Batch, Encoding, LEVEL_DEFAULT, LogId, RowMark, create};

use super::{Case, HEADER, raw};
use crate::build::{ID, Row, content, line};
use crate::outcome::Outcome;

const ROWS: u64 = 40;

fn rows() -> Vec<Row> {
    let text = |seq| {
        let words = "it was the best of times, it was the worst of times";
        format!(
            r#"{{"type":"note/text","seq":{seq},"time":{},"data":{{"text":"{words}, {seq}"}}}}"#,
            seq + 10
        )
    };
    let time = |seq: u64| i64::try_from(seq).expect("small") + 10;
    (0..ROWS).map(|seq| raw(&text(seq), vec![(seq, time(seq), "note/text".to_owned())])).collect()
}

/// The vectors with the bytes that this version of the compressor gives.
pub(crate) fn cases() -> Vec<Case> {
    let case = |name: &str, encoding: Encoding, file_name| {
        let (rows, mut bytes) = (rows(), Vec::new());
        let id = LogId::new(ID).expect("not zero");
        let mut writer =
            create(encoding, id, &line(HEADER), 9, LEVEL_DEFAULT, &mut bytes).expect("a header fits");
        writer.accept(true);
        let header_end = bytes.len() as u64;
        let content = content(&rows);
        let mut end = 0;
        let marks: Vec<RowMark> = rows
            .iter()
            .map(|row| {
                end += row.line.len();
                RowMark { end, events: 1, last_time: row.events[0].1 }
            })
            .collect();
        writer.stage(&Batch { content: &content, rows: &marks }, &mut bytes).expect("the rows fit");
        let is_indexed = encoding == Encoding::Indexed;
        let outcome = Outcome {
            detected: encoding.name().to_owned(),
            state: Some("complete".to_owned()),
            good_end: Some(bytes.len() as u64),
            durable: is_indexed.then_some(header_end),
            committed: is_indexed.then_some(true),
            events: Some(rows.iter().flat_map(|row| row.events.clone()).collect()),
            ..Outcome::default()
        };
        Case {
            name: name.to_owned(),
            about: format!("{ROWS} rows in one compressed block"),
            spec: vec!["02-frames.md#Content"],
            encoding: encoding.name(),
            file_name,
            outcome: outcome.with_text(&[line(HEADER), content].concat()),
            bytes,
        }
    };
    vec![
        case("compressed", Encoding::Indexed, super::INDEXED),
        case("zstd-compressed", Encoding::Zstd, "session.v2.jsonl.zstd"),
    ]
}
