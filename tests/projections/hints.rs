//! What a list of sessions shows of those that nobody reads, by the states that are kept of them.

use std::sync::Arc;

use serde_json::Value;
use seslog::container::Encoding;
use seslog::json::Text;
use seslog::session::{Projections, Sessions, Settings};
use seslog::store::query::{Activity, ActivitySource, NoHint, Query, QueryOptions, Summary};
use seslog::store::{Cancel, remove};
use seslog::units::UnixMs;

use crate::common::sessions::{append, header};
use crate::machine::Machine;
use crate::rows::{Dice, rows};

fn message(seq: u64, kind: &str, surface: &str) -> String {
    format!(
        r#"{{"type":"user/message","seq":{seq},"time":{seq},"data":{{"id":"m{seq}","role":"user","content":[],"source":{{"kind":"{kind}"}}}},"surfaceOp":{surface}}}"#
    )
}

fn mode(seq: u64) -> String {
    format!(r#"{{"type":"plan/mode","seq":{seq},"time":{seq},"data":{{"active":true}}}}"#)
}

/// The session as a list shows it that reads no log, with the store's states or without.
fn shown(machine: &Machine, is_hinted: bool) -> (Activity, ActivitySource) {
    let store = machine.store();
    let mut options = QueryOptions::default();
    (options.blank_events_max, options.blank_bytes_max) = (0, 0);
    let query =
        Query::new(Arc::new(store.clone()), &Sessions::new(Settings::new(|| UnixMs::new(0))), options);
    let never = Cancel::never();
    let summaries =
        if is_hinted { query.summaries(&store, &never) } else { query.summaries(&NoHint, &never) };
    let [Summary { activity, source, .. }] = <[Summary; 1]>::try_from(summaries.unwrap()).unwrap();
    (activity, source)
}

fn fold(machine: &Machine) {
    machine.store().project(&Text::from("s"), &Projections::built_in()).unwrap();
}

fn activity(is_blank: bool, last_prompt: Option<i64>) -> Activity {
    let mut activity = Activity::default();
    (activity.is_blank, activity.last_prompt) = (is_blank, last_prompt.map(UnixMs::new));
    activity
}

const UNKNOWN: (bool, Option<i64>) = (false, None);

#[test]
fn a_session_that_was_folded_is_known_to_be_blank_and_nothing_is_opened_for_it() {
    let replace = r#"{"op":"replace","start":1,"end":1}"#;
    for encoding in [Encoding::Indexed, Encoding::Zstd, Encoding::Plain] {
        let machine = Machine::new(encoding);
        let asked = [mode(0), message(1, "user", r#""append""#), message(2, "plugin", r#""append""#)];
        machine.create("s", &[asked.as_slice(), &[message(3, "user", replace)]].concat());
        machine.wait(10);
        let (unknown, known) = (activity(UNKNOWN.0, UNKNOWN.1), activity(true, Some(1)));
        assert_eq!(shown(&machine, true), (unknown, ActivitySource::Unread), "nobody has folded it");
        fold(&machine);
        // The list itself looks at both ends of a log; a hint adds nothing to that.
        machine.disk.forget_trace();
        assert_eq!(shown(&machine, false), (unknown, ActivitySource::Unread));
        let without = machine.logs_opened();
        machine.disk.forget_trace();
        assert_eq!(shown(&machine, true), (known, ActivitySource::Hint));
        assert_eq!(machine.logs_opened(), without);
        // What was added is read with it, from where the states stand.
        machine.append("s", &[r#"{"type":"turn/start","seq":4,"time":9,"data":{"turn":1}}"#.to_owned()]);
        assert_eq!(shown(&machine, true), (activity(false, Some(1)), ActivitySource::Hint));
    }
}

#[test]
fn r138_a_session_of_another_life_has_no_hint_of_the_one_before() {
    let machine = Machine::new(Encoding::Indexed);
    machine.create("s", &[mode(0), message(1, "user", r#""append""#)]);
    machine.wait(10);
    fold(&machine);
    let kept = machine.kept();
    let before: Vec<_> = kept.iter().map(|path| machine.disk.content(path).unwrap()).collect();
    assert_eq!(shown(&machine, true), (activity(true, Some(1)), ActivitySource::Hint));
    let folder = machine.log("s").parent().unwrap().to_owned();
    assert!(remove(&machine.disk, &folder, false).unwrap().bytes > 0);
    let handle = machine.bare().create(header("s"), None).unwrap();
    append(&handle, &[mode(0), mode(1)]).unwrap();
    handle.close().unwrap();
    machine.wait(10);
    // Even where the file of the first life stands again.
    for (path, bytes) in kept.iter().zip(&before) {
        machine.disk.plant(path, bytes);
    }
    assert_eq!(shown(&machine, true), (activity(UNKNOWN.0, UNKNOWN.1), ActivitySource::Unread));
    fold(&machine);
    assert_eq!(shown(&machine, true), (activity(true, None), ActivitySource::Hint));
}

#[test]
fn a_hint_is_what_the_rows_say() {
    let mut dice = Dice::new(41);
    for _ in 0..40 {
        let machine = Machine::new(Encoding::Indexed);
        let count = 1 + dice.below(12);
        // serde_json holds no half of a pair.
        let rows: Vec<String> = rows(&mut dice, 0, count as u64)
            .into_iter()
            .map(|row| row.replace("\\ud83d alone", "half alone"))
            .collect();
        machine.create("s", &rows);
        machine.wait(10);
        fold(&machine);
        let values: Vec<Value> = rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
        let is_blank = values.iter().all(|row| row["type"] != "turn/start");
        let prompt = values.iter().rev().find(|row| {
            row["type"] == "user/message"
                && row["surfaceOp"] == "append"
                && row["data"]["source"]["kind"] == "user"
        });
        let exact = activity(is_blank, prompt.map(|row| row["time"].as_i64().unwrap()));
        assert_eq!(shown(&machine, true), (exact, ActivitySource::Hint), "{rows:#?}");
    }
}
