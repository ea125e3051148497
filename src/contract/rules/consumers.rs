//! C8 and C11, where a session is made of what is stored, and stored as it is made.

use std::sync::Arc;

use crate::contract::backend::{Backend, Crash, Step};
use crate::contract::stage::{
    Handle, Instance, Outcome, Stage, append, entries, header, is_owned, list, never, open, read_all, row_of,
    rows_by, stat,
};
use crate::error::{Error, Result};
use crate::export::write_text;
use crate::limits::Limits;
use crate::row::{Check, Header, Seeding};
use crate::session::{CreateFault, EventFault, Intent, Log, OpenTurn, Session, Sessions, Settings};
use crate::store::SessionAccess::{Read, Write};
use crate::units::{Generation, UnixMs};

fn settings() -> Settings {
    Settings::new(|| UnixMs::new(1_800_000_000_000))
}

fn log_of(rows: &[String]) -> Log {
    Log::of_rows(rows, Check::Full, &Limits::DEFAULT).unwrap()
}

fn rows_of(log: &Log) -> Vec<String> {
    (log.base()..log.end()).filter_map(|seq| log.row(seq)).map(str::to_owned).collect()
}

/// Makes a session of what a handle reads.
fn restored(handle: &Handle, rows: &[String]) -> Result<Arc<Session>, CreateFault> {
    let cut = Some(handle.inherited_event_count());
    Session::restore(handle.header().clone(), &log_of(rows), cut, &settings())
}

/// A session that goes on where it was interrupted: taken first, then read, closed, restored, and stored as it is then.
fn resume(store: &Instance, id: &str) -> Result<(Handle, Arc<Session>)> {
    let handle = open(store, id, Write)?;
    let mut rows = read_all(&handle)?;
    let closers = OpenTurn::of(&log_of(&rows)).closers();
    let closers: Vec<String> =
        closers.into_iter().map(|row| String::from_utf8(row).expect("closers are text")).collect();
    append(&handle, &closers)?;
    rows.extend(closers);
    let session = restored(&handle, &rows).unwrap();
    append(&handle, &rows_of(&session.log().suffix(rows.len() as u64)))?;
    Ok((handle, session))
}

// Messages are judged where a session is restored, unless a store does so before (README, "unknown required event types", and
// design): the log opens as rows, and makes no session.
pub(crate) fn r107_a_malformed_message_makes_no_session(backend: &dyn Backend) -> Outcome {
    let message = |id: &str, role: &str| {
        let data = format!(
            "{{\"id\":\"{id}\",\"role\":\"{role}\",\"source\":{{\"kind\":\"user\"}},\"content\":[]}}"
        );
        row_of("user/message", 1, &format!("{data},\"surfaceOp\":\"append\""))
    };
    let log = |message: String| [rows_by("a", 0..1), vec![message], rows_by("a", 2..3)].concat();
    for (rows, is_sound) in [
        (log(message("m-1", "user")), true),
        (log(message("", "user")), false),
        (log(message("m-1", "assistant")), false),
    ] {
        let stage = Stage::new(backend);
        stage.plant("s", &rows)?;
        let before = stage.stored("s");
        for access in [Read, Write] {
            match stage.open("s", access).and_then(|handle| Ok((read_all(&handle)?, handle))) {
                Ok((read, handle)) => {
                    assert_eq!(read, rows);
                    let session = restored(&handle, &read).map(|_| ());
                    let is_refused = matches!(
                        session,
                        Err(CreateFault::Event { index: 1, fault: EventFault::Message(_) })
                    );
                    assert_eq!((session.is_ok(), is_refused), (is_sound, !is_sound), "{rows:?}: {session:?}");
                }
                Err(error) => {
                    assert!(matches!(error, Error::Corruption { .. }) && !is_sound, "{rows:?}: {error:?}");
                }
            }
        }
        assert_eq!(stage.stored("s"), before);
    }
    Ok(())
}

/// A log that ends in the middle of a step.
fn interrupted() -> Vec<String> {
    let step = "{\"turn\":1,\"step\":1}";
    vec![
        row_of("turn/start", 0, "{\"turn\":1}"),
        row_of("step/start", 1, step),
        row_of("plan/mode", 2, "{\"active\":true}"),
    ]
}

pub(crate) fn r136_a_resumed_session_is_owned_and_closed_once(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store("s", &[interrupted()]);
    let store = stage.instance();
    let (handle, session) = resume(&store, "s").unwrap();
    for rival in [&store, &stage.instance()] {
        let refused = resume(rival, "s").map(|_| ());
        assert!(is_owned(&refused), "{refused:?}");
    }
    // Two closers, and the marker behind what was stored before.
    let stored = stage.read();
    assert_eq!(stored, rows_of(&session.log()));
    assert_eq!(stored[..3], interrupted());
    let closed = log_of(&stored);
    let types: Vec<_> = closed.suffix(3).iter().map(|event| event.event_type().to_text()).collect();
    assert_eq!(types, ["step/end", "turn/end", "session/end-seed"]);
    assert!(!OpenTurn::of(&closed).is_open());

    // A turn goes on in it, and what is appended to the session continues the stored log.
    let next = session.next_seq();
    session.append("plan/mode", "{\"active\":false}", Intent::log_only()).unwrap();
    append(&handle, &rows_of(&session.log().suffix(next))).unwrap();
    handle.close().unwrap();
    assert_eq!(stage.read(), rows_of(&session.log()));
    Ok(())
}

