//! How often session logic asks the allocator for memory: for the log that grows, and hardly for anything else.
#![expect(unsafe_code, reason = "a counting allocator has no other way")]

mod common;
mod sessions;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use seslog::session::{Intent, Sessions};

use sessions::*;

struct Counting;

thread_local! {
    /// Calls of this thread that gave out memory.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator with the arguments that the caller vouches for.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // The cell is gone while a thread ends; nothing is measured then.
        let _gone = CALLS.try_with(|calls| calls.set(calls.get() + 1));
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn calls(work: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

#[test]
fn an_append_that_is_routed_allocates_for_the_log_alone() {
    static ROUTED: AtomicU64 = AtomicU64::new(0);
    let live = Sessions::new(settings());
    live.on_event(|_, event| {
        ROUTED.fetch_add(event.line().len() as u64, Ordering::Relaxed);
        Ok(())
    })
    .keep();
    let session = fresh();
    let _here = live.publish(&session).unwrap();
    let (call, asked, answer) = (call("c"), assistant("a", &["c"]), result("c", "x"));
    let round = || {
        session.append("assistant/message", &asked, Intent::append()).unwrap();
        session.append("tool/call", &call, Intent::log_only()).unwrap();
        session.append("tool/result", &answer, Intent::append()).unwrap();
    };
    (0..1000).for_each(|_| round());
    let made = calls(|| (0..10_000).for_each(|_| round()));
    // 30,000 events of 10 MB: blocks of 64 KiB with three pieces of memory each, and lists that double.
    let blocks = ROUTED.load(Ordering::Relaxed) / (64 << 10);
    assert!(made < 5 * blocks, "{made} allocations for {blocks} blocks");
}

#[test]
fn snapshots_allocate_nothing() {
    let session = fresh();
    (0..1000).for_each(|_| {
        session.append("user/message", &user("u"), Intent::append()).unwrap();
    });
    let messages = session.messages();
    let made = calls(|| {
        for _ in 0..100 {
            assert_eq!(session.messages().len(), messages.len());
            assert_eq!(session.log().prefix(500).len() + session.own_events().len(), 1500);
        }
    });
    assert_eq!(made, 0);
}
