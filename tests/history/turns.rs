//! The turn index: what it says of each turn, and that it is the same however its events came.

use proptest::prelude::*;
use seslog::json::Text;
use seslog::store::history::{PageLimits, PageRequest, Turn, TurnIndex};
use seslog::store::{Cancel, Events, SessionAccess};

use crate::common::sessions::{CREATED_AT, header, row_of};
use crate::model::{Kind, World, config, file_store, log_path};

fn said(seq: u64, source: &str, text: &str) -> String {
    let data = format!(
        "{{\"id\":\"m{seq}\",\"role\":\"user\",\"source\":{{\"kind\":\"{source}\"}},\"content\":[\
         {{\"type\":\"image\",\"text\":\"no\"}},{{\"type\":\"text\",\"text\":\"{text}\"}}]}}"
    );
    let row = row_of("user/message", seq, &data);
    row[..row.len() - 1].to_owned() + ",\"surfaceOp\":\"append\"}"
}

/// A session of three turns, the last one open.
fn rows() -> Vec<String> {
    let events: Vec<Box<dyn Fn(u64) -> String>> = vec![
        Box::new(|seq| row_of("sandbox/mode", seq, "{\"mode\":\"read-only\"}")),
        Box::new(|seq| row_of("turn/start", seq, "{\"turn\":1}")),
        Box::new(|seq| row_of("step/start", seq, "{\"turn\":1,\"step\":1}")),
        Box::new(|seq| said(seq, "plugin", "context")),
        Box::new(|seq| said(seq, "user", "fix\\n\\u001b[31m the \\u202ebug")),
        Box::new(|seq| said(seq, "user", "and this")),
        Box::new(|seq| row_of("assistant/attempt", seq, "{\"turn\":1,\"step\":1,\"stream\":[]}")),
        Box::new(|seq| row_of("step/start", seq, "{\"turn\":1,\"step\":2}")),
        Box::new(|seq| row_of("assistant/attempt", seq, "{\"turn\":1,\"step\":2,\"stream\":[]}")),
        Box::new(|seq| row_of("turn/end", seq, "{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}")),
        Box::new(|seq| row_of("session/title", seq, "{\"title\":\"bug\"}")),
        Box::new(|seq| row_of("turn/start", seq, "{\"turn\":2}")),
        Box::new(|seq| said(seq, "goal", "go on")),
        Box::new(|seq| row_of("turn/end", seq, "{\"turn\":2,\"reason\":{\"kind\":\"vendor/odd\\u0007\"}}")),
        Box::new(|seq| said(seq, "user", "one more thing")),
        Box::new(|seq| row_of("turn/start", seq, "{}")),
        Box::new(|seq| row_of("step/start", seq, "{\"turn\":3,\"step\":1}")),
    ];
    (0..).zip(events).map(|(seq, event)| event(seq)).collect()
}

fn index_of(rows: &[String]) -> TurnIndex {
    let mut index = TurnIndex::new(0);
    let events = Events::of_rows(rows, &seslog::limits::Limits::DEFAULT).unwrap();
    events.iter().for_each(|event| _ = index.push(&event));
    index
}

#[test]
fn a_turn_is_what_stands_between_two_starts_and_is_about_what_the_human_said_first() {
    let rows = rows();
    let index = index_of(&rows);
    let [first, second, third] = index.turns() else { panic!("three turns") };
    let Turn { number, first_seq, last_seq, start_time, end_time, outcome, prompt, steps, attempts, .. } =
        first;
    assert_eq!((*number, *first_seq, *last_seq, *steps, *attempts), (1, 1, 10, 2, 2));
    assert_eq!((start_time.get(), end_time.unwrap().get()), (CREATED_AT + 1, CREATED_AT + 9));
    assert_eq!((outcome.as_deref(), prompt.as_deref()), (Some("completed"), Some("fix [31m the bug")));
    assert_eq!((second.number, second.first_seq, second.last_seq), (2, 11, 14));
    assert_eq!((second.outcome.as_deref(), second.prompt.as_deref()), (Some("vendor/odd"), None));
    assert_eq!((third.number, third.first_seq, third.last_seq, third.end_time), (3, 15, 16, None));
    assert_eq!(third.prompt.as_deref(), Some("one more thing"), "said before the turn");
    assert_eq!(index.next_seq(), 17);
}

