//! What a list shows of sessions that nobody has read.

use std::sync::Mutex;

use seslog::json::Text;
use seslog::row::{Header, Seeding};
use seslog::session::Intent;
use seslog::store::query::{Activity, ActivitySource, NoHint, QueryOptions, Summary};
use seslog::store::{Cancel, Host, Snapshot, no_setup};
use seslog::units::{Generation, UnixMs};

use crate::common::sessions::{CREATED_AT, header};
use crate::stage::{
    Call, Stage, code, come_alive, enough, everywhere, id, in_both, io_error, message, mode, never, settings,
    turn_end, turn_start,
};

fn gates(events: u64, bytes: u64) -> QueryOptions {
    let mut options = QueryOptions::default();
    (options.blank_events_max, options.blank_bytes_max) = (events, bytes);
    options
}

fn activity(is_blank: bool, last_prompt: Option<i64>) -> Activity {
    let mut activity = Activity::default();
    (activity.is_blank, activity.last_prompt) = (is_blank, last_prompt.map(UnixMs::new));
    activity
}

fn only(summaries: Vec<Summary>) -> Summary {
    let [summary] = <[Summary; 1]>::try_from(summaries).unwrap();
    summary
}

/// The row of a session, altered as a store may show it, and what becomes of it.
fn probed(
    stage: &Stage,
    options: QueryOptions,
    alter: impl Fn(&mut Snapshot),
    hint: Option<Activity>,
) -> Summary {
    let query = stage.query_with(options);
    let mut listed = query.list(&never()).unwrap().pop().unwrap();
    alter(listed.stored.as_mut().unwrap());
    query.summarise(listed, &|_: &Snapshot, _| hint, &never()).unwrap()
}

#[test]
fn the_steps_of_the_probe() {
    use ActivitySource::{Hint, Read, Unread};
    let (blank, used) = (activity(true, Some(7)), activity(false, Some(8)));
    let exact = activity(true, Some(CREATED_AT + 1));
    let counted = |events: Option<u64>, bytes: Option<u64>| {
        move |stored: &mut Snapshot| (stored.event_count, stored.size_bytes) = (events, bytes)
    };
    let standard = QueryOptions::default();
    assert_eq!((standard.blank_events_max, standard.blank_bytes_max), (16, 1024));
    // What the store says, the gates, the hint, and what is shown.
    let table = [
        // 1: a hint that it is not blank is final.
        (counted(Some(2), Some(100)), standard, Some(used), (used, Hint)),
        // 2: nothing is read.
        (counted(Some(2), Some(100)), gates(0, 0), None, (activity(false, None), Unread)),
        (counted(Some(2), Some(100)), gates(0, 0), Some(blank), (blank, Hint)),
        // 4: the count decides, up to and with the bound.
        (counted(Some(16), Some(1 << 30)), standard, Some(blank), (exact, Read)),
        (counted(Some(17), Some(1)), standard, Some(blank), (blank, Hint)),
        (counted(Some(17), Some(1)), standard, None, (activity(false, None), Unread)),
        (counted(Some(0), Some(1)), standard, None, (exact, Read)),
        // It never falls back to bytes.
        (counted(Some(2), Some(1)), gates(0, 1024), None, (activity(false, None), Unread)),
        // Without a count, the size does.
        (counted(None, Some(1024)), standard, None, (exact, Read)),
        (counted(None, Some(1025)), standard, None, (activity(false, None), Unread)),
        (counted(None, Some(1)), gates(16, 0), None, (activity(false, None), Unread)),
        // Neither: not eligible.
        (counted(None, None), standard, None, (activity(false, None), Unread)),
        (counted(None, None), standard, Some(blank), (blank, Hint)),
        // 5: exact, whatever a hint said that it is blank.
        (counted(Some(2), Some(100)), standard, Some(blank), (exact, Read)),
    ];
    in_both(|stage| {
        stage.store_quiet("s", &[mode(0), message(1, "user")]);
        for (number, (alter, options, hint, wanted)) in table.iter().enumerate() {
            let before = (stage.calls.of(Call::Stat), stage.calls.of(Call::Open));
            let summary = probed(stage, *options, alter, *hint);
            assert_eq!((summary.activity, summary.source), *wanted, "{}, row {number}", stage.name);
            let is_read = summary.source == Read;
            assert_eq!(stage.calls.of(Call::Open) - before.1, u64::from(is_read), "row {number}");
            if !is_read {
                assert_eq!(stage.calls.of(Call::Stat), before.0, "row {number}");
            }
        }
    });
}

#[test]
fn whatever_fails_shows_the_session() {
    in_both(|stage| {
        stage.store_quiet("s", &[mode(0)]);
        let shown = |source| (activity(false, None), source);
        for call in [Call::Stat, Call::Open, Call::Read, Call::Close] {
            stage.calls.on(call, || Err(io_error()));
            let blank = Some(activity(true, None));
            let summary = probed(stage, QueryOptions::default(), |_| {}, blank);
            // 5: not even by a hint that it is blank.
            assert_eq!((summary.activity, summary.source), shown(ActivitySource::Failed), "{call:?}");
        }
        // 3: what the listing could not look at is not read.
        stage.storage.plant(&id("s"), b"no header", &[]).unwrap();
        let summary = only(stage.query().summaries(&NoHint, &never()).unwrap());
        assert_eq!((summary.activity, summary.source), shown(ActivitySource::Unread));
        assert_eq!(summary.sort_time(), None);
    });
}

