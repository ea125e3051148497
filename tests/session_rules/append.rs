//! Lossless JSON, envelope, append.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use seslog::limits::Limits;
use seslog::row::{Check, Member, RowFault};
use seslog::session::{AppendFault, CreateFault, EventFault, Intent, MessageFault, Session, Sessions};

use crate::sessions::*;

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
                    let log = session.log();
                    assert_eq!(log.last().map(|event| event.seq().get() + 1), Some(log.len()));
                }
            });
        }
    });
    assert_eq!(*heard.lock(), (0..1000).collect::<Vec<u64>>());
}