#[test]
fn a_prompt_is_kept_as_far_as_it_is_shown() {
    let rows = [row_of("turn/start", 0, "{\"turn\":1}"), said(1, "user", &"word ".repeat(100_000))];
    let prompt = |index: TurnIndex| {
        let mut index = index;
        let events = Events::of_rows(&rows, &seslog::limits::Limits::DEFAULT).unwrap();
        events.iter().for_each(|event| _ = index.push(&event));
        index.turns()[0].prompt.clone().unwrap()
    };
    assert_eq!(prompt(TurnIndex::new(0)).chars().count(), 160);
    assert_eq!(prompt(TurnIndex::new(0).with_prompt_chars(12)), "word word w…");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_index_that_grows_with_the_log_is_that_of_the_whole_log(steps in prop::collection::vec(1..7_usize, 1..12)) {
        for kind in Kind::ALL {
            let world = World::new(kind);
            let all = rows();
            let mut index = TurnIndex::new(0);
            let (mut stored, never) = (0, Cancel::never());
            for more in &steps {
                let next = (stored + more).min(all.len());
                let batch: Vec<&[u8]> = all[stored..next].iter().map(String::as_bytes).collect();
                world.writer.append(&batch, &never).unwrap();
                let before = index.clone();
                let changed = index.extend(&*world.reader, &never).unwrap();
                let same = changed.min(before.turns().len());
                prop_assert_eq!(&before.turns()[..same], &index.turns()[..same]);
                stored = next;
                let whole = index_of(&all[..stored]);
                prop_assert_eq!(index.turns(), whole.turns());
                prop_assert_eq!(index.next_seq(), stored as u64);
            }
        }
    }
}

#[test]
fn an_index_goes_on_behind_events_that_were_pushed_and_begins_anew_when_the_log_was_replaced() {
    for encoding in seslog::container::Encoding::ALL {
        let world = World::new(Kind::File(encoding));
        let (rows, never) = (rows(), Cancel::never());
        let bytes: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
        world.writer.append(&bytes[..9], &never).unwrap();
        let mut index = TurnIndex::new(0);
        index.extend(&*world.reader, &never).unwrap();
        world.writer.append(&bytes[9..12], &never).unwrap();
        let events = world.reader.read(9, 3, &never).unwrap();
        let changed: Vec<usize> = events.iter().map(|event| index.push(&event)).collect();
        assert_eq!(changed, [0, 0, 1], "{encoding}");
        world.writer.append(&bytes[12..], &never).unwrap();
        assert_eq!(index.extend(&*world.reader, &never).unwrap(), 1);
        assert_eq!(index.turns(), index_of(&rows).turns());
        assert_eq!(index.extend(&*world.reader, &never).unwrap(), 3, "nothing is new");
        // From an event on: only turns that start there.
        let mut later = TurnIndex::new(2);
        later.extend(&*world.reader, &never).unwrap();
        assert_eq!(later.turns(), &index.turns()[1..]);
        world.writer.close().unwrap();
        // The same bytes in another file.
        let stored = world.disk.content(log_path(encoding)).unwrap();
        world.disk.plant(log_path(encoding), &stored);
        assert_eq!(index.extend(&*world.reader, &never).unwrap(), 0, "{encoding}");
        assert_eq!(index.turns(), index_of(&rows).turns());
    }
}

#[test]
fn the_turns_of_the_last_page_are_told_without_the_rest() {
    let world = World::new(Kind::File(seslog::container::Encoding::Indexed));
    let (rows, never) = (rows(), Cancel::never());
    world.writer.append(&rows.iter().map(String::as_bytes).collect::<Vec<_>>(), &never).unwrap();
    let page = world.page(&PageRequest::last(PageLimits::default().with_turns(2))).unwrap();
    let mut index = TurnIndex::new(page.first_seq);
    page.events.iter().for_each(|event| _ = index.push(&event));
    let turns: Vec<(u64, u64)> = index.turns().iter().map(|turn| (turn.number, turn.first_seq)).collect();
    assert_eq!(turns, [(2, 11), (3, 15)]);
}

#[test]
fn a_handle_of_a_store_of_traits_serves_pages() {
    let world = World::new(Kind::File(seslog::container::Encoding::Zstd));
    let never = Cancel::never();
    world.writer.append(&[rows()[0].as_bytes()], &never).unwrap();
    let store = file_store(&world.disk, seslog::container::Encoding::Zstd);
    let store: &dyn seslog::store::SessionPersistence = &store;
    let handle = store.open(&Text::from("s"), SessionAccess::Read, &never).unwrap();
    assert_eq!(handle.header().id(), header("s").id());
    let page = handle.page(&PageRequest::first(PageLimits::default()), &never).unwrap();
    assert!(page.after.to_string().contains(".p"), "{}", page.after);
    assert_eq!(page.events.len(), 1);
}
