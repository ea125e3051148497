//! Stored sessions: what is read, what it becomes, and how it fails.

use std::sync::Arc;

use seslog::Error;
use seslog::contract::Step;
use seslog::json::Text;
use seslog::row::Header;
use seslog::store::query::{Corrupt, QueryFault};
use seslog::store::{Cancel, Host, no_setup, query::QueryOptions};
use seslog::units::{Generation, UnixMs};

use crate::common::sessions::header;
use crate::stage::{
    ALL, Call, code, come_alive, enough, everywhere, id, in_both, io_error, message, mode, never, rows,
    settings, stored, turn_end, turn_start,
};

fn interrupted() -> Vec<String> {
    let step = "{\"turn\":1,\"step\":1}";
    vec![turn_start(0), crate::common::sessions::row_of("step/start", 1, step), mode(2)]
}

#[test]
fn an_interrupted_session_ends_with_its_closers_and_nothing_is_written() {
    everywhere(|stage| {
        stage.store(header("s"), &interrupted());
        let before = stage.artifact("s");
        let query = stage.query();
        let found = query.read(&id("s"), &never()).unwrap();
        assert_eq!(stored(&found), interrupted(), "{}", stage.name);
        let types: Vec<_> = found.closers().iter().map(|event| event.event_type().to_text()).collect();
        assert_eq!(types, ["step/end", "turn/end"], "{}", stage.name);
        assert_eq!(found.closers().base(), 3);
        assert!(found.live().is_none());
        assert_eq!(stage.artifact("s"), before, "{}", stage.name);
        // A session of the caller's own goes on from there: the mark of its own life is behind the closers.
        let own = found.restore(&settings()).unwrap();
        assert_eq!(own.next_seq(), 6);
        assert!(stage.sessions.get(&id("s")).is_none());
        // A turn that has ended needs none.
        stage.append("s", &crate::common::sessions::row_of("step/end", 3, "{\"turn\":1,\"step\":1}"));
        stage.append("s", &turn_end(4));
        assert!(query.read(&id("s"), &never()).unwrap().closers().is_empty());
    });
}

#[test]
fn an_observation_is_the_session_as_a_reader_and_a_model_see_it() {
    in_both(|stage| {
        let log = [message(0, "user"), mode(1), message(2, "plugin")];
        stage.store(header("s").with_cwd(Text::from("/work")).unwrap(), &log);
        let found = stage.query().read(&id("s"), &never()).unwrap();
        assert_eq!(found.header().cwd(), Some(&Text::from("/work")));
        assert_eq!(rows(&found), log);
        let seqs: Vec<_> = (0..found.messages().len()).map(|at| found.messages().seq(at)).collect();
        assert_eq!(seqs, [Some(0), Some(2)]);
        assert!(found.messages().get(1).unwrap().contains("plugin"));
        assert_eq!((found.inherited_event_count(), found.own_events().len()), (0, 3));
    });
}

#[test]
fn a_fork_shows_what_it_inherited() {
    in_both(|stage| {
        stage.store(header("s"), &[turn_start(0), turn_end(1), mode(2)]);
        let host = Host::new(stage.storage.instance(), settings());
        let parent = host.resume(&id("s"), &mut no_setup, &never()).unwrap();
        let child = host.fork(parent.session(), Some(1), id("child"), &mut no_setup, &never()).unwrap();
        child.close().unwrap();
        parent.close().unwrap();
        let found = stage.query().read(&id("child"), &never()).unwrap();
        assert_eq!((found.inherited_event_count(), found.log().len(), found.own_events().len()), (2, 3, 1));
        assert_eq!(found.header().parent_session(), Some(&id("s")));
    });
}

#[test]
fn a_session_that_is_created_and_not_stored_is_empty() {
    in_both(|stage| {
        let writer = stage.store.create(header("s"), None, &never()).unwrap();
        let found = stage.query().read(&id("s"), &never()).unwrap();
        assert!(found.log().is_empty() && found.live().is_none());
        writer.close().unwrap();
        assert_eq!(code(stage.query().read(&id("s"), &never())), "SESSION_QUERY_SESSION_NOT_FOUND");
    });
}

