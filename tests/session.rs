//! The numbered rules of session logic, each by a test of its number.
//!
//! Not here, and why:
//!
//! | rule | why |
//! |---|---|
//! | 2 | a payload comes as text and is copied once; there are no accessors that a second look could call |
//! | 28 | from generation 3 on; no profile here has `system/message` |
//!
//! Of rule 1, undefined, NaN, big integers, cycles and sparse arrays have no JSON text. Of rule 25, a seq that is no integer
//! has no place in a list of integers; in a row it is refused. Rules 23 to 27 and 29 are also compared with the original's
//! package, in `session_oracle.rs`.

mod sessions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::{Check, Event, Header, HeaderFault, HeaderMember, Member, RowFault, Seeding};
use seslog::session::{
    Admission, AppendFault, CreateFault, EventFault, ForkFault, ForkSource, Intent, LiveFault, Log,
    MessageFault, OpenTurn, Pairing, PairingFault, Profile, RequestHeader, Session, Sessions, Settings,
    SurfaceFault, derive_messages, fold_surface,
};
use seslog::units::{Generation, Seq, UnixMs};

use sessions::generate::{self, Dice, Shape};
use sessions::*;

fn v2() -> &'static Profile {
    Profile::current()
}

fn surface_fault(fault: &AppendFault) -> Option<SurfaceFault> {
    match fault {
        AppendFault::Event(EventFault::Surface(fault)) => Some(*fault),
        _ => None,
    }
}

/// Everything that must not change when an append fails.
fn seen(session: &Session) -> (Vec<String>, Vec<u64>, Vec<String>, u64) {
    (rows(&session.log()), session.surface(), messages(session), session.replace_generation())
}

// Lossless JSON, envelope, append.

#[test]
fn r001_what_json_does_not_keep_is_refused_and_depth_is_no_limit() {
    let session = fresh();
    for lossy in ["-0", r#"{"a":-0}"#, "[[1e400]]", r#"{"a":{"b":[-1e999]}}"#, "-0.0", "-0e5"] {
        let fault = session.append("todo/write", lossy, Intent::log_only()).unwrap_err();
        assert!(matches!(fault, AppendFault::Event(EventFault::Lossy)), "{lossy}: {fault}");
    }
    for broken in ["", "{", "undefined", "NaN", "{'a':1}", "1 2"] {
        let fault = session.append("todo/write", broken, Intent::log_only()).unwrap_err();
        assert!(
            matches!(fault, AppendFault::Event(EventFault::Row(RowFault::NotJson(_)))),
            "{broken}: {fault}"
        );
    }
    assert_eq!(session.next_seq(), 0);
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_object = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    let half = r#"{"__proto__":"\ud800","b":1,"a":2,"x":[1.50,1e2,-0.5,null,true]}"#;
    for sound in ["null", "true", "\"\"", "5e-324", "[]", half, &deep, &deep_object] {
        let seq = session.append("todo/write", sound, Intent::log_only()).unwrap();
        assert_eq!(session.log().event(seq.get()).unwrap().data(), sound, "kept to the byte");
    }
}

