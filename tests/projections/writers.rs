//! Folds, listings and a writer at the same time, on a real disk.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use seslog::container::Encoding;
use seslog::json::Text;
use seslog::session::{Overview, Projections};
use seslog::store::{Catalog, FileStore};

use crate::common::sessions::{append, header, options, row_of};

/// Row `seq`: every other one starts a turn, and those between end it.
fn row(seq: u64) -> String {
    match seq % 2 {
        0 => row_of("turn/start", seq, &format!("{{\"turn\":{}}}", seq / 2 + 1)),
        _ => {
            let data = format!("{{\"turn\":{},\"reason\":{{\"kind\":\"completed\"}}}}", seq / 2 + 1);
            row_of("turn/end", seq, &data)
        }
    }
}

#[test]
fn beside_a_writer_every_state_is_that_of_so_many_events_as_it_says() {
    for encoding in Encoding::ALL {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        let store = || {
            let catalog = Catalog::in_folder(folder.path().join("cache"));
            FileStore::with_options(&root, options(encoding)).with_catalog(catalog)
        };
        let handle = store().create(header("busy"), None).unwrap();
        append(&handle, &[row(0)]).unwrap();
        let (begun, acked, stop) = (AtomicU64::new(1), AtomicU64::new(1), AtomicBool::new(false));
        let judge = |overview: Overview, before: u64, after: u64| {
            let events = overview.events;
            assert!((before..=after).contains(&events), "{before} to {after}, not {events}");
            let counts = overview.counts;
            assert_eq!((counts.turns, counts.is_open), (events.div_ceil(2), events % 2 == 1), "{events}");
        };
        thread::scope(|scope| {
            let folds: Vec<_> = (0..3)
                .map(|which| {
                    let (store, judge) = (store(), &judge);
                    let (begun, acked, stop) = (&begun, &acked, &stop);
                    scope.spawn(move || {
                        let mut seen = 0_u64;
                        while !stop.load(Ordering::SeqCst) || seen == 0 {
                            let before = acked.load(Ordering::SeqCst);
                            let overview = if which == 0 {
                                store.list_with_overviews().unwrap()[0].overview()
                            } else {
                                let set = Projections::built_in();
                                let found = store.project(&Text::from("busy"), &set).unwrap();
                                Overview::of(&found)
                            };
                            let after = begun.load(Ordering::SeqCst);
                            seen += u64::from(overview.is_some());
                            overview.into_iter().for_each(|overview| judge(overview, before, after));
                        }
                        seen
                    })
                })
                .collect();
            for seq in 1..250 {
                begun.store(seq + 1, Ordering::SeqCst);
                append(&handle, &[row(seq)]).unwrap();
                acked.store(seq + 1, Ordering::SeqCst);
            }
            stop.store(true, Ordering::SeqCst);
            let seen: u64 = folds.into_iter().map(|fold| fold.join().unwrap()).sum();
            assert!(seen > 10, "{seen}");
        });
        handle.close().unwrap();
        let left: Vec<_> = walk(&folder.path().join("cache"));
        assert!(left.iter().all(|name| !name.ends_with(".tmp")), "{left:?}");
    }
}

fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            names.extend(walk(&entry.path()));
        } else {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names
}
