//! Pages forward and backward hold each event once, in order, as their definition says.

use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use proptest::sample::Index;
use seslog::container::Encoding;
use seslog::json::Text;
use seslog::store::history::{Direction, PageEnd, PageLimits, PageRequest, PageStart};
use seslog::store::{FileStore, SessionAccess};

use crate::common::sessions::{append, header, options_on_flush};
use crate::model::{Kind, World, config, open, row, texts};

type Batch = Vec<(bool, u16)>;

fn batch() -> impl Strategy<Value = Batch> {
    let noise = prop_oneof![8 => 0..200_u16, 1 => 2000..9000_u16, 1 => 30_000..60_000_u16];
    prop::collection::vec((prop::bool::weighted(0.2), noise), 0..12)
}

fn limits() -> impl Strategy<Value = PageLimits> {
    let bytes = prop::option::of(prop_oneof![0..400_u64, 400..5000_u64, 5000..200_000_u64]);
    let events = prop::option::of(0..30_u64);
    let turns = prop::option::of(0..5_u64);
    (bytes, events, turns).prop_map(|(bytes, events, turns)| {
        let mut limits = PageLimits::UNBOUNDED;
        (limits.bytes, limits.events, limits.turns) = (bytes, events, turns);
        limits
    })
}

/// Goes on from page to page; before each one more may be appended.
fn walk(world: &mut World, direction: Direction, limits: &[PageLimits], appends: &[Batch]) {
    let mut appends = appends.iter();
    let mut limits = limits.iter().cycle();
    let mut from = match direction {
        Direction::Forward => PageStart::Seq(0),
        _ => PageStart::End,
    };
    let mut total = 0;
    loop {
        let before = world.rows.len();
        let page = world.check(from, direction, *limits.next().expect("it is endless"));
        total += page.events.len();
        if page.end == PageEnd::Log {
            if direction == Direction::Forward {
                assert_eq!(total, before, "each event once");
            }
            assert!(direction == Direction::Forward || page.first_seq == 0);
            return;
        }
        let cursor = match direction {
            Direction::Forward => page.after,
            _ => page.before.expect("there is more"),
        };
        from = PageStart::Cursor(cursor.to_string().parse().expect("it is one"));
        if let Some(batch) = appends.next() {
            world.append(batch);
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn pages_tile_the_log_both_ways_whatever_their_bounds_and_what_is_appended_meanwhile(
        batches in prop::collection::vec(batch(), 0..14),
        later in prop::collection::vec(batch(), 0..3),
        limits in prop::collection::vec(limits(), 1..4),
        places in prop::collection::vec(any::<Index>(), 4),
    ) {
        for kind in Kind::ALL {
            let mut world = World::new(kind);
            for batch in &batches {
                world.append(batch);
            }
            for direction in [Direction::Forward, Direction::Backward] {
                walk(&mut world, direction, &limits, &later);
                let few = limits[0];
                for place in &places {
                    let seq = place.index(world.rows.len() + 3) as u64;
                    let page = world.check(PageStart::Seq(seq), direction, few);
                    // Either side of any page leads on either way.
                    for cursor in page.before.into_iter().chain([page.after]) {
                        for direction in [Direction::Forward, Direction::Backward] {
                            world.check(PageStart::Cursor(cursor), direction, few);
                        }
                    }
                }
                world.check(PageStart::End, direction, few);
                world.check(PageStart::Seq(u64::MAX), direction, few);
            }
        }
    }
}

#[test]
fn an_event_that_is_over_the_bound_of_bytes_makes_a_page_of_its_own() {
    for kind in Kind::ALL {
        let mut world = World::new(kind);
        world.append(&[(false, 0), (false, 50_000), (false, 0)]);
        let limits = PageLimits::UNBOUNDED.with_bytes(1000);
        for direction in [Direction::Forward, Direction::Backward] {
            let page = world.check(
                PageStart::Seq(if direction == Direction::Forward { 1 } else { 2 }),
                direction,
                limits,
            );
            assert_eq!((page.first_seq, page.events.len(), page.end), (1, 1, PageEnd::Bytes), "{kind:?}");
            assert!(page.events.as_bytes().len() > 50_000);
        }
    }
}

#[test]
fn a_page_that_turns_bound_is_never_cut_inside_one() {
    for kind in Kind::ALL {
        let mut world = World::new(kind);
        let turn = |events: usize| {
            let mut turn = vec![(false, 40); events];
            turn[0].0 = true;
            turn
        };
        world.append(&[(false, 9), (false, 9)]);
        (1..40).for_each(|events| world.append(&turn(events)));
        let limits = PageLimits::UNBOUNDED.with_turns(3);
        let mut from = PageStart::End;
        let mut borders = Vec::new();
        loop {
            let page = world.check(from, Direction::Backward, limits);
            borders.push(page.first_seq);
            match page.before {
                Some(before) => from = PageStart::Cursor(before),
                None => break,
            }
        }
        // Thirty-nine turns, and what stands before them.
        assert_eq!(borders.len(), 14, "{kind:?}");
        assert!(borders[..13].iter().all(|&at| world.rows[at as usize].contains("turn/start")));
    }
}

#[test]
fn a_session_that_is_not_stored_yet_has_an_empty_page_whose_cursor_serves_later() {
    for kind in Kind::ALL {
        let mut world = World::new(kind);
        let page = world.check(PageStart::End, Direction::Backward, PageLimits::default());
        assert!(page.events.is_empty() && page.before.is_none() && !page.has_more(), "{kind:?}");
        world.append(&[(true, 0), (false, 5)]);
        let page = world.check(PageStart::Cursor(page.after), Direction::Forward, PageLimits::default());
        assert_eq!(page.events.len(), 2, "{kind:?}");
        let page = world.check(PageStart::Cursor(page.after), Direction::Forward, PageLimits::default());
        assert!(page.events.is_empty() && !page.has_more(), "{kind:?}");
    }
}

#[test]
fn a_handle_that_writes_has_the_same_pages_before_and_behind_its_first_append() {
    for encoding in Encoding::ALL {
        let mut world = World::new(Kind::File(encoding));
        world.append(&vec![(false, 300); 500]);
        world.writer.close().unwrap();
        let handle = open(&world.disk, encoding, SessionAccess::Write);
        let limits = PageLimits::UNBOUNDED.with_events(7);
        let last = handle.page(&PageRequest::last(limits)).unwrap();
        assert_eq!((last.first_seq, last.next_seq()), (493, 500));
        let row = row(500, false, 3);
        handle.append(&[row.as_bytes()]).unwrap();
        let news = handle.page(&PageRequest::after(last.after, limits)).unwrap();
        assert_eq!((news.first_seq, news.events.len(), news.end), (500, 1, PageEnd::Log));
        let before = handle.page(&PageRequest::before(last.before.unwrap(), limits)).unwrap();
        assert_eq!((before.first_seq, before.next_seq()), (486, 493));
    }
}

#[test]
fn a_page_read_while_somebody_appends_holds_what_was_appended_and_nothing_else() {
    for encoding in Encoding::ALL {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::with_options(folder.path(), options_on_flush(encoding));
        let writer = store.create(header("s"), None).unwrap();
        let rows: Vec<String> = (0..1200).map(|seq| row(seq, seq % 17 == 0, (seq % 900) as usize)).collect();
        append(&writer, &rows[..20]).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                rows[20..].chunks(3).for_each(|rows| append(&writer, rows).unwrap());
                is_done.store(true, Ordering::Release);
            });
            let reader = FileStore::new(folder.path()).open(&Text::from("s"), SessionAccess::Read).unwrap();
            let limits = PageLimits::UNBOUNDED.with_bytes(20_000);
            let mut cursor = reader.page(&PageRequest::first(limits)).unwrap().after;
            let mut last_seen = 0;
            while !is_done.load(Ordering::Acquire) || last_seen < 1200 {
                let last = reader.page(&PageRequest::last(limits)).unwrap();
                assert!(last.next_seq() >= last_seen, "{encoding}: what was seen stays");
                last_seen = last.next_seq();
                let before =
                    reader.page(&PageRequest::before(last.before.unwrap_or(last.after), limits)).unwrap();
                let next = reader.page(&PageRequest::after(cursor, limits)).unwrap();
                assert_eq!(next.first_seq, cursor.seq());
                for page in [&last, &before, &next] {
                    assert_eq!(texts(&page.events), rows[page.first_seq as usize..page.next_seq() as usize]);
                }
                cursor = next.after;
            }
        });
    }
}