#[test]
fn r001_line_feeds_between_tokens_do_not_reach_the_row() {
    let session = fresh();
    session
        .append("todo/write", " {\n\t\"b\": [1,\r\n 2.0],\n\"a\": \"x\\ny\"}\n", Intent::log_only())
        .unwrap();
    assert_eq!(session.log().event(0).unwrap().data(), r#"{"b":[1,2],"a":"x\ny"}"#);
}

#[test]
fn r003_what_was_appended_does_not_change_with_the_callers_memory() {
    let session = fresh();
    let (mut data, mut sources) = (user("u").into_bytes(), vec![0_u64]);
    session.append("user/message", std::str::from_utf8(&data).unwrap(), Intent::append()).unwrap();
    session
        .append("user/message", std::str::from_utf8(&data).unwrap(), Intent::append().citing(&sources))
        .unwrap();
    let mut seed = session.log();
    let child = Session::seeded(header(), &seed, None, &settings()).unwrap();
    data.fill(b'x');
    sources[0] = 9;
    seed.push(row("todo/write", 2, "{}", "").as_bytes(), Check::Full, &Limits::DEFAULT).unwrap();
    assert_eq!(messages(&session), [user("u"), user("u")]);
    assert_eq!(session.log().event(1).unwrap().source_event_seqs(), Some("[0]"));
    assert_eq!((session.next_seq(), child.next_seq()), (2, 3));
    assert!(child.log().event(2).unwrap().is("session/end-seed"));
}

#[test]
fn r004_an_envelope_that_breaks_a_rule_is_refused_at_import() {
    let sound = r#"{"type":"todo/write","seq":0,"time":7,"data":null,"ignorable":true}"#;
    assert!(Session::seeded(header(), &log(&[sound]), None, &settings()).is_ok());
    for (from, to, fault) in [
        (r#""seq":0"#, r#""seq":-0"#, RowFault::Member(Member::Seq)),
        (r#""seq":0"#, r#""seq":0.5"#, RowFault::Member(Member::Seq)),
        (r#""seq":0,"#, "", RowFault::MissingMember(Member::Seq)),
        (r#""time":7"#, r#""time":1e300"#, RowFault::Member(Member::Time)),
        (r#""time":7"#, r#""time":"7""#, RowFault::Member(Member::Time)),
        (r#""data":null,"#, "", RowFault::MissingMember(Member::Data)),
        (r#""ignorable":true"#, r#""ignorable":false"#, RowFault::Member(Member::Ignorable)),
        (r#""ignorable":true"#, r#""ignorable":null"#, RowFault::Member(Member::Ignorable)),
        (r#""type":"todo/write""#, r#""type":1"#, RowFault::Member(Member::Type)),
    ] {
        assert!(sound.contains(from));
        assert_eq!(try_log(&[sound.replace(from, to)]).unwrap_err(), (0, fault), "{from} -> {to}");
    }
    let (index, fault) = try_log(&[sound.replace("\"ignorable\"", "\"other\"")]).unwrap_err();
    assert!(index == 0 && matches!(fault, RowFault::UnknownMember { .. }));
    let lossy = [row("todo/write", 0, "{}", ""), row("todo/write", 1, r#"{"a":-0}"#, "")];
    assert_eq!(
        Session::seeded(header(), &log(&lossy), None, &settings()).unwrap_err(),
        CreateFault::Event { index: 1, fault: EventFault::Lossy }
    );
    assert!(
        Session::restore(header(), &log(&lossy), None, &settings()).is_ok(),
        "stored payloads stay as they are"
    );
    let times =
        [sound.replace(":7,", ":-7,"), sound.replace("\"seq\":0", "\"seq\":1").replace(":7,", ":-9,")];
    assert!(Session::seeded(header(), &log(&times), None, &settings()).is_ok());
}

#[test]
fn r004_messages_and_request_headers_are_judged_at_import() {
    let restore = |rows: &[String]| Session::restore(header(), &log(rows), None, &settings()).map(|_| ());
    let at = |index, fault| Err(CreateFault::Event { index, fault });
    let asks = row("assistant/message", 0, &assistant("a", &["c"]), APPEND);
    let answers = row("tool/result", 1, &result("c", "x"), APPEND);
    assert_eq!(restore(&[asks.clone(), answers.clone()]), Ok(()));
    for (from, to, fault) in [
        (r#""role":"user""#, r#""role":"tool""#, MessageFault::Role),
        (r#""toolCallId":"c""#, r#""toolCallId":"d""#, MessageFault::OtherCall),
        (r#""id":"r-c""#, r#""id":"""#, MessageFault::Id),
        (r#""message""#, r#""massage""#, MessageFault::Missing),
    ] {
        let broken = [asks.clone(), answers.replace(from, to)];
        assert_eq!(restore(&broken), at(1, EventFault::Message(fault)), "{from} -> {to}");
    }
    let request = |reason: &str| {
        let data = format!(r#"{{"header":{{"config":{{"provider":"p","model":"m"}}}},"reason":"{reason}"}}"#);
        row("request/header", 0, &data, "")
    };
    assert_eq!(restore(&[request("series")]), Ok(()));
    assert_eq!(restore(&[request("fallback")]), at(0, EventFault::Retired));
    assert!(matches!(
        restore(&[request("why")]),
        Err(CreateFault::Event { fault: EventFault::Request(_), .. })
    ));
    let delta = row("request/header-delta", 0, "{}", ",\"ignorable\":true");
    assert_eq!(restore(&[delta]), at(0, EventFault::Retired));
    let unknown = EventFault::Unknown { event_type: "plugin/new".to_owned() };
    assert_eq!(restore(&[row("plugin/new", 0, "{}", "")]), at(0, unknown));
    assert_eq!(restore(&[row("plugin/new", 0, "{}", ",\"ignorable\":true")]), Ok(()));
}

#[test]
fn r005_the_seq_is_the_length_of_the_log_before() {
    let session = fresh();
    for expected in 0..3000 {
        assert_eq!(session.next_seq(), expected);
        assert_eq!(session.append("todo/write", "{}", Intent::log_only()).unwrap().get(), expected);
    }
    for (event, expected) in session.log().iter().zip(0..) {
        assert_eq!(event.seq().get(), expected);
    }
    assert_eq!(session.log().event(0).unwrap().time().get(), 1000, "by the clock that was given");
}

#[test]
fn r006_a_failed_append_changes_nothing() {
    let live = Sessions::new(settings());
    let session = fresh();
    let _here = live.publish(&session).unwrap();
    session.append("user/message", &user("a"), Intent::append()).unwrap();
    session.append("user/message", &user("b"), Intent::append()).unwrap();
    let before = seen(&session);
    let refused = Arc::new(AtomicBool::new(false));
    let refuse = Arc::clone(&refused);
    live.before_event(
        move |_, _| if refuse.load(Ordering::Relaxed) { Err("not now".into()) } else { Ok(()) },
    )
    .keep();
    let cites_none: &[u64] = &[];
    for (event_type, data, intent) in [
        ("user/message", user("c"), Intent::log_only()),
        ("user/message", user("c"), Intent::replace(0, 1, &[0])),
        ("user/message", user("c"), Intent::append().citing(cites_none)),
        ("user/message", user("c"), Intent::append().citing(&[2])),
        ("user/message", user("c"), Intent::append().citing(&[0, 0])),
        ("user/message", "{}".to_owned(), Intent::append()),
        ("user/message", "{".to_owned(), Intent::append()),
        ("todo/write", "{}".to_owned(), Intent::append()),
        ("todo/write", "-0".to_owned(), Intent::log_only()),
        ("plugin/new", "{}".to_owned(), Intent::log_only()),
        ("session/end-seed", "{}".to_owned(), Intent::log_only()),
    ] {
        assert!(session.append(event_type, &data, intent).is_err(), "{event_type} {data} {intent:?}");
        assert_eq!(seen(&session), before);
    }
    refused.store(true, Ordering::Relaxed);
    let fault = session.append("user/message", &user("c"), Intent::replace(0, 1, &[0, 1])).unwrap_err();
    assert!(matches!(fault, AppendFault::Refused(_)));
    assert_eq!(seen(&session), before);
    refused.store(false, Ordering::Relaxed);
    session.append("user/message", &user("c"), Intent::replace(0, 1, &[0, 1])).unwrap();
    assert_eq!(session.surface(), [2]);
}

#[test]
fn r007_an_append_from_inside_an_observer_is_refused_and_others_hear_of_the_event() {
    let session = fresh();
    let other = fresh();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (inner, elsewhere) = (Arc::clone(&heard), Arc::clone(&other));
    let _first = session.observe(move |session, event| {
        let again = session.append("todo/write", "{}", Intent::log_only());
        let lossy = session.append("todo/write", "-0", Intent::log_only());
        assert!(matches!(lossy, Err(AppendFault::Event(EventFault::Lossy))), "the payload is judged first");
        elsewhere.append("todo/write", "{}", Intent::log_only())?;
        assert_eq!(session.next_seq(), event.seq().get() + 1, "it has entered the log");
        inner.lock().push(format!("{again:?}"));
        Ok(())
    });
    let inner = Arc::clone(&heard);
    let _second = session.observe(move |_, event| {
        inner.lock().push(format!("{} {}", event.seq(), event.data()));
        Ok(())
    });
    session.append("todo/write", r#"{"n":1}"#, Intent::log_only()).unwrap();
    assert_eq!(*heard.lock(), ["Err(Reentrant)".to_owned(), r#"0 {"n":1}"#.to_owned()]);
    assert_eq!((session.next_seq(), other.next_seq()), (1, 1), "another session is another matter");
    session.append("todo/write", "{}", Intent::log_only()).unwrap();
}

#[test]
fn r008_a_failing_observer_neither_undoes_the_append_nor_silences_others() {
    let failures = Arc::new(Mutex::new(Vec::new()));
    let inner = Arc::clone(&failures);
    let settings = settings().with_report(move |session, failure| {
        inner.lock().push(format!("{}: {failure}", session.id().to_string_lossy()));
        panic!("a report that fails itself");
    });
    let session = Session::create(header(), &settings).unwrap();
    let live = Sessions::new(settings);
    let _here = live.publish(&session).unwrap();
    let told = Arc::new(AtomicU32::new(0));
    let _fails = session.observe(|_, _| Err("no room".into()));
    let _panics = session.observe(|_, _| panic!("lost my mind"));
    let inner = Arc::clone(&told);
    let _hears = session.observe(move |_, _| {
        inner.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let _fails_too = live.on_event(|_, _| Err("gone".into()));
    let inner = Arc::clone(&told);
    let _hears_too = live.on_event(move |_, _| {
        inner.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    assert_eq!(session.append("todo/write", "{}", Intent::log_only()).unwrap().get(), 0);
    assert_eq!((session.next_seq(), told.load(Ordering::Relaxed)), (1, 2));
    assert_eq!(*failures.lock(), ["s: no room", "s: panicked: lost my mind", "s: gone"]);
}

#[test]
fn appends_from_many_threads_all_enter_in_one_order() {
    let session = fresh();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let inner = Arc::clone(&heard);
    let _observer = session.observe(move |_, event| {
        inner.lock().push(event.seq().get());
        Ok(())
    });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..250 {
                    session.append("todo/write", "{}", Intent::log_only()).unwrap();
                    assert!(session.log().iter().zip(0..).all(|(event, seq)| event.seq().get() == seq));
                }
            });
        }
    });
    assert_eq!(*heard.lock(), (0..1000).collect::<Vec<u64>>());
}

// Header, seeds, forks.

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

// Surface and folds.

/// Three user messages at 0, 1, 2.
fn three() -> Arc<Session> {
    let session = fresh();
    for id in ["a", "b", "c"] {
        session.append("user/message", &user(id), Intent::append()).unwrap();
    }
    session
}

fn refused(session: &Session, event_type: &str, data: &str, intent: Intent<'_>) -> SurfaceFault {
    let before = seen(session);
    let fault = session.append(event_type, data, intent).unwrap_err();
    assert_eq!(seen(session), before);
    surface_fault(&fault).unwrap_or_else(|| panic!("{fault}"))
}

#[test]
fn r021_surface_types_have_an_operation_and_others_have_none() {
    let session = fresh();
    session.append("todo/write", "{}", Intent::log_only()).unwrap();
    assert_eq!(refused(&session, "user/message", &user("a"), Intent::log_only()), SurfaceFault::NoOp);
    assert_eq!(refused(&session, "todo/write", "{}", Intent::append()), SurfaceFault::NotSurface);
    assert_eq!(
        refused(&session, "todo/write", "{}", Intent::log_only().citing(&[0])),
        SurfaceFault::NotSurface
    );
    let known = Intent::append().ignorable();
    assert_eq!(refused(&session, "todo/write", "{}", known), SurfaceFault::NotSurface);
    // Nobody here knows what a type of others does with them.
    session.append("plugin/of-others", "{}", Intent::append().citing(&[0]).ignorable()).unwrap();
    assert!(session.surface().is_empty());
    let bad = row("user/message", 0, &user("a"), r#","surfaceOp":{"op":"replace","start":0,"end":0,"x":1}"#);
    let fault = fold_surface(v2(), &log(&[bad])).unwrap_err();
    assert_eq!(fault.fault, EventFault::Surface(SurfaceFault::BadOp));
    let later =
        row("user/message", 0, &user("a"), r#","surfaceOp":{"op":"replace","startSeq":0,"endSeq":0}"#);
    let fault = fold_surface(v2(), &log(&[later])).unwrap_err();
    assert_eq!(fault.fault, EventFault::Surface(SurfaceFault::BadOp), "the keys of generation 3");
}

#[test]
fn r022_replace_splices_the_positional_range() {
    let session = three();
    session.append("user/message", &user("d"), Intent::append()).unwrap();
    session.append("user/message", &user("bc"), Intent::replace(1, 2, &[1, 2])).unwrap();
    assert_eq!(session.surface(), [0, 4, 3]);
    assert_eq!(messages(&session), [user("a"), user("bc"), user("d")]);
    session.append("user/message", &user("A"), Intent::replace(0, 0, &[0])).unwrap();
    assert_eq!(session.surface(), [5, 4, 3]);
    assert_eq!(session.log().event(4).unwrap().surface_op(), Some(r#"{"op":"replace","start":1,"end":2}"#));
}

#[test]
fn r023_a_range_is_judged_by_place_and_not_by_number() {
    let session = three();
    session.append("todo/write", "{}", Intent::log_only()).unwrap();
    let all = [0, 1, 2, 3];
    let replace =
        |start, end| refused(&session, "user/message", &user("x"), Intent::replace(start, end, &all));
    assert_eq!(replace(0, 3), SurfaceFault::OffSurface);
    assert_eq!(replace(3, 0), SurfaceFault::OffSurface);
    assert_eq!(replace(0, 99), SurfaceFault::OffSurface);
    assert_eq!(replace(2, 1), SurfaceFault::Backwards);
    session.append("user/message", &user("A"), Intent::replace(0, 0, &[0])).unwrap();
    assert_eq!(session.surface(), [4, 1, 2]);
    assert_eq!(
        refused(&session, "user/message", &user("x"), Intent::replace(1, 4, &[1, 4])),
        SurfaceFault::Backwards
    );
    session.append("user/message", &user("Ab"), Intent::replace(4, 1, &[1, 4])).unwrap();
    assert_eq!(session.surface(), [5, 2], "4 stands before 1");
}

#[test]
fn r024_a_replacement_cites_all_that_it_shadows_and_may_cite_more() {
    let session = three();
    let middle = refused(&session, "user/message", &user("x"), Intent::replace(0, 2, &[0, 2]));
    assert_eq!(middle, SurfaceFault::Uncited);
    assert_eq!(
        refused(&session, "user/message", &user("x"), Intent::replace(1, 1, &[0])),
        SurfaceFault::Uncited
    );
    let uncited = row("user/message", 1, &user("x"), r#","surfaceOp":{"op":"replace","start":0,"end":0}"#);
    let fault = fold_surface(v2(), &log(&[row("user/message", 0, &user("a"), APPEND), uncited])).unwrap_err();
    assert_eq!((fault.seq, fault.fault), (1, EventFault::Surface(SurfaceFault::Uncited)));
    session.append("user/message", &user("x"), Intent::replace(1, 1, &[2, 0, 1])).unwrap();
    assert_eq!(session.surface(), [0, 3, 2]);
}

#[test]
fn r025_sources_are_some_unique_and_earlier_and_no_message_has_any() {
    let session = three();
    assert_eq!(
        refused(&session, "user/message", &user("x"), Intent::append().citing(&[])),
        SurfaceFault::NoSources
    );
    for sources in [&[1, 1][..], &[3], &[0, 9], &[1 << 60]] {
        let fault = session.append("user/message", &user("x"), Intent::append().citing(sources)).unwrap_err();
        assert!(
            matches!(fault, AppendFault::Event(EventFault::Row(RowFault::Provenance(_)))),
            "{sources:?}: {fault}"
        );
    }
    for text in ["[0.5]", "[\"0\"]", "[-1]", "[null]", "{}", "[-0]"] {
        let bad =
            row("user/message", 1, &user("x"), &format!(r#","sourceEventSeqs":{text},"surfaceOp":"append""#));
        let (index, fault) = try_log(&[row("user/message", 0, &user("a"), APPEND), bad]).unwrap_err();
        assert!(index == 1 && matches!(fault, RowFault::Provenance(_)), "{text}: {fault}");
    }
    for sources in [&[0][..], &[]] {
        let fault =
            refused(&session, "assistant/message", &assistant("a", &[]), Intent::append().citing(sources));
        assert_eq!(fault, SurfaceFault::MessageSources);
    }
    let fault = refused(&session, "assistant/message", &assistant("a", &[]), Intent::replace(0, 0, &[0]));
    assert_eq!(fault, SurfaceFault::MessageSources, "so it can never replace");
}

#[test]
fn r026_a_replacement_can_be_replaced_and_the_fold_reports_both() {
    let session = three();
    session.append("user/message", &user("ab"), Intent::replace(0, 1, &[0, 1])).unwrap();
    session.append("user/message", &user("abc"), Intent::replace(3, 2, &[2, 3])).unwrap();
    let fold = fold_surface(v2(), &session.log()).unwrap();
    assert_eq!(fold.nodes, [4]);
    let reported: Vec<_> =
        fold.replacements.iter().map(|r| (r.seq, r.start, r.end, r.shadowed.clone())).collect();
    assert_eq!(reported, [(3, 0, 1, vec![0, 1]), (4, 3, 2, vec![3, 2])]);
}

#[test]
fn r027_a_tool_result_is_replaced_alone_and_only_inside() {
    let session = fresh();
    session.append("assistant/message", &assistant("a", &["c", "d"]), Intent::append()).unwrap();
    session.append("tool/result", &result("c", "long"), Intent::append()).unwrap();
    session.append("tool/result", &result("d", "long"), Intent::append()).unwrap();
    session.append("user/message", &user("u"), Intent::append()).unwrap();
    let replace = |data: &str, start, end, sources: &[u64]| {
        refused(&session, "tool/result", data, Intent::replace(start, end, sources))
    };
    let cut = result("c", "cut");
    assert_eq!(replace(&cut, 1, 2, &[1, 2]), SurfaceFault::ResultTarget);
    assert_eq!(replace(&cut, 3, 3, &[3]), SurfaceFault::ResultTarget);
    assert_eq!(replace(&cut, 0, 0, &[0]), SurfaceFault::ResultTarget);
    assert_eq!(replace(&result("d", "cut"), 1, 1, &[1]), SurfaceFault::ResultChanged);
    for (from, to) in [
        (r#""turn":1"#, r#""turn":2"#),
        (r#""ms":1"#, r#""ms":2"#),
        (r#""isError":false"#, r#""isError":true"#),
        (r#""id":"r-c""#, r#""id":"r-x""#),
        (r#","meta""#, r#","error":{"name":"E","code":"X"},"meta""#),
    ] {
        assert!(cut.contains(from));
        assert_eq!(
            replace(&cut.replace(from, to), 1, 1, &[1]),
            SurfaceFault::ResultChanged,
            "{from} -> {to}"
        );
    }
    let respelled = cut.replace(r#"{"turn":1,"step":1,"#, r#"{"step":1.0,"turn":1e0,"#);
    session.append("tool/result", &respelled, Intent::replace(1, 1, &[1])).unwrap();
    session.append("tool/result", &result("c", "again"), Intent::replace(4, 4, &[4])).unwrap();
    assert_eq!(session.surface(), [0, 5, 2, 3]);
    session.append("user/message", &user("sum"), Intent::replace(5, 2, &[2, 5])).unwrap();
    assert_eq!(session.surface(), [0, 6, 3], "another type may shadow results");
}

/// The surface as a plain list, by the words of the rules.
fn naive(log: &Log) -> (Vec<u64>, u64) {
    let (mut nodes, mut replaced) = (Vec::new(), 0);
    for event in log.iter() {
        let known = ["user/message", "assistant/message", "tool/result"].iter().any(|kind| event.is(kind));
        match event.surface_op().filter(|_| known) {
            None => {}
            Some("\"append\"") => nodes.push(event.seq().get()),
            Some(op) => {
                let op: serde_json::Value = serde_json::from_str(op).unwrap();
                let at = |name: &str| {
                    let seq = op[name].as_u64().unwrap();
                    nodes.iter().position(|node| *node == seq).unwrap()
                };
                let (start, end) = (at("start"), at("end"));
                nodes.splice(start..=end, [event.seq().get()]);
                replaced += 1;
            }
        }
    }
    (nodes, replaced)
}

#[test]
fn r029_append_fold_and_seed_agree_on_every_log() {
    let (mut sound, mut broken) = (0, 0);
    for seed in 0..400 {
        let shape =
            Shape { events: 120, chunks: false, markers: false, opaque: seed % 4 == 0, broken_one_in: 150 };
        let rows = generate::rows(seed, shape);
        // Rows that are none are refused before anybody folds them.
        let log = match try_log(&rows) {
            Ok(log) => log,
            Err((index, _)) => log(&rows[..usize::try_from(index).unwrap()]),
        };
        let folded = fold_surface(v2(), &log);
        let seeded = Session::seeded(header(), &log, None, &settings());
        let restored = Session::restore(header(), &log, None, &settings());
        let live = fresh();
        let mut appended = Ok(());
        for event in log.iter() {
            appended = append_row(&live, event.line());
            if appended.is_err() {
                break;
            }
        }
        match folded {
            Ok(fold) => {
                sound += 1;
                let (nodes, replaced) = naive(&log);
                assert_eq!(fold.nodes, nodes, "log {seed}");
                assert_eq!(fold.replacements.len() as u64, replaced);
                for session in [seeded.unwrap(), restored.unwrap()] {
                    assert_eq!((session.surface(), session.replace_generation()), (nodes.clone(), replaced));
                    let derived = derive_messages(v2(), &log).unwrap();
                    assert_eq!(messages(&session), derived.iter().collect::<Vec<_>>());
                }
                assert_eq!(appended, Ok(()), "log {seed}");
                assert_eq!((live.surface(), live.replace_generation()), (nodes, replaced));
            }
            Err(fault) => {
                broken += 1;
                let expected = CreateFault::Event { index: fault.seq, fault: fault.fault };
                assert_eq!(seeded.unwrap_err(), expected, "log {seed}");
                assert_eq!(restored.unwrap_err(), expected, "log {seed}");
                assert!(appended.is_err(), "log {seed}");
                assert_eq!(live.next_seq(), fault.seq, "log {seed}");
            }
        }
    }
    assert!(sound > 100 && broken > 50, "{sound} sound and {broken} broken logs");
}

#[test]
fn r029_a_stretch_of_a_log_folds_by_the_same_rules() {
    let whole = [
        row("user/message", 0, &user("a"), APPEND),
        row("user/message", 1, &user("b"), APPEND),
        row("user/message", 2, &user("c"), APPEND),
        row("user/message", 3, &user("bc"), &replace(1, 2, &[1, 2])),
    ];
    let stretch = |from: usize| log(&whole).suffix(u64::try_from(from).unwrap());
    assert_eq!(fold_surface(v2(), &stretch(0)).unwrap().nodes, [0, 3]);
    assert_eq!(fold_surface(v2(), &stretch(1)).unwrap().nodes, [3]);
    let fault = fold_surface(v2(), &stretch(2)).unwrap_err();
    assert_eq!((fault.seq, fault.fault), (3, EventFault::Surface(SurfaceFault::OffSurface)));
}

#[test]
fn r030_the_generation_counts_committed_replacements() {
    let session = three();
    assert_eq!(session.replace_generation(), 0);
    let _refused = refused(&session, "user/message", &user("x"), Intent::replace(0, 2, &[0]));
    assert_eq!(session.replace_generation(), 0);
    for (expected, node) in [(1, 0), (2, 3), (3, 4)] {
        session.append("user/message", &user("x"), Intent::replace(node, node, &[node])).unwrap();
        assert_eq!(session.replace_generation(), expected);
    }
}

#[test]
fn r031_a_message_without_content_is_a_node_and_no_message() {
    let session = fresh();
    session.append("user/message", &user("a"), Intent::append()).unwrap();
    session.append("assistant/message", &assistant("empty", &[]), Intent::append()).unwrap();
    session.append("assistant/message", &assistant("full", &[]), Intent::append()).unwrap();
    assert_eq!(session.surface(), [0, 1, 2]);
    let messages = session.messages();
    assert_eq!(
        (messages.len(), messages.seq(0), messages.seq(1), messages.seq(2)),
        (2, Some(0), Some(2), None)
    );
    assert!(messages.get(1).unwrap().starts_with(r#"{"id":"full","role":"assistant""#));
    let none = r#"{"id":"u","role":"user","source":{"kind":"user"},"content":[]}"#;
    session.append("user/message", none, Intent::append()).unwrap();
    assert_eq!(session.messages().get(2), Some(none), "only an assistant's is left out");
}

#[test]
fn r032_what_is_no_message_never_changes_the_messages() {
    for seed in 0..60 {
        let rows = generate::rows(
            seed,
            Shape { events: 60, chunks: false, markers: true, opaque: seed % 4 == 0, broken_one_in: 0 },
        );
        let derived = derive_messages(v2(), &log(&rows)).unwrap();
        let derived: Vec<&str> = derived.iter().collect();
        // The same log with other events between, and every seq moved along.
        let mut dice = Dice::new(seed);
        let mut moved: Vec<u64> = Vec::new();
        let mut out = Vec::new();
        for text in &rows {
            while dice.one_in(3) {
                let extra = dice.pick(&["todo/write", "hook/invoked", "tool/call", "turn/start"]);
                out.push(row(extra, out.len() as u64, r#"{"turn":9}"#, ""));
            }
            let event = Event::read(text.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap();
            moved.push(out.len() as u64);
            let target = |seq: u64| moved[usize::try_from(seq).unwrap()];
            let mut rest = String::new();
            if event.is_ignorable() {
                rest.push_str(",\"ignorable\":true");
            } else if let Some(op) = event.surface_op() {
                let mut seqs = Vec::new();
                if let Some(list) = event.source_event_seqs() {
                    seslog::row::range::decode(list, event.seq(), &mut seqs).unwrap();
                }
                let seqs: Vec<u64> = seqs.into_iter().map(target).collect();
                let op: serde_json::Value = serde_json::from_str(op).unwrap();
                rest = match (op.get("start"), op.get("end"), seqs.is_empty()) {
                    (Some(start), Some(end), _) => {
                        replace(target(start.as_u64().unwrap()), target(end.as_u64().unwrap()), &seqs)
                    }
                    (_, _, true) => APPEND.to_owned(),
                    _ => format!(r#","sourceEventSeqs":{seqs:?}{APPEND}"#),
                };
            }
            out.push(row(&event.event_type().to_string_lossy(), out.len() as u64, event.data(), &rest));
        }
        let again = derive_messages(v2(), &log(&out)).unwrap();
        assert_eq!(again.iter().collect::<Vec<_>>(), derived, "log {seed}");
        assert_eq!(messages(&Session::restore(header(), &log(&out), None, &settings()).unwrap()), derived);
    }
}

#[test]
fn r032_messages_asked_for_at_any_time_are_those_of_the_whole_log() {
    for seed in 0..60 {
        let rows = generate::rows(
            1000 + seed,
            Shape { events: 80, chunks: false, markers: false, opaque: seed % 4 == 0, broken_one_in: 0 },
        );
        let session = fresh();
        let mut dice = Dice::new(seed);
        let mut held = Vec::new();
        for text in &rows {
            append_row(&session, text).unwrap();
            if dice.one_in(3) {
                let now = session.messages();
                let expected = derive_messages(v2(), &session.log()).unwrap();
                assert!(now.iter().eq(expected.iter()), "log {seed}");
                if dice.one_in(2) {
                    held.push((now.iter().map(str::to_owned).collect::<Vec<_>>(), now));
                }
            }
        }
        for (then, messages) in held {
            assert!(messages.iter().eq(then.iter().map(String::as_str)));
        }
    }
}

#[test]
fn r033_what_was_handed_out_does_not_change() {
    let session = three();
    let (log, messages, surface) = (session.log(), session.messages(), session.surface());
    let before = rows(&log);
    session.append("user/message", &user("d"), Intent::append()).unwrap();
    session.append("user/message", &user("all"), Intent::replace(0, 3, &[0, 1, 2, 3])).unwrap();
    assert_eq!((rows(&log), log.len()), (before, 3));
    assert_eq!(messages.iter().collect::<Vec<_>>(), [user("a"), user("b"), user("c")]);
    assert_eq!(surface, [0, 1, 2]);
    assert_eq!(sessions::messages(&session), [user("all")]);
}

fn request(config: &str, more: &str) -> String {
    format!(r#"{{"header":{{"config":{{"provider":"p","model":"m"{config}}}{more}}},"reason":"change"}}"#)
}

#[test]
fn r034_the_request_header_is_the_last_one_and_continues_from_an_earlier_fold() {
    let session = fresh();
    assert!(session.request_header().is_none() && session.request_context().is_none());
    session.append("request/header", &request("", ""), Intent::log_only()).unwrap();
    session.append("request/context", r#"{"provider":"p","model":"m"}"#, Intent::log_only()).unwrap();
    let first = session.log();
    session
        .append("request/header", &request(r#","maxTokens":1.0"#, r#","tools":[]"#), Intent::log_only())
        .unwrap();
    session.append("request/context", r#"{"provider":"p","model":"n"}"#, Intent::log_only()).unwrap();
    let folded = RequestHeader::fold(&session.log(), None).unwrap();
    assert_eq!(folded.as_json(), r#"{"config":{"provider":"p","model":"m","maxTokens":1}}"#);
    assert!(folded.is_same(&session.request_header().unwrap()));
    let earlier = RequestHeader::fold(&first, None);
    assert_eq!(earlier.as_ref().unwrap().as_json(), r#"{"config":{"provider":"p","model":"m"}}"#);
    let rest = session.log().suffix(first.end());
    assert!(RequestHeader::fold(&rest, earlier.clone()).unwrap().is_same(&folded));
    let nothing = session.log().suffix(session.next_seq());
    assert!(RequestHeader::fold(&nothing, earlier.clone()).unwrap().is_same(&earlier.unwrap()));
    assert_eq!(session.request_context().unwrap(), r#"{"provider":"p","model":"n"}"#);
    let restored = Session::restore(header(), &session.log(), None, &settings()).unwrap();
    assert!(restored.request_header().unwrap().is_same(&folded));
    assert_eq!(restored.request_context(), session.request_context());
}

#[test]
fn r035_equal_headers_differ_only_in_what_says_nothing() {
    let session = fresh();
    let header = |config: &str, more: &str| {
        session.append("request/header", &request(config, more), Intent::log_only()).unwrap();
        session.request_header().unwrap()
    };
    let plain = header("", "");
    assert!(plain.is_same(&header("", r#","tools":[],"system":"","adapterDefaults":{}"#)));
    assert!(!plain.is_same(&header(r#","stop":[]"#, "")));
    let tools = header("", r#","tools":[{"name":"a"},{"name":"b"}]"#);
    assert!(tools.is_same(&header("", r#","tools":[{"name":"a"},{"name":"b"}]"#)));
    assert!(!tools.is_same(&header("", r#","tools":[{"name":"b"},{"name":"a"}]"#)));
    let stop = header(r#","stop":["a","b"]"#, "");
    assert!(!stop.is_same(&header(r#","stop":["b","a"]"#, "")));
}

#[test]
fn r036_a_cut_is_balanced_where_no_call_before_it_is_open() {
    let session = fresh();
    session.append("user/message", &user("u"), Intent::append()).unwrap();
    session.append("assistant/message", &assistant("a", &["c", "d"]), Intent::append()).unwrap();
    session.append("tool/result", &result("c", "x"), Intent::append()).unwrap();
    session.append("todo/write", "{}", Intent::log_only()).unwrap();
    assert!(!session.pairing().unwrap().is_balanced_at_end());
    session.append("tool/result", &result("d", "x"), Intent::append()).unwrap();
    session.append("user/message", &user("v"), Intent::append()).unwrap();
    let pairing = session.pairing().unwrap();
    let balanced: Vec<bool> = [0, 1, 2, 4, 5].map(|seq| pairing.is_balanced_before(seq).unwrap()).to_vec();
    assert_eq!(balanced, [true, true, false, false, true]);
    assert!(pairing.is_balanced_at_end());
    for seq in [3, 6, 99] {
        assert_eq!(pairing.is_balanced_before(seq), Err(PairingFault::OffSurface { seq }));
    }
    // What a summary shadows is no longer asked for.
    session.append("user/message", &user("s"), Intent::replace(1, 4, &[1, 2, 4])).unwrap();
    assert!(session.pairing().unwrap().is_balanced_before(6).unwrap());
    let corrupt = [
        row("assistant/message", 0, &assistant("a", &["c"]), APPEND),
        row("tool/result", 1, &result("c", "x"), APPEND),
        row("tool/result", 2, &result("c", "x"), APPEND),
    ];
    assert_eq!(Pairing::of(v2(), &log(&corrupt)).unwrap_err(), PairingFault::Unasked { seq: 2 });
    assert!(Pairing::of(v2(), &Log::new()).unwrap().is_balanced_at_end());
}

// Crash closers.

fn closers<R: AsRef<str>>(rows: &[R]) -> Vec<String> {
    let mut open = OpenTurn::default();
    log(rows).iter().for_each(|event| open.push(&event));
    open.closers().into_iter().map(|row| String::from_utf8(row).unwrap()).collect()
}

fn kinds(rows: &[String]) -> Vec<&str> {
    rows.iter().map(|row| row.split('"').nth(3).unwrap()).collect()
}

/// An open step in which `c` and `d` were asked for and `c` was started.
fn interrupted() -> Vec<String> {
    vec![
        row("turn/start", 0, TURN, ""),
        row("step/start", 1, STEP, ""),
        row("assistant/message", 2, &assistant("a", &["c", "d"]), APPEND),
        row("tool/call", 3, &call("c"), ""),
    ]
}

#[test]
fn r037_a_log_without_an_open_turn_needs_no_closers() {
    assert!(closers::<String>(&[]).is_empty());
    assert!(closers(&[row("todo/write", 0, "{}", "")]).is_empty());
    assert!(closers(&[row("turn/start", 0, TURN, ""), row("turn/end", 1, DONE, "")]).is_empty());
}

#[test]
fn r038_an_open_turn_ends_interrupted_and_an_open_step_before_it() {
    let start = [row("turn/start", 0, TURN, ""), row("step/start", 1, STEP, "")];
    let end = r#"{"type":"turn/end","seq":1,"time":100,"data":{"turn":1,"reason":{"kind":"interrupted"}}}"#;
    assert_eq!(closers(&start[..1]), [end]);
    assert_eq!(kinds(&closers(&start)), ["step/end", "turn/end"]);
    let ended = [start[0].clone(), start[1].clone(), row("step/end", 2, STEP, "")];
    assert_eq!(kinds(&closers(&ended)), ["turn/end"]);
}

#[test]
fn r039_every_unanswered_call_of_the_open_step_gets_one_result_in_order() {
    let mut rows = interrupted();
    rows.push(row("assistant/message", 4, &assistant("b", &["e", "c"]), APPEND));
    let closing = closers(&rows);
    assert_eq!(kinds(&closing), ["tool/result", "tool/result", "tool/result", "step/end", "turn/end"]);
    let calls: Vec<&str> = closing[..3]
        .iter()
        .map(|row| row.split(r#""toolCallId":""#).nth(1).unwrap().split('"').next().unwrap())
        .collect();
    assert_eq!(calls, ["c", "d", "e"]);
    assert!(closing[0].contains("TOOL_NOT_STARTED"), "asked for again, it counts as not started");
}

#[test]
fn r040_a_recorded_call_has_an_unknown_outcome_and_cites_its_record() {
    let mut rows = interrupted();
    rows.push(row("tool/call", 4, &call("c"), ""));
    let closing = closers(&rows);
    assert!(
        closing[0].contains(r#""error":{"name":"ToolOutcomeUnknownError","code":"TOOL_OUTCOME_UNKNOWN"}"#)
    );
    assert!(closing[0].ends_with(r#","surfaceOp":"append","sourceEventSeqs":[4]}"#), "the latest record");
    assert!(closing[1].contains(r#""error":{"name":"ToolNotStartedError","code":"TOOL_NOT_STARTED"}"#));
    assert!(closing[1].ends_with(r#","surfaceOp":"append"}"#));
}

#[test]
fn r041_answered_closed_and_orphan_calls_get_nothing() {
    let mut answered = interrupted();
    answered.push(row("tool/result", 4, &result("c", "x"), APPEND));
    answered.push(row("tool/result", 5, &result("d", "x"), &replace(4, 4, &[4])));
    assert_eq!(kinds(&closers(&answered)), ["step/end", "turn/end"], "whatever the operation");
    let mut closed = interrupted();
    closed.push(row("step/end", 4, STEP, ""));
    closed.push(row("tool/call", 5, &call("d"), ""));
    assert_eq!(kinds(&closers(&closed)), ["turn/end"]);
    closed.push(row("turn/start", 6, r#"{"turn":2}"#, ""));
    assert_eq!(kinds(&closers(&closed)), ["turn/end"]);
    let orphan = [row("turn/start", 0, TURN, ""), row("tool/call", 1, &call("c"), "")];
    assert_eq!(kinds(&closers(&orphan)), ["turn/end"]);
}

#[test]
fn r042_closers_continue_the_log_at_its_last_time_and_are_always_the_same() {
    let rows = interrupted();
    let closing = closers(&rows);
    for (row, seq) in closing.iter().zip(4..) {
        let event = Event::read(row.as_bytes(), Check::Full, &Limits::DEFAULT).unwrap();
        assert_eq!((event.seq().get(), event.time().get()), (seq, 103));
    }
    assert_eq!(closers(&rows), closing);
}

#[test]
fn r043_ids_and_texts_of_closing_results_are_these() {
    let closing = closers(&interrupted());
    let unknown = "The tool call was interrupted after it was recorded, but no result was durably recorded. Its outcome is unknown. Decide whether to retry from the tool semantics: retry only if the operation is read-only or idempotent; if it may have side effects, first verify external state or ask the user. Do not retry blindly.";
    let not_started = "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed.";
    for (row, call, seq, text) in [(&closing[0], "c", 4, unknown), (&closing[1], "d", 5, not_started)] {
        let message = format!(
            r#""message":{{"id":"interrupted-tool-result-{call}-{seq}","role":"user","source":{{"kind":"tool","callId":"{call}"}},"content":[{{"type":"tool-result","toolCallId":"{call}","isError":true,"content":[{{"type":"text","text":"{text}"}}]}}]}}"#
        );
        assert!(row.contains(&message), "{row}");
    }
}

#[test]
fn r044_a_log_with_its_closers_needs_none_and_can_be_restored() {
    for seed in 0..200 {
        let mut rows = generate::rows(
            5000 + seed,
            Shape { events: 50, chunks: false, markers: true, opaque: seed % 4 == 0, broken_one_in: 0 },
        );
        let closing = closers(&rows);
        rows.extend(closing);
        assert!(closers(&rows).is_empty(), "log {seed}");
        Session::restore(header(), &log(&rows), None, &settings()).unwrap();
    }
}

// The store of live sessions, and admission.

#[test]
fn a_type_that_no_reader_knows_is_admitted_only_on_request() {
    let session = fresh();
    let fault = session.append("plugin/new", "{}", Intent::log_only()).unwrap_err();
    assert!(
        matches!(&fault, AppendFault::Event(EventFault::Unknown { event_type }) if event_type == "plugin/new"),
        "{fault}"
    );
    session.append("plugin/new", "{}", Intent::log_only().ignorable()).unwrap();
    let open = Session::create(header(), &settings().with_admission(Admission::Anything)).unwrap();
    open.append("plugin/new", "{}", Intent::log_only()).unwrap();
    open.append("user/message", r#"{"text":"hi"}"#, Intent::append()).unwrap();
    assert!(Session::restore(header(), &open.log(), None, &settings()).is_err());
    // Of generation 0, retired forms are refused whatever is admitted.
    let v0 =
        settings().with_profile(Profile::of(Generation::V0).unwrap()).with_admission(Admission::Anything);
    let old =
        Session::create(Header::new(Generation::V0, Text::from("s"), UnixMs::new(1)).unwrap(), &v0).unwrap();
    for (event_type, data) in
        [("request/header-delta", "{}"), ("request/header", r#"{"header":{},"reason":"fallback"}"#)]
    {
        let fault = old.append(event_type, data, Intent::log_only()).unwrap_err();
        assert!(matches!(fault, AppendFault::Event(EventFault::Retired)), "{fault}");
        open.append(event_type, data, Intent::log_only()).unwrap();
    }
    let chunk = r#"{"turn":1,"step":1,"chunk":{"type":"text","index":0,"text":"x"}}"#;
    old.append("assistant/chunk", chunk, Intent::log_only()).unwrap();
    old.append("assistant/message", &assistant("a", &[]), Intent::append().citing(&[])).unwrap();
}

#[test]
fn generation_0_counts_its_cut_in_the_header_and_marks_nothing() {
    let settings = settings().with_profile(Profile::of(Generation::V0).unwrap());
    let header = |cut| {
        let header = Header::new(Generation::V0, Text::from("s"), UnixMs::new(1)).unwrap();
        header.with_seeding(Generation::V0, Seeding::Counted(cut)).unwrap()
    };
    let seed = log(&[row("turn/start", 0, TURN, ""), row("turn/end", 1, DONE, "")]);
    let child = Session::seeded(header(2), &seed, Some(2), &settings).unwrap();
    assert_eq!(child.log().last().unwrap().data(), "{}");
    let again = Session::restore(header(2), &child.log(), Some(2), &settings).unwrap();
    assert_eq!((again.next_seq(), again.inherited_event_count()), (3, 2));
    let other = Session::restore(header(1), &seed, Some(2), &settings).unwrap_err();
    assert_eq!(other, CreateFault::Marker { marked: Some(1) });
}

/// What a store says of its sessions, in order.
fn diary(live: &Sessions) -> Arc<Mutex<Vec<String>>> {
    let diary = Arc::new(Mutex::new(Vec::new()));
    let write = |what: &'static str| {
        let diary = Arc::clone(&diary);
        move |session: &Arc<Session>| {
            diary.lock().push(format!("{what} {}", session.id().to_string_lossy()));
            Ok(())
        }
    };
    live.on_created(write("created")).keep();
    live.on_disposed(write("disposed")).keep();
    let inner = Arc::clone(&diary);
    live.on_event(move |_, event| {
        inner.lock().push(format!("event {}", event.seq()));
        Ok(())
    })
    .keep();
    diary
}

#[test]
fn of_two_sessions_of_one_id_one_enters_and_a_stale_detach_touches_nothing() {
    let live = Sessions::new(settings());
    let diary = diary(&live);
    let (first, second) = (fresh(), fresh());
    let entered = live.enter(&first).unwrap();
    assert!(matches!(live.enter(&second).unwrap_err(), LiveFault::AlreadyExists));
    assert!(matches!(live.enter(&first).unwrap_err(), LiveFault::AlreadyExists));
    let elsewhere = Sessions::new(settings());
    assert!(matches!(elsewhere.enter(&first).unwrap_err(), LiveFault::AlreadyExists));
    assert!(diary.lock().is_empty(), "an entry says nothing");
    entered.detach();
    assert!(diary.lock().is_empty(), "it was never announced");
    assert!(matches!(entered.announce().unwrap_err(), LiveFault::NotLive));
    let replacement = live.publish(&second).unwrap();
    entered.detach();
    assert!(replacement.is_live() && !entered.is_live());
    assert!(Arc::ptr_eq(&live.get(second.id()).unwrap(), &second));
    assert!(matches!(replacement.announce().unwrap_err(), LiveFault::Announced));
    first.append("todo/write", "{}", Intent::log_only()).unwrap();
    second.append("todo/write", "{}", Intent::log_only()).unwrap();
    replacement.detach();
    replacement.detach();
    second.append("todo/write", "{}", Intent::log_only()).unwrap();
    assert_eq!(*diary.lock(), ["created s", "event 0", "disposed s"]);
    let back = live.publish(&second).unwrap();
    second.append("todo/write", "{}", Intent::log_only()).unwrap();
    assert_eq!(diary.lock()[3..], ["created s", "event 2"]);
    back.detach();
    assert!(live.list().is_empty());
}

#[test]
fn a_listener_can_refuse_a_session_which_is_then_disposed() {
    let live = Sessions::new(settings());
    let first = diary(&live);
    live.on_created(|_| Err("not this one".into())).keep();
    let session = fresh();
    assert!(matches!(live.publish(&session).unwrap_err(), LiveFault::Refused(_)));
    assert_eq!(*first.lock(), ["created s", "disposed s"]);
    assert!(live.get(session.id()).is_none());
    let parent = fresh();
    let _parent = live.enter(&parent).unwrap();
    let fault = live.fork(ForkSource::Session(&parent), None, Text::from("child"), None).unwrap_err();
    assert!(matches!(fault, ForkFault::Refused(LiveFault::Refused(_))));
    assert_eq!(live.list().len(), 1);
}

#[test]
fn a_detach_from_inside_a_listener_waits_until_all_were_told() {
    let live = Sessions::new(settings());
    let attachment = Arc::new(Mutex::new(None::<Arc<seslog::session::Attachment>>));
    let inner = Arc::clone(&attachment);
    live.on_event(move |session, _| {
        let attachment = inner.lock().clone().unwrap();
        attachment.detach();
        assert!(attachment.is_live(), "still being published");
        assert_eq!(session.next_seq(), 1);
        Ok(())
    })
    .keep();
    let diary = diary(&live);
    let session = fresh();
    let here = Arc::new(live.publish(&session).unwrap());
    *attachment.lock() = Some(Arc::clone(&here));
    session.append("todo/write", "{}", Intent::log_only()).unwrap();
    assert!(!here.is_live());
    assert_eq!(*diary.lock(), ["created s", "event 0", "disposed s"]);

    let live = Sessions::new(settings());
    let slot = Arc::new(Mutex::new(None::<Arc<seslog::session::Attachment>>));
    let inner = Arc::clone(&slot);
    live.on_created(move |_| {
        let attachment = inner.lock().clone().unwrap();
        attachment.detach();
        assert!(attachment.is_live());
        assert!(matches!(attachment.announce(), Err(LiveFault::Announced)));
        Ok(())
    })
    .keep();
    let diary = self::diary(&live);
    let here = Arc::new(live.enter(&fresh()).unwrap());
    *slot.lock() = Some(Arc::clone(&here));
    here.announce().unwrap();
    assert!(!here.is_live());
    assert_eq!(*diary.lock(), ["created s", "disposed s"]);
}

#[test]
fn a_flush_calls_every_listener_and_fails_with_the_first_failure() {
    let live = Sessions::new(settings());
    let session = fresh();
    assert!(matches!(live.flush(&session).unwrap_err(), LiveFault::NotLive));
    let here = live.publish(&session).unwrap();
    assert!(!live.flush(&session).unwrap(), "nobody makes anything durable");
    let called = Arc::new(AtomicU32::new(0));
    let count = |fails: Option<&'static str>| {
        let called = Arc::clone(&called);
        live.on_flush(move |_| {
            called.fetch_add(1, Ordering::Relaxed);
            fails.map_or(Ok(()), |why| Err(why.into()))
        })
    };
    let sound = count(None);
    assert!(live.flush(&session).unwrap());
    let (_first, _second, _last) = (count(Some("disk full")), count(Some("later")), count(None));
    let fault = live.flush(&session).unwrap_err();
    let LiveFault::Flush(cause) = &fault else { panic!("{fault}") };
    assert_eq!((cause.to_string().as_str(), called.load(Ordering::Relaxed)), ("disk full", 5));
    drop(sound);
    here.detach();
    assert!(matches!(live.flush(&session).unwrap_err(), LiveFault::NotLive));
}

#[test]
fn settings_keep_what_they_are_given() {
    let mut limits = Limits::DEFAULT;
    limits.nesting_max = 3;
    let settings = Settings::new(|| UnixMs::new(i64::MAX)).with_limits(limits);
    assert_eq!(settings.limits().nesting_max, 3);
    let session = Session::create(header(), &settings).unwrap();
    let deep = session.append("todo/write", "[[[[1]]]]", Intent::log_only()).unwrap_err();
    assert!(matches!(deep, AppendFault::Event(EventFault::Row(RowFault::NotJson(_)))));
    let late = session.append("todo/write", "{}", Intent::log_only()).unwrap_err();
    assert!(matches!(late, AppendFault::Event(EventFault::Row(RowFault::Member(Member::Time)))), "{late}");
    let marker = Session::seeded(header(), &Log::new(), None, &settings).unwrap_err();
    assert!(matches!(marker, CreateFault::Event { index: 0, .. }));
}