#[test]
fn a_session_with_a_turn_is_never_blank_and_one_without_is() {
    everywhere(|stage| {
        stage.store(header("none"), &[mode(0)]);
        stage.store(header("open"), &[mode(0), turn_start(1)]);
        stage.store(header("closed"), &[turn_start(0), turn_end(1)]);
        let long: Vec<_> = (0..17).map(mode).collect();
        stage.store(header("long"), &long);
        ["none", "open", "closed"].iter().for_each(|name| stage.settle(name));
        let query = stage.query();
        let summaries = query.summaries(&NoHint, &never()).unwrap();
        let blank: Vec<_> = summaries
            .iter()
            .filter(|summary| summary.activity.is_blank)
            .map(|summary| summary.session.id().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(blank, ["none"], "{}", stage.name);
        // Nothing of that is kept: a list does not drive out what somebody reads.
        assert_eq!(query.usage(), Default::default());
    });
}

#[test]
fn the_last_message_of_a_person_sorts_and_no_other() {
    in_both(|stage| {
        let at = |name: &str, created_at| {
            Header::new(Generation::CURRENT, id(name), UnixMs::new(created_at)).unwrap()
        };
        stage.store(at("asked", CREATED_AT), &[message(0, "user"), message(1, "user"), message(2, "plugin")]);
        stage.store(at("told", CREATED_AT), &[message(0, "plugin"), mode(1)]);
        // It inherited what was asked before it was made.
        stage.store(at("later", CREATED_AT + 50), &[message(0, "user")]);
        let live = come_alive(&stage.sessions, at("live", CREATED_AT - 50));
        let data = "{\"id\":\"m\",\"role\":\"user\",\"content\":[],\"source\":{\"kind\":\"user\"}}";
        live.append("user/message", data, Intent::append()).unwrap();
        let summaries = stage.query().summaries(&NoHint, &never()).unwrap();
        let shown: Vec<_> = summaries
            .iter()
            .map(|summary| {
                let name = summary.session.id().unwrap().to_string_lossy().into_owned();
                (name, summary.sort_time().unwrap().get() - CREATED_AT)
            })
            .collect();
        let row = |name: &str, time| (name.to_owned(), time);
        // The live one was asked now, by the clock of its settings.
        assert_eq!(shown, [row("later", 50), row("live", 9), row("asked", 1), row("told", 0)]);
        assert_eq!(summaries[1].source, ActivitySource::Live);
        assert!(summaries[1].activity.is_blank);
    });
}

#[test]
fn a_fork_is_never_looked_up_as_if_it_had_inherited_nothing() {
    in_both(|stage| {
        let seen = Mutex::new(Vec::new());
        let hint = |stored: &Snapshot, inherited: Option<u64>| {
            let id = stored.header.as_ref().unwrap().id().to_string_lossy().into_owned();
            seen.lock().unwrap().push((id, inherited));
            None
        };
        stage.store(header("plain"), &[turn_start(0), turn_end(1)]);
        let host = Host::new(stage.storage.instance(), settings());
        let parent = host.resume(&id("plain"), &mut no_setup, &never()).unwrap();
        host.fork(parent.session(), Some(1), id("fork"), &mut no_setup, &never()).unwrap().close().unwrap();
        parent.close().unwrap();
        let line = {
            let header = Header::new(Generation::V1, Text::from("old"), UnixMs::new(5)).unwrap();
            let header = header.with_seeding(Generation::V1, Seeding::Counted(0)).unwrap();
            let mut line = Vec::new();
            header.write(&mut line);
            line
        };
        if stage.name == "memory" {
            stage.storage.plant(&id("old"), &line, &[]).unwrap();
        }
        stage.query().summaries(&hint, &never()).unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort();
        seen.retain(|(id, _)| id != "old" || stage.name == "memory");
        let mut wanted = vec![("fork".to_owned(), None), ("plain".to_owned(), Some(0))];
        if stage.name == "memory" {
            wanted.insert(1, ("old".to_owned(), None));
        }
        assert_eq!(seen, wanted);
    });
}

#[test]
fn a_session_that_comes_to_life_meanwhile_is_summarised_live_and_asked_of_no_hint() {
    for call in [Call::List, Call::Stat, Call::Open, Call::Read, Call::Close] {
        in_both(|stage| {
            stage.store_quiet("s", &[turn_start(0)]);
            let sessions = stage.sessions.clone();
            stage.calls.on(call, move || {
                come_alive(&sessions, header("s"));
                Ok(())
            });
            let asked = Mutex::new(0);
            let hint = |_: &Snapshot, _| {
                *asked.lock().unwrap() += 1;
                None
            };
            let summary = only(stage.query().summaries(&hint, &never()).unwrap());
            assert_eq!((summary.activity, summary.source), (activity(true, None), ActivitySource::Live));
            assert!(summary.session.live.is_some());
            assert_eq!(*asked.lock().unwrap(), i32::from(call != Call::List), "{call:?}");
        });
    }
    // While the hint was asked.
    in_both(|stage| {
        stage.store_quiet("s", &[turn_start(0)]);
        let sessions = stage.sessions.clone();
        let hint = move |_: &Snapshot, _| {
            come_alive(&sessions, header("s"));
            Some(activity(false, None))
        };
        let summary = only(stage.query().summaries(&hint, &never()).unwrap());
        assert_eq!(summary.source, ActivitySource::Live);
    });
}

#[test]
fn a_cancelled_probe_cancels_the_list() {
    in_both(|stage| {
        stage.store_quiet("s", &[mode(0)]);
        let cancel = Cancel::new();
        let inner = cancel.clone();
        stage.calls.on(Call::Read, move || {
            inner.cancel(enough());
            Ok(())
        });
        assert_eq!(code(stage.query().summaries(&NoHint, &cancel)), "SESSION_QUERY_ABORTED");
    });
}
