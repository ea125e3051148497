//! Do sessions of a host begin, go on and end in memory and in the store alike?

mod common;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use seslog::Error;
use seslog::container::Encoding;
use seslog::container::disk::Disk;
use seslog::container::disk::fault::{Failure, FaultDisk, OpKind};
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::Header;
use seslog::session::{CreateFault, ForkFault, Intent, LiveFault, Session, Settings};
use seslog::store::{
    Cancel, FileStore, Host, HostFault, LogFile, OpenSession, ReadMode, ScanOptions, SessionAccess, Verdict,
    WriteBehind, no_setup, scan,
};
use seslog::units::UnixMs;

use common::sessions::{header, options, read_all};

const ROOT: &str = "/store";

fn settings() -> Settings {
    let clock = AtomicI64::new(1_700_000_000_000);
    Settings::new(move || UnixMs::new(clock.fetch_add(1, Ordering::Relaxed)))
}

fn store(disk: &FaultDisk) -> FileStore {
    FileStore::on_disk(Arc::new(disk.clone()), ROOT, options(Encoding::Indexed))
}

fn host(disk: &FaultDisk) -> Host {
    Host::new(Arc::new(store(disk)), settings())
}

fn never() -> Cancel {
    Cancel::never()
}

fn id() -> Text {
    Text::from("s")
}

fn turn_start(session: &Session, turn: u32) {
    session.append("turn/start", &format!("{{\"turn\":{turn}}}"), Intent::log_only()).unwrap();
}

fn turn_end(session: &Session, turn: u32) {
    let data = format!("{{\"turn\":{turn},\"reason\":{{\"kind\":\"completed\"}}}}");
    session.append("turn/end", &data, Intent::log_only()).unwrap();
}

/// Types of the stored events.
fn stored(disk: &FaultDisk, id: &str) -> Vec<String> {
    let reader = store(disk).open(&Text::from(id), SessionAccess::Read).unwrap();
    let events = reader.read(0, u64::MAX).unwrap();
    events.iter().map(|event| event.event_type().to_string_lossy().into_owned()).collect()
}

fn is_free(disk: &FaultDisk) -> bool {
    store(disk).open(&id(), SessionAccess::Write).is_ok()
}

fn is_sound(disk: &FaultDisk, id: &str) -> bool {
    let folder = store(disk).folder_of(&Text::from(id)).unwrap();
    let path = folder.path.join("session.v2.jsonl.zst");
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let log = LogFile::open(&disk, &path, Limits::DEFAULT, ReadMode::Read).unwrap();
    let report = scan(&log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(()))).unwrap();
    report.verdict == Verdict::Sound
}

/// A log whose last turn is open, as a host leaves it that was killed.
fn interrupted(disk: &FaultDisk) {
    let open = host(disk).create(header("s"), &mut no_setup, &never()).unwrap();
    turn_start(open.session(), 1);
    turn_end(open.session(), 1);
    turn_start(open.session(), 2);
    open.flush(&never()).unwrap();
    drop(open);
}

