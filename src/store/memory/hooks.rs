//! Steps that a test makes fail, or steps into.

/// A step of a storage that can fail, or be met in the middle: of one in memory, and of any under the contract's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(not(feature = "fault"), expect(unreachable_pub, reason = "only the hooks show it to the outside"))]
pub enum Step {
    /// Handing the rows of an append over to a session that is stored.
    Write,
    /// Making an append or a flush durable, for a session that is stored.
    Sync,
    /// Making a new session appear with its first batch or with nothing at a flush, or the converted successor of an older log.
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

#[cfg(all(test, feature = "fault"))]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{Hooks, Step};

    #[test]
    fn each_failure_is_met_once_by_a_step_of_its_kind() {
        let hooks = Hooks::default();
        for number in [5, 28] {
            hooks.fail_next(Step::Write, io::Error::from_raw_os_error(number));
        }
        assert!(hooks.meet(Step::Sync).is_ok());
        for number in [5, 28] {
            assert_eq!(hooks.meet(Step::Write).unwrap_err().raw_os_error(), Some(number));
        }
        assert!(hooks.meet(Step::Write).is_ok());
    }

    #[test]
    fn an_action_runs_once_before_the_failure_and_may_take_the_same_step() {
        let hooks = Arc::new(Hooks::default());
        let count = Arc::new(AtomicU32::new(0));
        let (inner, counted) = (Arc::clone(&hooks), Arc::clone(&count));
        let action = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            assert!(inner.meet(Step::Read).is_ok(), "the failure is that of the step it runs in");
        };
        hooks.before_next(Step::Read, Box::new(action));
        hooks.fail_next(Step::Read, io::Error::other("a test made it fail"));
        assert!(hooks.meet(Step::Read).is_err());
        assert!(hooks.meet(Step::Read).is_ok());
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}
