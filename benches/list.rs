//! All sessions of a root with their counts.

mod data;
mod limits;
mod race;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use limits::{logs_below, newlines, open_and_two_reads};
use race::{Race, Unit};
use seslog::container::Encoding;
use seslog::store::{FileStore, State};

fn main() {
    let folder = limits::folder();
    let sessions = data::small();
    let count = sessions.len();
    let events: u64 = sessions.iter().map(|session| session.rows.len() as u64).sum();
    let unit = Unit::Elements(count as u64);
    let mut race = Race::new("list");
    for encoding in Encoding::ALL {
        let root = folder.path().join(encoding.name());
        for session in &sessions {
            data::write_session(&root, encoding, session, 8);
        }
        let id = format!("list/{encoding}/{count}_sessions/warm");
        let store = FileStore::new(&root);
        race.add(&id, unit, move || {
            let found = store.list().expect("it can be listed");
            assert_eq!(found.len(), count);
            assert!(found.iter().all(|snapshot| snapshot.state == State::Ok));
            assert_eq!(found.iter().filter_map(|snapshot| snapshot.event_count).sum::<u64>(), events);
        });

        let limit = format!("limit/{encoding}/open_and_two_reads_each");
        let (one_root, limit_root) = (root.clone(), root.clone());
        race.add(&limit, unit, move || {
            let logs = logs_below(&one_root);
            assert_eq!(logs.len(), count);
            logs.iter().for_each(|log| assert!(open_and_two_reads(log) > 0));
        });
        race.compare(&id, limit);
        let limit = format!("limit/{encoding}/open_and_two_reads_each_by_2_threads");
        race.add(&limit, unit, move || read_by_two(&limit_root, count));
        race.compare(&id, limit);
    }

    // The simplest program that lists plain logs: it counts lines.
    let root = folder.path().join(Encoding::Plain.name());
    race.add("rival/count_lines_of_plain_logs", unit, move || {
        let logs = logs_below(&root);
        let lines: usize = logs.iter().map(|log| newlines(&fs::read(log).expect("it can be read"))).sum();
        assert_eq!(lines as u64, events + count as u64);
    });
    for encoding in Encoding::ALL {
        race.compare(format!("list/{encoding}/{count}_sessions/warm"), "rival/count_lines_of_plain_logs");
    }
    race.run();
}

fn read_by_two(root: &Path, count: usize) {
    let logs = logs_below(root);
    assert_eq!(logs.len(), count);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(log) = logs.get(next.fetch_add(1, Ordering::Relaxed)) {
            assert!(open_and_two_reads(log) > 0);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
}
