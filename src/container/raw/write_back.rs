//! Beginning to write a file's bytes to the disk without waiting (`sync_file_range`), which the safe crates leave out.

use std::fs::File;
use std::io;

/// Tells the system to begin writing `len` bytes from `offset` on to the disk, as far as they are not on their way, and does not
/// wait for them. Nothing is durable by that.
///
/// Does nothing where the system has no such call, or not for this file.
///
/// # Errors
/// A refusal by the system, such as a disk that is full or broken.
pub(crate) fn begin(file: &File, offset: u64, len: u64) -> io::Result<()> {
    loop {
        match call(file, offset, len) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_unknown(&error) => return Ok(()),
            done => return done,
        }
    }
}

/// What a system says that has the call not at all, or not for files of this kind.
fn is_unknown(error: &io::Error) -> bool {
    const UNKNOWN: [i32; 5] = [libc::ENOSYS, libc::EINVAL, libc::ESPIPE, libc::EPERM, libc::EOPNOTSUPP];
    error.raw_os_error().is_some_and(|code| UNKNOWN.contains(&code))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn call(file: &File, offset: u64, len: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;

    let too_far = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let (offset, len) = (i64::try_from(offset).map_err(too_far)?, i64::try_from(len).map_err(too_far)?);
    // SAFETY: the call takes numbers only, no memory; `file` keeps the descriptor open while it runs.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn call(_file: &File, _offset: u64, _len: u64) -> io::Result<()> {
    Ok(())
}
