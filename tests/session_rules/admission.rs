//! What is admitted at append, and settings.

use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::{Header, Member, RowFault, Seeding};
use seslog::session::{
    Admission, AppendFault, CreateFault, EventFault, Intent, Log, Profile, Session, Settings,
};
use seslog::units::{Generation, UnixMs};

use crate::sessions::*;

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
