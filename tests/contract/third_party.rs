//! A backend as somebody else would write one, with nothing but the public interface: sessions on a shelf in memory.
//!
//! It offers no hook at all. The rules that can be seen through the seam alone are asked of it, and it keeps them.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use seslog::contract::{Backend, Storage, run};
use seslog::format::inventory::Inventory;
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::{Check, CutFault, Header, PhysicalRow, Seeding};
use seslog::store::{
    Admission, Cancel, Events, Revision, SessionAccess, SessionHandle, SessionPersistence, Snapshot,
    check_batch, check_new,
};
use seslog::units::Generation;
use seslog::{Damage, Error, Result, Unsupported};

struct Shelves;

impl Backend for Shelves {
    fn name(&self) -> String {
        "a shelf of somebody else's".to_owned()
    }

    fn storage(&self) -> Box<dyn Storage> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Box::new(OneShelf(Arc::new(Shelf { number, state: Mutex::default() })))
    }
}

#[derive(Debug)]
struct OneShelf(Arc<Shelf>);

impl Storage for OneShelf {
    fn instance(&self) -> Arc<dyn SessionPersistence> {
        let (shelf, claims, handles) = (Arc::clone(&self.0), Arc::default(), Mutex::default());
        Arc::new(Clerk { shelf, claims, handles })
    }
}

/// What all instances share.
#[derive(Debug)]
struct Shelf {
    number: u64,
    state: Mutex<ShelfState>,
}

#[derive(Debug, Default)]
struct ShelfState {
    logs: HashMap<Text, Log>,
    /// Sessions that some instance writes.
    owned: HashSet<Text>,
    changes: u64,
}

#[derive(Clone, Debug)]
struct Log {
    header: Header,
    rows: Vec<Vec<u8>>,
    change: u64,
}

fn printable(id: &Text) -> String {
    id.to_string_lossy().into_owned()
}

impl Log {
    /// Whether readers understand all of it; gives the number of inherited events.
    fn check(&self) -> Result<u64> {
        let path = PathBuf::from(printable(self.header.id()));
        let mut marker = None;
        for line in &self.rows {
            let row = PhysicalRow::read(line, Generation::CURRENT, Check::Full, &Limits::DEFAULT)
                .expect("it was checked at append");
            if let Some(event) = Inventory::of(Generation::CURRENT).unknown_event(&row) {
                let (seq, event_type) =
                    (event.seq().get(), event.event_type().to_string_lossy().into_owned());
                return Err(Error::FormatUnsupported {
                    path,
                    reason: Unsupported::EventType { seq, event_type },
                });
            }
            if let PhysicalRow::Event(event) = row
                && event.is("session/end-seed")
                && event.data().contains("\"inherited\":true")
            {
                marker = Some(event.seq());
            }
        }
        let fault = match (self.header.seeding(), marker) {
            (Seeding::Unseeded, None) => return Ok(0),
            (Seeding::Unseeded, Some(seq)) => CutFault::Unseeded { seq },
            (_, Some(seq)) => return Ok(seq.get()),
            (_, None) => CutFault::NoMarker,
        };
        let intact = self.rows.len() as u64;
        Err(Error::Corruption { path, offset: 0, intact, source: Damage::Cut(fault) })
    }
}

/// One instance.
#[derive(Debug)]
struct Clerk {
    shelf: Arc<Shelf>,
    claims: Arc<Claims>,
    handles: Mutex<Vec<Weak<Handle>>>,
}

/// Sessions that this instance writes; with a header while they are not stored.
type Claims = Mutex<HashMap<Text, Option<Header>>>;

#[derive(Debug)]
struct Handle {
    shelf: Arc<Shelf>,
    claims: Arc<Claims>,
    header: Header,
    inherited: u64,
    access: SessionAccess,
    closing: AtomicBool,
    state: Mutex<HandleState>,
}

#[derive(Debug)]
struct HandleState {
    next_seq: u64,
    owns: bool,
    is_closed: bool,
}

impl Clerk {
    fn handle(
        &self,
        header: Header,
        inherited: u64,
        access: SessionAccess,
        next_seq: u64,
        owns: bool,
    ) -> Arc<Handle> {
        let handle = Arc::new(Handle {
            shelf: Arc::clone(&self.shelf),
            claims: Arc::clone(&self.claims),
            header,
            inherited,
            access,
            closing: AtomicBool::new(false),
            state: Mutex::new(HandleState { next_seq, owns, is_closed: false }),
        });
        self.handles.lock().unwrap().push(Arc::downgrade(&handle));
        handle
    }

