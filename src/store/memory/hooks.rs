//! Steps that a test makes fail, or steps into.

/// A step of a storage in memory that can fail, or be met in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(not(feature = "fault"), expect(unreachable_pub, reason = "only the hooks show it to the outside"))]
pub enum Step {
    /// Handing the rows of an append over to a session that is stored.
    Write,
    /// Making an append or a flush durable, for a session that is stored.
    Sync,
    /// Making a new session appear, or the converted successor of an older log.
    Publish,
    /// Taking a torn end off before an append.
    Repair,
    /// Taking a session for writing, against other instances.
    Lock,
    /// Giving it back.
    Unlock,
    /// Looking at one stored session for `stat` or `list`.
    Look,
    /// Reading rows of a stored session.
    Read,
    /// Finding out which sessions are stored, for `list`.
    List,
}

impl Step {
    /// What the step does, as errors say it; the file store says the same where it does the same.
    pub(super) const fn action(self) -> &'static str {
        match self {
            Self::Write => "writing",
            Self::Sync => "syncing",
            Self::Publish => "publishing",
            Self::Repair => "cutting the torn end off",
            Self::Lock => "locking",
            Self::Unlock => "releasing",
            Self::Look => "looking at",
            Self::Read => "reading",
            Self::List => "listing",
        }
    }
}

#[cfg(feature = "fault")]
pub(super) use armed::Hooks;
#[cfg(not(feature = "fault"))]
pub(super) use disarmed::Hooks;

#[cfg(feature = "fault")]
mod armed {
    use std::{fmt, io, mem};

    use parking_lot::Mutex;

    use super::Step;

    /// What waits for the next steps.
    #[derive(Default)]
    pub(in super::super) struct Hooks(Mutex<Vec<(Step, Hook)>>);

    enum Hook {
        Fail(io::Error),
        Run(Box<dyn FnOnce() + Send>),
    }

    impl Hooks {
        pub(in super::super) fn fail_next(&self, step: Step, error: io::Error) {
            self.0.lock().push((step, Hook::Fail(error)));
        }

        pub(in super::super) fn before_next(&self, step: Step, action: Box<dyn FnOnce() + Send>) {
            self.0.lock().push((step, Hook::Run(action)));
        }

        /// Takes a step: runs what waits for it, then fails if it is to.
        pub(in super::super) fn meet(&self, step: Step) -> io::Result<()> {
            let mut failure = None;
            let mut actions = Vec::new();
            {
                let mut hooks = self.0.lock();
                for (when, hook) in mem::take(&mut *hooks) {
                    match hook {
                        Hook::Run(action) if when == step => actions.push(action),
                        // One step fails once; the next one is for the next hook.
                        Hook::Fail(error) if when == step && failure.is_none() => failure = Some(error),
                        hook => hooks.push((when, hook)),
                    }
                }
            }
            // Without the lock: an action makes calls that take steps of their own, and may leave hooks for the next ones.
            actions.into_iter().for_each(|action| action());
            failure.map_or(Ok(()), Err)
        }
    }

    impl fmt::Debug for Hooks {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_list().entries(self.0.lock().iter().map(|(step, _)| step)).finish()
        }
    }
}

#[cfg(not(feature = "fault"))]
mod disarmed {
    use std::io;

    use super::Step;

    /// Nothing waits for any step.
    #[derive(Debug, Default)]
    pub(in super::super) struct Hooks {}

    impl Hooks {
        #[expect(
            clippy::unused_self,
            clippy::unnecessary_wraps,
            reason = "the hooks of the feature `fault` have a use for both"
        )]
        pub(in super::super) const fn meet(&self, _step: Step) -> io::Result<()> {
            Ok(())
        }
    }
}
