//! Target `range`: the list of cited seqs.

use crate::row::range;
use crate::units::Seq;

/// Takes the first 9 bytes for a bound and a mode, the others for a list, once as text and once as numbers.
pub fn fuzz_range(data: &[u8]) {
    let Some((head, rest)) = data.split_first_chunk::<9>() else { return };
    let [mode, bound @ ..] = *head;
    // Small bounds are the interesting ones: a wrong one shows in what is expanded.
    let bound = u64::from_le_bytes(bound) >> (mode % 64);
    if let Ok(text) = std::str::from_utf8(rest) {
        decode_is_bounded(text, bound % 4096);
    }
    let seqs: Vec<u64> = rest.iter().map(|&byte| u64::from(byte)).collect();
    encode_round_trips(&seqs, 256);
    let mut steps = seqs;
    steps.iter_mut().fold(bound % 4096, |sum, step| {
        *step = sum.saturating_add(*step % 4).saturating_add(1);
        *step
    });
    encode_round_trips(&steps, steps.last().map_or(0, |last| last.saturating_add(1)));
}

/// Whatever `text` is, decoding it gives at most `bound` seqs, each below `bound` and each once, and all readers agree.
pub fn decode_is_bounded(text: &str, bound: u64) {
    let Some(seq) = Seq::new(bound) else { return };
    let mut seqs = Vec::new();
    let decoded = range::decode(text, seq, &mut seqs);
    let count = range::check(text, seq);
    assert_eq!(decoded, count.map(|_| ()));
    assert!(seqs.iter().all(|&seq| seq < bound), "{text:?} expands to a seq that is not below {bound}");
    let len = u64::try_from(seqs.len()).expect("a length fits 64 bits");
    assert!(len <= bound, "{text:?} expands to {len} seqs, more than {bound}");
    assert_eq!(count.unwrap_or(0), len);
    let mut sorted = seqs.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), seqs.len(), "{text:?} gives a seq twice");
    if decoded.is_err() {
        return;
    }
    assert!(crate::json::check(text.as_bytes(), 2).is_ok(), "{text:?} is not JSON");
    let ranges: Vec<u64> = range::ranges(text, seq).expect("checked above").flatten().collect();
    assert_eq!(ranges, seqs);
    let (mut encoded, mut recoded) = (Vec::new(), Vec::new());
    range::encode(&seqs, &mut encoded);
    range::recode(text, seq, &mut recoded).expect("checked above");
    assert_eq!(encoded, recoded);
    encode_round_trips(&seqs, bound);
}

/// What is encoded decodes to itself, if it holds no seq twice and `bound` is above all of them.
pub fn encode_round_trips(seqs: &[u64], bound: u64) {
    let Some(bound) = Seq::new(bound) else { return };
    let mut text = Vec::new();
    range::encode(seqs, &mut text);
    let text = String::from_utf8(text).expect("the encoder writes ASCII");
    let mut decoded = Vec::new();
    let unique = seqs.iter().collect::<std::collections::HashSet<_>>().len() == seqs.len();
    match range::decode(&text, bound, &mut decoded) {
        Ok(()) => assert!(unique && decoded == seqs, "{text}"),
        Err(fault) => assert!(!unique, "{text}: {fault}"),
    }
}
