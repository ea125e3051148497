//! What one session is: its header and its counts, from the two ends of its log.

mod data;
mod limits;
mod race;

use std::sync::Arc;

use race::{Race, Unit};
use seslog::container::Encoding;
use seslog::container::disk::{Disk, OsDisk};
use seslog::limits::Limits;
use seslog::store::{FileStore, Snapshot, State};

fn main() {
    let folder = limits::folder();
    let sets = [
        ("small", data::small().into_iter().next().expect("there is one"), 8),
        ("large", data::large(), 32),
        ("large_batches_of_1", data::large(), 1),
    ];
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
    let one = Unit::Elements(1);
    let mut race = Race::new("stat");
    for (set, session, batch) in &sets {
        let count = session.rows.len() as u64;
        for encoding in Encoding::ALL {
            let root = folder.path().join(set).join(encoding.name());
            let path = data::write_session(&root, encoding, session, *batch);
            let id = |what: &str| format!("stat/{encoding}/{set}_{count}_events/{what}");
            let check = move |snapshot: Snapshot| {
                assert_eq!((snapshot.state, snapshot.event_count), (State::Ok, Some(count)));
            };

            let (disk, log) = (Arc::clone(&disk), path.clone());
            race.add(id("of_log"), one, move || {
                check(Snapshot::of_log(&disk, &log, Limits::DEFAULT).expect("it can be read"))
            });
            let store = FileStore::new(&root);
            race.add(id("by_id"), one, move || {
                check(store.stat(session.id()).expect("it can be read").expect("it is there"))
            });

            let limit = format!("limit/{encoding}/{set}/open_and_two_reads");
            race.add(&limit, one, move || assert!(limits::open_and_two_reads(&path) > 0));
            race.compare(id("of_log"), &limit);
            race.compare(id("by_id"), limit);
        }
    }
    race.run();
}
