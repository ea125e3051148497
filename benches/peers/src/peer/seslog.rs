//! seslog: a session in its own folder, in its default settings or in others that are named.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use seslog::container::disk::{Disk, OsDisk};
use seslog::container::{Encoding, LEVEL_STORE};
use seslog::json::Text;
use seslog::row::{Check, Event as SeslogEvent, PhysicalRow};
use seslog::store::{
    Catalog, Durability, Events, FileHandle, FileStore, Item, LogFile, LogRow, ScanOptions, SessionAccess,
    State, StoreOptions, Validate, scan,
};

use super::{Each, Listed, Peer, Reader, Row, Sync, Writer};
use crate::Result;
use crate::set::{Event, Session, payload_of, plain};

#[derive(Debug)]
pub struct Seslog {
    options: StoreOptions,
    /// Whether listings keep a catalog, in a folder beside the root.
    has_catalog: bool,
}

impl Seslog {
    /// The settings of a name: the defaults are `seslog`, and others differ from them in one point.
    pub fn by_name(name: &str) -> Option<Self> {
        let mut options = StoreOptions::default();
        match name {
            "seslog" | "seslog-catalog" => {}
            "seslog-store" => options.level = LEVEL_STORE,
            "seslog-tail" => options.validate = Validate::Tail,
            "seslog-zstd" => options.encoding = Encoding::Zstd,
            "seslog-plain" => options.encoding = Encoding::Plain,
            _ => return None,
        }
        Some(Self { options, has_catalog: name == "seslog-catalog" })
    }

    /// The store of a folder in these settings.
    pub fn store(&self, folder: &Path, sync: Sync) -> FileStore {
        let mut options = self.options;
        options.durability = if sync == Sync::Batch { Durability::Sync } else { Durability::OnFlush };
        let store = FileStore::with_options(folder, options);
        if self.has_catalog {
            store.with_catalog(Catalog::in_folder(folder.with_extension("catalog")))
        } else {
            store
        }
    }

    fn read_all(&self, folder: &Path, id: &str) -> Result<Events> {
        Ok(self.open(folder, id)?.read(0, u64::MAX)?)
    }

    fn open(&self, folder: &Path, id: &str) -> Result<Arc<FileHandle>> {
        Ok(self.store(folder, Sync::Batch).open(&Text::from(id), SessionAccess::Read)?)
    }
}

fn row_of<'a>(event: &SeslogEvent<'a>) -> Row<'a> {
    Row {
        seq: event.seq().get(),
        time: event.time().get(),
        kind: event.event_type().raw().as_bytes(),
        payload: payload_of(event.line(), event.data()).as_bytes(),
    }
}

fn viewed<'v>(row: &LogRow<'v>) -> Row<'v> {
    let (line, data) = (row.line(), row.data());
    // As `payload_of`: the payload, and the members behind it up to the row's last brace.
    let start = data.as_ptr() as usize - line.as_ptr() as usize;
    let payload = &line[start..line.len() - 1];
    Row { seq: row.seq().get(), time: row.time().get(), kind: row.event_type(), payload }
}

impl Peer for Seslog {
    fn writer(&self, folder: &Path, sync: Sync) -> Result<Box<dyn Writer>> {
        Ok(Box::new(SeslogWriter { store: self.store(folder, sync), sync, handle: None }))
    }

    fn list(&self, folder: &Path) -> Result<Vec<Listed>> {
        let found = self.store(folder, Sync::Batch).list()?;
        // Sessions share few working directories; a host would borrow them.
        let mut cwds: HashMap<Vec<u8>, String> = HashMap::new();
        let listed = found.into_iter().map(|snapshot| {
            if snapshot.state != State::Ok {
                return Err(format!("{}: {:?}", snapshot.path.display(), snapshot.state).into());
            }
            let header = snapshot.header.as_ref().ok_or("no header")?;
            let cwd = header.cwd().map_or_else(String::new, |cwd| {
                cwds.entry(cwd.as_bytes().to_vec()).or_insert_with(|| plain(cwd)).clone()
            });
            Ok(Listed {
                id: plain(header.id()),
                cwd,
                created_at: header.created_at().get(),
                last_time: snapshot.last_time.map_or(0, |time| time.get()),
                events: snapshot.event_count.ok_or("no count")?,
                stored: snapshot.size_bytes.ok_or("no size")?,
            })
        });
        listed.collect()
    }

    fn scan(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        let store = self.store(folder, Sync::Batch);
        let path = store.stat(&Text::from(id))?.ok_or("no such session")?.path;
        let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
        let log = LogFile::open(&disk, &path, self.options.limits, self.options.read_mode)?;
        let mut options = ScanOptions::STRICT;
        options.check = Check::Envelope;
        let report = scan(&log, options, &mut |item| {
            if let Item::Row { row: PhysicalRow::Event(event), .. } = item {
                each(&row_of(&event));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(report.require(&log)?)
    }

    /// Rows of a plain log are borrowed from its file, those of others from the memory they were decompressed to.
    fn load(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        if self.options.encoding == Encoding::Plain {
            let view = self.open(folder, id)?.view()?;
            view.rows().for_each(|row| each(&viewed(&row)));
            return if view.is_shrunk() { Err("the file became shorter".into()) } else { Ok(()) };
        }
        let events = self.read_all(folder, id)?;
        events.iter().for_each(|event| each(&row_of(&event)));
        Ok(())
    }

    fn reader(&self, folder: &Path, id: &str) -> Result<Box<dyn Reader>> {
        Ok(Box::new(SeslogReader { handle: self.open(folder, id)? }))
    }
}

struct SeslogWriter {
    store: FileStore,
    sync: Sync,
    handle: Option<Arc<FileHandle>>,
}

impl Writer for SeslogWriter {
    fn begin(&mut self, session: &Session<'_>) -> Result<()> {
        let handle = self.store.create(session.header.clone(), None)?;
        if self.sync == Sync::Batch {
            handle.flush()?;
        }
        self.handle = Some(handle);
        Ok(())
    }

    fn append(&mut self, events: &[Event<'_>]) -> Result<()> {
        let rows: Vec<&[u8]> = events.iter().map(|event| event.row.as_bytes()).collect();
        Ok(self.handle.as_ref().ok_or("no session")?.append(&rows)?)
    }

    fn end(&mut self) -> Result<()> {
        Ok(self.handle.take().ok_or("no session")?.close()?)
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.store.flush()?)
    }
}

struct SeslogReader {
    handle: Arc<FileHandle>,
}

impl Reader for SeslogReader {
    fn last(&mut self, count: u64, each: Each<'_>) -> Result<()> {
        self.handle.read_last(count)?.iter().for_each(|event| each(&row_of(&event)));
        Ok(())
    }

    fn range(&mut self, seq: u64, count: u64, each: Each<'_>) -> Result<()> {
        self.handle.read(seq, count)?.iter().for_each(|event| each(&row_of(&event)));
        Ok(())
    }
}
