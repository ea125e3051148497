use std::io::Write;

use super::fault::ExportError;
use crate::error::Error;
use crate::store::{Cancel, SessionHandle};

/// Bytes of events that are read at once, if they are of ordinary size.
const BATCH_BYTES: usize = 1 << 20;
/// Events of the first batch.
const FIRST_BATCH: u64 = 64;

/// Writes a session's logical log as text: the header record, then each event on a line of its own; the last line ends in a
/// newline too. Returns the number of events.
///
/// Events stand as the handle reads them: of the current generation, not packed, their bytes as they were appended. Time
/// O(bytes); memory for some events at once, never for the log. A handle serves what stands before a damaged end: whoever must
/// not pass that off as the whole asks `stat` first, as `write_zip` does.
///
/// # Errors
/// [`ExportError::Log`] for what reading gives; [`ExportError::Write`]. What was written until then is not an export.
///
/// Spec: `format-spec/08-exports.md`, "Logical text".
pub fn write_text(
    handle: &dyn SessionHandle,
    out: &mut dyn Write,
    cancel: &Cancel,
) -> Result<u64, ExportError> {
    let mut lines = 0_u64;
    each_line(handle, cancel, &mut |line| {
        lines = lines.saturating_add(1);
        out.write_all(line).and_then(|()| out.write_all(b"\n")).map_err(ExportError::Write)
    })?;
    Ok(lines.saturating_sub(1))
}

/// Calls `visit` with the lines of [`write_text`], without their newlines.
///
/// # Errors
/// What reading gives, and what `visit` returns.
pub fn each_line<E: From<Error>>(
    handle: &dyn SessionHandle,
    cancel: &Cancel,
    visit: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut header = Vec::new();
    handle.header().write(&mut header);
    visit(&header)?;
    let (mut from, mut length) = (0_u64, FIRST_BATCH);
    loop {
        let events = handle.read(from, length, cancel)?;
        events.rows().try_for_each(&mut *visit)?;
        let read = events.len() as u64;
        if read < length {
            return Ok(());
        }
        from = from.saturating_add(read);
        length = match events.as_bytes().len() {
            ..BATCH_BYTES => length.saturating_mul(2),
            _ => (length / 2).max(1),
        };
    }
}
