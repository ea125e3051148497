//! Events and sessions as key-value stores hold them.

use super::{Listed, Row};
use crate::Result;
use crate::set::Event;

/// Key of an event: session and seq.
pub fn key(session: u64, seq: u64) -> u64 {
    (session << 32) | seq
}

/// Seq of a key.
pub fn seq_of(key: u64) -> u64 {
    key & 0xffff_ffff
}

/// An event without its seq: time, length of the type, type, payload.
pub fn write(event: &Event<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&event.time.to_le_bytes());
    out.push(u8::try_from(event.kind.len()).expect("types are short"));
    out.extend_from_slice(event.kind.as_bytes());
    out.extend_from_slice(event.payload.as_bytes());
}

pub fn read(key: u64, value: &[u8]) -> Option<Row<'_>> {
    let (time, rest) = value.split_first_chunk()?;
    let (&kind_len, rest) = rest.split_first()?;
    let (kind, payload) = rest.split_at_checked(kind_len.into())?;
    Some(Row { seq: seq_of(key), time: i64::from_le_bytes(*time), kind, payload })
}

/// What a store keeps of a session beside its events, up to date with each batch.
#[derive(Clone, Debug, Default)]
pub struct Head {
    pub id: String,
    pub cwd: String,
    pub created_at: i64,
    pub last_time: i64,
    pub events: u64,
    pub bytes: u64,
}

impl Head {
    pub fn of(session: &crate::set::Session<'_>) -> Self {
        Self { id: session.id(), cwd: session.cwd(), created_at: session.created_at(), ..Self::default() }
    }

    pub fn add(&mut self, events: &[Event<'_>]) {
        self.events += events.len() as u64;
        self.bytes += events.iter().map(|event| event.row.len() as u64 + 1).sum::<u64>();
        self.last_time = events.last().map_or(self.last_time, |event| event.time);
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in
            [self.created_at.cast_unsigned(), self.last_time.cast_unsigned(), self.events, self.bytes]
        {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(u8::try_from(self.id.len()).expect("ids are short"));
        out.extend_from_slice(self.id.as_bytes());
        out.extend_from_slice(self.cwd.as_bytes());
        out
    }

    pub fn listed(bytes: &[u8]) -> Result<Listed> {
        let listed = || {
            let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
            let (&id_len, rest) = bytes.get(32..)?.split_first()?;
            let (id, cwd) = rest.split_at_checked(id_len.into())?;
            Some(Listed {
                id: String::from_utf8(id.to_vec()).ok()?,
                cwd: String::from_utf8(cwd.to_vec()).ok()?,
                created_at: number(0)?.cast_signed(),
                last_time: number(8)?.cast_signed(),
                events: number(16)?,
                stored: number(24)?,
            })
        };
        listed().ok_or_else(|| "a session's record is cut".into())
    }
}
