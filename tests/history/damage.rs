//! Pages of logs that are not sound.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use seslog::container::Encoding;
use seslog::container::disk::Disk;
use seslog::container::disk::fault::{FaultDisk, FileLoss};
use seslog::limits::Limits;
use seslog::session::Admission;
use seslog::store::history::{Cursor, Direction, PageEnd, PageLimits, PageRequest, PageStart};
use seslog::store::{Cancel, FileStore, LogFile, ReadMode, SessionAccess};
use seslog::{Error, Unsupported};

use crate::common::sessions::{append, header, options, row_by, row_of};
use crate::model::{Kind, ROOT, World, config, log_path, open, texts};

/// A log of so many appends of ten events, with so much noise each, in a file of its own; and its rows.
fn world(encoding: Encoding, appends: u64, noise: u16) -> World {
    let mut world = World::new(Kind::File(encoding));
    for _ in 0..appends {
        world.append(&[(false, noise); 10]);
    }
    world.writer.close().unwrap();
    world
}

fn log_of(disk: &FaultDisk, path: &Path) -> LogFile {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    LogFile::open(&disk, path, Limits::DEFAULT, ReadMode::Read).unwrap()
}

/// What follows from a place in one direction, page by page, and how it ended.
fn walk(
    log: &LogFile,
    from: PageStart,
    direction: Direction,
    limits: PageLimits,
) -> (Vec<String>, Result<(), Error>) {
    let (mut from, mut found) = (from, Vec::new());
    loop {
        let mut request = PageRequest::forward(from, limits);
        request.direction = direction;
        let page = match log.page(&request) {
            Ok(page) => page,
            Err(error) => return (found, Err(error)),
        };
        let rows = texts(&page.events).into_iter().map(str::to_owned);
        match direction {
            Direction::Forward => found.extend(rows),
            _ => drop(found.splice(0..0, rows)),
        }
        if !page.has_more() {
            return (found, Ok(()));
        }
        assert!(!page.events.is_empty(), "a page that is not the last one holds something");
        from = match direction {
            Direction::Forward => PageStart::Cursor(page.after),
            _ => PageStart::Cursor(page.before.expect("there is more")),
        };
    }
}

#[test]
fn both_sides_of_damage_are_served_and_the_page_that_begins_with_it_fails() {
    for encoding in Encoding::ALL {
        for limits in [PageLimits::default(), PageLimits::UNBOUNDED.with_events(7), PageLimits::UNBOUNDED] {
            let world = world(encoding, 60, 400);
            let mut bytes = world.disk.content(log_path(encoding)).unwrap();
            let middle = bytes.len() / 2;
            // A control character is no JSON, and any other bit is in a checksum.
            bytes[middle] = 1;
            world.disk.plant(log_path(encoding), &bytes);
            let log = log_of(&world.disk, &log_path(encoding));
            let (before, failed) = walk(&log, PageStart::Seq(0), Direction::Forward, limits);
            let failed = failed.unwrap_err();
            assert!(matches!(failed, Error::Corruption { .. } | Error::DamagedTail { .. }), "{failed}");
            let (behind, failed) = walk(&log, PageStart::End, Direction::Backward, limits);
            let failed = failed.unwrap_err();
            assert!(matches!(failed, Error::Corruption { .. } | Error::DamagedTail { .. }), "{failed}");
            let lost = world.rows.len() - before.len() - behind.len();
            let most = if encoding == Encoding::Plain { 1 } else { 10 };
            assert!((1..=most).contains(&lost), "{encoding}, {limits:?}: {lost} lost");
            assert_eq!(before, world.rows[..before.len()]);
            assert_eq!(behind, world.rows[world.rows.len() - behind.len()..]);
            // Pages that end where the damage begins know of it.
            let seq = before.len() as u64;
            let page =
                log.page(&PageRequest::forward(PageStart::Seq(seq - 1), PageLimits::default())).unwrap();
            assert_eq!((page.events.len(), page.end), (1, PageEnd::Fault));
        }
    }
}

