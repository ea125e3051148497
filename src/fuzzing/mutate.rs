//! Mutations that keep the structure of their input: of logs, of single trailers, and of lines of JSON.
//!
//! Each is called as libFuzzer calls a custom mutator. A flipped byte in a log dies at the first checksum, and one in a row at
//! the JSON grammar; these change a record, a member or a value, and then make right what would hide the change.

use std::ops::Range;

use super::seal::{Seal, seal_log, seal_trailer};
use crate::container::parts::{Encoder, SKIPPABLE_HEADER};
use crate::container::{LEVEL_STORE, TRAILER_LEN, salvage_frame};
use crate::json::{Node, Tape};
use crate::limits::Limits;

/// libFuzzer's own mutation: changes `data[..size]`, which may grow to `max_size`, and returns its new size.
pub type Bytewise<'f> = &'f mut dyn FnMut(&mut [u8], usize, usize) -> usize;

/// Changes a log: its bytes, the content of a record, a member of a trailer, or the order of records. Three times in four
/// the checksums are right afterwards, and twice in four the chain of trailers too.
///
/// The log begins at `data[before]`; what stands before it is changed now and then, byte by byte.
pub fn mutate_log(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    before: usize,
    bytewise: Bytewise<'_>,
) -> usize {
    let mut random = Random::new(seed);
    let Some((head, log)) = data.get(..size).and_then(|whole| whole.split_at_checked(before)) else {
        return bytewise(data, size, max_size);
    };
    let (head, mut log) = (head.to_vec(), log.to_vec());
    let records = seal_log(&mut log.clone(), Seal::Checksums);
    let room = max_size.saturating_sub(before);
    match random.below(8) {
        0 if before > 0 && random.below(4) == 0 => return bytewise(data, size, max_size),
        0 | 1 => apply(&mut log, room, bytewise),
        2 | 3 => change_content(&mut log, &records, &mut random, bytewise),
        4 => change_member(&mut log, &records, &mut random),
        5 => move_record(&mut log, &records, &mut random),
        _ => damage(&mut log, &mut random),
    }
    match random.below(4) {
        0 => {}
        1 => drop(seal_log(&mut log, Seal::Checksums)),
        _ => drop(seal_log(&mut log, Seal::Chain)),
    }
    put(data, max_size, &[head, log].concat()).unwrap_or(size)
}

/// Changes a run of stored trailers behind `before` bytes, the last 8 of which are the id of their log, and seals them.
pub fn mutate_trailers(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    before: usize,
    bytewise: Bytewise<'_>,
) -> usize {
    let mut random = Random::new(seed);
    let size = bytewise(data, size, max_size);
    let Some((head, trailers)) = data.get_mut(..size).and_then(|whole| whole.split_at_mut_checked(before))
    else {
        return size;
    };
    let id = head.last_chunk::<8>().and_then(|id| id.first_chunk::<4>());
    let id = id.map_or(0, |id| u32::from_le_bytes(*id));
    for trailer in trailers.chunks_mut(TRAILER_LEN) {
        if random.below(8) == 0 {
            continue;
        }
        if let Some(header) = trailer.get_mut(..SKIPPABLE_HEADER.len()) {
            header.copy_from_slice(&SKIPPABLE_HEADER);
        }
        if random.below(4) > 0
            && let Some(start) =
                trailer.get_mut(SKIPPABLE_HEADER.len()..SKIPPABLE_HEADER.len().saturating_add(3))
        {
            start.copy_from_slice(b"SL\x01");
        }
        // Reserved flags end the reading; the others are harmless.
        if random.below(4) > 0
            && let Some(flags) = trailer.get_mut(SKIPPABLE_HEADER.len().saturating_add(3))
        {
            *flags &= 0xf1;
        }
        seal_trailer(trailer, id);
    }
    size
}

