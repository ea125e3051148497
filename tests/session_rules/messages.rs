//! Messages.

use seslog::limits::Limits;
use seslog::row::{Check, Event};
use seslog::session::{Intent, Session, derive_messages};

use crate::sessions::generate::{self, Dice, Shape};
use crate::sessions::*;

#[test]
fn r031_a_message_without_content_is_a_node_and_no_message() {
    let session = fresh();
    session.append("user/message", &user("a"), Intent::append()).unwrap();
    session.append("assistant/message", &assistant("empty", &[]), Intent::append()).unwrap();
    session.append("assistant/message", &assistant("full", &[]), Intent::append()).unwrap();
    assert_eq!(session.surface(), [0, 1, 2]);
    let messages = session.messages();
    assert_eq!(
        (messages.len(), messages.seq(0), messages.seq(1), messages.seq(2)),
        (2, Some(0), Some(2), None)
    );
    assert!(messages.get(1).unwrap().starts_with(r#"{"id":"full","role":"assistant""#));
    let none = r#"{"id":"u","role":"user","source":{"kind":"user"},"content":[]}"#;
    session.append("user/message", none, Intent::append()).unwrap();
    assert_eq!(session.messages().get(2), Some(none), "only an assistant's is left out");
}

#[test]
fn r032_what_is_no_message_never_changes_the_messages() {
    for seed in 0..60 {
        let rows = generate::rows(
            seed,
            Shape { events: 60, chunks: false, markers: true, opaque: seed % 4 == 0, broken_one_in: 0 },
        );
        let derived = derive_messages(v2(), &log(&rows)).unwrap();
        let derived: Vec<&str> = derived.iter().collect();
        // The same log with other events between, and every seq moved along.
        let mut dice = Dice::new(seed);
        let mut moved: Vec<u64> = Vec::new();
        let mut out = Vec::new();
        for text in &rows {
            while dice.one_in(3) {
                let extra = dice.pick(&["todo/write", "hook/invoked", "tool/call", "turn/start"]);
                out.push(row(extra, out.len() as u64, r#"{"turn":9}"#, ""));
            }
            let event = Event::read(text.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap();
            moved.push(out.len() as u64);
            let target = |seq: u64| moved[usize::try_from(seq).unwrap()];
            let mut rest = String::new();
            if event.is_ignorable() {
                rest.push_str(",\"ignorable\":true");
            } else if let Some(op) = event.surface_op() {
                let mut seqs = Vec::new();
                if let Some(list) = event.source_event_seqs() {
                    seslog::row::range::decode(list, event.seq(), &mut seqs).unwrap();
                }
                let seqs: Vec<u64> = seqs.into_iter().map(target).collect();
                let op: serde_json::Value = serde_json::from_str(op).unwrap();
                rest = match (op.get("start"), op.get("end"), seqs.is_empty()) {
                    (Some(start), Some(end), _) => {
                        replace(target(start.as_u64().unwrap()), target(end.as_u64().unwrap()), &seqs)
                    }
                    (_, _, true) => APPEND.to_owned(),
                    _ => format!(r#","sourceEventSeqs":{seqs:?}{APPEND}"#),
                };
            }
            out.push(row(&event.event_type().to_string_lossy(), out.len() as u64, event.data(), &rest));
        }
        let again = derive_messages(v2(), &log(&out)).unwrap();
        assert_eq!(again.iter().collect::<Vec<_>>(), derived, "log {seed}");
        assert_eq!(messages(&Session::restore(header(), &log(&out), None, &settings()).unwrap()), derived);
    }
}

#[test]
fn r032_messages_asked_for_at_any_time_are_those_of_the_whole_log() {
    for seed in 0..60 {
        let rows = generate::rows(
            1000 + seed,
            Shape { events: 80, chunks: false, markers: false, opaque: seed % 4 == 0, broken_one_in: 0 },
        );
        let session = fresh();
        let mut dice = Dice::new(seed);
        let mut held = Vec::new();
        for text in &rows {
            append_row(&session, text).unwrap();
            if dice.one_in(3) {
                let now = session.messages();
                let expected = derive_messages(v2(), &session.log()).unwrap();
                assert!(now.iter().eq(expected.iter()), "log {seed}");
                if dice.one_in(2) {
                    held.push((now.iter().map(str::to_owned).collect::<Vec<_>>(), now));
                }
            }
        }
        for (then, messages) in held {
            assert!(messages.iter().eq(then.iter().map(String::as_str)));
        }
    }
}

#[test]
fn r033_what_was_handed_out_does_not_change() {
    let session = three();
    let (log, messages, surface) = (session.log(), session.messages(), session.surface());
    let before = rows(&log);
    session.append("user/message", &user("d"), Intent::append()).unwrap();
    session.append("user/message", &user("all"), Intent::replace(0, 3, &[0, 1, 2, 3])).unwrap();
    assert_eq!((rows(&log), log.len()), (before, 3));
    assert_eq!(messages.iter().collect::<Vec<_>>(), [user("a"), user("b"), user("c")]);
    assert_eq!(surface, [0, 1, 2]);
    assert_eq!(crate::sessions::messages(&session), [user("all")]);
}
