//! The surface and its folds.

use seslog::row::RowFault;
use seslog::session::{
    AppendFault, CreateFault, EventFault, Intent, Log, Session, SurfaceFault, derive_messages, fold_surface,
};

use crate::sessions::generate::{self, Shape};
use crate::sessions::*;

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
    for seed in 0..250 {
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
    assert!(sound > 60 && broken > 40, "{sound} sound and {broken} broken logs");
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
