//! Is what followers see of a running session what its log says in the end?

mod common;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::sessions::{header, options, options_on_flush, row_of};
use parking_lot::Mutex;
use proptest::prelude::*;
use seslog::Error;
use seslog::container::Encoding;
use seslog::container::disk::Disk;
use seslog::container::disk::fault::{Failure, FaultDisk, FileLoss, OpKind};
use seslog::json::Text;
use seslog::live::{
    Answer, Attempt, Baseline, Change, Chat, ChatEntry, Decision, Delivery, Ending, Entry, Frame, LiveEvent,
    LiveFollower, LiveHandle, LiveOptions, LiveRow, Outcome, Pace, SettleError, Step, Trajectory, View,
    WindowFold, replay,
};
use seslog::store::{
    Cancel, FileStore, MemoryStorage, MemoryStore, SessionAccess, SessionHandle, SessionPersistence,
};
use seslog::stream::{Accumulator, Settlement, SettlementKind, expand};
use seslog::units::UnixMs;

const ANSWER: Answer<'_> = Answer { id: "m-1", provider: "p", model: "m" };
const LOG: &str = "/store/_no-cwd/s/session.v2.jsonl.zst";

fn ms(time: i64) -> UnixMs {
    UnixMs::new(time)
}

fn never() -> Cancel {
    Cancel::never()
}

fn in_memory(options: LiveOptions) -> Arc<LiveHandle> {
    let store = MemoryStore::new(&MemoryStorage::new());
    let below = SessionPersistence::create(&store, header("s"), None, &never()).unwrap();
    LiveHandle::new(below, options).unwrap()
}

fn small(kept_max: usize) -> LiveOptions {
    let mut options = LiveOptions::default();
    options.kept_max = kept_max;
    options
}

fn append(handle: &LiveHandle, count: u64) {
    let next = handle.next_seq().unwrap();
    let rows: Vec<String> =
        (next..next + count).map(|seq| row_of("plan/mode", seq, "{\"active\":true}")).collect();
    let rows: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
    handle.append(&rows, &never()).unwrap();
}

fn log_of(handle: &LiveHandle, to: u64) -> Vec<LiveEvent> {
    let events = handle.read(0, to, &never()).unwrap();
    events.rows().enumerate().map(|(seq, row)| LiveEvent { seq: seq as u64, row: Arc::from(row) }).collect()
}

fn deliveries(follower: &mut LiveFollower) -> Vec<Delivery> {
    std::iter::from_fn(|| follower.try_recv()).take_while(|one| *one != Delivery::Closed).collect()
}

fn frame(delivery: &Delivery) -> &Frame {
    match delivery {
        Delivery::Frame(frame) => frame,
        other => panic!("{other:?}"),
    }
}

fn finish(attempt: &mut Attempt, kind: &str) {
    attempt
        .push_json(ms(9), format!("{{\"type\":\"finish\",\"reason\":{{\"kind\":\"{kind}\"}}}}").as_bytes())
        .unwrap();
}