#[test]
fn a_live_session_is_preferred_whenever_it_comes_to_life() {
    in_both(|stage| {
        stage.store_quiet("s", &interrupted());
        // Before anything: no call at all.
        let stays = come_alive(&stage.sessions, header("before"));
        let found = stage.query().read(&id("before"), &never()).unwrap();
        assert!(Arc::ptr_eq(found.live().unwrap(), &stays));
        assert_eq!((found.log().len(), found.closers().len(), stage.calls.of(Call::Stat)), (1, 0, 0));
    });
    for call in ALL {
        in_both(|stage| {
            stage.store_quiet("s", &interrupted());
            let sessions = stage.sessions.clone();
            stage.calls.on(call, move || {
                come_alive(&sessions, header("s"));
                Ok(())
            });
            let found = stage.query().read(&id("s"), &never()).unwrap();
            assert!(found.live().is_some(), "{}: {call:?}", stage.name);
            assert_eq!(found.log().len(), 1);
        });
        // Also when the store has failed meanwhile.
        in_both(|stage| {
            stage.store_quiet("s", &interrupted());
            let sessions = stage.sessions.clone();
            stage.calls.on(call, move || {
                come_alive(&sessions, header("s"));
                Err(io_error())
            });
            assert!(stage.query().read(&id("s"), &never()).unwrap().live().is_some(), "{call:?}");
        });
    }
}

#[test]
fn an_observation_of_a_live_session_does_not_change_when_that_goes_on() {
    in_both(|stage| {
        let session = stage.live("s");
        let query = stage.query();
        let before = query.read(&id("s"), &never()).unwrap();
        let data = "{\"id\":\"m\",\"role\":\"user\",\"content\":[],\"source\":{\"kind\":\"user\"}}";
        session.append("user/message", data, seslog::session::Intent::append()).unwrap();
        assert_eq!((before.log().len(), before.messages().len()), (1, 0));
        let after = query.read(&id("s"), &never()).unwrap();
        assert_eq!((after.log().len(), after.messages().len()), (2, 1));
    });
}

#[test]
fn every_failure_has_its_code_and_keeps_its_cause() {
    everywhere(|stage| {
        let query = stage.query();
        assert_eq!(code(query.read(&id("nobody"), &never())), "SESSION_QUERY_SESSION_NOT_FOUND");

        // A step that the system refuses, whichever it is.
        stage.store_quiet("s", &interrupted());
        for call in ALL {
            stage.calls.on(call, || Err(io_error()));
            match stage.query().read(&id("s"), &never()) {
                Err(QueryFault::PersistenceFailed { id: Some(shown), source: Error::Io { .. } }) => {
                    assert_eq!(shown, "s");
                }
                other => panic!("{}: {call:?}: {other:?}", stage.name),
            }
        }
        stage.storage.fail_next(Step::Read).unwrap();
        let refused = stage.query().read(&id("s"), &never());
        assert!(matches!(refused, Err(QueryFault::PersistenceFailed { .. })), "{}: {refused:?}", stage.name);

        // Damage, and events that make no session.
        let text = |row: String| row.replace("\"m-1\"", "\"\"");
        let mut line = Vec::new();
        header("bad").write(&mut line);
        let bad = [turn_start(0), text(message(1, "user")), turn_end(2)];
        let bad: Vec<&[u8]> = bad.iter().map(String::as_bytes).collect();
        stage.storage.plant(&id("bad"), &line, &bad).unwrap();
        match query.read(&id("bad"), &never()) {
            Err(QueryFault::CorruptSession { id, source: Corrupt::Events(_) | Corrupt::Log(_) }) => {
                assert_eq!(id, "bad");
            }
            other => panic!("{}: {other:?}", stage.name),
        }
        let gap = [turn_start(0), mode(2), turn_end(3)];
        let gap: Vec<&[u8]> = gap.iter().map(String::as_bytes).collect();
        stage.storage.plant(&id("bad"), &line, &gap).unwrap();
        let refused = query.read(&id("bad"), &never());
        assert!(
            matches!(refused, Err(QueryFault::CorruptSession { source: Corrupt::Log(_), .. })),
            "{}: {refused:?}",
            stage.name
        );

        // Intact, and not for this build.
        let newer = String::from_utf8(line.clone()).unwrap().replace("\"version\":2", "\"version\":9");
        stage.storage.plant(&id("bad"), newer.as_bytes(), &[]).unwrap();
        let refused = query.read(&id("bad"), &never());
        assert!(
            matches!(
                refused,
                Err(QueryFault::PersistenceFailed { source: Error::FormatUnsupported { .. }, .. })
            ),
            "{}: {refused:?}",
            stage.name
        );
    });
}

