use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use seslog::store::Report as LogReport;

use super::shown;
use super::source::Source;
use crate::current;
use crate::failure::Outcome;
use crate::out::{clean_path, counted, talk};

/// What there is to say of an export.
#[derive(Debug, Default)]
pub(super) struct Report {
    sessions: u64,
    is_marred: bool,
    unknown: BTreeSet<PathBuf>,
}

impl Report {
    /// A session is written whole; its torn end, if it has one, is not in it.
    pub(super) fn add(&mut self, source: &Source, end: LogReport) {
        self.sessions = self.sessions.saturating_add(1);
        if current::tell_end(source.log(), &end) {
            talk::detail(&format!("that end is not in the export of {}", shown(source.header())));
            self.is_marred = true;
        }
    }

    /// A session of which nobody knows whether it belongs to those that were asked for.
    pub(super) fn unknown(&mut self, path: &Path) {
        if self.unknown.insert(path.to_path_buf()) {
            let path = clean_path(path);
            talk::warning(&format!(
                "{path}: its header cannot be read; if it is a sub-session, it is missing"
            ));
            self.is_marred = true;
        }
    }

    /// Attempts are shown without what their streams say.
    pub(super) fn unread(&mut self, attempts: u64) {
        if attempts > 0 {
            let attempts = counted(attempts, "attempt is", "attempts are");
            talk::warning(&format!("{attempts} shown without what its stream says"));
            self.is_marred = true;
        }
    }

    /// How many sessions were written.
    pub(super) const fn sessions(&self) -> u64 {
        self.sessions
    }

    pub(super) const fn outcome(&self) -> Outcome {
        Outcome::marred_if(self.is_marred)
    }
}
