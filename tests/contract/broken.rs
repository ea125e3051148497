//! Backends that each break one rule, and the suite that catches every one of them.
//!
//! Each is a good backend behind a wrapper with one flaw. A flaw may break other rules too; what is asked is that the rule which
//! it is made for names it, and that the good backend passes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use seslog::container::Encoding;
use seslog::contract::{
    Backend, Crash, FaultFiles, InMemory, Offered, Settings, Status, Step, Storage, Tear, run, run_rule,
};
use seslog::json::Text;
use seslog::row::Header;
use seslog::store::{Cancel, Events, SessionAccess, SessionHandle, SessionPersistence, Snapshot};
use seslog::{Error, Result};

/// What is wrong with a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// An append keeps all events of a batch but the last one that has three or more.
    LosesAnEvent,
    /// A batch that does not continue the log is dropped, and said to be stored.
    IgnoresTheSeqs,
    /// The offset of a read counts, the length does not.
    ReadsTooMuch,
    /// A read handle takes appends and stores nothing.
    ReaderTakesAppends,
    /// A closed handle still reads.
    ReadsAfterClose,
    /// Close forgets to give the session back.
    CloseKeepsTheSession,
    /// A batch is stored row by row.
    AppendsRowByRow,
    /// The first count that `stat` gave is given for ever.
    StaleCount,
    /// A session is stored when it is created.
    StoresAtCreate,
    /// A log that became shorter is read as if nothing had been.
    AcceptsAShorterLog,
    /// A call that was cancelled before it began is made all the same, and then said to be cancelled.
    CancelledTakesEffect,
    /// Flush answers at once.
    FlushDoesNothing,
    /// Any handle may write.
    NobodyOwns,
    /// A log is served to where it is damaged, and the damage is hidden.
    HidesDamage,
}

struct BrokenBackend<'g> {
    good: &'g dyn Backend,
    flaw: Flaw,
}

impl Backend for BrokenBackend<'_> {
    fn name(&self) -> String {
        format!("{}, and {:?}", self.good.name(), self.flaw)
    }

    fn storage(&self) -> Box<dyn Storage> {
        Box::new(BrokenStorage { good: self.good.storage(), flaw: self.flaw })
    }
}

/// Every hook of the good storage.
#[derive(Debug)]
struct BrokenStorage {
    good: Box<dyn Storage>,
    flaw: Flaw,
}

impl BrokenStorage {
    fn broken(&self, good: Arc<dyn SessionPersistence>) -> Arc<dyn SessionPersistence> {
        Arc::new(Broken { good, flaw: self.flaw, counts: Mutex::default(), kept: Mutex::default() })
    }
}

impl Storage for BrokenStorage {
    fn instance(&self) -> Arc<dyn SessionPersistence> {
        self.broken(self.good.instance())
    }

    fn instance_with(&self, settings: Settings) -> Offered<Arc<dyn SessionPersistence>> {
        Ok(self.broken(self.good.instance_with(settings)?))
    }

    fn after(&self, crash: Crash) -> Offered<Box<dyn Storage>> {
        Ok(Box::new(Self { good: self.good.after(crash)?, flaw: self.flaw }))
    }

    fn artifact(&self, id: &Text) -> Offered<Option<Vec<u8>>> {
        self.good.artifact(id)
    }

    fn replace(&self, id: &Text, bytes: &[u8]) -> Offered<()> {
        self.good.replace(id, bytes)
    }

    fn plant(&self, id: &Text, header: &[u8], rows: &[&[u8]]) -> Offered<()> {
        self.good.plant(id, header, rows)
    }

    fn tear(&self, id: &Text, tear: Tear) -> Offered<()> {
        self.good.tear(id, tear)
    }

    fn remove(&self, id: &Text) -> Offered<()> {
        self.good.remove(id)
    }

    fn fail_next(&self, step: Step) -> Offered<()> {
        self.good.fail_next(step)
    }

    fn before_next(&self, step: Step, action: Box<dyn FnOnce() + Send>) -> Offered<()> {
        self.good.before_next(step, action)
    }

    fn reads(&self) -> Offered<u64> {
        self.good.reads()
    }
}

#[derive(Debug)]
struct Broken {
    good: Arc<dyn SessionPersistence>,
    flaw: Flaw,
    counts: Mutex<HashMap<Text, Option<u64>>>,
    /// Handles that should have been given back.
    kept: Mutex<Vec<Arc<dyn SessionHandle>>>,
}

impl Broken {
    fn broken(&self, good: Arc<dyn SessionHandle>) -> Arc<dyn SessionHandle> {
        if self.flaw == Flaw::CloseKeepsTheSession {
            self.kept.lock().unwrap().push(Arc::clone(&good));
        }
        Arc::new(BrokenHandle { good, flaw: self.flaw })
    }

    /// The caller's token, or one that nobody cancels.
    fn token(&self, cancel: &Cancel) -> Cancel {
        if self.flaw == Flaw::CancelledTakesEffect { Cancel::never() } else { cancel.clone() }
    }
}

impl SessionPersistence for Broken {
    fn create(
        &self,
        header: Header,
        inherited: Option<u64>,
        cancel: &Cancel,
    ) -> Result<Arc<dyn SessionHandle>> {
        let handle = self.good.create(header, inherited, &self.token(cancel))?;
        cancel.check()?;
        if self.flaw == Flaw::StoresAtCreate {
            handle.flush(&Cancel::never())?;
        }
        Ok(self.broken(handle))
    }

    fn open(&self, id: &Text, access: SessionAccess, cancel: &Cancel) -> Result<Arc<dyn SessionHandle>> {
        let access = if self.flaw == Flaw::NobodyOwns { SessionAccess::Read } else { access };
        Ok(self.broken(self.good.open(id, access, cancel)?))
    }