    fn pending(&self, id: &Text) -> Option<Header> {
        self.claims.lock().unwrap().get(id).cloned().flatten()
    }

    fn snapshot(&self, log: &Log) -> Snapshot {
        let mut snapshot = Snapshot::of_header(log.header.clone());
        snapshot.event_count = Some(log.rows.len() as u64);
        snapshot.revision = Some(Revision::counted(self.shelf.number, log.change));
        snapshot
    }

    /// Calls all handles that are still there.
    fn each(&self, call: impl Fn(&Handle) -> Result<()>) -> Result<()> {
        let handles: Vec<_> = self.handles.lock().unwrap().iter().filter_map(Weak::upgrade).collect();
        let mut failed: Vec<Error> = handles.iter().filter_map(|handle| call(handle).err()).collect();
        match failed.len() {
            0 => Ok(()),
            1 => Err(failed.remove(0)),
            _ => Err(Error::Aggregate(failed)),
        }
    }
}

impl SessionPersistence for Clerk {
    fn create(
        &self,
        header: Header,
        inherited: Option<u64>,
        cancel: &Cancel,
    ) -> Result<Arc<dyn SessionHandle>> {
        cancel.check()?;
        let inherited = check_new(&header, inherited)?;
        let mut claims = self.claims.lock().unwrap();
        let is_stored = self.shelf.state.lock().unwrap().logs.contains_key(header.id());
        if is_stored || claims.contains_key(header.id()) {
            return Err(Error::AlreadyExists { id: printable(header.id()) });
        }
        claims.insert(header.id().clone(), Some(header.clone()));
        Ok(self.handle(header, inherited, SessionAccess::Write, 0, false))
    }

    fn open(&self, id: &Text, access: SessionAccess, cancel: &Cancel) -> Result<Arc<dyn SessionHandle>> {
        cancel.check()?;
        let mut claims = self.claims.lock().unwrap();
        let mut state = self.shelf.state.lock().unwrap();
        if access == SessionAccess::Write && (claims.contains_key(id) || state.owned.contains(id)) {
            return Err(Error::AlreadyOwned { id: printable(id), owner: None });
        }
        let Some(log) = state.logs.get(id) else {
            return match claims.get(id).cloned().flatten() {
                Some(header) => Ok(self.handle(header, 0, access, 0, false)),
                None => Err(Error::NotFound { id: printable(id) }),
            };
        };
        let (header, inherited, next_seq) = (log.header.clone(), log.check()?, log.rows.len() as u64);
        let owns = access == SessionAccess::Write;
        if owns {
            state.owned.insert(id.clone());
            claims.insert(id.clone(), None);
        }
        Ok(self.handle(header, inherited, access, next_seq, owns))
    }

    fn stat(&self, id: &Text, cancel: &Cancel) -> Result<Option<Snapshot>> {
        cancel.check()?;
        let stored = self.shelf.state.lock().unwrap().logs.get(id).map(|log| self.snapshot(log));
        Ok(stored.or_else(|| self.pending(id).map(Snapshot::of_header)))
    }

    fn list(&self, cancel: &Cancel) -> Result<Vec<Snapshot>> {
        cancel.check()?;
        // Before the shelf is looked at: what is stored meanwhile is found there.
        let pending: Vec<Header> = self.claims.lock().unwrap().values().flatten().cloned().collect();
        let state = self.shelf.state.lock().unwrap();
        let pending = pending.into_iter().filter(|header| !state.logs.contains_key(header.id()));
        Ok(state
            .logs
            .values()
            .map(|log| self.snapshot(log))
            .chain(pending.map(Snapshot::of_header))
            .collect())
    }

    fn flush(&self) -> Result<()> {
        self.each(|handle| match handle.flush(&Cancel::never()) {
            Err(Error::ReadOnly { .. } | Error::HandleClosed { .. }) => Ok(()),
            flushed => flushed,
        })
    }

    fn close(&self) -> Result<()> {
        self.each(SessionHandle::close)
    }
}

