//! C8 and C11, where a session is made of what is stored, and stored as it is made.

use std::sync::Arc;
use std::time::Duration;

use crate::contract::backend::{Backend, Crash, NotOffered, Step};
use crate::contract::stage::{
    Handle, Instance, Outcome, Stage, append, entries, header, is_owned, list, never, open, read_all, row_of,
    rows_by, stat,
};
use crate::error::{Error, Result};
use crate::export::write_text;
use crate::json::Text;
use crate::limits::Limits;
use crate::row::{Check, Header, Seeding};
use crate::session::{CreateFault, EventFault, Intent, Log, OpenTurn, Session, Sessions, Settings};
use crate::store::SessionAccess::{Read, Write};
use crate::store::query::{ActivitySource, Corrupt, NoHint, Query, QueryFault, QueryOptions};
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

fn query(store: &Instance) -> Query {
    Query::new(Arc::clone(store), &Sessions::new(settings()), QueryOptions::default())
}

pub(crate) fn r107_a_query_calls_a_malformed_message_corrupt(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let data = "{\"id\":\"\",\"role\":\"user\",\"source\":{\"kind\":\"user\"},\"content\":[]}";
    let message = row_of("user/message", 0, &format!("{data},\"surfaceOp\":\"append\""));
    stage.plant("s", &[message])?;
    let refused = query(&stage.instance()).read(&Text::from("s"), &never());
    let is_named = |source: &Corrupt| match source {
        Corrupt::Events(CreateFault::Event { index: 0, fault: EventFault::Message(_) }) => true,
        Corrupt::Log(error) => matches!(error, Error::Corruption { .. }),
        Corrupt::Events(_) => false,
    };
    assert!(
        matches!(&refused, Err(QueryFault::CorruptSession { source, .. }) if is_named(source)),
        "{refused:?}"
    );
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

pub(crate) fn r135_a_cold_query_closes_an_interrupted_log_in_memory_only(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    stage.store("s", &[interrupted()]);
    let before = stage.stored("s");
    let found = query(&stage.instance()).read(&Text::from("s"), &never()).unwrap();
    assert_eq!(rows_of(&found.stored()), interrupted());
    let closers: Vec<String> = OpenTurn::of(&log_of(&interrupted()))
        .closers()
        .into_iter()
        .map(|row| String::from_utf8(row).expect("closers are text"))
        .collect();
    assert_eq!((closers.len(), rows_of(&found.closers())), (2, closers));
    assert_eq!(stage.stored("s"), before);
    // The writer that closes it appends the very same.
    resume(&stage.instance(), "s").unwrap().0.close().unwrap();
    assert_eq!(stage.read()[..5], rows_of(found.log()));
    Ok(())
}

pub(crate) fn r135_an_unchanged_revision_is_not_read_again_and_a_changed_one_is(
    backend: &dyn Backend,
) -> Outcome {
    let stage = Stage::new(backend);
    stage.store("s", &[interrupted()]);
    let store = stage.instance();
    let (query, id) = (query(&store), Text::from("s"));
    let read = || rows_of(&query.read(&id, &never()).unwrap().stored());
    // Whatever is kept, what was appended is there.
    assert_eq!(read(), interrupted());
    let handle = stage.writer("s");
    append(&handle, &rows_by("a", 3..4)).unwrap();
    assert_eq!(read(), [interrupted(), rows_by("a", 3..4)].concat());
    handle.close().unwrap();

    settled(&stage, "s")?;
    assert_eq!(read().len(), 4);
    // A look, and nothing else.
    let reads = |work: &dyn Fn()| {
        let before = stage.storage().reads()?;
        work();
        Ok(stage.storage().reads()?.saturating_sub(before))
    };
    let of_a_look = reads(&|| assert!(stat(&store, "s").is_some()))?;
    assert_eq!(reads(&|| assert_eq!(read().len(), 4))?, of_a_look);
    let handle = stage.writer("s");
    append(&handle, &rows_by("a", 4..5)).unwrap();
    assert!(reads(&|| assert_eq!(read().len(), 5))? > of_a_look);
    Ok(())
}

/// Waits until any change of a session would show in its revision.
fn settled(stage: &Stage<'_>, id: &str) -> Outcome {
    // The clocks of file systems tick within two seconds. A disk that a test plays has one that goes on with each look.
    let store = stage.instance();
    for _ in 0..2000 {
        if stat(&store, id).is_some_and(|snapshot| snapshot.is_quiet()) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(NotOffered::because("no revision tells every change"))
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

pub(crate) fn r140_the_blank_probe_never_hides_a_session_with_a_turn(backend: &dyn Backend) -> Outcome {
    let stage = Stage::new(backend);
    let start = row_of("turn/start", 0, "{\"turn\":1}");
    let end = row_of("turn/end", 1, "{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}");
    stage.store("open", &[vec![start.clone()]]);
    stage.store("closed", &[vec![start, end]]);
    stage.store("long", &[rows_by("a", 0..40)]);
    stage.store("blank", &[rows_by("a", 0..2)]);
    let pending = stage.instance();
    let _handle = pending.create(header("pending"), None, &never()).unwrap();
    for store in [&pending, &stage.instance()] {
        for summary in query(store).summaries(&NoHint, &never()).unwrap() {
            let id = summary.session.id().map(Text::to_string_lossy).unwrap_or_default();
            let may_be_hidden = matches!(&*id, "blank" | "pending");
            assert!(may_be_hidden || !summary.activity.is_blank, "{id}: {summary:?}");
            assert!(summary.source != ActivitySource::Failed, "{id}: {summary:?}");
        }
    }
    Ok(())
}