#[test]
fn an_event_that_nobody_understands_ends_pages_on_both_sides() {
    for encoding in Encoding::ALL {
        let disk = FaultDisk::new();
        let mut lax = options(encoding);
        lax.admission = Admission::Anything;
        let store = FileStore::on_disk(Arc::new(disk.clone()), ROOT, lax);
        let handle = store.create(header("s"), None).unwrap();
        let rows: Vec<String> = (0..300)
            .map(|seq| if seq == 150 { row_of("vendor/secret", seq, "{}") } else { row_by("a", seq, 200) })
            .collect();
        rows.chunks(8).for_each(|rows| append(&handle, rows).unwrap());
        let log = log_of(&disk, &log_path(encoding));
        let limits = PageLimits::UNBOUNDED.with_events(40);
        for (from, direction, served) in [
            (PageStart::Seq(0), Direction::Forward, &rows[..150]),
            (PageStart::End, Direction::Backward, &rows[151..]),
        ] {
            let (found, failed) = walk(&log, from, direction, limits);
            assert_eq!(found, served, "{encoding}");
            let reason = Unsupported::EventType { seq: 150, event_type: "vendor/secret".to_owned() };
            let failed = failed.unwrap_err();
            assert!(
                matches!(&failed, Error::FormatUnsupported { reason: found, .. } if *found == reason),
                "{failed}"
            );
        }
    }
}

/// What became of the end of a log.
#[derive(Clone, Debug)]
enum End {
    Cut(u16),
    Flipped(u16),
    Zeros(u16),
    Foreign(Vec<u8>),
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        2 => (1..9000_u16).prop_map(End::Cut),
        2 => (1..9000_u16).prop_map(End::Flipped),
        1 => (1..3000_u16).prop_map(End::Zeros),
        1 => prop::collection::vec(any::<u8>(), 1..300).prop_map(End::Foreign),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_last_page_of_a_log_whose_end_suffered_is_the_end_of_what_a_walk_from_its_head_reads(
        end in end(),
        noise in 0..600_u16,
    ) {
        for encoding in Encoding::ALL {
            // Long enough that nothing of its head is in reach.
            let world = world(encoding, (120_000 / (10 * (u64::from(noise) / 2 + 40))).min(400), noise);
            let mut bytes = world.disk.content(log_path(encoding)).unwrap();
            let len = bytes.len();
            match &end {
                End::Cut(count) => bytes.truncate(len - usize::from(*count)),
                End::Flipped(count) => bytes[len - usize::from(*count)] ^= 0x10,
                End::Zeros(count) => bytes.resize(len + usize::from(*count), 0),
                End::Foreign(foreign) => bytes.extend_from_slice(foreign),
            }
            world.disk.plant(log_path(encoding), &bytes);
            let log = log_of(&world.disk, &log_path(encoding));
            let (all, whole) = walk(&log, PageStart::Seq(0), Direction::Forward, PageLimits::UNBOUNDED);
            // A few bytes in a line of a plain log may make another line of it.
            let is_same = |rows: &[String]| encoding == Encoding::Plain || rows == &world.rows[..rows.len()];
            prop_assert!(is_same(&all), "{}", encoding);
            let last = log.page(&PageRequest::last(PageLimits::UNBOUNDED.with_events(25)));
            match (whole, last) {
                (Ok(()), Ok(last)) => {
                    prop_assert_eq!(last.next_seq(), all.len() as u64, "{}", encoding);
                    prop_assert_eq!(texts(&last.events), &all[all.len() - 25..]);
                    let news = log.page(&PageRequest::after(last.after, PageLimits::default())).unwrap();
                    prop_assert_eq!((news.events.len(), news.end), (0, PageEnd::Log));
                }
                // It goes on where nobody can tell whether that was all.
                (Err(Error::DamagedTail { intact, .. }), Ok(last)) => {
                    prop_assert_eq!(last.next_seq(), all.len() as u64, "{}", encoding);
                    prop_assert_eq!(intact, all.len() as u64);
                    let news = log.page(&PageRequest::after(last.after, PageLimits::default()));
                    let is_told = matches!(news, Err(Error::DamagedTail { .. }));
                    prop_assert!(is_told);
                }
                // Behind damage in the middle.
                (Err(Error::Corruption { .. } | Error::FormatUnsupported { .. }), Ok(last)) => {
                    prop_assert!(last.first_seq > all.len() as u64);
                    prop_assert_eq!(last.next_seq(), world.rows.len() as u64);
                    let rows = &world.rows[last.first_seq as usize..];
                    prop_assert!(encoding == Encoding::Plain || texts(&last.events) == rows);
                }
                // A damaged trailer takes the segment behind it along, which it is to vouch for.
                (Err(Error::Corruption { intact, .. }), Err(Error::Corruption { .. })) => {
                    prop_assert!(encoding == Encoding::Indexed && intact + 20 >= world.rows.len() as u64);
                }
                (whole, last) => prop_assert!(false, "{encoding}: {whole:?} and {:?}", last.map(|page| page.next_seq())),
            }
        }
    }
}

