//! What a backend brings along to be tested.

use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::sync::Arc;

use crate::json::Text;
use crate::session::Admission;
pub use crate::store::memory::Step;
use crate::store::{Durability, SessionPersistence};

/// A kind of storage, of which the suite makes fresh ones: each rule begins with one of its own.
pub trait Backend: Sync {
    /// What reports call it: `files, indexed`.
    fn name(&self) -> String;

    /// A storage without sessions, that no other one shares anything with.
    fn storage(&self) -> Box<dyn Storage>;
}

/// One storage, any number of instances over it, and what the suite may do behind their backs.
///
/// Only [`Storage::instance`] is required. Each other method is a hook; a backend offers those that it can, and the rules
/// that need one which is not offered are reported as not applicable, with the reason that the hook gives.
///
/// Hooks that change a storage are called while no handle writes the session, unless they say otherwise, and take effect
/// for every instance at once.
pub trait Storage: Send + Sync + Debug {
    /// Another instance over this storage, as another process would have: it shares what is stored and who owns it, and
    /// nothing else. With [`Settings::default`].
    fn instance(&self) -> Arc<dyn SessionPersistence>;

    /// As [`Storage::instance`], with other settings.
    ///
    /// # Errors
    /// The backend has no such setting. [`Settings::default`] is always offered.
    fn instance_with(&self, settings: Settings) -> Offered<Arc<dyn SessionPersistence>> {
        if settings == Settings::default() {
            Ok(self.instance())
        } else {
            Err(NotOffered::because("instances have no settings"))
        }
    }

    /// What is found after a crash at this moment: a storage with what survives it, owned by nobody.
    ///
    /// Called at any time, with handles open. Either this storage stays as it is and the answer is a copy, or it is dead
    /// from now on: the suite uses neither it nor its instances any more, other than by dropping them.
    ///
    /// # Errors
    /// Such a crash cannot be played.
    fn after(&self, crash: Crash) -> Offered<Box<dyn Storage>> {
        let _ = crash;
        Err(NotOffered::hook("after"))
    }

    /// The bytes that keep the session: equal as long as nothing about the stored session changed. `None` if nothing of it
    /// is stored.
    ///
    /// A backend without files of its own answers with any dump that tells every change of the stored log, its torn end
    /// included. Called at any time.
    ///
    /// # Errors
    /// There is no such thing.
    fn artifact(&self, id: &Text) -> Offered<Option<Vec<u8>>> {
        let _ = id;
        Err(NotOffered::hook("artifact"))
    }

    /// Puts other bytes in the place of a session's artifact, which keeps its name. Offered by backends that keep each session in
    /// one file, or in what is as good as one: then [`Storage::artifact`] is that file, byte for byte, and appends only ever add
    /// to its end.
    ///
    /// # Errors
    /// Sessions are not files.
    fn replace(&self, id: &Text, bytes: &[u8]) -> Offered<()> {
        let (_, _) = (id, bytes);
        Err(NotOffered::because("sessions are not kept in files"))
    }

    /// Puts a log in the place of what is stored for `id`, as it would stand there if it had been written so: a header line
    /// and rows without their newlines, complete records all, which nobody has checked. They may be no JSON at all.
    ///
    /// Called with read handles open.
    ///
    /// # Errors
    /// There is no way past the backend's own checks.
    fn plant(&self, id: &Text, header: &[u8], rows: &[&[u8]]) -> Offered<()> {
        let (_, _, _) = (id, header, rows);
        Err(NotOffered::hook("plant"))
    }

    /// Cuts the last append of a stored session as a crash in the middle of it would. Earlier appends stay whole, and of
    /// the last one at least the last event is not served any more.
    ///
    /// # Errors
    /// A log of this backend cannot be torn so.
    fn tear(&self, id: &Text, tear: Tear) -> Offered<()> {
        let (_, _) = (id, tear);
        Err(NotOffered::hook("tear"))
    }

    /// Makes a stored session vanish, as if an administrator had removed it. Called at any time.
    ///
    /// # Errors
    /// It cannot be made to.
    fn remove(&self, id: &Text) -> Offered<()> {
        let _ = id;
        Err(NotOffered::hook("remove"))
    }

    /// Makes the next step of a kind fail once, in whatever instance, with [`Error::Io`](crate::Error::Io). Nothing of the
    /// step's effect stays, as far as the backend's own clean-up can see to it. Called twice, the next two fail.
    ///
    /// # Errors
    /// There is no such step, or it cannot fail.
    fn fail_next(&self, step: Step) -> Offered<()> {
        let _ = step;
        Err(NotOffered::hook("fail_next"))
    }

    /// Runs `action` once, inside the next step of a kind and before its effect, on the thread that is at it.
    ///
    /// The action calls other handles and other instances of this storage, and waits for other threads that use the same
    /// handle to get stuck: of the backend's locks, only those of the one handle may be held meanwhile.
    ///
    /// # Errors
    /// There is no such step, or no way in.
    fn before_next(&self, step: Step, action: Box<dyn FnOnce() + Send>) -> Offered<()> {
        let (_, _) = (step, action);
        Err(NotOffered::hook("before_next"))
    }

    /// How often anything of a stored log was read so far, in all instances; any unit that grows with each look at it.
    ///
    /// # Errors
    /// Nobody counts.
    fn reads(&self) -> Offered<u64> {
        Err(NotOffered::hook("reads"))
    }

    /// How many whole logs were parsed so far, in all instances.
    ///
    /// # Errors
    /// Nobody counts, or the backend keeps no parsed logs: a memo is no duty.
    fn parses(&self) -> Offered<u64> {
        Err(NotOffered::hook("parses"))
    }
}

/// How an instance is to behave where the contract leaves a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Whether an append is durable by itself. An instance may always do more than was asked for.
    pub durability: Durability,
    /// Whether an append refuses event types that no reader knows.
    pub admission: Admission,
}

impl Settings {
    /// Appends that are durable at the next flush.
    pub const ON_FLUSH: Self = Self { durability: Durability::OnFlush, ..Self::DEFAULT };

    /// Appends that store whatever an event may be.
    pub const ANYTHING: Self = Self { admission: Admission::Anything, ..Self::DEFAULT };

    const DEFAULT: Self = Self { durability: Durability::Sync, admission: Admission::Readable };
}

impl Default for Settings {
    /// Durable appends of what readers know. A backend that judges no types may store others all the same.
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What stops everything that uses a storage, all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Crash {
    /// Its processes die; what they handed over stays.
    Killed,
    /// What is not durable may be lost. With seed 0 all of it is; any other seed chooses some of it, the same each time.
    PowerLoss {
        /// Chooses.
        seed: u64,
    },
}

/// How the last append of a log was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tear {
    /// In its last record. The number chooses a place there; backends may know fewer places than there are numbers.
    LastRecord(u32),
    /// Behind its first complete records, which are served from then on: at least one event, and not all.
    Between,
}

/// What a hook gives, if the storage offers it.
pub type Offered<T> = Result<T, NotOffered>;

/// Why a hook is not offered, and so why a rule is not applicable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOffered(Cow<'static, str>);

impl NotOffered {
    /// A reason of the backend's own.
    pub fn because(why: impl Into<Cow<'static, str>>) -> Self {
        Self(why.into())
    }

    fn hook(name: &str) -> Self {
        Self(format!("the storage does not offer `{name}`").into())
    }
}

impl fmt::Display for NotOffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
