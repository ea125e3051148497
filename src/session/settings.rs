//! What a host decides about its sessions.

use std::fmt;
use std::sync::Arc;

use super::observers::{CallFailure, contained};
use super::profile::Profile;
use super::session::Session;
use crate::limits::Limits;
use crate::units::UnixMs;

/// What a host decides about its sessions. Cheap to clone.
#[derive(Clone)]
pub struct Settings {
    clock: Arc<dyn Fn() -> UnixMs + Send + Sync>,
    report: Option<Arc<Report>>,
    admission: Admission,
    profile: &'static Profile,
    limits: Limits,
}

type Report = dyn Fn(&Session, &CallFailure) + Send + Sync;

/// What is refused at append beyond what the log itself demands.
///
/// A [`Session`] and a handle of a store take the same setting; a session reads payloads and asks more of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admission {
    /// What no reader of the generation would open again: an event type that it does not know and that is not marked as
    /// ignorable; in a [`Session`] also a message or a request header without its shape, and a retired form.
    #[default]
    Readable,
    /// Only what the original refuses. A log may then come to hold what no reader opens.
    Anything,
}

impl Settings {
    /// Settings of the current generation with the documented limits. Nothing here reads a clock but `clock`.
    #[must_use]
    pub fn new(clock: impl Fn() -> UnixMs + Send + Sync + 'static) -> Self {
        Self {
            clock: Arc::new(clock),
            report: None,
            admission: Admission::default(),
            profile: Profile::current(),
            limits: Limits::DEFAULT,
        }
    }

    /// The settings with another admission.
    #[must_use]
    pub fn with_admission(self, admission: Admission) -> Self {
        Self { admission, ..self }
    }

    /// The settings for another generation.
    #[must_use]
    pub fn with_profile(self, profile: &'static Profile) -> Self {
        Self { profile, ..self }
    }

    /// The settings with other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The settings with a callback that hears of every observer and listener that failed: their failures go nowhere else.
    #[must_use]
    pub fn with_report(self, report: impl Fn(&Session, &CallFailure) + Send + Sync + 'static) -> Self {
        Self { report: Some(Arc::new(report)), ..self }
    }

    /// What is refused at append.
    #[must_use]
    pub const fn admission(&self) -> Admission {
        self.admission
    }

    /// The rules of the generation.
    #[must_use]
    pub const fn profile(&self) -> &'static Profile {
        self.profile
    }

    /// Bounds on payloads.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn now(&self) -> UnixMs {
        (self.clock)()
    }

    pub(crate) fn report(&self, session: &Session, failure: &CallFailure) {
        if let Some(report) = &self.report {
            // Who reports failures has nobody to report to.
            let _unheard = contained(|| {
                report(session, failure);
                Ok(())
            });
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("admission", &self.admission)
            .field("profile", &self.profile.generation())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
