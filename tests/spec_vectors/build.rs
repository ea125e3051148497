//! Logs byte by byte, from the tables of `format-spec/` and nothing of the crate: what the crate is held against.

use std::collections::BTreeMap;

use crate::markdown::Doc;

/// The log id of the worked examples.
pub(crate) const ID: u64 = 0x5eed_10c0_ffee_0001;

pub(crate) const TRAILER_LEN: usize = 64;
const TRAILER_HEADER: [u8; 8] = [0x50, 0x2a, 0x4d, 0x18, 0x38, 0, 0, 0];

/// CRC-32, bit by bit.
pub(crate) fn crc32(start: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!start, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// XXH64 with seed 0.
pub(crate) fn xxh64(bytes: &[u8]) -> u64 {
    const P: [u64; 5] = [
        0x9e37_79b1_85eb_ca87,
        0xc2b2_ae3d_27d4_eb4f,
        0x1656_67b1_9e37_79f9,
        0x85eb_ca77_c2b2_ae63,
        0x27d4_eb2f_1656_67c5,
    ];
    let round =
        |lane: u64, word: u64| lane.wrapping_add(word.wrapping_mul(P[1])).rotate_left(31).wrapping_mul(P[0]);
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let mut rest = bytes;
    let mut hash = P[4];
    if bytes.len() >= 32 {
        let mut lanes = [P[0].wrapping_add(P[1]), P[1], 0, P[0].wrapping_neg()];
        while rest.len() >= 32 {
            for (lane, at) in lanes.iter_mut().zip([0, 8, 16, 24]) {
                *lane = round(*lane, word(&rest[at..]));
            }
            rest = &rest[32..];
        }
        let turns = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, turn)| lane.rotate_left(turn));
        hash = turns.fold(0, u64::wrapping_add);
        for lane in lanes {
            hash = (hash ^ round(0, lane)).wrapping_mul(P[0]).wrapping_add(P[3]);
        }
    }
    hash = hash.wrapping_add(bytes.len() as u64);
    while rest.len() >= 8 {
        hash = (hash ^ round(0, word(rest))).rotate_left(27).wrapping_mul(P[0]).wrapping_add(P[3]);
        rest = &rest[8..];
    }
    if rest.len() >= 4 {
        let word = u64::from(u32::from_le_bytes(rest[..4].try_into().expect("four bytes")));
        hash = (hash ^ word.wrapping_mul(P[0])).rotate_left(23).wrapping_mul(P[1]).wrapping_add(P[2]);
        rest = &rest[4..];
    }
    for &byte in rest {
        hash = (hash ^ u64::from(byte).wrapping_mul(P[4])).rotate_left(11).wrapping_mul(P[0]);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(P[1]);
    hash = (hash ^ (hash >> 29)).wrapping_mul(P[2]);
    hash ^ (hash >> 32)
}

/// A frame of stored blocks: single segment, content size, checksum.
pub(crate) fn frame(content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd];
    match u32::try_from(len).expect("short content") {
        0..=255 => out.extend([0x24, u8::try_from(len).expect("below 256")]),
        256..=65_791 => {
            out.push(0x64);
            out.extend(u16::try_from(len - 256).expect("below 65,792").to_le_bytes());
        }
        len => {
            out.push(0xa4);
            out.extend(len.to_le_bytes());
        }
    }
    out.extend(blocks(content));
    out.extend(checksum(content));
    out
}

/// Stored blocks of up to 128 KiB.
pub(crate) fn blocks(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = content;
    loop {
        let (block, after) = rest.split_at(rest.len().min(128 << 10));
        let header = u32::try_from(block.len()).expect("at most 128 KiB") << 3 | u32::from(after.is_empty());
        out.extend(&header.to_le_bytes()[..3]);
        out.extend(block);
        rest = after;
        if rest.is_empty() {
            return out;
        }
    }
}

pub(crate) fn checksum(content: &[u8]) -> [u8; 4] {
    let [a, b, c, d, ..] = xxh64(content).to_le_bytes();
    [a, b, c, d]
}

/// A frame as DSH's one-shot writer leaves it: a window of 2 MiB, no content size, checksum.
pub(crate) fn dsh_frame(content: &[u8]) -> Vec<u8> {
    [&[0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58], &blocks(content)[..], &checksum(content)].concat()
}

