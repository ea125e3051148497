//! The write lock around one piece of work.

use std::path::Path;

use super::handle::take_lock_in;
use super::layout::LOCK_NAME;
use crate::container::disk::Disk;
use crate::error::{Error, Result};

/// Does `work` while it holds the write lock of the session in `folder`.
///
/// # Errors
/// [`Error::AlreadyOwned`] while somebody else writes the session; those of the work, and of the release; both if both fail.
pub(super) fn locked<T>(disk: &dyn Disk, folder: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let shown = folder.file_name().unwrap_or_default().to_string_lossy();
    let lock = take_lock_in(disk, folder, &shown)?;
    let done = work();
    let released = lock.release().map_err(Error::io(folder.join(LOCK_NAME), "releasing"));
    match (done, released) {
        (Ok(done), Ok(())) => Ok(done),
        (Err(error), Ok(())) | (Ok(_), Err(error)) => Err(error),
        (Err(first), Err(second)) => Err(Error::Aggregate(vec![first, second])),
    }
}
