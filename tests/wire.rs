//! Does a session that is followed over a wire show the same there as at home, and does each end do what the protocol asks of it?

mod common;

use std::sync::Arc;

use common::sessions::{header, row_of};
use proptest::prelude::*;
use seslog::live::{
    ActiveAttempt, Answer, Attempt, Baseline, Change, Chat, Decision, Delivery, Ending, Entry, FeedEnd,
    FollowClient, FollowFeed, FollowRequest, Frame, LiveEvent, LiveFollower, LiveHandle, LiveOptions,
    Outcome, Relay, Snapshot, Step, TransportFault, View, WindowFold, WireFault, WireMessage,
};
use seslog::store::{Cancel, MemoryStorage, MemoryStore, SessionHandle, SessionPersistence};
use seslog::stream::SettlementKind;
use seslog::units::UnixMs;

const ROW: &str = r#"{"type":"plan/mode","seq":0,"time":5,"data":{"active":true}}"#;
const TEXT: &str = r#"{"type":"text-delta","index":0,"text":"x"}"#;

fn frame(attempt: &str, revision: u64, step: Step) -> Frame {
    Frame { attempt_id: Arc::from(attempt), revision, step }
}

fn start(attempt: &str, revision: u64) -> Frame {
    frame(attempt, revision, Step::Start { turn: 1, step: 1, next_seq: 42 })
}

fn chunk(attempt: &str, revision: u64, index: u64) -> Frame {
    frame(attempt, revision, Step::Chunk { index, time: UnixMs::new(7), json: Arc::from(TEXT) })
}

fn end(attempt: &str, revision: u64, index: u64, outcome: Outcome) -> Frame {
    frame(attempt, revision, Step::End { index, outcome })
}

fn committed(seq: u64) -> Outcome {
    Outcome::Committed { kind: SettlementKind::Attempt, seq }
}

fn event(seq: u64) -> LiveEvent {
    LiveEvent { seq, row: Arc::from(row_of("plan/mode", seq, "{}").as_bytes()) }
}

fn attempt_of(seq: u64, step: u64) -> LiveEvent {
    let data = format!("{{\"turn\":1,\"step\":{step},\"stream\":[]}}");
    LiveEvent { seq, row: Arc::from(row_of("assistant/attempt", seq, &data).as_bytes()) }
}

fn snapshot(next_seq: u64, baseline: Option<Baseline>) -> Snapshot {
    Snapshot {
        header: "{\"v\":2}".to_owned(),
        next_seq,
        records: Vec::new(),
        has_more: false,
        projections: "{}".to_owned(),
        assistant_stream: baseline,
    }
}

