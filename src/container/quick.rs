//! Looking over a whole log without decompressing it.
//!
//! Spec: `format-spec/01-container.md`, "Checking".

use super::Encoding;
use super::fault::{Fault, ReadError};
use super::frame;
use super::indexed::{Walk, WalkStop};
use super::source::Source;

/// What a look over a clean log counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skim {
    /// Data frames, the header's included; 0 in the plain encoding.
    pub frames: u64,
    /// Events by the last trailer, in the indexed encoding.
    pub events: Option<u64>,
    /// Lines, the header's included, in the plain encoding.
    pub lines: Option<u64>,
}

/// Checks what can be checked without decompressing, from head to end, and tells `progress` the offset reached.
///
/// Indexed: the CRC-32 of every byte, and the chain of trailers. Zstd: that frames follow each other to the end of the
/// file, by their own headers; their checksums cover the content and are not looked at. Plain: that the file ends with a
/// line. `None` if the log is not clean in this sense: a full walk then says how.
///
/// # Errors
/// [`ReadError::Io`], and [`Fault::Shrunk`].
pub fn skim(
    source: &mut dyn Source,
    encoding: Encoding,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<Skim>, ReadError> {
    let skimmed = match encoding {
        Encoding::Indexed => indexed(source, progress),
        Encoding::Zstd => framed(source, progress),
        Encoding::Plain => plain(source, progress),
    };
    match skimmed {
        Err(ReadError::Bad { fault, .. }) if fault != Fault::Shrunk => Ok(None),
        other => other,
    }
}

fn indexed(source: &mut dyn Source, progress: &mut dyn FnMut(u64)) -> Result<Option<Skim>, ReadError> {
    let (mut walk, _) = Walk::start(source)?;
    let mut frames = 1_u64;
    loop {
        match walk.step(source) {
            Ok(segment) => {
                frames = frames.saturating_add(u64::from(segment.frame.is_some()));
                progress(segment.end());
            }
            Err(WalkStop::End) => break,
            Err(WalkStop::Fault(_)) => return Ok(None),
            Err(WalkStop::Read(error)) => return Err(error),
        }
    }
    source.confirm()?;
    let last = walk.previous();
    Ok(last.commit.then_some(Skim { frames, events: Some(last.next_seq), lines: None }))
}

fn framed(source: &mut dyn Source, progress: &mut dyn FnMut(u64)) -> Result<Option<Skim>, ReadError> {
    let mut frames = 0_u64;
    let mut at = 0;
    while at < source.size() {
        let frame = frame::walk(source, at)?;
        if !frame.has_checksum {
            return Ok(None);
        }
        frames = frames.saturating_add(1);
        at = frame.end;
        progress(at);
    }
    Ok((frames > 0).then_some(Skim { frames, events: None, lines: None }))
}

fn plain(source: &mut dyn Source, progress: &mut dyn FnMut(u64)) -> Result<Option<Skim>, ReadError> {
    const PIECE: u64 = 256 << 10;
    let mut lines = 0_u64;
    let mut at = 0;
    let mut ends_with_a_line = false;
    while at < source.size() {
        let piece = PIECE.min(source.size().saturating_sub(at));
        let bytes = source.get(at, usize::try_from(piece).unwrap_or(0))?;
        lines = lines.saturating_add(memchr::memchr_iter(b'\n', bytes).count() as u64);
        ends_with_a_line = bytes.last() == Some(&b'\n');
        at = at.saturating_add(piece);
        progress(at);
    }
    Ok(ends_with_a_line.then_some(Skim { frames: 0, events: None, lines: Some(lines) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{Batch, LogId, RowMark, create};

    fn sample(encoding: Encoding) -> Vec<u8> {
        let mut out = Vec::new();
        let id = LogId::new(7).unwrap();
        let mut writer = create(encoding, id, b"{\"type\":\"session\"}\n", 0, 3, &mut out).unwrap();
        writer.accept(true);
        for _ in 0..3 {
            let mark = RowMark { end: 3, events: 1, last_time: 0 };
            writer.stage(&Batch { content: b"{}\n", rows: &[mark] }, &mut out).unwrap();
            writer.accept(true);
        }
        out
    }

    #[test]
    fn clean_logs_are_counted() {
        let skim_of = |encoding| skim(&mut sample(encoding).as_slice(), encoding, &mut |_| {}).unwrap();
        assert_eq!(skim_of(Encoding::Indexed), Some(Skim { frames: 4, events: Some(3), lines: None }));
        assert_eq!(skim_of(Encoding::Zstd), Some(Skim { frames: 4, events: None, lines: None }));
        assert_eq!(skim_of(Encoding::Plain), Some(Skim { frames: 0, events: None, lines: Some(4) }));
    }

    #[test]
    fn every_changed_byte_of_an_indexed_log_and_every_cut_of_any_is_seen() {
        let bytes = sample(Encoding::Indexed);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            let seen = skim(&mut changed.as_slice(), Encoding::Indexed, &mut |_| {}).unwrap();
            assert_eq!(seen, None, "byte {at}");
        }
        for encoding in Encoding::ALL {
            let bytes = sample(encoding);
            let cut = &bytes[..bytes.len() - 1];
            assert_eq!(skim(&mut { cut }, encoding, &mut |_| {}).unwrap(), None, "{encoding}");
        }
        assert_eq!(skim(&mut &b""[..], Encoding::Plain, &mut |_| {}).unwrap(), None);
    }
}