/// A frame that states neither content size nor checksum.
pub(crate) fn bare_frame(content: &[u8]) -> Vec<u8> {
    [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58], &blocks(content)[..]].concat()
}

/// A skippable frame.
pub(crate) fn skippable(kind: u8, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("short").to_le_bytes();
    [&[kind, 0x2a, 0x4d, 0x18], &len[..], payload].concat()
}

/// J(n), by the words of "Skip distances".
pub(crate) fn jump(n: u64) -> u64 {
    n - terms(n).last().copied().unwrap_or(0)
}

/// The greedy split of n.
pub(crate) fn terms(n: u64) -> Vec<u64> {
    let mut rest = n;
    let mut terms = Vec::new();
    while rest > 0 {
        let largest =
            (1..64).map(|k| (1_u64 << k) - 1).take_while(|term| *term <= rest).last().expect("1 fits");
        terms.push(largest);
        rest -= largest;
    }
    terms
}

/// Offset and size of each member, as the table says.
#[derive(Clone)]
pub(crate) struct Layout(BTreeMap<String, (usize, usize)>);

impl Layout {
    pub(crate) fn read() -> Self {
        let rows = Doc::read("03-trailer.md").table("Members").select(["name", "offset", "size"]);
        let number = |cell: &String| cell.parse().expect("a number");
        Self(rows.iter().map(|[name, offset, size]| (name.clone(), (number(offset), number(size)))).collect())
    }

    fn put(&self, payload: &mut [u8], name: &str, value: u64) {
        let (offset, size) = self.0[name];
        payload[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }

    /// A member of the trailer that starts at `stored[0]`.
    pub(crate) fn get(&self, stored: &[u8], name: &str) -> u64 {
        let (offset, size) = self.0[name];
        let bytes = &stored[8 + offset..8 + offset + size];
        bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    /// The stored trailer with these members, its CRC computed unless it is among them.
    pub(crate) fn seal(&self, members: &Members, id: u64) -> Vec<u8> {
        let mut payload = [0; 56];
        for (name, value) in &members.0 {
            self.put(&mut payload, name, *value);
        }
        if !members.0.contains_key("trailer_crc") {
            let low = u32::try_from(id & 0xffff_ffff).expect("32 bits");
            let crc = u64::from(crc32(low, &payload[..52]));
            self.put(&mut payload, "trailer_crc", crc);
        }
        [&TRAILER_HEADER[..], &payload].concat()
    }
}

/// Values of a trailer's members, by name.
#[derive(Clone)]
pub(crate) struct Members(pub(crate) BTreeMap<&'static str, u64>);

impl Members {
    pub(crate) fn set(&mut self, name: &'static str, value: u64) -> &mut Self {
        self.0.insert(name, value);
        self
    }

    pub(crate) fn get(&self, name: &'static str) -> u64 {
        self.0[name]
    }
}

/// One row of a log under construction.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) line: Vec<u8>,
    pub(crate) events: Vec<Event>,
}

/// Seq, time and type.
pub(crate) type Event = (u64, i64, String);

/// What a segment holds; `change` edits its members before it is sealed.
pub(crate) struct Segment<'a> {
    pub(crate) rows: &'a [Row],
    pub(crate) body: Vec<u8>,
    pub(crate) commit: bool,
    pub(crate) change: &'a dyn Fn(&mut Members),
}

/// An indexed log that grows.
#[derive(Clone)]
pub(crate) struct Log {
    layout: Layout,
    id: u64,
    pub(crate) bytes: Vec<u8>,
    /// For each segment: its trailer's end, its CRC, and the boundary that it vouches for.
    pub(crate) segments: Vec<(usize, u64, u64)>,
    /// The lines so far, the header's first, and for each segment how many there were behind it.
    pub(crate) rows: Vec<Row>,
    pub(crate) rows_by: Vec<usize>,
    next_seq: u64,
    last_time: i64,
    /// Bytes that the writer knows to be synced.
    pub(crate) durable: usize,
    pub(crate) committed: bool,
}

impl Log {
    pub(crate) fn new(header: &str, created_at: i64) -> Self {
        Self::with(ID, header, frame(line(header).as_slice()), created_at, &|_| {})
    }

