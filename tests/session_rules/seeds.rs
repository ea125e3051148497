//! Header, seeds, forks.

use std::sync::Arc;

use parking_lot::Mutex;
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::{Check, Header, HeaderFault, HeaderMember, RowFault, Seeding};
use seslog::session::{
    CreateFault, EventFault, ForkFault, ForkSource, Intent, Log, Session, Sessions, SurfaceFault,
};
use seslog::units::{Generation, Seq, UnixMs};

use crate::sessions::*;

#[test]
fn r009_created_at_is_a_count_of_milliseconds() {
    let parse = |ms: &str| {
        let line = format!(
            r#"{{"type":"session","version":2,"id":"s","createdAt":{ms},"isSeeded":false,"delegationDepth":0}}"#
        );
        Header::parse(line.as_bytes(), &Limits::DEFAULT)
    };
    for bad in ["0.5", "-1", "9007199254740992", "-0", "\"1\"", "null", "1e400"] {
        assert_eq!(parse(bad), Err(HeaderFault::Member(HeaderMember::CreatedAt)), "{bad}");
    }
    for good in ["0", "9007199254740991"] {
        assert_eq!(parse(good).unwrap().created_at().get().to_string(), good);
    }
    let new = |ms| Header::new(Generation::V2, Text::from("s"), UnixMs::new(ms));
    assert!(new(-1).is_err() && new(1 << 53).is_err() && new(0).is_ok() && new((1 << 53) - 1).is_ok());
}