#[test]
fn a_torn_log_is_opened_and_paged_by_its_handle() {
    for encoding in Encoding::ALL {
        let world = world(encoding, 60, 400);
        let bytes = world.disk.content(log_path(encoding)).unwrap();
        world.disk.plant(log_path(encoding), &bytes[..bytes.len() - 5]);
        let handle = open(&world.disk, encoding, SessionAccess::Read);
        let last = handle.page(&PageRequest::last(PageLimits::default())).unwrap();
        let complete = if encoding == Encoding::Plain { 599 } else { 590 };
        assert_eq!(last.next_seq(), complete, "{encoding}");
        assert_eq!(handle.read_last(1).unwrap().len(), 1);
    }
}

#[test]
fn no_page_shows_what_a_power_loss_took_out_of_the_log_although_it_landed_itself() {
    let mut cut_short = 0;
    for encoding in [Encoding::Indexed, Encoding::Zstd] {
        let mut world = World::new(Kind::Unsynced(encoding));
        world.append(&[(false, 400); 200]);
        world.writer.flush(&Cancel::never()).unwrap();
        for _ in 0..30 {
            world.append(&[(false, 400); 5]);
        }
        let limits = PageLimits::UNBOUNDED.with_events(40);
        let cursors: Vec<Cursor> = (1..=350)
            .step_by(11)
            .map(|seq| world.page(&PageRequest::backward(PageStart::Seq(seq), limits)).unwrap().after)
            .collect();
        for seed in 0..20 {
            let disk = world.disk.crash_image(seed, FileLoss::RandomSectors);
            let log = log_of(&disk, &log_path(encoding));
            let (all, whole) = walk(&log, PageStart::Seq(0), Direction::Forward, PageLimits::UNBOUNDED);
            whole.unwrap();
            assert_eq!(all, world.rows[..all.len()], "{encoding}, image {seed}");
            cut_short += u32::from(all.len() < world.rows.len());
            let last = log.page(&PageRequest::last(limits)).unwrap();
            assert_eq!(last.next_seq(), all.len() as u64, "{encoding}, image {seed}");
            assert_eq!(texts(&last.events), all[last.first_seq as usize..]);
            for cursor in &cursors {
                let is_there = cursor.seq() <= all.len() as u64;
                for request in [PageRequest::before(*cursor, limits), PageRequest::after(*cursor, limits)] {
                    match log.page(&request) {
                        Ok(page) => {
                            assert!(is_there, "{encoding}, image {seed}: {} of {}", cursor.seq(), all.len());
                            let (first, next) = (page.first_seq as usize, page.next_seq() as usize);
                            assert_eq!(texts(&page.events), all[first..next]);
                        }
                        Err(Error::StaleCursor { .. }) => assert!(!is_there),
                        Err(error) => panic!("{encoding}, image {seed}: {error}"),
                    }
                }
            }
        }
    }
    assert!(cut_short > 20, "{cut_short} of 40 images lost something");
}

/// Found by fuzzing: going back from the end of the header went on for ever.
#[test]
fn a_log_whose_first_append_is_torn_has_an_empty_page() {
    for encoding in Encoding::ALL {
        let world = world(encoding, 1, 900);
        let bytes = world.disk.content(log_path(encoding)).unwrap();
        let line = bytes.len() / 12;
        for torn in (bytes.len() - line..bytes.len()).step_by(7).chain(bytes.len() - 70..bytes.len()) {
            world.disk.plant(log_path(encoding), &bytes[..torn]);
            let log = log_of(&world.disk, &log_path(encoding));
            let page = log.page(&PageRequest::last(PageLimits::default())).unwrap();
            let complete = if encoding == Encoding::Plain { 9 } else { 0 };
            assert_eq!(
                (page.first_seq, page.next_seq(), page.end),
                (0, complete, PageEnd::Log),
                "{encoding}, {torn}"
            );
        }
    }
}
