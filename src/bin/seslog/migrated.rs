//! What became of one log in a migration: in JSON, in words, and in talk.

use std::path::PathBuf;

use seslog::format::Refusal;
use seslog::units::Generation;

use crate::failure::{Failure, summary, tell};
use crate::json::Object;
use crate::out::{clean, clean_path, counted, talk};

/// One log, and what became of it.
#[derive(Debug)]
pub(crate) struct Migrated {
    /// The log that was looked at.
    pub(crate) path: PathBuf,
    /// Its generation, where that is known.
    pub(crate) from: Option<Generation>,
    /// What became of it.
    pub(crate) ended: Ended,
}

/// The four ways in which it ends.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The successor stands beside the log; without a path it would, but for a dry run.
    Published { path: Option<PathBuf>, events: u64, is_prefix: bool },
    /// There is nothing to do.
    Current,
    /// The log stays as it is, and another run would say the same.
    Refused { word: &'static str, reason: String, next: Option<String> },
    /// Another run may do better.
    Failed(Failure),
}

impl Ended {
    /// Refused by the conversion.
    pub(crate) fn of_refusal(refusal: &Refusal) -> Self {
        Self::Refused { word: refusal.code().name(), reason: refusal.to_string(), next: None }
    }

    const fn word(&self) -> &'static str {
        match self {
            Self::Published { .. } => "published",
            Self::Current => "current",
            Self::Refused { .. } => "refused",
            Self::Failed(_) => "failed",
        }
    }

    fn reason(&self) -> Option<String> {
        match self {
            Self::Refused { reason, .. } => Some(reason.clone()),
            Self::Failed(failure) => Some(summary(failure)),
            Self::Published { .. } | Self::Current => None,
        }
    }
}

impl Migrated {
    /// The log as a JSON object. In a dry run `outcome` is what it would be, and nothing is `published`.
    pub(crate) fn json(&self, dry_run: bool) -> Object {
        let mut object = Object::new();
        object.path("path", &self.path).opt_number("from", self.from.map(Generation::get));
        object.number("to", Generation::CURRENT.get()).string("outcome", self.ended.word());
        match &self.ended {
            Ended::Published { path, events, is_prefix } => {
                if let Some(path) = path {
                    object.path("published", path);
                }
                object.number("events", *events);
                if *is_prefix {
                    object.flag("isPrefix", true);
                }
            }
            Ended::Refused { word, .. } => {
                object.string("code", word);
            }
            Ended::Current | Ended::Failed(_) => {}
        }
        if let Some(reason) = self.ended.reason() {
            object.string("reason", &reason);
        }
        if dry_run {
            object.flag("dryRun", true);
        }
        object
    }

    /// The log as a line for people.
    pub(crate) fn line(&self, dry_run: bool) -> String {
        let word = match &self.ended {
            Ended::Published { .. } if dry_run => "can be published",
            ended => ended.word(),
        };
        let path = clean_path(&self.path);
        let more = match &self.ended {
            Ended::Published { path, events, .. } => {
                let name = path.as_ref().and_then(|path| path.file_name());
                let name =
                    name.map_or_else(String::new, |name| format!("as {}, ", clean(&name.to_string_lossy())));
                format!(": {name}{}", counted(*events, "event", "events"))
            }
            ended => ended.reason().map_or_else(String::new, |reason| format!(": {}", clean(&reason))),
        };
        format!("{word:<9}  {path}{more}")
    }

    /// Says on stderr what is not as it should be.
    pub(crate) fn talk(&self) {
        let path = self.path.display();
        match &self.ended {
            Ended::Published { is_prefix: true, .. } => talk::warning(&format!(
                "{path}: its end was cut short by an unfinished append, and was left out of the successor"
            )),
            Ended::Published { .. } | Ended::Current => {}
            Ended::Refused { reason, next, .. } => {
                talk::warning(&format!("refused: {path}: {reason}"));
                next.iter().for_each(|step| talk::next(step));
            }
            Ended::Failed(failure) => tell(failure),
        }
    }
}