    fn stat(&self, id: &Text, cancel: &Cancel) -> Result<Option<Snapshot>> {
        let mut found = self.good.stat(id, cancel)?;
        if let (Flaw::StaleCount, Some(found)) = (self.flaw, &mut found) {
            found.event_count = *self.counts.lock().unwrap().entry(id.clone()).or_insert(found.event_count);
        }
        Ok(found)
    }

    fn list(&self, cancel: &Cancel) -> Result<Vec<Snapshot>> {
        self.good.list(cancel)
    }

    fn flush(&self) -> Result<()> {
        if self.flaw == Flaw::FlushDoesNothing { Ok(()) } else { self.good.flush() }
    }

    fn close(&self) -> Result<()> {
        self.good.close()
    }
}

#[derive(Debug)]
struct BrokenHandle {
    good: Arc<dyn SessionHandle>,
    flaw: Flaw,
}

impl SessionHandle for BrokenHandle {
    fn header(&self) -> &Header {
        self.good.header()
    }

    fn inherited_event_count(&self) -> u64 {
        self.good.inherited_event_count()
    }

    fn access(&self) -> SessionAccess {
        if self.flaw == Flaw::NobodyOwns { SessionAccess::Write } else { self.good.access() }
    }

    fn next_seq(&self) -> Option<u64> {
        self.good.next_seq()
    }

    fn read(&self, offset: u64, length: u64, cancel: &Cancel) -> Result<Events> {
        match (self.flaw, self.good.read(offset, length, cancel)) {
            (Flaw::ReadsTooMuch, Ok(_)) => self.good.read(offset, u64::MAX, cancel),
            (Flaw::AcceptsAShorterLog, Err(Error::Shrank { .. })) => Ok(Events::default()),
            (Flaw::HidesDamage, Err(Error::Corruption { intact, .. })) => self
                .good
                .read(offset, intact.saturating_sub(offset), cancel)
                .or_else(|_| Ok(Events::default())),
            (Flaw::ReadsAfterClose, Err(Error::HandleClosed { .. })) => Ok(Events::default()),
            (_, read) => read,
        }
    }

    fn append(&self, rows: &[&[u8]], cancel: &Cancel) -> Result<()> {
        let never = &Cancel::never();
        match self.flaw {
            Flaw::LosesAnEvent if rows.len() > 2 => self.good.append(&rows[..rows.len() - 1], cancel),
            Flaw::IgnoresTheSeqs => match self.good.append(rows, cancel) {
                Err(Error::SeqMismatch { .. }) => Ok(()),
                appended => appended,
            },
            Flaw::ReaderTakesAppends => match self.good.append(rows, cancel) {
                Err(Error::ReadOnly { .. }) => Ok(()),
                appended => appended,
            },
            Flaw::AppendsRowByRow => rows.iter().try_for_each(|row| self.good.append(&[row], cancel)),
            Flaw::CancelledTakesEffect => self.good.append(rows, never).and_then(|()| cancel.check()),
            _ => self.good.append(rows, cancel),
        }
    }

    fn flush(&self, cancel: &Cancel) -> Result<()> {
        match self.flaw {
            Flaw::FlushDoesNothing => Ok(()),
            Flaw::CancelledTakesEffect => self.good.flush(&Cancel::never()).and_then(|()| cancel.check()),
            _ => self.good.flush(cancel),
        }
    }

    fn close(&self) -> Result<()> {
        if self.flaw == Flaw::CloseKeepsTheSession { Ok(()) } else { self.good.close() }
    }
}

/// Every flaw, and the rule that is there to find it.
const FLAWS: [(Flaw, u32); 14] = [
    (Flaw::CloseKeepsTheSession, 50),
    (Flaw::NobodyOwns, 53),
    (Flaw::ReadsTooMuch, 62),
    (Flaw::IgnoresTheSeqs, 65),
    (Flaw::AppendsRowByRow, 66),
    (Flaw::ReaderTakesAppends, 68),
    (Flaw::FlushDoesNothing, 72),
    (Flaw::LosesAnEvent, 73),
    (Flaw::ReadsAfterClose, 75),
    (Flaw::StoresAtCreate, 84),
    (Flaw::AcceptsAShorterLog, 87),
    (Flaw::HidesDamage, 99),
    (Flaw::StaleCount, 126),
    (Flaw::CancelledTakesEffect, 134),
];

#[test]
fn each_broken_backend_is_caught_by_the_rule_that_it_breaks() {
    let goods: [&dyn Backend; 2] = [&FaultFiles::new(Encoding::Plain), &InMemory];
    for good in goods {
        for (flaw, number) in FLAWS {
            assert_eq!(run_rule(number, good).status, Status::Passed, "{number}");
            let report = run_rule(number, &BrokenBackend { good, flaw });
            assert!(matches!(report.status, Status::Failed(_)), "{flaw:?} gets past {number}: {report:?}");
        }
    }
}

#[test]
fn a_report_names_every_rule_that_a_broken_backend_breaks_and_no_other() {
    let report = run(&BrokenBackend { good: &InMemory, flaw: Flaw::StaleCount });
    // Rule 85 asks the counts to be fresh as well.
    assert_eq!(report.failed().collect::<Vec<_>>(), [85, 126]);
    assert_eq!(report.counts().failed, 2);
    let table = report.to_string();
    assert!(
        table.contains("2 failed") && table.contains("FAILED          the event count is that of the log"),
        "{table}"
    );
    assert!(std::panic::catch_unwind(|| report.assert_passed()).is_err());
}
