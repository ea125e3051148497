//! How often streams ask the allocator for memory, counted.
#![expect(unsafe_code, reason = "a counting allocator has no other way")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use seslog::stream::{Accumulator, Scratch, StreamReader, expand};
use seslog::units::UnixMs;

struct Counting;

thread_local! {
    /// Calls of this thread that gave out memory.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // Gone while a thread ends; nothing is measured then.
    let _gone = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call is handed on to the system's allocator with the arguments that the caller vouches for.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn calls(work: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

/// A run of so many deltas as JSON, escapes, gaps of all lengths and steps back of the clock among them if it is `odd`.
fn run(deltas: usize, odd: bool) -> String {
    let mut stream = Accumulator::new();
    let mut time = 1_760_000_000_000;
    for delta in 0..deltas {
        let words = ["", " the", "\n", "é", "tion", "\""];
        stream.push_text(UnixMs::new(time), 0, words[delta % words.len()]).unwrap();
        time += if odd { [3_000_000_000, -7, 5][delta % 3] } else { [0, 1, 27, 140][delta % 4] };
    }
    stream.snapshot()
}

#[test]
fn expansion_of_a_run_asks_as_often_for_any_number_of_deltas() {
    for odd in [false, true] {
        let counts = [10, 1_000, 10_000, 100_000].map(|deltas| {
            let json = run(deltas, odd);
            calls(|| {
                let stream = expand(json.as_bytes()).unwrap();
                let mut seen = 0;
                for timed in &stream {
                    black_box(timed);
                    seen += 1;
                }
                assert_eq!(seen, deltas);
            })
        });
        println!("10, 1,000, 10,000 and 100,000 deltas, odd gaps {odd}: {counts:?} calls");
        assert_eq!(counts, [counts[0]; 4]);
        assert!(counts[0] <= 3, "{counts:?}");
    }
}

#[test]
fn expansion_of_another_spelling_does_not_ask_for_each_delta() {
    let json = run(10_000, false).replacen("\"texts\":[", "\"texts\": [", 1);
    let asked = calls(|| assert_eq!(expand(json.as_bytes()).unwrap().chunks().count(), 10_000));
    println!("10,000 deltas in another spelling: {asked} calls");
    assert!(asked <= 40, "{asked}");
}

#[test]
fn a_warm_accumulator_asks_for_nothing() {
    let push_all = |stream: &mut Accumulator<&mut Vec<u8>>| {
        for delta in 0..10_000_i64 {
            let index = u64::from(delta % 100 == 0);
            stream.push_text(UnixMs::new(delta * 7), index, " the\n").unwrap();
            if delta % 1000 == 999 {
                let usage = b"{\"type\":\"usage\",\"usage\":{\"inputTokens\":1,\"outputTokens\":2}}";
                stream.push_json(UnixMs::new(delta * 7), usage).unwrap();
                stream.push_tool_call(UnixMs::new(delta * 7), 2, "call", Some("read"), "{").unwrap();
            }
        }
    };
    let mut buffer = Vec::new();
    let mut cold = Accumulator::with(&mut buffer, Scratch::default());
    push_all(&mut cold);
    let (_, scratch) = cold.finish();
    buffer.clear();
    let mut warm = Accumulator::with(&mut buffer, scratch);
    let asked = calls(|| push_all(&mut warm));
    println!("10,000 deltas and 20 other chunks into a warm accumulator: {asked} calls");
    assert_eq!(asked, 0);
}

#[test]
fn the_first_token_is_found_without_memory() {
    let json = run(10_000, false);
    let asked = calls(|| assert!(StreamReader::new(&json).first_token_time().unwrap().is_some()));
    assert_eq!(asked, 0);
    let asked = calls(|| assert_eq!(StreamReader::new(&json).timing().unwrap().chunks, 10_000));
    println!("timing of 10,000 deltas: {asked} calls");
    assert!(asked <= 3, "{asked}");
}