impl Handle {
    fn check(&self, operation: &'static str, cancel: &Cancel) -> Result<()> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::HandleClosed { id: printable(self.header.id()), operation });
        }
        cancel.check()
    }

    /// Adds rows to the stored log, which the first call makes.
    fn store(&self, state: &mut HandleState, rows: &[&[u8]]) -> Result<()> {
        let id = self.header.id();
        let mut claims = self.claims.lock().unwrap();
        let shelf = &mut *self.shelf.state.lock().unwrap();
        if !state.owns {
            if shelf.owned.contains(id) {
                return Err(Error::AlreadyOwned { id: printable(id), owner: None });
            }
            if shelf.logs.contains_key(id) {
                return Err(Error::AlreadyExists { id: printable(id) });
            }
            shelf.owned.insert(id.clone());
            claims.insert(id.clone(), None);
            state.owns = true;
        }
        shelf.changes += 1;
        let new = || Log { header: self.header.clone(), rows: Vec::new(), change: 0 };
        let log = shelf.logs.entry(id.clone()).or_insert_with(new);
        log.rows.extend(rows.iter().map(|row| row.to_vec()));
        log.change = shelf.changes;
        Ok(())
    }

    fn writable(&self, operation: &'static str) -> Result<()> {
        match self.access {
            SessionAccess::Write => Ok(()),
            _ => Err(Error::ReadOnly { id: printable(self.header.id()), operation }),
        }
    }
}

impl SessionHandle for Handle {
    fn header(&self) -> &Header {
        &self.header
    }

    fn inherited_event_count(&self) -> u64 {
        self.inherited
    }

    fn access(&self) -> SessionAccess {
        self.access
    }

    fn next_seq(&self) -> Option<u64> {
        (self.access == SessionAccess::Write).then(|| self.state.lock().unwrap().next_seq)
    }

    fn read(&self, offset: u64, length: u64, cancel: &Cancel) -> Result<Events> {
        self.check("read", cancel)?;
        let _turn = self.state.lock().unwrap();
        self.check("read", cancel)?;
        let Some(log) = self.shelf.state.lock().unwrap().logs.get(self.header.id()).cloned() else {
            return match self.claims.lock().unwrap().contains_key(self.header.id()) {
                true => Ok(Events::default()),
                false => Err(Error::NotFound { id: printable(self.header.id()) }),
            };
        };
        log.check()?;
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        let rows = log.rows.iter().skip(skipped).take(usize::try_from(length).unwrap_or(usize::MAX));
        Ok(Events::of_rows(rows, &Limits::DEFAULT).expect("they were checked at append"))
    }

    fn append(&self, rows: &[&[u8]], cancel: &Cancel) -> Result<()> {
        self.check("append", &Cancel::never())?;
        let mut state = self.state.lock().unwrap();
        self.check("append", cancel)?;
        self.writable("append")?;
        let (id, limits) = (self.header.id(), &Limits::DEFAULT);
        let next_seq = check_batch(rows, state.next_seq, Admission::Readable, limits, id)?;
        if !rows.is_empty() {
            self.store(&mut state, rows)?;
            state.next_seq = next_seq;
        }
        Ok(())
    }

    fn flush(&self, cancel: &Cancel) -> Result<()> {
        self.check("flush", &Cancel::never())?;
        let mut state = self.state.lock().unwrap();
        self.check("flush", cancel)?;
        self.writable("flush")?;
        if state.owns { Ok(()) } else { self.store(&mut state, &[]) }
    }

    fn close(&self) -> Result<()> {
        self.closing.store(true, Ordering::Release);
        let mut state = self.state.lock().unwrap();
        // Twice does nothing: another handle may have the session by then.
        if !std::mem::replace(&mut state.is_closed, true) && self.access == SessionAccess::Write {
            self.claims.lock().unwrap().remove(self.header.id());
            if state.owns {
                self.shelf.state.lock().unwrap().owned.remove(self.header.id());
            }
        }
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _freed = self.close();
    }
}

mod shelf {
    use super::Shelves;

    seslog::contract_tests!(Shelves);
}

#[test]
fn report_of_a_backend_without_hooks() {
    let report = run(&Shelves);
    println!("{report}");
    report.assert_passed();
    assert!(report.counts().passed >= 50, "{report}");
    assert!(report.counts().not_applicable >= 20, "{report}");
}
