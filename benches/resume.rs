//! Resuming a long session: its log is opened for writing, takes one event, synced, and is closed.

mod data;
mod limits;
mod race;

use limits::Growing;
use race::{Race, Unit};
use seslog::container::Encoding;
use seslog::store::{FileStore, OpenOptions, Validate};

fn main() {
    let folder = limits::folder();
    let session = data::large();
    let what = format!("large_{}_events", session.rows.len());
    let one = Unit::Elements(1);
    let mut race = Race::new("resume");
    for encoding in Encoding::ALL {
        let root = folder.path().join(encoding.name());
        data::write_session(&root, encoding, &session, 32);
        let id = |validate: &str, what: &str| format!("resume/{encoding}/{what}/{validate}");
        for (name, validate) in [("tail", Validate::Tail), ("full", Validate::Full)] {
            let (store, session) = (FileStore::new(&root), session.id().clone());
            let open = move || {
                let options = OpenOptions::WRITE.with_validate(validate);
                store.open_with(&session, options).expect("it is sound")
            };
            let reopen = open.clone();
            race.add(id(name, &format!("{what}/open")), one, move || {
                assert!(reopen().next_seq() >= Some(2_500));
            });
            race.add(id(name, &format!("{what}/open_and_append_1_event")), one, move || {
                let handle = open();
                let seq = handle.next_seq().expect("it writes");
                let row = format!(
                    "{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":1767225600000,\"data\":{{\"active\":true}}}}"
                );
                handle.append(&[row.as_bytes()]).expect("the disk takes it");
                handle.close().expect("the disk takes it");
            });
        }
        let appended = format!("{what}/open_and_append_1_event");
        race.compare(id("tail", &appended), id("full", &appended));

        // The end is made durable before anything is written behind it: two syncs.
        let limit = format!("limit/{encoding}/{what}/two_writes_and_syncs");
        let mut file = Growing::create(&root.join("limit"));
        race.add(&limit, one, move || (0..2).for_each(|_| file.append(&[b'x'; 200], true)));
        race.compare(id("tail", &appended), limit);
    }
    race.run();
}
