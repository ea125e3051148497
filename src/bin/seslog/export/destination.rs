use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use seslog::export::ExportError;

use crate::failure::Failure;

/// Bytes that are collected before they are written.
const BUFFER_LEN: usize = 256 << 10;

/// What an export is written to: stdout, or a file that appears under its name when it is whole.
#[derive(Debug)]
pub(crate) struct Destination {
    kind: Kind,
    bytes: u64,
}

#[derive(Debug)]
enum Kind {
    Stdout(BufWriter<Stdout>),
    File { file: BufWriter<File>, temporary: Temporary, path: PathBuf, replace: bool },
}

/// A file that is removed unless it was published.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Destination {
    /// Stdout, or a new file at `path`, whose name is taken when it is published.
    ///
    /// # Errors
    /// [`Failure`] if something has the name and `replace` does not say that it may go.
    pub(crate) fn create(path: Option<&PathBuf>, replace: bool) -> Result<Self, Failure> {
        let Some(path) = path else {
            let stdout = BufWriter::with_capacity(BUFFER_LEN, io::stdout());
            return Ok(Self { kind: Kind::Stdout(stdout), bytes: 0 });
        };
        if !replace && fs::symlink_metadata(path).is_ok() {
            return Err(taken(path));
        }
        let Some(name) = path.file_name() else {
            return Err(Failure::Usage(format!("{}: that is no name of a file", path.display())));
        };
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{:08x}.tmp", std::process::id()));
        let temporary = path.with_file_name(temporary);
        let mut options = OpenOptions::new();
        // Logs hold secrets.
        let file = options.write(true).create_new(true).mode(0o600).open(&temporary);
        let file = file.map_err(|error| unwritten(&temporary, error))?;
        Ok(Self {
            kind: Kind::File {
                file: BufWriter::with_capacity(BUFFER_LEN, file),
                temporary: Temporary(temporary),
                path: path.clone(),
                replace,
            },
            bytes: 0,
        })
    }

    /// Whether it is stdout.
    pub(crate) const fn is_stdout(&self) -> bool {
        matches!(self.kind, Kind::Stdout(_))
    }

    /// Whether a person looks at it directly.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_stdout() && io::stdout().is_terminal()
    }

    /// The file until it is published.
    pub(crate) fn temporary(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Stdout(_) => None,
            Kind::File { temporary, .. } => Some(&temporary.0),
        }
    }

    /// Writes bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.write_all(bytes).map_err(|error| self.failed(error))
    }

    /// Writes a line and its newline.
    pub(crate) fn line(&mut self, line: &[u8]) -> Result<(), Failure> {
        self.put(line)?;
        self.put(b"\n")
    }

    /// Writes out what was collected, and makes it durable if it is a file.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        let settled = match &mut self.kind {
            Kind::Stdout(stdout) => stdout.flush(),
            Kind::File { file, .. } => file.flush().and_then(|()| file.get_ref().sync_all()),
        };
        settled.map_err(|error| self.failed(error))
    }

    /// Gives the file its name. Returns it, and its length; nothing for stdout.
    pub(crate) fn publish(mut self) -> Result<Option<(PathBuf, u64)>, Failure> {
        self.settle()?;
        let Kind::File { temporary, path, replace, .. } = self.kind else { return Ok(None) };
        let named = if replace {
            fs::rename(&temporary.0, &path)
        } else {
            fs::hard_link(&temporary.0, &path).or_else(|error| match error.kind() {
                // A file system without links: the name was free when this began.
                io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied => {
                    if fs::symlink_metadata(&path).is_ok() {
                        return Err(io::ErrorKind::AlreadyExists.into());
                    }
                    fs::rename(&temporary.0, &path)
                }
                _ => Err(error),
            })
        };
        named.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => taken(&path),
            _ => unwritten(&path, error),
        })?;
        drop(temporary);
        let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|dir| dir.sync_all()).map_err(|error| unwritten(folder, error))?;
        Ok(Some((path, self.bytes)))
    }

    fn failed(&self, error: io::Error) -> Failure {
        match self.temporary() {
            None => Failure::stdout(error),
            Some(path) => unwritten(path, error),
        }
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.kind {
            Kind::Stdout(stdout) => stdout.write(bytes),
            Kind::File { file, .. } => file.write(bytes),
        }?;
        self.bytes = self.bytes.saturating_add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Stdout(stdout) => stdout.flush(),
            Kind::File { file, .. } => file.flush(),
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Published under its own name it is gone already.
        let _ = fs::remove_file(&self.0);
    }
}

/// What a failed export is to the program.
pub(crate) fn refused(error: ExportError, to_stdout: bool) -> Failure {
    match error {
        ExportError::Log(error) => error.into(),
        ExportError::Write(error) if to_stdout => Failure::stdout(error),
        ExportError::Write(error) => {
            Failure::io("writing the export failed", error, "free some space, or write somewhere else")
        }
        error => Failure::new(error.to_string(), "try again"),
    }
}

fn taken(path: &Path) -> Failure {
    Failure::new(
        format!("{}: something of that name exists", path.display()),
        "choose another name, or replace it with --force",
    )
}

fn unwritten(path: &Path, error: io::Error) -> Failure {
    Failure::io(
        format!("{}: writing failed", path.display()),
        error,
        "free some space, or write somewhere else",
    )
}