pub(crate) fn r136_a_second_resume_adds_nothing(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store("s", &[interrupted()]);
    resume(&stage.instance(), "s").unwrap().0.close().unwrap();
    let before = stage.stored("s");
    for _ in 0..2 {
        let (handle, session) = resume(&stage.instance(), "s").unwrap();
        assert_eq!(session.next_seq(), 6);
        handle.close().unwrap();
        assert_eq!(stage.stored("s"), before);
    }
    Ok(())
}

pub(crate) fn r136_a_resume_that_was_killed_is_resumed(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store("s", &[interrupted()]);
    // Between the closers and the marker.
    let handle = stage.writer("s");
    let closers = OpenTurn::of(&log_of(&interrupted())).closers();
    handle.append(&closers.iter().map(Vec::as_slice).collect::<Vec<_>>(), &never()).unwrap();
    let after = stage.after(Crash::Killed)?;
    let (_handle, session) = resume(&after.instance(), "s").unwrap();
    assert_eq!(session.next_seq(), 6);
    assert_eq!(after.read(), rows_of(&session.log()));
    Ok(())
}

/// The child of a log of three events, and its header.
fn child() -> (Header, Arc<Session>) {
    let header = header("child").with_seeding(Generation::CURRENT, Seeding::Marked).unwrap();
    let session =
        Session::seeded(header.clone(), &log_of(&rows_by("a", 0..3)), Some(3), &settings()).unwrap();
    session.append("plan/mode", "{\"active\":true}", Intent::log_only()).unwrap();
    (header, session)
}

pub(crate) fn r137_a_session_is_published_when_all_of_its_start_is_stored(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let (store, other) = (stage.instance(), stage.instance());
    let (header, session) = child();
    let handle = store.create(header, Some(3), &never()).unwrap();
    // While setup goes on, nobody else sees anything of it.
    assert!(stat(&other, "child").is_none());
    assert_eq!(entries(&list(&other), "child"), 0);
    append(&handle, &rows_of(&session.log())).unwrap();
    let live = Sessions::new(settings());
    let _stay = live.publish(&session).unwrap();

    let reader = open(&other, "child", Read).unwrap();
    let rows = read_all(&reader).unwrap();
    assert_eq!(rows[..3], rows_by("a", 0..3));
    assert_eq!(rows, rows_of(&session.log()));
    assert_eq!((rows.len(), reader.inherited_event_count()), (5, 3));
    let again = restored(&reader, &rows).unwrap();
    assert_eq!(rows_of(&again.own_events())[..2], rows[3..]);
    Ok(())
}

pub(crate) fn r137_a_start_that_fails_leaves_nothing(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    let gone = || {
        for store in [&store, &stage.instance()] {
            // A place that was made for it may stay, and be shown as empty.
            assert!(stat(store, "child").is_none());
            assert_eq!(entries(&list(store), "child"), 0);
            let absent = open(store, "child", Read);
            assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
        }
    };
    // Setup fails before anything was stored.
    let (header, session) = child();
    store.create(header.clone(), Some(3), &never()).unwrap().close().unwrap();
    gone();
    // Storing it fails.
    if stage.storage().fail_next(Step::Publish).is_ok() {
        let handle = store.create(header.clone(), Some(3), &never()).unwrap();
        append(&handle, &rows_of(&session.log())).unwrap_err();
        handle.close().unwrap();
        gone();
    }
    let handle = store.create(header, Some(3), &never()).unwrap();
    append(&handle, &rows_of(&session.log())).unwrap();
    handle.close().unwrap();
    assert_eq!(entries(&list(&store), "child"), 1);
    Ok(())
}

/// So that it is equal for all backends that hold the same log, and matches a full read.
pub(crate) fn r140_an_exported_text_is_the_header_and_what_was_appended(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let store = stage.instance();
    let handle = store.create(header("told"), None, &never()).unwrap();
    let rows = rows_by("a", 0..150);
    append(&handle, &rows[..1]).unwrap();
    append(&handle, &rows[1..]).unwrap();
    handle.flush(&never()).unwrap();
    let mut head = Vec::new();
    header("told").write(&mut head);
    let expected = format!("{}\n{}\n", String::from_utf8(head).unwrap(), rows.join("\n"));
    for store in [&store, &stage.instance()] {
        let reader = open(store, "told", Read).unwrap();
        let mut text = Vec::new();
        assert_eq!(write_text(&*reader, &mut text, &never()).unwrap(), 150);
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!(read_all(&reader).unwrap(), rows);
    }
    Ok(())
}