    /// A log whose first segment has this body, and its members changed.
    pub(crate) fn with(
        id: u64,
        header: &str,
        body: Vec<u8>,
        created_at: i64,
        change: &dyn Fn(&mut Members),
    ) -> Self {
        let mut log = Self {
            layout: Layout::read(),
            id,
            bytes: Vec::new(),
            segments: Vec::new(),
            rows: Vec::new(),
            rows_by: Vec::new(),
            next_seq: 0,
            last_time: created_at,
            durable: 0,
            committed: false,
        };
        let header = Row { line: line(header), events: Vec::new() };
        log.segment(Segment { rows: &[header], body, commit: true, change });
        log
    }

    /// The bytes that the next segment's trailer will have after `change`.
    pub(crate) fn segment(&mut self, segment: Segment<'_>) -> &mut Self {
        let Segment { rows, body, commit, change } = segment;
        let n = self.segments.len() as u64;
        let start = self.bytes.len();
        let end = start + body.len() + TRAILER_LEN;
        let events = rows.iter().map(|row| row.events.len() as u64).sum();
        self.next_seq += events;
        if let Some((_, time, _)) = rows.iter().flat_map(|row| &row.events).last() {
            self.last_time = *time;
        }
        let skip =
            if n == 0 { self.id } else { (end - self.segments[usize::try_from(jump(n)).unwrap()].0) as u64 };
        let mut members = Members(BTreeMap::new());
        members
            .set("magic", u64::from(u16::from_le_bytes(*b"SL")))
            .set("version", 1)
            .set("flags", u64::from(commit))
            .set("segment", n)
            .set("events", events)
            .set("prev_crc", if n < 2 { 0 } else { self.segments[usize::try_from(n).unwrap() - 1].1 })
            .set("next_seq", self.next_seq)
            .set("last_time", self.last_time.cast_unsigned())
            .set("body_len", body.len() as u64)
            .set("unsynced", (start - self.durable) as u64)
            .set("skip", skip)
            .set("body_crc", u64::from(crc32(0, &body)));
        change(&mut members);
        let stored = self.layout.seal(&members, self.id);
        let boundary = (start as u64).saturating_sub(members.get("unsynced"));
        self.segments.push((end, self.layout.get(&stored, "trailer_crc"), boundary));
        self.bytes.extend(body);
        self.bytes.extend(stored);
        self.rows.extend_from_slice(rows);
        self.rows_by.push(self.rows.len());
        self.committed = commit;
        self
    }

    /// An append of one segment, not synced.
    pub(crate) fn write(&mut self, rows: &[Row], commit: bool) -> &mut Self {
        let body = frame(&content(rows));
        self.segment(Segment { rows, body, commit, change: &|_| {} })
    }

    /// An append of one segment with a member changed.
    pub(crate) fn write_with(&mut self, rows: &[Row], change: &dyn Fn(&mut Members)) -> &mut Self {
        let body = frame(&content(rows));
        self.segment(Segment { rows, body, commit: true, change })
    }

    /// An append of one segment, synced before the next.
    pub(crate) fn append(&mut self, rows: &[Row]) -> &mut Self {
        self.write(rows, true).synced()
    }

    pub(crate) fn marker(&mut self) -> &mut Self {
        self.segment(Segment { rows: &[], body: Vec::new(), commit: true, change: &|_| {} })
    }

    pub(crate) fn synced(&mut self) -> &mut Self {
        self.durable = self.bytes.len();
        self
    }

    pub(crate) fn end(&self) -> usize {
        self.bytes.len()
    }

    /// Where the trailer of segment `n` starts.
    pub(crate) fn trailer(&self, n: usize) -> usize {
        self.segments[n].0 - TRAILER_LEN
    }

    /// D by the trailers of segments 0 to `n`.
    pub(crate) fn vouched(&self, n: usize) -> u64 {
        self.segments[..=n].iter().map(|segment| segment.2).max().unwrap_or(0)
    }
}

pub(crate) fn line(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\n"].concat()
}

pub(crate) fn content(rows: &[Row]) -> Vec<u8> {
    rows.iter().flat_map(|row| row.line.clone()).collect()
}
