//! How the program ends: exit status, and errors with their cause chain and the next step.

use std::error::Error as _;
use std::io;
use std::process::ExitCode;

use seslog::{Damage, Error};

use crate::out::talk;

/// What every verb returns.
pub(crate) type Done = Result<Outcome, Failure>;

/// The verb did its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Status 0.
    #[default]
    Clean,
    /// Status 3: something is torn, damaged, refused, or was lost, and was listed.
    Marred,
}

impl Outcome {
    /// [`Outcome::Marred`] if `marred`.
    pub(crate) const fn marred_if(marred: bool) -> Self {
        if marred { Self::Marred } else { Self::Clean }
    }
}

/// The verb did not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of stdout went away: nobody wants more. Status 0.
    ClosedPipe,
    /// Arguments that the grammar allows and that make no sense together. Status 2.
    Usage(String),
    /// The store refused.
    Store {
        /// What it said.
        error: Error,
        /// The next step, where the verb knows better than [`next_step`].
        next: Option<String>,
    },
    /// Anything else.
    Other {
        /// What failed, with the file and the offset.
        what: String,
        /// More lines about it.
        details: Vec<String>,
        /// Why, if something below said so.
        cause: Option<io::Error>,
        /// The next step.
        next: String,
    },
}

impl Failure {
    /// A refusal of the program's own.
    pub(crate) fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self::Other { what: what.into(), details: Vec::new(), cause: None, next: next.into() }
    }

    /// A refusal of the operating system.
    pub(crate) fn io(what: impl Into<String>, cause: io::Error, next: impl Into<String>) -> Self {
        Self::Other { what: what.into(), details: Vec::new(), cause: Some(cause), next: next.into() }
    }

    /// What a failed write to stdout is.
    pub(crate) fn stdout(cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::io("writing to standard output failed", cause, "free space, or write somewhere else"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store { error, next: None }
    }
}

/// Turns the end of a verb into the exit status, and says on stderr what failed.
pub(crate) fn exit(done: Done) -> ExitCode {
    match done {
        Ok(Outcome::Clean) | Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Ok(Outcome::Marred) => ExitCode::from(3),
        Err(Failure::Usage(what)) => {
            talk::error(&what);
            ExitCode::from(2)
        }
        Err(failure) => {
            tell(&failure);
            ExitCode::FAILURE
        }
    }
}

/// Says on stderr what failed, why, and what to do next.
pub(crate) fn tell(failure: &Failure) {
    match failure {
        Failure::ClosedPipe => {}
        Failure::Usage(what) => talk::error(what),
        Failure::Store { error, next } => {
            talk::error(&error.to_string());
            tell_causes(error);
            if let Some(next) = next.clone().or_else(|| next_step(error)) {
                talk::next(&next);
            }
        }
        Failure::Other { what, details, cause, next } => {
            talk::error(what);
            details.iter().for_each(|line| talk::detail(line));
            if let Some(cause) = cause {
                talk::cause(&cause.to_string());
            }
            talk::next(next);
        }
    }
}

fn tell_causes(error: &Error) {
    if let Error::Aggregate(errors) = error {
        for error in errors {
            talk::cause(&chain(error));
        }
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        talk::cause(&error.to_string());
        cause = error.source();
    }
}

/// A failure and its causes in one line, for those who read no stderr.
pub(crate) fn summary(failure: &Failure) -> String {
    match failure {
        Failure::ClosedPipe => "nobody reads the output".to_owned(),
        Failure::Usage(what) | Failure::Other { what, cause: None, .. } => what.clone(),
        Failure::Other { what, cause: Some(cause), .. } => format!("{what}: {cause}"),
        Failure::Store { error, .. } => chain(error),
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    if let Error::Aggregate(errors) = error {
        for error in errors {
            text.push_str("; ");
            text.push_str(&chain(error));
        }
    }
    text
}

/// What a person can do about `error`.
pub(crate) fn next_step(error: &Error) -> Option<String> {
    let step = match error {
        Error::AlreadyExists { .. } => "choose another id, or append to the session".to_owned(),
        Error::AlreadyOwned { .. } => {
            "wait until the writer is done; `seslog stat` tells who it is".to_owned()
        }
        Error::NotFound { .. } => "`seslog ls` shows what is there; --root names another root".to_owned(),
        Error::Corruption { path, source: Damage::Header(_), .. } => format!(
            "look at the file's head; `seslog cat --rows --lenient {0}` shows the rows, `seslog recover {0} --salvage OUT` \
             copies what can be saved",
            quoted(path)
        ),
        Error::Corruption { path, .. } => format!(
            "`seslog verify {0}` lists all damage; `seslog recover {0} --salvage OUT` copies what can be saved",
            quoted(path)
        ),
        Error::DamagedTail { path, .. } => format!(
            "`seslog recover {0}` sets the damaged end aside and goes on without it; `seslog recover {0} --dry-run` looks first",
            quoted(path)
        ),
        Error::TornTail { path, .. } => {
            format!("the next append repairs it; `seslog recover {}` does it now", quoted(path))
        }
        Error::Refused { path, .. } => format!(
            "the log stays as it is; `cat`, `stat`, `verify`, `recover` and `convert` work on {} in its own generation",
            quoted(path)
        ),
        Error::FormatUnsupported { path, .. } => {
            format!("upgrade seslog; `seslog cat --rows {}` shows what can be shown as it is", quoted(path))
        }
        Error::IdentityMismatch { path, .. } => format!(
            "rename the file or put it where it belongs; `seslog cat --rows {}` shows it as it is",
            quoted(path)
        ),
        Error::DuplicateId { .. } => "move one of the two out of the root".to_owned(),
        Error::Layout { .. } => "put the folder in order; `seslog verify` lists what is in it".to_owned(),
        Error::Foreign { .. } | Error::Shrank { .. } => {
            "find out who else writes there (a second agent, a backup, a sync tool), then try again"
                .to_owned()
        }
        Error::Poisoned { .. } | Error::HandleClosed { .. } => "try again".to_owned(),
        Error::InvalidRow { .. } | Error::SeqMismatch { .. } => {
            "correct the row; leave \"seq\" and \"time\" out to have them filled in".to_owned()
        }
        Error::Io { source, .. } => match source.kind() {
            io::ErrorKind::NotFound => "check the path".to_owned(),
            io::ErrorKind::PermissionDenied => "check who owns the file, and its mode".to_owned(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free some space, then try again".to_owned()
            }
            _ => "check the disk and the path, then try again".to_owned(),
        },
        _ => return None,
    };
    Some(step)
}

/// A path as a shell takes it.
pub(crate) fn quoted(path: &std::path::Path) -> String {
    let text = path.to_string_lossy();
    let plain = |char: char| char.is_ascii_alphanumeric() || "/._-+:@%,=".contains(char);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