/// Changes lines of JSON behind `before` bytes: a value, a member, an element or a whole line; one time in four only bytes.
pub fn mutate_json(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    before: usize,
    bytewise: Bytewise<'_>,
) -> usize {
    let mut random = Random::new(seed);
    let Some((head, text)) = data.get(..size).and_then(|whole| whole.split_at_checked(before)) else {
        return bytewise(data, size, max_size);
    };
    if random.below(4) == 0 {
        return bytewise(data, size, max_size);
    }
    let mut changed = text.to_vec();
    for _ in 0..=random.below(2) {
        change_lines(&mut changed, &mut random);
    }
    match put(data, max_size, &[head, &changed].concat()) {
        Some(size) => size,
        None => bytewise(data, size, max_size),
    }
}

/// Replaces `data` by `changed`; `None` if that is too long.
fn put(data: &mut [u8], max_size: usize, changed: &[u8]) -> Option<usize> {
    let place = data.get_mut(..changed.len()).filter(|_| changed.len() <= max_size)?;
    place.copy_from_slice(changed);
    Some(changed.len())
}

/// libFuzzer's own mutation of a vector.
fn apply(bytes: &mut Vec<u8>, max_size: usize, bytewise: Bytewise<'_>) {
    let size = bytes.len();
    let max_size = max_size.max(size).max(1);
    bytes.resize(max_size, 0);
    let size = bytewise(bytes, size, max_size);
    bytes.truncate(size);
}

/// Changes what a record holds and compresses it again.
fn change_content(log: &mut Vec<u8>, records: &[Range<usize>], random: &mut Random, bytewise: Bytewise<'_>) {
    let Some(record) = random.pick(records).cloned() else { return damage(log, random) };
    let stored = log.get(record.clone()).unwrap_or_default();
    let limits = Limits { frame_content_bytes_max: 1 << 20, window_bytes_max: 1 << 20, ..Limits::DEFAULT };
    let trailer = stored.len().checked_sub(TRAILER_LEN).and_then(|at| stored.get(at..));
    let trailer = trailer.filter(|trailer| trailer.starts_with(&SKIPPABLE_HEADER)).unwrap_or_default();
    let mut content = salvage_frame(stored, &limits);
    match random.below(4) {
        0 => {
            let room = content.len().saturating_add(64);
            apply(&mut content, room, bytewise);
        }
        1 => {
            // Another row of the same length compresses to other blocks.
            content.extend_from_within(..);
        }
        _ => change_lines(&mut content, random),
    }
    let mut changed = Vec::new();
    // Writers do not compress a short header: one of the same length then takes as many bytes.
    let usual = if record.start == 0 { LEVEL_STORE } else { 1 };
    Encoder::new(if random.below(2) == 0 { usual } else { 19 }).encode(&content, &mut changed);
    changed.extend_from_slice(trailer);
    log.splice(record, changed);
}

/// Sets a member of a trailer to a number that is likely to be an edge.
fn change_member(log: &mut Vec<u8>, records: &[Range<usize>], random: &mut Random) {
    const MEMBERS: [(usize, usize); 12] = [
        (2, 1),
        (3, 1),
        (4, 4),
        (8, 4),
        (12, 4),
        (16, 8),
        (24, 8),
        (32, 4),
        (36, 4),
        (40, 8),
        (48, 4),
        (52, 4),
    ];
    let Some(record) = random.pick(records) else { return damage(log, random) };
    let (at, len) = *random.pick(&MEMBERS).expect("not empty");
    let place =
        record.end.saturating_sub(TRAILER_LEN.saturating_sub(SKIPPABLE_HEADER.len())).saturating_add(at);
    let Some(place) = log.get_mut(place..place.saturating_add(len)) else { return };
    let old = place.iter().rev().fold(0_u64, |value, &byte| (value << 8) | u64::from(byte));
    let new = match random.below(6) {
        0 => 0,
        1 => u64::MAX,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 => 1_u64.checked_shl(u32::try_from(random.below(64)).unwrap_or(0)).unwrap_or(0),
        _ => random.next(),
    };
    place.iter_mut().zip(new.to_le_bytes()).for_each(|(to, from)| *to = from);
}

