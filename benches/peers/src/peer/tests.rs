//! Each peer alone, on a few sessions: what it stored is what it gives back, in whole and in parts.

use super::{Sync, by_name};
use crate::data;
use crate::set::{self, Sets, Sizes};

const PEERS: &[&str] = &[
    "seslog",
    "seslog-zstd",
    "seslog-plain",
    "seslog-store",
    "seslog-catalog",
    "seslog-tail",
    "jsonl",
    "jsonl-zstd",
    "sqlite-full",
    "sqlite-normal",
    "redb",
    "fjall",
    "mcap",
];

/// A row in memory of its own.
type Kept = (u64, i64, Vec<u8>, Vec<u8>);

fn keep(rows: &mut Vec<Kept>) -> impl FnMut(&super::Row<'_>) + '_ {
    |row| rows.push((row.seq, row.time, row.kind.to_vec(), row.payload.to_vec()))
}

#[test]
fn every_peer_gives_back_what_it_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let sizes = Sizes { large_events: 90, small_sessions: 3, tiny_events: 10, ..Sizes::QUICK };
    let sets = Sets::make(&folder.path().join("sets"), sizes).expect("sets are made");
    let text: String = ["large", "small"]
        .map(|set| std::fs::read_to_string(sets.path(set)).expect("a set is read"))
        .concat();
    let sessions = set::sessions(&text).expect("sessions are found");
    for name in PEERS {
        let peer = by_name(name).expect("a peer of the list");
        for (sync, batch) in [(Sync::Batch, 8), (Sync::End, 1)] {
            let root = folder.path().join(format!("{name}-{batch}"));
            std::fs::create_dir(&root).expect("a new folder");
            let mut writer = peer.writer(&root, sync).expect("it opens");
            for session in &sessions {
                writer.begin(session).expect("the session is new");
                for events in session.events().expect("rows are events").chunks(batch) {
                    writer.append(events).expect("it takes them");
                }
                writer.end().expect("it ends");
            }
            writer.sync().expect("it syncs");
            drop(writer);

            let mut listed = peer.list(&root).expect("it lists");
            listed.sort_by(|one, two| one.id.cmp(&two.id));
            assert_eq!(listed.len(), sessions.len(), "{name}");
            for session in &sessions {
                let events = session.events().expect("rows are events");
                let wanted: Vec<Kept> = events
                    .iter()
                    .map(|event| (event.seq, event.time, event.kind.into(), event.payload.into()))
                    .collect();
                let id = session.id();
                let one = listed.iter().find(|one| one.id == id).expect("it is listed");
                assert_eq!(
                    (one.cwd.as_str(), one.created_at),
                    (session.cwd().as_str(), session.created_at())
                );
                assert_eq!(one.events, events.len() as u64, "{name}");
                assert_eq!(Some(one.last_time), events.last().map(|event| event.time), "{name}");

                let mut rows = Vec::new();
                peer.scan(&root, &id, &mut keep(&mut rows)).expect("it scans");
                assert!(rows == wanted, "{name}: a scan gives all rows");
                rows.clear();
                peer.load(&root, &id, &mut keep(&mut rows)).expect("it loads");
                assert!(rows == wanted, "{name}: a load gives all rows");
                let mut reader = peer.reader(&root, &id).expect("it opens");
                rows.clear();
                reader.last(10, &mut keep(&mut rows)).expect("there are ten");
                assert!(rows == wanted[wanted.len() - 10..], "{name}: the last ten");
                rows.clear();
                reader.range(3, 7, &mut keep(&mut rows)).expect("there are so many");
                assert!(rows == wanted[3..10], "{name}: seven in the middle");
            }
        }
    }
}

#[test]
fn a_supply_goes_on_behind_the_rows_that_it_was_made_of() {
    let made = data::large_of(40);
    let text = String::from_utf8(made.rows.text.clone()).expect("rows are text");
    let events: Vec<set::Event<'_>> =
        text.lines().map(|row| set::Event::of_row(row).expect("an event")).collect();
    let mut supply = crate::supply::Supply::new(&events);
    for (seq, made) in supply.take(100).iter().enumerate() {
        let (event, source) = (made.event(), events[seq % 40]);
        let read = set::Event::of_row(event.row).expect("an event");
        assert_eq!((event.seq, event.time, event.kind), (seq as u64, source.time, source.kind));
        assert_eq!(
            (read.seq, read.time, read.kind, read.payload),
            (event.seq, event.time, event.kind, event.payload)
        );
    }
}
