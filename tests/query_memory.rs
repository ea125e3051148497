//! What a query keeps in memory, counted by the allocator and by the query itself.
#![expect(unsafe_code, reason = "a counting allocator has no other way")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seslog::json::Text;
use seslog::row::Header;
use seslog::session::{Sessions, Settings};
use seslog::store::query::{Query, QueryOptions};
use seslog::store::{Cancel, MemoryStorage, MemoryStore, SessionPersistence};
use seslog::units::{Generation, UnixMs};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator with the arguments that the caller vouches for.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_add(size, Ordering::Relaxed);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A message of a person, so many bytes of it.
fn row(seq: u64, len: usize) -> String {
    let text = "z".repeat(len);
    format!(
        "{{\"type\":\"user/message\",\"seq\":{seq},\"time\":5,\"data\":{{\"id\":\"m-{seq}\",\"role\":\"user\",\
         \"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"source\":{{\"kind\":\"user\"}}}},\"surfaceOp\":\"append\"}}"
    )
}

/// A store with `sessions` sessions of `events` messages each.
fn store(sessions: usize, events: u64, len: usize) -> (Arc<dyn SessionPersistence>, Vec<Text>) {
    let store = MemoryStore::new(&MemoryStorage::new());
    let ids: Vec<_> = (0..sessions).map(|number| Text::from(format!("session-{number}").as_str())).collect();
    for id in &ids {
        let header = Header::new(Generation::CURRENT, id.clone(), UnixMs::new(5)).unwrap();
        let handle = store.create(header, None).unwrap();
        let rows: Vec<_> = (0..events).map(|seq| row(seq, len)).collect();
        handle.append(&rows.iter().map(String::as_bytes).collect::<Vec<_>>()).unwrap();
        handle.close().unwrap();
    }
    (Arc::new(store), ids)
}

#[test]
fn what_is_kept_is_what_is_counted_and_never_more_than_the_bounds() {
    let never = Cancel::never();
    // Tiny sessions, of which the places in the cache are the larger part; one block; many blocks; one huge row.
    for (events, len) in [(1, 0), (20, 100), (400, 1000), (1, 300_000)] {
        let (store, ids) = store(40, events, len);
        // What the store remembers of a log that it has read whole is the store's.
        for id in &ids {
            let reader = store.open(id, seslog::store::SessionAccess::Read, &never).unwrap();
            reader.read(0, u64::MAX, &never).unwrap();
        }
        let sessions = Sessions::new(Settings::new(|| UnixMs::new(5)));
        for bound in [3_000, 300_000, 3_000_000, 1 << 30] {
            let before = LIVE.load(Ordering::Relaxed);
            let mut options = QueryOptions::default();
            (options.kept_max, options.kept_bytes_max) = (30, bound);
            let query = Query::new(Arc::clone(&store), &sessions, options);
            let mut largest = 0;
            for id in &ids {
                drop(query.read(id, &never).unwrap());
                let live = LIVE.load(Ordering::Relaxed) - before;
                largest = largest.max(live);
                // The query's own few words, and what allocators of maps round up to.
                assert!(live <= bound + 4096, "{live} bytes of {bound}: {:?}", query.usage());
            }
            let (usage, live) = (query.usage(), LIVE.load(Ordering::Relaxed) - before);
            let case = format!("{events} events of {len}: {live} bytes live, {usage:?}, {largest} at most");
            println!("{case}");
            assert!(live <= usage.kept_bytes + 4096, "{case}");
            // It does not count what is not there either.
            assert!(live * 3 >= usage.kept_bytes, "{case}");
            assert_eq!(usage.held, 0, "{case}");
            drop(query);
            let left = LIVE.load(Ordering::Relaxed).saturating_sub(before);
            assert!(left <= 4096, "{case}, {left} are left");
        }
    }
}