fn is_store_error(outcome: Result<OpenSession, HostFault>) -> Error {
    match outcome {
        Err(HostFault::Store(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn r137_a_session_is_published_when_all_that_it_starts_with_is_stored() {
    let disk = FaultDisk::new();
    let (host, seen) = (host(&disk), Arc::new(Mutex::new(Vec::new())));
    let (inner, found) = (disk.clone(), Arc::clone(&seen));
    let _listening = host.sessions().on_created(move |session| {
        found.lock().unwrap().push((session.id().clone(), stored(&inner, "s")));
        Ok(())
    });
    let mut setup = |session: &Session| {
        session.append("plan/mode", "{\"active\":true}", Intent::log_only())?;
        Ok(())
    };
    let open = host.create(header("s"), &mut setup, &never()).unwrap();
    assert_eq!(*seen.lock().unwrap(), [(id(), vec!["plan/mode".to_owned()])]);
    assert!(host.sessions().get(&id()).is_some());
    open.close().unwrap();
    assert!(host.sessions().get(&id()).is_none() && is_free(&disk));
}

#[test]
fn r137_a_setup_that_fails_leaves_nothing() {
    let disk = FaultDisk::new();
    let host = host(&disk);
    let mut setup = |session: &Session| {
        session.append("plan/mode", "{}", Intent::log_only())?;
        Err("no such preset".into())
    };
    let failed = host.create(header("s"), &mut setup, &never());
    assert!(matches!(failed, Err(HostFault::Setup(_))), "{failed:?}");
    assert!(store(&disk).stat(&id()).unwrap().is_none() && host.sessions().get(&id()).is_none());
    host.create(header("s"), &mut no_setup, &never()).unwrap().close().unwrap();
}

#[test]
fn r136_a_resume_closes_the_open_turn_once() {
    let disk = FaultDisk::new();
    interrupted(&disk);
    let before = ["turn/start", "turn/end", "turn/start"].map(str::to_owned);
    let host = host(&disk);
    let open = host.resume(&id(), &mut no_setup, &never()).unwrap();
    let closed = [&before[..], &["turn/end", "session/end-seed"].map(str::to_owned)].concat();
    assert_eq!(stored(&disk, "s"), closed, "before anybody appends");
    assert_eq!(open.session().next_seq(), 5);
    open.close().unwrap();
    // Without a setup, nothing more.
    host.resume(&id(), &mut no_setup, &never()).unwrap().close().unwrap();
    assert_eq!(stored(&disk, "s"), closed);

    let open = host.resume(&id(), &mut no_setup, &never()).unwrap();
    turn_start(open.session(), 3);
    assert_eq!(open.store(&never()).unwrap(), 1);
    assert_eq!(open.store(&never()).unwrap(), 0);
    turn_end(open.session(), 3);
    open.close().unwrap();
    assert_eq!(stored(&disk, "s").len(), 7, "what was not stored yet is stored by the close");
    assert!(is_sound(&disk, "s"));
}

#[test]
fn a_host_without_a_store_says_so_and_keeps_sessions_in_memory() {
    let host = Host::in_memory(settings());
    let refused = host.resume(&id(), &mut no_setup, &never());
    assert!(matches!(refused, Err(HostFault::NoPersistence)), "{refused:?}");
    let refused = host.resume_or_create(header("s"), &mut no_setup, &never());
    assert!(matches!(refused, Err(HostFault::NoPersistence)), "{refused:?}");
    let open = host.create(header("s"), &mut no_setup, &never()).unwrap();
    turn_start(open.session(), 1);
    open.flush(&never()).unwrap();
    assert!(open.handle().is_none());
    open.close().unwrap();
}

#[test]
fn only_a_session_that_is_not_there_is_created_instead_of_resumed() {
    let disk = FaultDisk::new();
    let host = host(&disk);
    let open = host.resume_or_create(header("s"), &mut no_setup, &never()).unwrap();
    turn_start(open.session(), 1);
    let owned = is_store_error(host.resume_or_create(header("s"), &mut no_setup, &never()));
    assert!(matches!(owned, Error::AlreadyOwned { .. }), "{owned}");
    open.close().unwrap();
    host.resume_or_create(header("s"), &mut no_setup, &never()).unwrap().close().unwrap();
    assert_eq!(stored(&disk, "s").len(), 3);

    let path = store(&disk).stat(&id()).unwrap().unwrap().path;
    let mut bytes = disk.content(&path).unwrap();
    bytes[20] ^= 1;
    disk.plant(&path, &bytes);
    let corrupt = is_store_error(host.resume_or_create(header("s"), &mut no_setup, &never()));
    assert!(matches!(corrupt, Error::Corruption { .. }), "{corrupt}");
}

#[test]
fn a_resume_that_fails_frees_the_session() {
    let disk = FaultDisk::new();
    interrupted(&disk);
    let host = host(&disk);
    // The closers cannot be written.
    disk.fail_next(OpKind::Append, Failure::Error(28));
    let full = is_store_error(host.resume(&id(), &mut no_setup, &never()));
    assert!(matches!(full, Error::Io { .. }), "{full}");
    assert!(is_free(&disk));
    let mut setup = |_: &Session| Err("no".into());
    let failed = host.resume(&id(), &mut setup, &never());
    assert!(matches!(failed, Err(HostFault::Setup(_))), "{failed:?}");
    assert!(is_free(&disk));
    let _refusing = host.sessions().on_created(|_| Err("full up".into()));
    let refused = host.resume(&id(), &mut no_setup, &never());
    assert!(matches!(refused, Err(HostFault::Live(LiveFault::Refused(_)))), "{refused:?}");
    assert!(is_free(&disk) && host.sessions().get(&id()).is_none());
    let cancel = Cancel::new();
    cancel.cancel(Arc::new(std::io::Error::other("away")) as seslog::store::CancelReason);
    let cancelled = is_store_error(host.resume(&id(), &mut no_setup, &cancel));
    assert!(matches!(cancelled, Error::Cancelled { .. }), "{cancelled}");
    assert!(is_free(&disk));
}

#[test]
fn a_log_that_no_session_holds_is_not_resumed_and_not_changed() {
    let disk = FaultDisk::new();
    let handle = store(&disk).create(header("s"), None).unwrap();
    // Rows that a store takes, and no session: a message that is none.
    let (open, none) = (
        br#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#,
        br#"{"type":"user/message","seq":1,"time":1,"data":{},"surfaceOp":"append"}"#,
    );
    handle.append(&[open, none]).unwrap();
    handle.close().unwrap();
    let refused = host(&disk).resume(&id(), &mut no_setup, &never());
    assert!(matches!(refused, Err(HostFault::Create(CreateFault::Event { index: 1, .. }))), "{refused:?}");
    assert!(is_free(&disk));
    assert_eq!(stored(&disk, "s"), ["turn/start", "user/message"]);
}

#[test]
fn a_fork_stores_its_prefix_its_mark_and_its_setup() {
    let disk = FaultDisk::new();
    interrupted(&disk);
    let host = host(&disk);
    let parent = host.resume(&id(), &mut no_setup, &never()).unwrap();
    turn_start(parent.session(), 3);
    let open = host.fork(parent.session(), None, Text::from("c"), &mut no_setup, &never());
    assert!(matches!(open, Err(HostFault::Fork(ForkFault::OpenTurn { start: 5 }))), "{open:?}");
    let mut setup = |session: &Session| {
        session.append("plan/mode", "{}", Intent::log_only())?;
        Ok(())
    };
    let child = host.fork(parent.session(), Some(1), Text::from("c"), &mut setup, &never()).unwrap();
    assert_eq!(stored(&disk, "c"), ["turn/start", "turn/end", "session/end-seed", "plan/mode"]);
    let inherited = |header: &Header, cut| (header.parent_session().cloned(), cut);
    let handle = child.handle().unwrap();
    assert_eq!(inherited(handle.header(), handle.inherited_event_count()), (Some(id()), 2));
    child.close().unwrap();
    parent.close().unwrap();
    assert!(is_sound(&disk, "s") && is_sound(&disk, "c"));
    let child = host.resume(&Text::from("c"), &mut no_setup, &never()).unwrap();
    assert_eq!(child.session().inherited_event_count(), 2);
    let reader = store(&disk).open(&Text::from("c"), SessionAccess::Read).unwrap();
    assert_eq!(read_all(&reader).unwrap().len(), 5);
}

#[test]
fn a_store_that_writes_behind_gets_each_event_once() {
    let disk = FaultDisk::new();
    let behind = WriteBehind::new(Arc::new(store(&disk)));
    let host = Host::new(Arc::new(behind.clone()), settings());
    let _following = behind.follow(host.sessions());
    let open = host.create(header("s"), &mut no_setup, &never()).unwrap();
    turn_start(open.session(), 1);
    turn_end(open.session(), 1);
    open.flush(&never()).unwrap();
    assert_eq!(stored(&disk, "s"), ["turn/start", "turn/end"]);
    turn_start(open.session(), 2);
    // The routed event is the handle's already.
    assert_eq!(open.store(&never()).unwrap(), 0);
    open.close().unwrap();
    let open = host.resume(&id(), &mut no_setup, &never()).unwrap();
    turn_start(open.session(), 3);
    drop(open);
    let all = ["turn/start", "turn/end", "turn/start", "turn/end", "session/end-seed", "turn/start"];
    assert_eq!(stored(&disk, "s"), all, "a handle that writes behind drains when it is dropped");
    assert!(is_sound(&disk, "s"));
}