fn json(message: &WireMessage) -> String {
    let mut out = Vec::new();
    message.write_json(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_request_is_read_as_it_is_written_and_refused_with_its_member() {
    let json = |request: &FollowRequest| {
        let mut out = Vec::new();
        request.write_json(&mut out);
        String::from_utf8(out).unwrap()
    };
    let short = FollowRequest { address: "\"s\"".to_owned(), max_messages: None, assistant_stream: false };
    assert_eq!(json(&short), r#"{"address":"s"}"#);
    let long = FollowRequest { max_messages: 7.try_into().ok(), assistant_stream: true, ..short.clone() };
    assert_eq!(json(&long), r#"{"address":"s","maxMessages":7,"assistantStream":true}"#);
    for request in [short, long] {
        assert_eq!(FollowRequest::read_json(json(&request).as_bytes()), Ok(request));
    }
    assert_eq!(FollowRequest::MESSAGES_DEFAULT.get(), 50);
    let fault = |json: &str| FollowRequest::read_json(json.as_bytes()).unwrap_err();
    assert!(matches!(fault("{"), WireFault::NotJson(_)));
    for bad in ["0", "-1", "1.5", "9007199254740992", "\"1\"", "null"] {
        let request = format!("{{\"address\":1,\"maxMessages\":{bad}}}");
        assert_eq!(fault(&request), WireFault::Member("maxMessages"), "{bad}");
    }
    assert_eq!(fault(r#"{"maxMessages":1}"#), WireFault::Member("address"));
    assert_eq!(fault(r#"{"address":1,"assistantStream":false}"#), WireFault::Member("assistantStream"));
}

#[test]
fn messages_have_the_form_that_clients_read_and_are_read_as_they_are_written() {
    let active = ActiveAttempt::new("s:1", 0, 1, 2, "[]").unwrap();
    let mut shown = snapshot(1, Some(Baseline::new(1, 9, Some(active))));
    shown.records = vec![LiveEvent { seq: 0, row: Arc::from(ROW.as_bytes()) }];
    let messages = [
        (
            WireMessage::Snapshot(shown),
            format!(
                r#"{{"type":"snapshot","header":{{"v":2}},"cursor":0,"records":[{{"type":"event","event":{ROW}}}],"hasMore":false,"projections":{{}},"assistantStream":{{"revision":9,"activeAttempt":{{"attemptId":"s:1","startedAfterSeq":-1,"turn":1,"step":2,"nextIndex":0,"stream":[]}}}}}}"#
            ),
        ),
        (
            WireMessage::Snapshot(snapshot(0, Some(Baseline::new(0, 0, None)))),
            r#"{"type":"snapshot","header":{"v":2},"cursor":-1,"records":[],"hasMore":false,"projections":{},"assistantStream":{"revision":0}}"#.to_owned(),
        ),
        (
            WireMessage::Event(LiveEvent { seq: 0, row: Arc::from(ROW.as_bytes()) }),
            format!(r#"{{"type":"event","event":{ROW}}}"#),
        ),
        (
            WireMessage::Frame(Arc::new(start("s:1", 7))),
            r#"{"type":"assistant-stream","frame":{"type":"start","attemptId":"s:1","revision":7,"turn":1,"step":1,"startedAfterSeq":41}}"#.to_owned(),
        ),
        (
            WireMessage::Frame(Arc::new(chunk("s:1", 8, 0))),
            format!(r#"{{"type":"assistant-stream","frame":{{"type":"chunk","attemptId":"s:1","revision":8,"index":0,"time":7,"chunk":{TEXT}}}}}"#),
        ),
        (
            WireMessage::Frame(Arc::new(end("s:1", 9, 1, committed(43)))),
            r#"{"type":"assistant-stream","frame":{"type":"end","attemptId":"s:1","revision":9,"index":1,"outcome":{"kind":"committed","eventType":"assistant/attempt","seq":43}}}"#.to_owned(),
        ),
        (
            WireMessage::Frame(Arc::new(end("s:1", 9, 1, Outcome::Abandoned))),
            r#"{"type":"assistant-stream","frame":{"type":"end","attemptId":"s:1","revision":9,"index":1,"outcome":{"kind":"abandoned"}}}"#.to_owned(),
        ),
    ];
    for (message, expected) in &messages {
        assert_eq!(&json(message), expected);
        assert_eq!(WireMessage::read_json(expected.as_bytes()).as_ref(), Ok(message));
    }
    for (bad, fault) in [
        ("{}", WireFault::Type),
        (r#"{"type":"page"}"#, WireFault::Type),
        (r#"{"type":"event"}"#, WireFault::Member("event")),
        (r#"{"type":"assistant-stream","frame":{"type":"pause"}}"#, WireFault::Type),
        (r#"{"type":"snapshot","cursor":-2}"#, WireFault::Member("cursor")),
        (r#"{"type":"snapshot","cursor":1}"#, WireFault::Member("records")),
    ] {
        assert_eq!(WireMessage::read_json(bad.as_bytes()), Err(fault), "{bad}");
    }
    let torn = br#"{"type":"event","event":{"type":"x"}}"#;
    assert!(matches!(WireMessage::read_json(torn), Err(WireFault::Row(_))));
}

#[test]
fn a_feed_sends_what_its_snapshot_does_not_cover_and_ends_at_a_jump() {
    let mut feed = FollowFeed::behind(&snapshot(2, Some(Baseline::new(2, 5, None))));
    let mut send = |delivery: &Delivery| {
        let mut out = Vec::new();
        let sent = feed.deliver(delivery, &mut out);
        assert_eq!(sent.unwrap_or_default(), !out.is_empty());
        sent
    };
    let of_event = |seq| Delivery::Event(event(seq));
    assert_eq!(send(&of_event(0)), Ok(false), "skipped silently");
    assert_eq!(send(&Delivery::Frame(Arc::new(start("s:1", 5)))), Ok(false), "covered by the baseline");
    assert_eq!(send(&Delivery::Frame(Arc::new(start("s:2", 6)))), Ok(true));
    assert_eq!(send(&of_event(2)), Ok(true));
    assert_eq!(send(&of_event(2)), Ok(false));
    assert_eq!(send(&of_event(4)), Err(FeedEnd::Jump { expected: 3, found: 4 }));
    assert_eq!(send(&Delivery::Gap), Err(FeedEnd::Gap));
    assert_eq!(send(&Delivery::Closed), Err(FeedEnd::Closed));
    let mut without = FollowFeed::behind(&snapshot(0, None));
    assert_eq!(
        without.deliver(&Delivery::Frame(Arc::new(start("s:1", 1))), &mut Vec::new()),
        Ok(false),
        "not asked for"
    );
}

#[test]
fn a_client_takes_a_gap_of_revisions_for_a_lost_carrier_and_a_missing_baseline_for_the_end() {
    let message = |frame: Frame| json(&WireMessage::Frame(Arc::new(frame)));
    let begun = |baseline| {
        let mut client = FollowClient::new(true);
        let first = json(&WireMessage::Snapshot(snapshot(0, baseline)));
        client.receive(first.as_bytes()).map(|_| client)
    };
    assert_eq!(begun(None).unwrap_err(), TransportFault::NoBaseline);
    assert!(!TransportFault::NoBaseline.is_retryable() && !TransportFault::Snapshot.is_retryable());
    let mut client = begun(Some(Baseline::new(0, 5, None))).unwrap();
    assert!(client.receive(message(start("s:1", 6)).as_bytes()).is_ok());
    let lost = client.receive(message(chunk("s:1", 8, 1)).as_bytes()).unwrap_err();
    assert_eq!(lost, TransportFault::CarrierLost { expected: 7, found: 8 });
    assert!(lost.is_retryable());
    let mut client = begun(Some(Baseline::new(0, 5, None))).unwrap();
    let anew = client.receive(message(start("s:1", 1)).as_bytes()).unwrap_err();
    assert_eq!(anew, TransportFault::CarrierLost { expected: 6, found: 1 }, "an agent that began anew");
    let second = json(&WireMessage::Snapshot(snapshot(0, Some(Baseline::new(0, 5, None)))));
    assert_eq!(client.receive(second.as_bytes()), Err(TransportFault::Snapshot));
    let mut early = FollowClient::new(true);
    assert_eq!(early.receive(message(start("s:1", 1)).as_bytes()), Err(TransportFault::Snapshot));
    let mut not_asked = FollowClient::new(false);
    let first = json(&WireMessage::Snapshot(snapshot(0, None)));
    assert!(not_asked.receive(first.as_bytes()).is_ok());
}

#[test]
fn a_relay_forgets_an_attempt_that_it_missed_something_of_and_begins_anew_with_its_agent() {
    let active = |relay: &Relay| {
        let baseline = relay.baseline(50);
        let active = baseline
            .active
            .map(|active| (active.attempt_id.to_string(), active.started_at, active.next_index));
        (baseline.revision, active)
    };
    let attempt = |started_at, next_index| Some(("s:1".to_owned(), started_at, next_index));
    let mut relay = Relay::new();
    assert_eq!(active(&relay), (0, None));
    let begun = || {
        let mut relay = Relay::new();
        relay.frame(&start("s:1", 1), 7);
        relay.frame(&chunk("s:1", 2, 0), 8);
        assert_eq!(active(&relay), (2, attempt(7, 1)), "started where the log was when the frame was seen");
        relay
    };
    for (next, revision) in [
        (chunk("s:1", 4, 1), 4),
        (chunk("s:1", 2, 1), 2),
        (chunk("s:1", 3, 2), 3),
        (chunk("s:2", 3, 1), 3),
        (end("s:1", 3, 1, Outcome::Abandoned), 3),
        (start("s:2", 9), 9),
    ] {
        let mut relay = begun();
        relay.frame(&next, 8);
        assert_eq!(active(&relay), (revision, None), "{next:?}");
        relay.frame(&start("s:3", revision + 1), 9);
        let anew = relay.baseline(9).active.unwrap();
        assert_eq!((&*anew.attempt_id, anew.next_index, &*anew.stream), ("s:3", 0, "[]"));
    }
    let mut replaced = begun();
    replaced.frame(&start("s:2", 3), 9);
    assert_eq!(&*replaced.baseline(9).active.unwrap().attempt_id, "s:2");
    let mut anew = begun();
    anew.frame(&start("s:1", 1), 3);
    assert_eq!(active(&anew), (1, attempt(3, 0)), "the agent began anew");
    relay.frame(&chunk("s:1", 1, 0), 1);
    assert_eq!(active(&relay), (1, None), "a chunk of nothing");
}

/// A window through 41, in which attempt `s:1` started and had a chunk; the next revision is 9.
fn begun() -> View {
    let mut view = View::new();
    let _all_new = view.replace((0..42).map(event).collect(), None).unwrap();
    assert_eq!(view.frame(&start("s:1", 7)), Decision::Nothing);
    assert_eq!(view.frame(&chunk("s:1", 8, 0)), Decision::Show(Change::Append));
    view
}

fn live_rows(view: &View) -> usize {
    view.entries().iter().filter(|entry| matches!(entry, Entry::Live(_))).count()
}

#[test]
fn every_case_of_a_frame_has_its_decision() {
    let settle = |seq| Decision::Show(Change::Settle { attempt_id: Arc::from("s:1"), seq });
    let message = Outcome::Committed { kind: SettlementKind::Message, seq: 42 };
    // What comes behind `begun`, and what the last of it decides.
    type Case = (&'static str, Option<LiveEvent>, Frame, Decision, usize);
    let cases: [Case; 12] = [
        ("a start while one is active", None, start("s:2", 9), Decision::Rebaseline, 1),
        ("a chunk of another one", None, chunk("s:9", 9, 1), Decision::Nothing, 1),
        ("a chunk out of turn", None, chunk("s:1", 9, 2), Decision::Rebaseline, 1),
        ("the next chunk", None, chunk("s:1", 9, 1), Decision::Show(Change::Append), 2),
        ("the end of another one", None, end("s:9", 9, 1, committed(42)), Decision::Nothing, 1),
        ("an end out of turn", None, end("s:1", 9, 2, Outcome::Abandoned), Decision::Rebaseline, 1),
        ("abandoned", None, end("s:1", 9, 1, Outcome::Abandoned), settle(None), 0),
        (
            "abandoned, with a settlement",
            Some(attempt_of(42, 1)),
            end("s:1", 9, 1, Outcome::Abandoned),
            Decision::Rebaseline,
            1,
        ),
        ("committed, and shown already", None, end("s:1", 9, 1, committed(41)), Decision::Nothing, 1),
        ("committed, and not there", None, end("s:1", 9, 1, committed(42)), Decision::Rebaseline, 1),
        (
            "committed as another type",
            Some(attempt_of(42, 1)),
            end("s:1", 9, 1, message),
            Decision::Rebaseline,
            1,
        ),
        ("committed", Some(attempt_of(42, 1)), end("s:1", 9, 1, committed(42)), settle(Some(42)), 0),
    ];
    for (what, before, frame, decision, rows) in cases {
        let mut view = begun();
        if let Some(event) = before {
            assert_eq!(view.event(event), Decision::Nothing, "{what}: held back");
        }
        assert_eq!(view.frame(&frame), decision, "{what}");
        assert_eq!(live_rows(&view), rows, "{what}");
    }
    let mut mounted = View::new();
    let _all_new = mounted.replace(Vec::new(), None).unwrap();
    assert_eq!(mounted.frame(&chunk("s:1", 8, 3)), Decision::Nothing, "mounted in the middle");
    assert_eq!(mounted.frame(&end("s:1", 9, 4, committed(0))), Decision::Nothing);
    assert_eq!(mounted.event(attempt_of(0, 1)), Decision::Show(Change::Append), "an event like others");
}

#[test]
fn a_settlement_is_held_back_if_it_is_that_of_the_attempt_and_else_shown() {
    let op = |row: &str, op: &str| format!("{},\"surfaceOp\":{op}}}", row.strip_suffix('}').unwrap());
    let message = row_of(
        "assistant/message",
        42,
        r#"{"turn":1,"step":1,"message":{"id":"m","role":"assistant","content":[],"source":{"kind":"model","provider":"p","model":"m"}},"stream":[]}"#,
    );
    let of = |row: String| LiveEvent { seq: 42, row: Arc::from(row.as_bytes()) };
    let shown = Decision::Show(Change::Append);
    for (event, decision) in [
        (attempt_of(42, 1), Decision::Nothing),
        (of(op(&message, "\"append\"")), Decision::Nothing),
        (of(op(&message, "\"app\\u0065nd\"")), Decision::Nothing),
        (of(op(&message, r#"{"op":"replace","start":0,"end":0}"#)), shown.clone()),
        (attempt_of(42, 2), shown.clone()),
        (event(42), shown),
    ] {
        assert_eq!(begun().event(event.clone()), decision, "{}", String::from_utf8_lossy(&event.row));
    }
    // One that was stored before the attempt started is another one's.
    let mut view = View::new();
    let _all_new = view.replace((0..42).map(event).collect(), None).unwrap();
    let late = frame("s:1", 7, Step::Start { turn: 1, step: 1, next_seq: 43 });
    assert_eq!(view.frame(&late), Decision::Nothing);
    assert_eq!(view.event(attempt_of(42, 1)), Decision::Show(Change::Append));
}

#[test]
fn a_baseline_gives_one_live_row_for_each_chunk_and_the_settlement_goes_where_its_seq_stands() {
    let stream = r#"[{"type":"text-chunks","time0":5,"index":0,"dt":[1,1],"texts":["a","b","c"]}]"#;
    let active = ActiveAttempt::new("s:1", 48, 1, 1, stream).unwrap();
    let mut view = View::new();
    let change =
        view.replace((0..51).map(event).collect(), Some(&Baseline::new(51, 20, Some(active.clone()))));
    assert_eq!(change.unwrap(), Change::Replace);
    let keys = |view: &View| -> Vec<String> {
        let live = view.entries().iter().filter(|entry| matches!(entry, Entry::Live(_)));
        live.map(|entry| format!("{:.3}", entry.place().sort_key())).collect()
    };
    assert_eq!(keys(&view), ["50.500", "50.667", "50.750"]);
    assert_eq!(view.frame(&chunk("s:1", 21, 3)), Decision::Show(Change::Append));
    assert_eq!(keys(&view).last().unwrap(), "50.800");
    let mut json = Vec::new();
    view.entries().last().unwrap().write_json(&mut json);
    let row = format!(
        r#"{{"type":"transient","event":{{"type":"assistant/live-chunk","seq":50.8,"time":7,"data":{{"attemptId":"s:1","turn":1,"step":1,"chunk":{TEXT}}}}}}}"#
    );
    assert_eq!(String::from_utf8(json).unwrap(), row);
    // Another event comes between the settlement and its end.
    assert_eq!(view.event(attempt_of(51, 1)), Decision::Nothing);
    assert_eq!(view.event(event(52)), Decision::Show(Change::Append));
    let settled = Change::Settle { attempt_id: Arc::from("s:1"), seq: Some(51) };
    assert_eq!(view.frame(&end("s:1", 22, 4, committed(51))), Decision::Show(settled.clone()));
    let seqs: Vec<f64> = view.entries().iter().map(|entry| entry.place().sort_key()).collect();
    assert_eq!(seqs, (0..53).map(f64::from).collect::<Vec<_>>());
    assert_eq!((view.revision(), view.change()), (4, Some(&settled)), "one more with each change");
    // A page that repairs a gap has no baseline: the attempt is not shown any more.
    let mut repaired = begun();
    let _all_new = repaired.replace((0..43).map(event).collect(), None).unwrap();
    assert_eq!((repaired.attempt_id(), live_rows(&repaired)), (None, 0));
    // No more rows than the baseline says.
    let mut less = active;
    less.next_index = 2;
    let _all_new =
        view.replace((0..51).map(event).collect(), Some(&Baseline::new(51, 20, Some(less)))).unwrap();
    assert_eq!(keys(&view), ["50.500", "50.667"]);
}

/// Both ends of a connection to a host, with nothing but text between them.
struct Connection {
    follower: LiveFollower,
    feed: FollowFeed,
    client: FollowClient,
}

impl Connection {
    /// Opens one, and begins the view anew with its snapshot.
    fn open(handle: &LiveHandle, view: &mut View) -> Self {
        let (follower, baseline) = handle.follow(true);
        let events = handle.read(0, baseline.next_seq, &Cancel::never()).unwrap();
        let records = events.rows().zip(0..).map(|(row, seq)| LiveEvent { seq, row: Arc::from(row) });
        let mut snapshot = snapshot(baseline.next_seq, Some(baseline));
        snapshot.records = records.collect();
        let feed = FollowFeed::behind(&snapshot);
        let mut client = FollowClient::new(true);
        let WireMessage::Snapshot(snapshot) =
            client.receive(json(&WireMessage::Snapshot(snapshot)).as_bytes()).unwrap()
        else {
            panic!("no snapshot")
        };
        let _all_new = view
            .replace_page(snapshot.records, snapshot.has_more, snapshot.assistant_stream.as_ref())
            .unwrap();
        Self { follower, feed, client }
    }

    /// Takes in what is there; `loses` one frame, if there is one. False if the connection has to be opened anew.
    fn take(&mut self, view: &mut View, mut loses: bool) -> bool {
        while let Some(delivery) = self.follower.try_recv() {
            let mut text = Vec::new();
            match self.feed.deliver(&delivery, &mut text) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(FeedEnd::Gap) => return false,
                Err(end) => panic!("{end}"),
            }
            if std::mem::take(&mut loses) && matches!(delivery, Delivery::Frame(_)) {
                continue;
            }
            let decision = match self.client.receive(&text) {
                Ok(WireMessage::Event(event)) => view.event(event),
                Ok(WireMessage::Frame(frame)) => view.frame(&frame),
                Ok(other) => panic!("{other:?}"),
                Err(fault) => {
                    assert!(fault.is_retryable(), "{fault}");
                    return false;
                }
            };
            if decision == Decision::Rebaseline {
                return false;
            }
        }
        true
    }
}

proptest! {
    #[test]
    fn over_a_wire_that_loses_frames_a_view_comes_to_show_the_log_and_a_relay_knows_what_its_host_knows(
        ops in proptest::collection::vec(0_u8..16, 1..80),
        // A settlement and its end come at once.
        kept_max in 2_usize..30,
    ) {
        let store = MemoryStore::new(&MemoryStorage::new());
        let below = SessionPersistence::create(&store, header("s"), None, &Cancel::never()).unwrap();
        let mut options = LiveOptions::default();
        options.kept_max = kept_max;
        let handle = LiveHandle::new(below, options).unwrap();
        let mut view = View::new();
        let mut connection = Connection::open(&handle, &mut view);
        let (mut near, baseline) = handle.follow(true);
        prop_assert_eq!(baseline, Relay::new().baseline(0));
        let (mut relay, mut next_seq) = (Relay::new(), 0);
        let mut attempt: Option<Attempt> = None;
        for (time, op) in ops.into_iter().enumerate() {
            let time = UnixMs::new(time as i64);
            let answer = Answer { id: "m", provider: "p", model: "m" };
            match op {
                0..3 => {
                    let seq = handle.next_seq().unwrap();
                    handle.append(&[row_of("plan/mode", seq, "{}").as_bytes()], &Cancel::never()).unwrap();
                }
                3..5 if attempt.is_none() => attempt = Some(handle.begin_attempt(1, 1).unwrap()),
                3..9 => if let Some(attempt) = &mut attempt {
                    attempt.push_text(time, u64::from(op % 2), "x\"🔑").unwrap();
                },
                9 => if let Some(attempt) = attempt.take() {
                    attempt.settle(time, Ending::Finished(answer), &Cancel::never()).unwrap();
                },
                10 => if let Some(attempt) = attempt.take() {
                    attempt.settle(time, Ending::Failed, &Cancel::never()).unwrap();
                },
                11 => drop(attempt.take()),
                _ => if !connection.take(&mut view, op == 12) {
                    connection = Connection::open(&handle, &mut view);
                },
            }
            while let Some(delivery) = near.try_recv() {
                match delivery {
                    Delivery::Event(event) => next_seq = event.seq + 1,
                    Delivery::Frame(frame) => relay.frame(&frame, next_seq),
                    other => panic!("{other:?}"),
                }
            }
            prop_assert_eq!(handle.follow(true).1, relay.baseline(next_seq));
        }
        drop(attempt);
        while !connection.take(&mut view, false) {
            connection = Connection::open(&handle, &mut view);
        }
        // A frame that was lost last is missed by nobody yet.
        if view.attempt_id().is_some() {
            Connection::open(&handle, &mut view);
        }
        let mut late = View::new();
        Connection::open(&handle, &mut late);
        prop_assert_eq!(view.entries(), late.entries());
        let shown = |view: &View| {
            let (mut chat, mut out) = (Chat::new(), Vec::new());
            chat.change(&Change::Replace, view.entries());
            chat.write_json(&mut out);
            out
        };
        prop_assert_eq!(shown(&view), shown(&late));
    }
}
