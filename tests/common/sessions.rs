//! Sessions for the tests of the store: headers, rows that tell who wrote them, and what a handle holds.

use std::ops::Range;

use seslog::Result;
use seslog::container::Encoding;
use seslog::json::Text;
use seslog::row::Header;
use seslog::store::{Durability, FileHandle, StoreOptions};
use seslog::units::{Generation, UnixMs};

pub(crate) const CREATED_AT: i64 = 1_700_000_000_000;

pub(crate) fn options(encoding: Encoding) -> StoreOptions {
    let mut options = StoreOptions::default();
    options.encoding = encoding;
    options
}

pub(crate) fn options_on_flush(encoding: Encoding) -> StoreOptions {
    let mut options = options(encoding);
    options.durability = Durability::OnFlush;
    options
}

pub(crate) fn header(id: &str) -> Header {
    Header::new(Generation::V2, Text::from(id), UnixMs::new(CREATED_AT)).expect("a header of this generation")
}

/// Event `seq`, written by `by`, with about `noise` bytes that no compressor gets rid of.
pub(crate) fn row_by(by: &str, seq: u64, noise: usize) -> String {
    let mut state = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ by.len() as u64;
    let mut text = String::new();
    while text.len() < noise {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!("{state:016x}"));
    }
    text.truncate(noise);
    row_of("plan/mode", seq, &format!("{{\"active\":true,\"by\":\"{by}\",\"noise\":\"{text}\"}}"))
}

/// Event `seq` of a type and with a payload.
pub(crate) fn row_of(kind: &str, seq: u64, data: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"seq\":{seq},\"time\":{},\"data\":{data}}}", CREATED_AT + seq as i64)
}

/// Small events `seqs`, written by `by`.
pub(crate) fn rows_by(by: &str, seqs: Range<u64>) -> Vec<String> {
    seqs.map(|seq| row_by(by, seq, 24)).collect()
}

/// Events `seqs` of 10 KB each, of which all but `noise` bytes compress to nothing: a few dozen fill a segment, and a
/// segment is a few sectors long.
pub(crate) fn fat_rows_by(by: &str, seqs: Range<u64>, noise: usize) -> Vec<String> {
    let air = "lorem ipsum ".repeat(850);
    seqs.map(|seq| row_by(by, seq, noise).replace("\"active\"", &format!("\"air\":\"{air}\",\"active\"")))
        .collect()
}

pub(crate) fn append(handle: &FileHandle, rows: &[String]) -> Result<()> {
    let rows: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
    handle.append(&rows)
}

/// All events that a handle reads.
pub(crate) fn read_all(handle: &FileHandle) -> Result<Vec<String>> {
    read(handle, 0, u64::MAX)
}

pub(crate) fn read(handle: &FileHandle, offset: u64, length: u64) -> Result<Vec<String>> {
    let events = handle.read(offset, length)?;
    let text = |row: &[u8]| String::from_utf8(row.to_vec()).expect("rows are stored as text");
    Ok(events.rows().map(text).collect())
}