#[test]
fn r010_a_header_that_breaks_a_rule_is_refused() {
    let sound = r#"{"type":"session","version":2,"id":"s","createdAt":1,"cwd":"/w","parentSession":"p","isSeeded":false,"origin":"subagent","delegationDepth":1,"agentPreset":"a"}"#;
    assert!(Header::parse(sound.as_bytes(), &Limits::DEFAULT).is_ok());
    for (from, to) in [
        (r#""version":2"#, r#""version":3"#),
        (r#""id":"s""#, r#""id":1"#),
        (r#""cwd":"/w""#, r#""cwd":"w""#),
        (r#""cwd":"/w""#, r#""cwd":null"#),
        (r#""parentSession":"p""#, r#""parentSession":null"#),
        (r#""isSeeded":false"#, r#""isSeeded":0"#),
        (r#""isSeeded":false"#, r#""seedLength":0"#),
        (r#""isSeeded":false"#, r#""isSeeded":false,"seedLength":0"#),
        (r#""origin":"subagent""#, r#""origin":"user""#),
        (r#""delegationDepth":1"#, r#""delegationDepth":-1"#),
        (r#""agentPreset":"a""#, r#""agentPreset":1"#),
        (r#""agentPreset""#, r#""sandboxMode""#),
        (r#""agentPreset""#, r#""approvalPolicy""#),
    ] {
        assert!(sound.contains(from));
        assert!(
            Header::parse(sound.replace(from, to).as_bytes(), &Limits::DEFAULT).is_err(),
            "{from} -> {to}"
        );
    }
    let old = Header::new(Generation::V0, Text::from("s"), UnixMs::new(1)).unwrap();
    let fault = CreateFault::Generation { header: Generation::V0, wanted: Generation::V2 };
    assert_eq!(Session::create(old, &settings()).unwrap_err(), fault);
}

#[test]
fn r011_no_seed_no_marker_and_an_empty_seed_has_one() {
    let session = fresh();
    assert_eq!((session.next_seq(), session.first_live_seq(), session.inherited_event_count()), (0, 0, 0));
    for session in [
        Session::seeded(header(), &Log::new(), None, &settings()).unwrap(),
        Session::restore(header(), &Log::new(), Some(0), &settings()).unwrap(),
    ] {
        assert_eq!(rows(&session.log()), [r#"{"type":"session/end-seed","seq":0,"time":1000,"data":{}}"#]);
        assert_eq!(session.first_live_seq(), 0);
    }
}

#[test]
fn r012_a_replay_reproduces_the_log_and_adds_at_most_one_marker() {
    let parent = [
        row("turn/start", 0, TURN, ""),
        row("user/message", 1, &user("u"), APPEND),
        row("turn/end", 2, DONE, ""),
    ];
    for make in [Session::seeded, Session::restore] {
        let replay = make(header(), &log(&parent), None, &settings()).unwrap();
        assert_eq!(rows(&replay.log())[..3], parent);
        assert_eq!((replay.next_seq(), replay.first_live_seq()), (4, 3));
        assert!(replay.log().event(3).unwrap().line().contains(r#""type":"session/end-seed","seq":3"#));
        assert_eq!(replay.log().event(3).unwrap().data(), "{}");
        let again = make(header(), &replay.log(), None, &settings()).unwrap();
        assert_eq!(rows(&again.log()), rows(&replay.log()));
        assert_eq!((again.first_live_seq(), messages(&again)), (4, vec![user("u")]));
    }
}

#[test]
fn r013_a_seeded_child_carries_its_seed_and_then_one_tagged_marker() {
    for prefix in [
        vec![],
        vec![row("turn/start", 0, TURN, ""), row("turn/end", 1, DONE, "")],
        vec![row("session/end-seed", 0, "{}", "")],
        vec![row("session/end-seed", 0, r#"{"inherited":true}"#, "")],
    ] {
        let seed = log(&prefix);
        let child = Session::seeded(seeded_header(), &seed, Some(seed.len()), &settings()).unwrap();
        assert_eq!(rows(&child.log().prefix(seed.len())), prefix);
        assert_eq!(child.next_seq(), seed.len() + 1);
        let marker = child.log();
        let marker = marker.last().unwrap();
        assert!(marker.is("session/end-seed") && marker.data() == r#"{"inherited":true}"#);
        assert_eq!(marker.seq().get(), child.inherited_event_count());
        assert_eq!(child.first_live_seq(), seed.len());
    }
}

#[test]
fn r014_a_restored_child_keeps_its_cut_and_gets_at_most_one_plain_marker() {
    let stored = [
        row("turn/start", 0, TURN, ""),
        row("turn/end", 1, DONE, ""),
        row("session/end-seed", 2, r#"{"inherited":true}"#, ""),
    ];
    let restored = Session::restore(seeded_header(), &log(&stored), Some(2), &settings()).unwrap();
    assert_eq!((rows(&restored.log()), restored.inherited_event_count()), (stored.to_vec(), 2));
    assert_eq!(restored.first_live_seq(), 3);
    restored.append("todo/write", "{}", Intent::log_only()).unwrap();
    let second = Session::restore(seeded_header(), &restored.log(), Some(2), &settings()).unwrap();
    assert_eq!((second.next_seq(), second.inherited_event_count(), second.first_live_seq()), (5, 2, 4));
    assert_eq!(second.log().last().unwrap().data(), "{}");
    let third = Session::restore(seeded_header(), &second.log(), Some(2), &settings()).unwrap();
    assert_eq!(rows(&third.log()), rows(&second.log()));
}

#[test]
fn r015_header_seed_and_cut_agree() {
    let seed = log(&[row("turn/start", 0, TURN, ""), row("turn/end", 1, DONE, "")]);
    let settings = settings();
    assert_eq!(Session::create(seeded_header(), &settings).unwrap_err(), CreateFault::NoSeed);
    for make in [Session::seeded, Session::restore] {
        let make = |header, cut| make(header, &seed, cut, &settings).map(|_| ());
        assert_eq!(make(seeded_header(), None), Err(CreateFault::NoCut));
        assert_eq!(make(header(), Some(1)), Err(CreateFault::UnseededCut { cut: 1 }));
        assert_eq!(make(seeded_header(), Some(3)), Err(CreateFault::CutBeyond { cut: 3, events: 2 }));
        assert_eq!(make(header(), Some(0)), Ok(()));
    }
    let inside = Session::seeded(seeded_header(), &seed, Some(1), &settings).unwrap_err();
    assert_eq!(inside, CreateFault::CutInside { cut: 1, events: 2 });
    // A stored log says itself where the cut is.
    let marked =
        log(&[row("todo/write", 0, "{}", ""), row("session/end-seed", 1, r#"{"inherited":true}"#, "")]);
    let restore = |header, log: &Log, cut| Session::restore(header, log, cut, &settings).map(|_| ());
    assert_eq!(restore(seeded_header(), &seed, Some(1)), Err(CreateFault::Marker { marked: None }));
    assert_eq!(restore(seeded_header(), &marked, Some(0)), Err(CreateFault::Marker { marked: Some(1) }));
    assert_eq!(restore(header(), &marked, None), Err(CreateFault::Marker { marked: Some(1) }));
    assert_eq!(restore(seeded_header(), &marked, Some(1)), Ok(()));
}

#[test]
fn r016_a_broken_seed_is_refused_by_the_index_of_its_first_broken_event() {
    let mut rows = [
        row("turn/start", 0, TURN, ""),
        row("user/message", 1, &user("u"), APPEND),
        row("turn/end", 2, DONE, ""),
        row("todo/write", 3, "{}", ""),
    ];
    let seq = |n| Seq::new(n).unwrap();
    let gap = RowFault::Gap { expected: seq(1), got: seq(2) };
    assert_eq!(try_log(&[&rows[0], &rows[2], &rows[1]]).unwrap_err(), (1, gap));
    let repeat = RowFault::Repeat { expected: seq(2), got: seq(1) };
    assert_eq!(try_log(&[&rows[0], &rows[1], &rows[1]]).unwrap_err(), (2, repeat));
    rows[1] = row("user/message", 1, &user("u"), "");
    rows[3] = row("todo/write", 3, "{}", APPEND);
    let fault = EventFault::Surface(SurfaceFault::NoOp);
    for make in [Session::seeded, Session::restore] {
        let made = make(header(), &log(&rows), None, &settings());
        assert_eq!(made.unwrap_err(), CreateFault::Event { index: 1, fault: fault.clone() });
    }
    let mut stretch = Log::starting_at(seq(5));
    stretch.push(row("todo/write", 5, "{}", "").as_bytes(), Check::Full, &Limits::DEFAULT).unwrap();
    let made = Session::seeded(header(), &stretch, None, &settings());
    assert_eq!(made.unwrap_err(), CreateFault::Stretch { base: 5 });
}

#[test]
fn r017_what_a_child_sets_up_is_its_own() {
    let parent = fresh();
    parent.append("todo/write", r#"{"of":"parent"}"#, Intent::log_only()).unwrap();
    let live = Sessions::new(settings());
    let _parent = live.publish(&parent).unwrap();
    let child = live.fork(ForkSource::Session(&parent), None, Text::from("child"), None).unwrap();
    let child = child.session();
    let seq = child.append("subagent/descriptor", "{}", Intent::log_only()).unwrap();
    assert!(seq.get() > child.inherited_event_count());
    let own: Vec<(u64, String)> = child
        .own_events()
        .iter()
        .map(|event| (event.seq().get(), event.event_type().to_string_lossy().into_owned()))
        .collect();
    assert_eq!(own, [(1, "session/end-seed".to_owned()), (2, "subagent/descriptor".to_owned())]);
}

/// A session with two closed turns, something between them and after, live in a store.
fn two_turns(live: &Sessions) -> Arc<Session> {
    let header = header().with_cwd(Text::from("/work")).unwrap().with_agent_preset(Text::from("preset"));
    let session = Session::create(header, &settings()).unwrap();
    let second = r#"{"turn":2}"#;
    for (event_type, data, intent) in [
        ("turn/start", TURN, Intent::log_only()),
        ("user/message", &user("a"), Intent::append()),
        ("turn/end", DONE, Intent::log_only()),
        ("todo/write", "{}", Intent::log_only()),
        ("turn/start", second, Intent::log_only()),
        ("user/message", &user("b"), Intent::append()),
        ("turn/end", r#"{"turn":2,"reason":{"kind":"completed"}}"#, Intent::log_only()),
    ] {
        session.append(event_type, data, intent).unwrap();
    }
    let _attachment = live.publish(&session).unwrap();
    session
}

#[test]
fn r018_a_fork_copies_exactly_what_is_up_to_its_boundary() {
    let live = Sessions::new(settings());
    let parent = two_turns(&live);
    let whole = rows(&parent.log());
    for (boundary, cut, id) in [(Some(2), 3, "x"), (Some(3), 4, "y"), (Some(6), 7, "z"), (None, 7, "all")] {
        let child =
            live.fork(ForkSource::Id(parent.id()), boundary, Text::from(id), Some(UnixMs::new(9))).unwrap();
        let child = child.session();
        assert_eq!(rows(&child.log().prefix(cut)), whole[..usize::try_from(cut).unwrap()]);
        assert_eq!((child.inherited_event_count(), child.next_seq()), (cut, cut + 1));
        let header = child.header();
        assert_eq!(header.parent_session(), Some(parent.id()));
        assert_eq!((header.cwd(), header.seeding()), (parent.header().cwd(), Seeding::Marked));
        assert_eq!((header.created_at(), header.agent_preset()), (UnixMs::new(9), None));
        child.append("user/message", &user("of the child"), Intent::replace(1, 1, &[1])).unwrap();
        assert_eq!(messages(&parent), [user("a"), user("b")]);
        assert_eq!(rows(&parent.log()), whole);
    }
    let empty = Session::create(
        Header::new(Generation::V2, Text::from("none"), UnixMs::new(1)).unwrap(),
        &settings(),
    );
    let _empty = live.publish(&empty.unwrap()).unwrap();
    let child = live.fork(ForkSource::Id(&Text::from("none")), None, Text::from("of none"), None).unwrap();
    assert_eq!((child.session().inherited_event_count(), child.session().next_seq()), (0, 1));
}

#[test]
fn r019_an_impossible_fork_has_its_code_and_creates_nothing() {
    let live = Sessions::new(settings());
    let parent = two_turns(&live);
    let stale = fresh();
    let child = Text::from("child");
    let missing = Text::from("missing");
    let fork = |source, boundary, child: &Text| live.fork(source, boundary, child.clone(), None).unwrap_err();
    let id = ForkSource::Id(parent.id());
    let unknown =
        Session::create(Header::new(Generation::V2, missing.clone(), UnixMs::new(1)).unwrap(), &settings());
    let unknown = unknown.unwrap();
    let faults: Vec<ForkFault> = vec![
        fork(ForkSource::Id(&missing), None, &child),
        fork(ForkSource::Session(&unknown), None, &child),
        fork(ForkSource::Session(&stale), None, &child),
        fork(id, Some(7), &child),
        fork(id, Some(u64::MAX), &child),
        fork(id, Some(0), &child),
        fork(id, Some(5), &child),
        fork(id, None, parent.id()),
    ];
    let codes: Vec<_> = faults.iter().map(|fault| fault.code().unwrap()).collect();
    assert_eq!(
        codes,
        [
            "SESSION_NOT_FOUND",
            "SESSION_NOT_FOUND",
            "SESSION_NOT_LIVE",
            "INVALID_BOUNDARY",
            "INVALID_BOUNDARY",
            "OPEN_TURN",
            "OPEN_TURN",
            "SESSION_ALREADY_EXISTS",
        ]
    );
    assert_eq!(live.list().len(), 1);
    assert!(live.get(&child).is_none());
}

#[test]
fn r020_seeds_and_their_markers_are_never_told() {
    let live = Sessions::new(settings());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let inner = Arc::clone(&heard);
    live.on_event(move |session, event| {
        inner.lock().push(format!("{} {}", session.id().to_string_lossy(), event.seq()));
        Ok(())
    })
    .keep();
    let parent = two_turns(&live);
    let child = live.fork(ForkSource::Session(&parent), None, Text::from("child"), None).unwrap();
    assert!(heard.lock().is_empty());
    child.session().append("todo/write", "{}", Intent::log_only()).unwrap();
    parent.append("todo/write", "{}", Intent::log_only()).unwrap();
    assert_eq!(*heard.lock(), ["child 8", "s 7"]);
}
