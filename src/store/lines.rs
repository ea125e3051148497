//! The lines of a log, not yet judged as rows.

use std::ops::ControlFlow;

use super::log_file::LogFile;
use crate::container::{TailState, reader};
use crate::error::{Damage, Error, Result};

/// How the lines ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// With the last newline, or with a frame that was cut short and is dropped whole.
    Whole,
    /// With half a line, in the plain encoding.
    HalfALine,
}

/// Calls `visit` with each line behind the header, without its newline, until it breaks.
///
/// # Errors
/// As [`each_text`].
pub(crate) fn each_line(log: &LogFile, visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<LineEnd> {
    each_text(log, &mut |text| {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        text.split(|&byte| byte == b'\n').try_for_each(&mut *visit)
    })
}

/// Calls `visit` with all lines behind the header, some at a time, until it breaks. Only the last line of a text may lack
/// its newline; a text without bytes is an empty line.
///
/// # Errors
/// [`Error::Corruption`] and [`Error::FormatUnsupported`] for damage in the bytes, [`Error::DamagedTail`] for an end that no
/// crash explains, [`Error::Io`].
pub(crate) fn each_text(log: &LogFile, visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<LineEnd> {
    let mut source = log.source()?;
    let mut blocks = reader(log.encoding(), *log.limits());
    let mut lines = 0_u64;
    loop {
        let block = blocks.next(&mut source).map_err(|error| Error::read(log.path(), lines, error))?;
        let Some(block) = block else { break };
        if block.index == 0 {
            continue;
        }
        let text = block.content;
        let newlines =
            memchr::memchr_iter(b'\n', text).count().saturating_add(usize::from(!text.ends_with(b"\n")));
        lines = lines.saturating_add(u64::try_from(newlines).unwrap_or(u64::MAX));
        if visit(text).is_break() {
            return Ok(LineEnd::Whole);
        }
    }
    match blocks.tail() {
        Some(tail) if tail.state == TailState::Damaged => Err(Error::DamagedTail {
            path: log.path().to_path_buf(),
            offset: tail.good_end,
            intact: lines,
            source: Damage::Bytes(tail.fault.unwrap_or(crate::container::Fault::Truncated)),
        }),
        Some(tail) if tail.excess() > 0 && log.encoding() == crate::container::Encoding::Plain => {
            Ok(LineEnd::HalfALine)
        }
        _ => Ok(LineEnd::Whole),
    }
}
