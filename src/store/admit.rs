//! What may get into a session: the headers of new ones, and the rows of an append.

use super::events::{Checked, CheckedFault};
use super::layout::{printable, project_dir_name, session_dir_name};
use crate::error::{Error, Result};
use crate::json::Text;
use crate::limits::Limits;
use crate::row::{Check, Header, PhysicalRow, Seeding, one_line};
use crate::session::{Admission, Profile};
use crate::units::Generation;

/// Checks the header of a session that is to be created, for any backend, and `inherited`, which its creator says beside it: the number of
/// events that will be copied from another session. Gives that number.
///
/// # Errors
/// [`Error::InvalidArgument`].
pub fn check_new(header: &Header, inherited: Option<u64>) -> Result<u64> {
    let invalid = |what: &str| Err(Error::InvalidArgument { what: what.to_owned() });
    if header.generation() != Generation::CURRENT {
        return invalid("new sessions are of the current generation");
    }
    let inherited = match (header.seeding(), inherited) {
        (Seeding::Unseeded, None | Some(0)) => 0,
        (Seeding::Unseeded, Some(_)) => return invalid("a session that is not seeded inherits no events"),
        (_, Some(cut)) => cut,
        (_, None) => return invalid("a seeded session needs the number of its inherited events"),
    };
    if session_dir_name(header.id()).is_none() || project_dir_name(header.cwd()).is_none() {
        return invalid("no folder can be named after an empty id or an empty working directory");
    }
    Ok(inherited)
}

/// Checks the rows of an append that has to begin with seq `next_seq`, for backends of other crates. Gives the seq behind them.
/// `id` is the session's, for errors.
///
/// # Errors
/// [`Error::InvalidRow`], [`Error::SeqMismatch`], [`Error::UnknownType`], for the first row that has one of these, in this
/// order: none of the rows may be stored then.
pub fn check_batch(
    rows: &[&[u8]],
    next_seq: u64,
    admission: Admission,
    limits: &Limits,
    id: &Text,
) -> Result<u64> {
    check_rows(rows, next_seq, admission, limits, &printable(id)).map(|batch| batch.next_seq)
}

/// Checks the rows of an append that has to begin with seq `next_seq`, and copies them into one batch. Nothing of them gets
/// in if one does not. `shown_id` names the session in errors.
///
/// # Errors
/// [`Error::InvalidRow`], [`Error::SeqMismatch`], [`Error::UnknownType`], for the first row that has one of these, in this
/// order.
pub(crate) fn check_rows(
    rows: &[&[u8]],
    next_seq: u64,
    admission: Admission,
    limits: &Limits,
    shown_id: &str,
) -> Result<Checked> {
    let mut batch = Checked::starting_at(next_seq);
    batch.reserve(rows.iter().map(|row| row.len().saturating_add(1)).sum(), rows.len());
    let vocabulary = (admission == Admission::Readable).then(Profile::current);
    for (index, line) in rows.iter().enumerate() {
        let row = one_line(line)
            .and_then(|()| PhysicalRow::read(line, Generation::CURRENT, Check::Full, limits))
            .map_err(|source| Error::InvalidRow { index, source })?;
        let expected = batch.next_seq;
        batch.push(&row).map_err(|CheckedFault::Seq { actual }| Error::SeqMismatch {
            id: shown_id.to_owned(),
            expected,
            index,
            actual: actual.get(),
        })?;
        if let Some(event) = vocabulary.and_then(|vocabulary| vocabulary.unknown_event(&row)) {
            let (seq, event_type) = (event.seq().get(), printable(&event.event_type().to_text()));
            return Err(Error::UnknownType { index, seq, event_type });
        }
    }
    Ok(batch)
}