/// Drops, doubles or swaps records.
fn move_record(log: &mut Vec<u8>, records: &[Range<usize>], random: &mut Random) {
    let (Some(one), Some(other)) = (random.pick(records), random.pick(records)) else {
        return damage(log, random);
    };
    let copy = log.get(one.clone()).unwrap_or_default().to_vec();
    match random.below(3) {
        0 => drop(log.drain(one.clone())),
        1 => drop(log.splice(other.start..other.start, copy)),
        _ => drop(log.splice(other.clone(), copy)),
    }
}

/// What disks do: a cut, zeros, stale bytes, a flipped bit.
fn damage(log: &mut Vec<u8>, random: &mut Random) {
    const SECTOR: usize = 512;
    let at = random.below(log.len());
    match random.below(5) {
        0 => log.truncate(at),
        1 => {
            let start = at.saturating_sub(at.checked_rem(SECTOR).unwrap_or(0));
            let end = start.saturating_add(SECTOR).min(log.len());
            log.get_mut(start..end).unwrap_or_default().fill(0);
        }
        2 => log.resize(log.len().saturating_add(random.below(2 * SECTOR)), 0),
        3 => log.extend_from_within(at..),
        _ => {
            let bit = random.below(8);
            if let Some(byte) = log.get_mut(at) {
                *byte ^= 1_u8.checked_shl(u32::try_from(bit).unwrap_or(0)).unwrap_or(1);
            }
        }
    }
}

/// Changes one line, or moves lines.
fn change_lines(text: &mut Vec<u8>, random: &mut Random) {
    let lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
    let at = random.below(lines.len());
    let Some(line) = lines.get(at) else { return };
    let mut changed: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
    match random.below(if lines.len() > 1 { 10 } else { 6 }) {
        9 => drop(changed.remove(at)),
        8 => {
            let other = random.below(changed.len());
            changed.swap(at, other);
        }
        7 => changed.insert(random.below(lines.len()), line.to_vec()),
        _ => {
            let body = line.strip_suffix(b"\n").unwrap_or(line);
            if let (Some(value), Some(place)) = (changed_value(body, random), changed.get_mut(at)) {
                place.splice(..body.len(), value);
            }
        }
    }
    *text = changed.concat();
}

/// Values that sit at edges.
const SCALARS: [&str; 26] = [
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "1.5",
    "1e3",
    "1e400",
    "9007199254740990",
    "9007199254740991",
    "9007199254740992",
    "-9007199254740991",
    "18446744073709551615",
    "null",
    "true",
    "false",
    "\"\"",
    "\"a\"",
    "\"\\ud83d\"",
    "\"\\ude00\"",
    "\"\\u0061\"",
    "\"/\"",
    "[]",
    "{}",
    "[0]",
    "[[0,1]]",
];

/// One JSON value with a change in it; `None` if `text` is none.
fn changed_value(text: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let mut tape = Tape::default();
    let root = tape.parse(text, 512).ok()?;
    let nodes = nodes_of(root);
    let node = *random.pick(&nodes)?;
    let other = random.pick(&nodes)?.raw();
    let scalar = *random.pick(&SCALARS)?;
    let replacement = match random.below(8) {
        0 => scalar.to_owned(),
        1 => other.to_owned(),
        2 => stepped(node.raw(), random)?,
        // In another spelling, which most readers must not care for.
        3 => format!(" {} ", node.raw()),
        4 if node.as_str().is_some() => escaped(node.raw(), random),
        _ => {
            let container = nodes.iter().copied().filter(|node| !parts_of(*node).is_empty());
            let containers: Vec<Node<'_>> = container.collect();
            let node = *random.pick(&containers)?;
            let changed = changed_parts(node, scalar, other, random);
            return Some(spliced(text, node.range(), changed.as_bytes()));
        }
    };
    Some(spliced(text, node.range(), replacement.as_bytes()))
}

fn spliced(text: &[u8], range: Range<usize>, new: &[u8]) -> Vec<u8> {
    let mut changed = text.to_vec();
    changed.splice(range, new.iter().copied());
    changed
}

