//! How often reading rows touches the allocator: never, once buffers are warm.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use seslog::limits::Limits;
use seslog::row::{Check, Draft, Event, PhysicalRow, Recovery, RowDecoder, RowPlace, range};
use seslog::units::{Generation, Seq, UnixMs};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[expect(unsafe_code, reason = "an allocator that counts has no other way")]
// SAFETY: every call is handed to the system's allocator unchanged; the counter is a plain cell of this thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _outside_of_tests = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on; `at` came from `System`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of allocations that `work` makes on this thread.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get) - before
}

fn event(seq: u64) -> String {
    let tail = match seq % 4 {
        0 => "",
        1 => r#","surfaceOp":"append""#,
        2 => r#","sourceEventSeqs":[0,1],"surfaceOp":{"op":"replace","start":0,"end":1}"#,
        _ => r#","ignorable":true"#,
    };
    format!(
        r#"{{"type":"user/message","seq":{seq},"time":{seq},"data":{{"text":"a\n\ud83d","list":[1,{{}}]}}{tail}}}"#
    )
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1_u8; 100]))), 1);
}

#[test]
fn decoding_rows_allocates_nothing() {
    let canonical: Vec<String> = (0..100).map(event).collect();
    let spaced: Vec<String> = canonical.iter().map(|line| format!(" {line} ")).collect();
    for (lines, check) in [(&canonical, Check::Full), (&canonical, Check::Envelope), (&spaced, Check::Full)] {
        let mut decoder = RowDecoder::new(Generation::V2, Recovery::Strict).with_check(check);
        let made = allocations(|| {
            for line in lines {
                assert!(decoder.push(RowPlace::default(), line.as_bytes()).unwrap().is_some());
            }
        });
        assert_eq!((made, decoder.events()), (0, 100));
    }
}

#[test]
fn packed_rows_expand_without_allocating_once_the_buffer_is_warm() {
    let fragments = vec![r#""a\n\ud83d""#; 1000].join(",");
    let gaps = vec!["1"; 999].join(",");
    let line = format!(
        r#"{{"type":"text-chunks","seq0":0,"time0":0,"data":{{"turn":1,"step":1,"index":0,"dt":[{gaps}],"texts":[{fragments}]}}}}"#
    );
    let mut out = Vec::with_capacity(1 << 20);
    let made = allocations(|| {
        let row = PhysicalRow::read(line.as_bytes(), Generation::V0, Check::Full, &Limits::DEFAULT).unwrap();
        let PhysicalRow::Packed(packed) = row else { panic!("it is packed") };
        for member in packed.members() {
            packed.write_member(&member, &mut out);
        }
    });
    assert_eq!(made, 0);
    assert!(out.len() > 100_000);
}

#[test]
fn seq_lists_and_drafts_reuse_their_buffers() {
    let (mut seqs, mut text) = (Vec::with_capacity(1000), Vec::with_capacity(1000));
    let bound = Seq::new(1000).unwrap();
    let made = allocations(|| {
        range::decode("[[0,899],950]", bound, &mut seqs).unwrap();
        range::encode(&seqs, &mut text);
        let draft =
            Draft::parse(br#"{"data":{"x":[]},"type":"a","sourceEventSeqs":[1,2,3]}"#, &Limits::DEFAULT);
        draft.unwrap().write(bound, UnixMs::new(1), &mut text).unwrap();
        assert!(Event::scan(r#"{"type":"a","seq":1,"time":1,"data":{}}"#).is_some());
    });
    assert_eq!((made, seqs.len()), (0, 901));
}

#[test]
fn a_claim_of_many_seqs_allocates_nothing_before_it_is_refused() {
    let mut seqs = Vec::new();
    let bound = Seq::new(4).unwrap();
    let made = allocations(|| assert!(range::decode("[[0,9007199254740990]]", bound, &mut seqs).is_err()));
    assert_eq!(made, 0);
}
