//! Write locks that belong to an open file description (`F_OFD_SETLK`), which the safe crates leave out.

use std::fs::File;
use std::io;

/// Takes a write lock on the whole file, without waiting; `false` if somebody else has a lock on any part of it.
///
/// `true` without a lock where the system has none of the kind (neither Linux nor Android, or a kernel before 3.15): the
/// caller's `flock` stands alone there.
///
/// # Errors
/// A refusal by the system.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    match set(file, Want::Write) {
        Ok(()) => Ok(true),
        Err(error) if is_taken(&error) => Ok(false),
        Err(error) if is_unknown(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Frees the lock, if there is one.
///
/// # Errors
/// A refusal by the system.
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    match set(file, Want::Nothing) {
        Err(error) if is_unknown(&error) => Ok(()),
        done => done,
    }
}

#[derive(Clone, Copy)]
enum Want {
    Write,
    Nothing,
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES))
}

/// What a kernel that has never heard of the command says.
fn is_unknown(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn set(file: &File, want: Want) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;

    let kind = match want {
        Want::Write => libc::F_WRLCK,
        Want::Nothing => libc::F_UNLCK,
    };
    let whole_file = libc::flock {
        // The constants are small; their type differs from the field's by platform only.
        l_type: i16::try_from(kind).expect("lock kinds are 0, 1 and 2"),
        l_whence: i16::try_from(libc::SEEK_SET).expect("SEEK_SET is 0"),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    loop {
        // SAFETY: `file` keeps the descriptor open during the call. For F_OFD_SETLK the kernel reads one `struct flock`
        // through the third argument and keeps no pointer; `whole_file` is one, fully initialised and alive until the
        // call returns.
        let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const whole_file) };
        if done == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn set(_file: &File, _want: Want) -> io::Result<()> {
    Ok(())
}