#[test]
fn frames_and_events_come_in_order_and_the_settlement_before_the_end_that_names_it() {
    let handle = in_memory(LiveOptions::default());
    append(&handle, 2);
    let (mut all, baseline) = handle.follow(true);
    let (mut events_only, _) = handle.follow(false);
    assert_eq!((baseline.next_seq, baseline.revision, baseline.active), (2, 0, None));
    let mut attempt = handle.begin_attempt(1, 1).unwrap();
    assert!(matches!(handle.begin_attempt(1, 1), Err(Error::InvalidArgument { .. })), "one at a time");
    attempt.push_text(ms(5), 0, "Hel").unwrap();
    append(&handle, 1);
    attempt.push_text(ms(6), 0, "lo\n").unwrap();
    finish(&mut attempt, "stop");
    let settled = attempt.settle(ms(10), Ending::Finished(ANSWER), &never()).unwrap();
    assert_eq!((settled.kind, settled.seq), (SettlementKind::Message, 3));

    let got = deliveries(&mut all);
    assert_eq!(got.len(), 7, "{got:?}");
    let Step::Start { turn: 1, step: 1, next_seq: 2 } = frame(&got[0]).step else { panic!("{:?}", got[0]) };
    let Step::Chunk { index: 0, ref json, .. } = frame(&got[1]).step else { panic!("{:?}", got[1]) };
    assert_eq!(&**json, r#"{"type":"text-delta","index":0,"text":"Hel"}"#);
    assert!(matches!(&got[2], Delivery::Event(event) if event.seq == 2));
    assert!(matches!(&got[5], Delivery::Event(event) if event.seq == 3));
    let outcome = Outcome::Committed { kind: SettlementKind::Message, seq: 3 };
    assert_eq!(frame(&got[6]).step, Step::End { index: 3, outcome });
    let frames = [0, 1, 3, 4, 6].map(|at| frame(&got[at]));
    assert_eq!(frames.map(|frame| frame.revision), [1, 2, 3, 4, 5]);
    assert!(frames.iter().all(|frame| &*frame.attempt_id == "s:1"));
    let seqs: Vec<u64> = deliveries(&mut events_only)
        .iter()
        .map(|delivery| match delivery {
            Delivery::Event(event) => event.seq,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seqs, [2, 3]);
    handle.close().unwrap();
    assert_eq!(all.try_recv(), Some(Delivery::Closed));
    assert!(matches!(handle.begin_attempt(1, 1), Err(Error::HandleClosed { .. })));
}

#[test]
fn every_ending_writes_the_settlement_that_the_table_says_and_its_stream_agrees_with_its_message() {
    let text = |attempt: &mut Attempt| attempt.push_text(ms(5), 0, "Hi").unwrap();
    let cases = [
        ("finished", true, Some("stop"), Ending::Finished(ANSWER), SettlementKind::Message, false),
        ("without a finish chunk", true, None, Ending::Finished(ANSWER), SettlementKind::Message, false),
        ("a failed model", true, Some("error"), Ending::Finished(ANSWER), SettlementKind::Attempt, false),
        ("an aborted model", true, Some("aborted"), Ending::Finished(ANSWER), SettlementKind::Attempt, false),
        ("cancelled", true, None, Ending::Cancelled(ANSWER), SettlementKind::Message, true),
        ("cancelled before any text", false, None, Ending::Cancelled(ANSWER), SettlementKind::Attempt, false),
        ("broken off", true, None, Ending::Failed, SettlementKind::Attempt, false),
    ];
    let handle = in_memory(LiveOptions::default());
    for (seq, (what, has_text, reason, ending, kind, interrupted)) in cases.into_iter().enumerate() {
        let mut attempt = handle.begin_attempt(2, 3).unwrap();
        attempt.push_tool_call(ms(3), 1, "call", Some("sh"), "{}").unwrap();
        if has_text {
            text(&mut attempt);
        }
        if let Some(reason) = reason {
            let usage = br#"{"type":"usage","usage":{"inputTokens":3,"outputTokens":2}}"#;
            attempt.push_json(ms(8), usage).unwrap();
            finish(&mut attempt, reason);
        }
        let stream = attempt.snapshot().unwrap();
        let settled = attempt.settle(ms(10), ending, &never()).unwrap();
        assert_eq!((settled.kind, settled.seq), (kind, seq as u64), "{what}");
        let events = handle.read(seq as u64, 1, &never()).unwrap();
        let event = events.iter().next().unwrap();
        let read = Settlement::read(kind, event.data()).unwrap();
        assert_eq!((read.turn, read.step, read.stream), (2, 3, &*stream), "{what}");
        assert_eq!(read.message.is_some_and(|message| message.interrupted), interrupted, "{what}");
        read.verify().unwrap();
        kind.check_envelope(event.source_event_seqs().is_some(), event.surface_op().is_some()).unwrap();
    }
}

#[test]
fn the_settlement_is_on_disk_before_the_end_frame_comes() {
    let disk = FaultDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    // Not even a store that syncs only when it is told to may be late here.
    let store = FileStore::on_disk(shared, "/store", options_on_flush(Encoding::Indexed));
    let below = SessionPersistence::create(&store, header("s"), None, &never()).unwrap();
    let handle = LiveHandle::new(below, LiveOptions::default()).unwrap();
    append(&handle, 1);
    handle.flush(&never()).unwrap();
    let (follower, _) = handle.follow(true);
    let follower = Arc::new(Mutex::new(follower));
    let mut attempt = handle.begin_attempt(1, 1).unwrap();
    attempt.push_text(ms(5), 0, "Hi").unwrap();
    let was_early = Arc::new(AtomicBool::new(false));
    let synced = Arc::new(AtomicBool::new(false));
    let (seen, early, reached) = (Arc::clone(&follower), Arc::clone(&was_early), Arc::clone(&synced));
    disk.before_next(OpKind::SyncData, move |_| {
        let got = deliveries(&mut seen.lock());
        let ends = got
            .iter()
            .any(|one| matches!(one, Delivery::Frame(frame) if matches!(frame.step, Step::End { .. })));
        early.store(ends, Ordering::Release);
        reached.store(true, Ordering::Release);
    });
    let settled = attempt.settle(ms(6), Ending::Finished(ANSWER), &never()).unwrap();
    assert!(synced.load(Ordering::Acquire) && !was_early.load(Ordering::Acquire));
    let last = deliveries(&mut follower.lock()).pop().unwrap();
    assert!(matches!(frame(&last).step, Step::End { outcome: Outcome::Committed { seq: 1, .. }, .. }));
    let after: Arc<dyn Disk> = Arc::new(disk.crash_image(1, FileLoss::DropUnsynced));
    let survived = FileStore::on_disk(after, "/store", options(Encoding::Indexed));
    let events = survived.open(&Text::from("s"), SessionAccess::Read).unwrap().read(0, 9).unwrap();
    assert_eq!(events.len() as u64, settled.seq + 1);
}

#[test]
fn an_attempt_that_cannot_be_stored_or_is_dropped_is_abandoned_and_leaves_nothing() {
    let disk = FaultDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let store = FileStore::on_disk(shared, "/store", options(Encoding::Indexed));
    let below = SessionPersistence::create(&store, header("s"), None, &never()).unwrap();
    let handle = LiveHandle::new(below, LiveOptions::default()).unwrap();
    append(&handle, 1);
    let before = disk.content(Path::new(LOG)).unwrap();
    let (mut follower, _) = handle.follow(true);
    let abandoned = |follower: &mut LiveFollower| {
        let got = deliveries(follower);
        assert!(got.iter().all(|one| matches!(one, Delivery::Frame(_))), "{got:?}");
        assert_eq!(frame(got.last().unwrap()).step, Step::End { index: 1, outcome: Outcome::Abandoned });
    };
    let begin = || {
        let mut attempt = handle.begin_attempt(1, 1).unwrap();
        attempt.push_text(ms(5), 0, "Hi").unwrap();
        attempt
    };
    begin().abandon();
    abandoned(&mut follower);
    let attempt = begin();
    disk.fail_next(OpKind::Append, Failure::Error(28));
    let refused = attempt.settle(ms(6), Ending::Finished(ANSWER), &never()).unwrap_err();
    assert!(matches!(refused, SettleError::Store(Error::Io { .. })), "{refused:?}");
    abandoned(&mut follower);
    assert_eq!(disk.content(Path::new(LOG)).unwrap(), before);
    let attempt = begin();
    handle.close().unwrap();
    let got = deliveries(&mut follower);
    assert_eq!(frame(&got[2]).step, Step::End { index: 1, outcome: Outcome::Abandoned });
    assert!(matches!(attempt.settle(ms(6), Ending::Failed, &never()), Err(SettleError::Over)));
}

#[test]
fn a_late_follower_gets_the_prefix_and_a_slow_one_a_gap_and_then_the_prefix() {
    let handle = in_memory(small(8));
    append(&handle, 3);
    let (mut slow, _) = handle.follow(true);
    let mut attempt = handle.begin_attempt(1, 1).unwrap();
    for index in 0..20 {
        attempt.push_text(ms(index), 0, "x").unwrap();
    }
    let (mut late, baseline) = handle.follow(true);
    let active = baseline.active.unwrap();
    assert_eq!((active.started_at, active.next_index, &*active.attempt_id), (3, 20, "s:1"));
    assert_eq!(expand(active.stream.as_bytes()).unwrap().chunks().count(), 20);
    assert_eq!(active.stream, attempt.snapshot().unwrap());
    assert_eq!(late.try_recv(), None);
    assert_eq!(slow.try_recv(), Some(Delivery::Gap));
    assert_eq!(slow.try_recv(), Some(Delivery::Gap), "until it begins again");
    let baseline = slow.rebaseline();
    assert_eq!(baseline.revision, 21);
    attempt.push_text(ms(99), 0, "y").unwrap();
    for follower in [&mut late, &mut slow] {
        let got = deliveries(follower);
        assert_eq!(got.len(), 1);
        assert_eq!(frame(&got[0]).revision, 22);
        assert!(matches!(frame(&got[0]).step, Step::Chunk { index: 20, .. }));
    }
    // Nobody asks for frames any more: they are counted all the same.
    drop((late, slow));
    attempt.push_text(ms(100), 0, "z").unwrap();
    assert_eq!(handle.follow(true).1.revision, 23);
}

#[test]
fn what_a_follower_has_taken_comes_before_its_gap_and_never_behind_a_new_baseline() {
    let handle = in_memory(small(8));
    let (mut follower, _) = handle.follow(true);
    let seq = |delivery: Option<Delivery>| match delivery {
        Some(Delivery::Event(event)) => event.seq,
        other => panic!("{other:?}"),
    };
    append(&handle, 5);
    assert_eq!(seq(follower.try_recv()), 0);
    append(&handle, 20);
    let taken: Vec<u64> = (0..4).map(|_| seq(follower.try_recv())).collect();
    assert_eq!(taken, [1, 2, 3, 4]);
    assert_eq!(follower.try_recv(), Some(Delivery::Gap));
    assert_eq!(follower.rebaseline().next_seq, 25);
    append(&handle, 3);
    assert_eq!(seq(follower.recv(Duration::ZERO)), 25);
    assert_eq!(follower.rebaseline().next_seq, 28, "two that were taken are part of it");
    assert_eq!(follower.try_recv(), None);
    append(&handle, 1);
    assert_eq!(seq(follower.recv(Duration::from_secs(60))), 28);
    // All that is left when the end comes.
    append(&handle, 2);
    handle.close().unwrap();
    assert_eq!((seq(follower.try_recv()), seq(follower.try_recv())), (29, 30));
    assert_eq!(follower.try_recv(), Some(Delivery::Closed));
}

#[test]
fn a_follower_waits_in_its_own_thread_and_events_that_went_around_are_caught_up() {
    let store = MemoryStore::new(&MemoryStorage::new());
    let below = SessionPersistence::create(&store, header("s"), None, &never()).unwrap();
    let handle = LiveHandle::new(Arc::clone(&below), LiveOptions::default()).unwrap();
    let (mut follower, _) = handle.follow(false);
    let waiting = std::thread::spawn(move || {
        let mut seqs = Vec::new();
        while let Some(Delivery::Event(event)) = follower.recv(Duration::from_secs(60)) {
            seqs.push(event.seq);
        }
        seqs
    });
    below.append(&[row_of("plan/mode", 0, "{\"active\":true}").as_bytes()], &never()).unwrap();
    append(&handle, 2);
    handle.close().unwrap();
    assert_eq!(waiting.join().unwrap(), [0, 1, 2]);
}

#[test]
fn all_that_wait_get_everything_in_order_however_many_they_are() {
    let handle = in_memory(small(1 << 16));
    let followers: Vec<_> = (0..50)
        .map(|at| {
            // Every fifth one asks for events only, and every other one is slow.
            let (follower, _) = handle.follow(at % 5 != 0);
            let mut follower = follower.with_pace(Duration::from_millis(at % 3));
            std::thread::spawn(move || {
                let mut got = Vec::new();
                loop {
                    match follower.recv(Duration::from_secs(60)).expect("nobody waits in vain") {
                        Delivery::Closed => return (at, got),
                        Delivery::Frame(frame) => got.push(frame.revision),
                        Delivery::Event(event) => got.push(1_000_000 + event.seq),
                        other => panic!("{other:?}"),
                    }
                    if at % 2 == 0 && got.len() % 40 == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            })
        })
        .collect();
    let mut attempt = handle.begin_attempt(1, 1).unwrap();
    for index in 0..600 {
        attempt.push_text(ms(index), 0, "x").unwrap();
        if index % 30 == 0 {
            append(&handle, 1);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    attempt.settle(ms(700), Ending::Finished(ANSWER), &never()).unwrap();
    handle.close().unwrap();
    for follower in followers {
        let (at, got) = follower.join().unwrap();
        let frames: Vec<u64> = got.iter().copied().filter(|one| *one < 1_000_000).collect();
        let events: Vec<u64> = got.iter().copied().filter(|one| *one >= 1_000_000).collect();
        assert_eq!(events, (1_000_000..1_000_021).collect::<Vec<_>>());
        assert_eq!(frames, if at % 5 == 0 { Vec::new() } else { (1..=602).collect() });
    }
}

#[test]
fn a_paced_follower_wakes_seldom_and_misses_nothing() {
    let handle = in_memory(LiveOptions::default());
    let (follower, _) = handle.follow(true);
    let mut follower = follower.with_pace(Duration::from_millis(40));
    let paced = std::thread::spawn(move || {
        let (mut wakes, mut got) = (0, 0);
        loop {
            let first = follower.recv(Duration::from_secs(60)).expect("something came");
            wakes += 1;
            let mut next = Some(first);
            while let Some(delivery) = next {
                if delivery == Delivery::Closed {
                    return (wakes, got);
                }
                got += 1;
                next = follower.try_recv();
            }
        }
    });
    let mut attempt = handle.begin_attempt(1, 1).unwrap();
    let start = std::time::Instant::now();
    for index in 0..100 {
        attempt.push_text(ms(index), 0, "x").unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    attempt.abandon();
    let span = start.elapsed().as_millis() as u64;
    handle.close().unwrap();
    let (wakes, got) = paced.join().unwrap();
    assert_eq!(got, 102);
    assert!(wakes <= span / 40 + 3, "{wakes} in {span} ms");
}

#[test]
fn the_same_recording_gives_the_same_frames_and_records_at_any_pace() {
    let mut recorded = Accumulator::new();
    for (time, chunk) in [
        (100, r#"{"type":"block-start","index":0,"blockType":"text"}"#),
        (130, r#"{"type":"text-delta","index":0,"text":"a"}"#),
        (125, r#"{"type":"text-delta","index":0,"text":"b"}"#),
        (190, r#"{"type":"finish","reason":{"kind":"stop"}}"#),
    ] {
        recorded.push_json(ms(time), chunk.as_bytes()).unwrap();
    }
    let recorded = recorded.snapshot();
    let run = |pace| {
        let handle = in_memory(LiveOptions::default());
        let (mut follower, _) = handle.follow(true);
        let mut attempt = handle.begin_attempt(1, 1).unwrap();
        let mut waits = Vec::new();
        let count = replay(
            recorded.as_bytes(),
            pace,
            &mut |gap| {
                waits.push(gap.as_millis());
                ControlFlow::Continue(())
            },
            &mut attempt,
        );
        assert_eq!(count.unwrap(), 4);
        assert_eq!(attempt.snapshot().unwrap(), recorded);
        (deliveries(&mut follower), waits)
    };
    let (frames, waits) = run(Pace::Recorded);
    assert_eq!(waits, [30, 65]);
    assert_eq!(run(Pace::Zero), (frames, Vec::new()));
}

#[test]
fn live_rows_sort_between_events_as_clients_expect() {
    let mut view = View::new();
    let log = |seqs: std::ops::Range<u64>| {
        seqs.map(|seq| LiveEvent { seq, row: Arc::from(row_of("plan/mode", seq, "{}").as_bytes()) })
            .collect::<Vec<_>>()
    };
    let _all_new = view.replace(log(0..42), None).unwrap();
    let frame = |revision, step| Frame { attempt_id: Arc::from("s:1"), revision, step };
    let chunk = |revision, index| {
        frame(
            revision,
            Step::Chunk {
                index,
                time: ms(1),
                json: Arc::from(r#"{"type":"text-delta","index":0,"text":"x"}"#),
            },
        )
    };
    let keys = |view: &View| -> Vec<String> {
        let key = |entry: &Entry| match entry {
            Entry::Live(row) => Some(format!("{:.3}", row.sort_key())),
            _ => None,
        };
        view.entries().iter().filter_map(key).collect()
    };
    assert_eq!(view.frame(&frame(7, Step::Start { turn: 1, step: 1, next_seq: 42 })), Decision::Nothing);
    assert_eq!(view.frame(&chunk(8, 0)), Decision::Show(Change::Append));
    assert_eq!(view.frame(&chunk(9, 1)), Decision::Show(Change::Append));
    assert_eq!(keys(&view), ["41.500", "41.667"]);
    assert_eq!(view.event(log(42..43).pop().unwrap()), Decision::Show(Change::Append));
    assert_eq!(view.frame(&chunk(10, 2)), Decision::Show(Change::Append));
    assert_eq!(keys(&view), ["41.500", "41.667", "42.500"]);
    let data = "{\"turn\":1,\"step\":1,\"stream\":[]}";
    let settlement = LiveEvent { seq: 43, row: Arc::from(row_of("assistant/attempt", 43, data).as_bytes()) };
    assert_eq!(view.event(settlement), Decision::Nothing, "held back");
    let outcome = Outcome::Committed { kind: SettlementKind::Attempt, seq: 43 };
    let change = Change::Settle { attempt_id: Arc::from("s:1"), seq: Some(43) };
    assert_eq!(view.frame(&frame(11, Step::End { index: 3, outcome })), Decision::Show(change));
    assert_eq!(view.entries().len(), 44);
    assert_eq!(keys(&view), [""; 0]);
    // What does not fit asks for a new start.
    assert_eq!(view.frame(&chunk(13, 0)), Decision::Rebaseline, "a revision was missed");
    assert_eq!(view.event(log(45..46).pop().unwrap()), Decision::Rebaseline, "an event was missed");
    assert_eq!(view.event(log(3..4).pop().unwrap()), Decision::Nothing, "an event that is there");
}

/// A client: follows, reads what is stored, and folds.
struct Client {
    follower: LiveFollower,
    view: View,
    chat: Chat,
    trajectory: Trajectory,
    /// Of what the chat shows, as far as its changes told.
    screen: BTreeMap<String, String>,
}

impl Client {
    fn new(handle: &LiveHandle) -> Self {
        let (follower, baseline) = handle.follow(true);
        let (chat, trajectory) = (Chat::new(), Trajectory::new());
        let mut client = Self { follower, view: View::new(), chat, trajectory, screen: BTreeMap::new() };
        client.start(handle, &baseline);
        client
    }

    /// Follows a handle that came after a crash: what the old one had to say is lost.
    fn reopen(&mut self, handle: &LiveHandle) {
        let (follower, baseline) = handle.follow(true);
        self.follower = follower;
        self.start(handle, &baseline);
    }

    fn start(&mut self, handle: &LiveHandle, baseline: &Baseline) {
        // More may be stored by now than the baseline knows.
        let events = log_of(handle, u64::MAX);
        let change = self.view.replace(events, Some(baseline)).unwrap();
        assert_eq!(change, Change::Replace);
        self.show(&change);
    }

    fn show(&mut self, change: &Change) {
        assert_eq!(self.view.change(), Some(change));
        self.chat.change(change, self.view.entries());
        self.trajectory.change(change, self.view.entries());
        for key in self.chat.changes() {
            match self.chat.get(&key) {
                Some(entry) => {
                    drop(self.screen.insert(key.to_string(), json_of(|out| entry.write_json(&key, out))))
                }
                None => drop(self.screen.remove(&key.to_string())),
            }
        }
    }

    fn take(&mut self, handle: &LiveHandle, most: usize) {
        for _ in 0..most {
            let decision = match self.follower.try_recv() {
                None => return,
                Some(Delivery::Event(event)) => self.view.event(event),
                Some(Delivery::Frame(frame)) => self.view.frame(&frame),
                Some(Delivery::Gap) => Decision::Rebaseline,
                Some(other) => panic!("{other:?}"),
            };
            match decision {
                Decision::Rebaseline => {
                    let baseline = self.follower.rebaseline();
                    self.start(handle, &baseline);
                }
                Decision::Show(change) => self.show(&change),
                _ => {}
            }
        }
    }

    /// The stored part of the window, and the chunks behind it.
    fn parts(&self) -> (Vec<LiveEvent>, Vec<&LiveRow>) {
        let mut parts = (Vec::new(), Vec::new());
        for entry in self.view.entries() {
            match entry {
                Entry::Event(event) => parts.0.push(event.clone()),
                Entry::Live(row) => parts.1.push(row),
                other => panic!("{other:?}"),
            }
        }
        parts
    }

    /// What the folds show.
    fn shown(&self) -> [String; 2] {
        [json_of(|out| self.chat.write_json(out)), json_of(|out| self.trajectory.write_json(out))]
    }

    /// The same without the places of what is under way: whoever comes late has other rows in other places.
    fn shown_anywhere(&self) -> (BTreeMap<String, String>, String) {
        let entries = self.chat.entries().map(|(key, entry)| match entry {
            ChatEntry::Answer(answer) => {
                let blocks = json_of(|out| answer.blocks.write_json(out));
                (
                    key.to_string(),
                    format!("{:?} {:?} {:?} {blocks}", answer.status, answer.usage, answer.timing),
                )
            }
            entry => (key.to_string(), json_of(|out| entry.write_json(key, out))),
        });
        (entries.collect(), json_of(|out| self.trajectory.write_json(out)))
    }

    /// The folds did not miss anything: they show what folds of the whole window show, and a screen that looked at nothing but
    /// changes shows it too.
    fn assert_folds_are_those_of_the_window(&self) {
        let (mut chat, mut trajectory) = (Chat::new(), Trajectory::new());
        chat.change(&Change::Replace, self.view.entries());
        trajectory.change(&Change::Replace, self.view.entries());
        let again = [json_of(|out| chat.write_json(out)), json_of(|out| trajectory.write_json(out))];
        assert_eq!(self.shown(), again);
        let entries = self
            .chat
            .entries()
            .map(|(key, entry)| (key.to_string(), json_of(|out| entry.write_json(key, out))));
        assert_eq!(self.screen, entries.collect());
    }
}

fn json_of(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

/// What folds show that never saw anything but the log.
fn shown_of_log(handle: &LiveHandle) -> [String; 2] {
    let (mut chat, mut trajectory) = (Chat::new(), Trajectory::new());
    for event in handle.read(0, u64::MAX, &never()).unwrap().iter() {
        chat.event(&event);
        trajectory.event(&event);
    }
    [json_of(|out| chat.write_json(out)), json_of(|out| trajectory.write_json(out))]
}

#[derive(Clone, Debug)]
enum Op {
    Append(u64),
    /// An event of the step that is open, or of its turn.
    Event(usize),
    /// In a new step, or once more in the one that is open.
    Begin(bool),
    Text(u8),
    Reasoning,
    Call,
    Usage,
    Start,
    Finish(bool),
    Cancel,
    Fail,
    Abandon,
    Crash,
    Join,
    Take(usize, usize),
    Drain,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => (1_u64..4).prop_map(Op::Append),
        6 => (0_usize..EVENTS.len()).prop_map(Op::Event),
        4 => any::<bool>().prop_map(Op::Begin),
        8 => (0_u8..3).prop_map(Op::Text),
        2 => Just(Op::Reasoning),
        2 => Just(Op::Call),
        1 => Just(Op::Usage),
        1 => Just(Op::Start),
        3 => any::<bool>().prop_map(Op::Finish),
        1 => Just(Op::Cancel),
        1 => Just(Op::Fail),
        1 => Just(Op::Abandon),
        1 => Just(Op::Crash),
        1 => Just(Op::Join),
        5 => (0_usize..6, 1_usize..8).prop_map(|(client, most)| Op::Take(client, most)),
        2 => Just(Op::Drain),
    ]
}

/// Events whose payload begins with turn and step.
const EVENTS: [(&str, &str, bool); 7] = [
    ("step/start", "", false),
    ("step/end", "", false),
    ("turn/end", r#","reason":{"kind":"completed"}"#, false),
    (
        "llm/retry",
        r#","retryId":"r","provider":"p","mode":"normal","policyKey":"k","retry":1,"maxRetries":3,"delayMs":2.5,"failure":{"message":"busy","code":"SERVER"}"#,
        false,
    ),
    ("tool/call", r#","callId":"c","name":"sh","arguments":"{}""#, false),
    (
        "tool/result",
        r#","message":{"id":"t","role":"user","source":{"kind":"tool","callId":"c"},"content":[{"type":"tool-result","toolCallId":"c","content":[],"isError":true}]}"#,
        true,
    ),
    (
        "user/message",
        r#","id":"u","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"go"}]"#,
        true,
    ),
];

fn append_event(handle: &LiveHandle, which: usize, step: u64) {
    let (kind, more, is_surface) = EVENTS[which];
    let seq = handle.next_seq().unwrap();
    let row = row_of(kind, seq, &format!("{{\"turn\":1,\"step\":{step}{more}}}"));
    let op = if is_surface { ",\"surfaceOp\":\"append\"}" } else { "}" };
    let row = format!("{}{op}", row.strip_suffix('}').unwrap());
    handle.append(&[row.as_bytes()], &never()).unwrap();
}

proptest! {
    #[test]
    fn what_baseline_frames_and_settlements_show_is_what_the_log_alone_shows(
        ops in proptest::collection::vec(op(), 1..120),
        kept_max in 1_usize..40,
    ) {
        let storage = MemoryStorage::new();
        let store = MemoryStore::new(&storage);
        let below = SessionPersistence::create(&store, header("s"), None, &never()).unwrap();
        let mut handle = LiveHandle::new(below, small(kept_max)).unwrap();
        // A log that has nothing is not there behind a crash.
        append(&handle, 1);
        let mut clients = vec![Client::new(&handle)];
        let mut attempt: Option<Attempt> = None;
        let mut step = 1;
        for (time, op) in ops.into_iter().enumerate() {
            let time = ms(time as i64);
            let settle = |attempt: Option<Attempt>, ending: Ending<'_>| {
                attempt.map(|attempt| attempt.settle(time, ending, &never()).unwrap())
            };
            match op {
                Op::Append(count) => append(&handle, count),
                // A retry is decided upon when its attempt is stored: while one is under way, whoever comes late cannot know
                // which of its chunks came before.
                Op::Event(which) if EVENTS[which].0 != "llm/retry" || attempt.is_none() => {
                    append_event(&handle, which, step);
                }
                Op::Event(_) => {}
                Op::Begin(is_new) if attempt.is_none() => {
                    step += u64::from(is_new);
                    attempt = Some(handle.begin_attempt(1, step).unwrap());
                }
                Op::Begin(_) => {}
                Op::Text(index) => if let Some(attempt) = &mut attempt {
                    let text = if index == 2 { "\n" } else { "t🔑" };
                    attempt.push_text(time, u64::from(index), text).unwrap();
                },
                Op::Reasoning => if let Some(attempt) = &mut attempt {
                    attempt.push_reasoning(time, 7, "why").unwrap();
                },
                Op::Call => if let Some(attempt) = &mut attempt {
                    attempt.push_tool_call(time, 8, "c", Some("sh"), "{}").unwrap();
                },
                Op::Usage => if let Some(attempt) = &mut attempt {
                    attempt.push_json(time, br#"{"type":"usage","usage":{"inputTokens":3,"outputTokens":2}}"#).unwrap();
                },
                Op::Start => if let Some(attempt) = &mut attempt {
                    attempt.push_json(time, br#"{"type":"block-start","index":0,"blockType":"text"}"#).unwrap();
                },
                Op::Finish(is_well) => {
                    if let Some(attempt) = &mut attempt {
                        finish(attempt, if is_well { "stop" } else { "error" });
                    }
                    settle(attempt.take(), Ending::Finished(ANSWER));
                }
                Op::Cancel => drop(settle(attempt.take(), Ending::Cancelled(ANSWER))),
                Op::Fail => drop(settle(attempt.take(), Ending::Failed)),
                Op::Abandon => drop(attempt.take()),
                Op::Crash => {
                    handle.close().unwrap();
                    let below = SessionPersistence::open(&store, &Text::from("s"), SessionAccess::Write, &never());
                    handle = LiveHandle::new(below.unwrap(), small(kept_max)).unwrap();
                    clients.iter_mut().for_each(|client| client.reopen(&handle));
                    attempt = None;
                }
                Op::Join => clients.push(Client::new(&handle)),
                Op::Take(client, most) => {
                    let at = client % clients.len();
                    clients[at].take(&handle, most);
                    clients[at].assert_folds_are_those_of_the_window();
                }
                Op::Drain => {
                    let log = log_of(&handle, u64::MAX);
                    let stream = attempt.as_ref().map(|attempt| attempt.snapshot().unwrap());
                    let late = Client::new(&handle);
                    for client in &mut clients {
                        client.take(&handle, usize::MAX);
                        client.assert_folds_are_those_of_the_window();
                        prop_assert_eq!(client.shown_anywhere(), late.shown_anywhere());
                        let (events, live) = client.parts();
                        prop_assert_eq!(&events, &log);
                        let mut again = Accumulator::new();
                        for row in &live {
                            again.push_json(row.time, row.json.as_bytes()).unwrap();
                        }
                        let shown = client.view.attempt_id().map(|_| again.snapshot());
                        prop_assert_eq!(&shown, &stream);
                        prop_assert!(stream.is_some() || live.is_empty());
                    }
                }
            }
        }
        // The end: nothing is under way, and what is shown is the log, as a client sees it that comes now.
        drop(attempt);
        let late = Client::new(&handle);
        let of_log = shown_of_log(&handle);
        for client in &mut clients {
            client.take(&handle, usize::MAX);
            prop_assert_eq!(client.view.entries(), late.view.entries());
            prop_assert_eq!(&client.shown(), &of_log);
        }
        for event in handle.read(0, u64::MAX, &never()).unwrap().iter() {
            if let Some(kind) = SettlementKind::of_event(&event.event_type().to_string_lossy()) {
                Settlement::read(kind, event.data()).unwrap().verify().unwrap();
            }
        }
    }
}