#[test]
fn a_cancelled_read_gives_the_very_reason_at_whatever_step() {
    in_both(|stage| {
        stage.store_quiet("s", &interrupted());
        let is_reason = |outcome: Result<_, QueryFault>, reason: &seslog::store::CancelReason| match outcome {
            Err(QueryFault::Aborted { reason: found }) => Arc::ptr_eq(&found, reason),
            Ok(()) => panic!("it was read"),
            Err(other) => panic!("{other:?}"),
        };
        let reason = enough();
        let cancelled = Cancel::new();
        cancelled.cancel(Arc::clone(&reason));
        assert!(is_reason(stage.query().read(&id("s"), &cancelled).map(drop), &reason));
        assert!(is_reason(stage.query().list(&cancelled).map(drop), &reason));
        assert_eq!(stage.calls.of(Call::Stat), 0);
        for call in ALL {
            // It fails because of that, or goes on all the same.
            for fails in [false, true] {
                let cancel = Cancel::new();
                let (inner, why) = (cancel.clone(), Arc::clone(&reason));
                stage.calls.on(call, move || {
                    inner.cancel(why);
                    if fails { Err(io_error()) } else { Ok(()) }
                });
                assert!(is_reason(stage.query().read(&id("s"), &cancel).map(drop), &reason), "{call:?}");
            }
        }
        // What was opened was closed.
        assert_eq!(
            stage.calls.of(Call::Open),
            stage.calls.of(Call::Close) + 2,
            "two opens failed or were refused"
        );
    });
}

#[test]
fn an_older_generation_is_shown_converted_and_stays_as_it_is() {
    everywhere(|stage| {
        if stage.name.contains("files") {
            // A file's name states its generation, and the hook plants current ones.
            return;
        }
        let header = Header::new(Generation::V1, id("old"), UnixMs::new(5)).unwrap();
        let mut line = Vec::new();
        header.write(&mut line);
        let log = [turn_start(0), turn_end(1)];
        let log: Vec<&[u8]> = log.iter().map(String::as_bytes).collect();
        stage.storage.plant(&id("old"), &line, &log).unwrap();
        let before = stage.artifact("old");
        let found = stage.query().read(&id("old"), &never()).unwrap();
        assert_eq!((found.header().generation(), found.log().len()), (Generation::CURRENT, 2));
        assert_eq!(stage.artifact("old"), before);
    });
}

#[test]
fn a_host_has_a_query_over_its_sessions_with_and_without_a_store() {
    let alone = Host::in_memory(settings());
    let open = alone.create(header("s"), &mut no_setup, &never()).unwrap();
    let query = alone.query(QueryOptions::default());
    assert!(query.read(&id("s"), &never()).unwrap().live().is_some());
    assert_eq!(query.list(&never()).unwrap().len(), 1);
    open.close().unwrap();
    assert_eq!(code(query.read(&id("s"), &never())), "SESSION_QUERY_SESSION_NOT_FOUND");
    in_both(|stage| {
        let host = Host::new(stage.storage.instance(), settings());
        let query = host.query(QueryOptions::default());
        let open = host.create(header("s"), &mut no_setup, &never()).unwrap();
        assert!(query.read(&id("s"), &never()).unwrap().live().is_some());
        open.flush(&never()).unwrap();
        open.close().unwrap();
        assert!(query.read(&id("s"), &never()).unwrap().live().is_none());
    });
}
