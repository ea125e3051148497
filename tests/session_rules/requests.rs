//! Request headers and the pairing of tool calls.

use seslog::session::{Intent, Log, Pairing, PairingFault, RequestHeader, Session};

use crate::sessions::*;

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