/// A value and all within, up to a few hundred.
fn nodes_of(root: Node<'_>) -> Vec<Node<'_>> {
    const NODES_MAX: usize = 400;
    let mut nodes = vec![root];
    let mut at = 0;
    while let Some(&node) = nodes.get(at).filter(|_| nodes.len() < NODES_MAX) {
        nodes.extend(node.items().into_iter().flatten());
        nodes.extend(node.members().into_iter().flatten().map(|(_, value)| value));
        at = at.saturating_add(1);
    }
    nodes
}

/// The elements of an array, or the members of an object with their names, as text.
fn parts_of(node: Node<'_>) -> Vec<String> {
    let items = node.items().into_iter().flatten().map(|item| item.raw().to_owned());
    let members = node.members().into_iter().flatten();
    items.chain(members.map(|(name, value)| format!("\"{}\":{}", name.raw(), value.raw()))).collect()
}

fn changed_parts(node: Node<'_>, scalar: &str, other: &str, random: &mut Random) -> String {
    let mut parts = parts_of(node);
    let is_array = node.items().is_some();
    let at = random.below(parts.len());
    let to = random.below(parts.len());
    match random.below(6) {
        0 => drop(parts.remove(at)),
        1 => parts.insert(to, parts.get(at).cloned().unwrap_or_default()),
        2 => parts.swap(at, to),
        3 => parts.truncate(at.max(1)),
        4 if is_array => parts.insert(at, other.to_owned()),
        5 if is_array => {
            let doubled = parts.clone();
            parts.extend(doubled);
        }
        _ if is_array => parts.push(scalar.to_owned()),
        _ => {
            // The name of another member, or none that anybody knows.
            let name = random.pick(&["type", "seq", "time", "data", "id", "version", "x"]).copied();
            parts.insert(at, format!("\"{}\":{scalar}", name.unwrap_or_default()));
        }
    }
    let [open, close] = if is_array { ['[', ']'] } else { ['{', '}'] };
    format!("{open}{}{close}", parts.join(","))
}

/// A number near the one that `raw` spells.
fn stepped(raw: &str, random: &mut Random) -> Option<String> {
    let number: i128 = raw.parse().ok()?;
    Some(match random.below(5) {
        0 => number.saturating_add(1).to_string(),
        1 => number.saturating_sub(1).to_string(),
        2 => number.saturating_neg().to_string(),
        3 => number.saturating_mul(256).to_string(),
        _ => format!("{number}.0"),
    })
}

/// The same string with one more character, in some spelling.
fn escaped(raw: &str, random: &mut Random) -> String {
    let new = random.pick(&["\\n", "\\u000a", "\\ud83d", "\\ude00", "\\/", "\\\\", "é", " ", "\\u2028"]);
    let end = if random.below(2) == 0 { 1 } else { raw.len().saturating_sub(1) };
    let (start, rest) = raw.split_at_checked(end).unwrap_or((raw, ""));
    format!("{start}{}{rest}", new.copied().unwrap_or_default())
}

/// Repeatable numbers from a seed (xorshift64, Marsaglia).
struct Random(u64);

impl Random {
    fn new(seed: u32) -> Self {
        Self((u64::from(seed) << 1 | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`, or 0.
    fn below(&mut self, bound: usize) -> usize {
        let high = usize::try_from(self.next() >> 33).unwrap_or(0);
        high.checked_rem(bound).unwrap_or(0)
    }

    fn pick<'i, T>(&mut self, items: &'i [T]) -> Option<&'i T> {
        items.get(self.below(items.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::choices::Choices;
    use super::super::made::MadeLog;
    use super::*;
    use crate::container::{Encoding, TailState, reader};

    /// A stand-in for libFuzzer: flips a bit, or grows by a byte.
    /// Changes one byte or adds one: another one for each `seed`.
    fn bytewise(seed: u32, data: &mut [u8], size: usize, max_size: usize) -> usize {
        let sum = data[..size].iter().map(|&byte| usize::from(byte)).sum::<usize>() + seed as usize * 31;
        if size < max_size && sum.is_multiple_of(3) {
            data[size] = b'x';
            return size + 1;
        }
        if size > 0 {
            data[sum % size] ^= 4;
        }
        size
    }

    type Mutator = fn(&mut [u8], usize, usize, u32, usize, Bytewise<'_>) -> usize;

    fn mutated(mutator: Mutator, input: &[u8], seed: u32, before: usize) -> Vec<u8> {
        let mut data = input.to_vec();
        data.resize(input.len() + 300, 0);
        let max_size = data.len();
        let size = mutator(&mut data, input.len(), max_size, seed, before, &mut |data, size, max_size| {
            bytewise(seed, data, size, max_size)
        });
        data.truncate(size);
        data
    }

    /// Far more changed logs read beyond the changed record than a flipped byte would let through, which is none.
    #[test]
    fn a_fifth_of_all_mutated_logs_pass_every_checksum() {
        let log = MadeLog::new(Encoding::Indexed, &mut Choices::new(&[9; 40]));
        let (mut changed, mut whole, mut texts) = (0, 0, std::collections::BTreeSet::new());
        for seed in 0..600 {
            let bytes = mutated(mutate_log, &log.bytes, seed, 0);
            changed += u32::from(bytes != log.bytes);
            let (mut blocks, mut source) = (reader(Encoding::Indexed, Limits::DEFAULT), bytes.as_slice());
            let mut text = Vec::new();
            while let Ok(Some(block)) = blocks.next(&mut source) {
                text.extend_from_slice(block.content);
            }
            let is_whole = blocks.tail().is_some_and(|tail| tail.state == TailState::Complete);
            whole += u32::from(is_whole && bytes != log.bytes);
            if is_whole {
                texts.insert(text);
            }
        }
        assert!(changed > 400, "{changed} of 600 changed");
        assert!(whole > 100, "{whole} of {changed} read to the end");
        assert!(texts.len() > 50, "{} different texts", texts.len());
    }

    #[test]
    fn mutated_trailers_pass_their_crc() {
        use crate::container::LogId;
        use crate::container::parts::Trailer;
        let head = [&[0][..], &7_u64.to_le_bytes()].concat();
        let input = [&head[..], &[3; TRAILER_LEN]].concat();
        let mut passed = 0;
        for seed in 0..100 {
            let data = mutated(mutate_trailers, &input, seed, head.len());
            let id = LogId::new(u64::from_le_bytes(*data[..9].last_chunk().unwrap()));
            if let (Some(id), Some(stored)) = (id, data.get(9..).and_then(|rest| rest.first_chunk())) {
                passed += u32::from(Trailer::parse(stored, id).is_ok());
            }
        }
        assert!(passed > 20, "{passed} of 100");
    }

    #[test]
    fn mutated_lines_are_mostly_still_json_and_seldom_the_same() {
        let line =
            b"{\"type\":\"a\",\"seq\":3,\"time\":7,\"data\":{\"list\":[1,[2,\"x\"],{}],\"text\":\"y\"}}";
        let input = [&line[..], line].join(&b'\n');
        let (mut json, mut different) = (0, std::collections::BTreeSet::new());
        for seed in 0..500 {
            let text = mutated(mutate_json, &input, seed, 0);
            json += u32::from(
                text.split(|&byte| byte == b'\n').all(|line| crate::json::check(line, 512).is_ok()),
            );
            different.insert(text);
        }
        assert!(json > 200, "{json} of 500 are JSON");
        assert!(different.len() > 200, "{} different", different.len());
    }

    #[test]
    fn input_that_is_too_short_or_too_long_is_mutated_bytewise() {
        for mutator in [mutate_log as Mutator, mutate_trailers, mutate_json] {
            for seed in 0..50 {
                for input in [&b""[..], b"\x01", b"not json", &[0x28, 0xb5, 0x2f, 0xfd, 0x24]] {
                    let out = mutated(mutator, input, seed, 4);
                    assert!(out.len() <= input.len() + 300);
                }
            }
        }
    }
}
