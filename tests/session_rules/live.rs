//! The store of live sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use seslog::json::Text;
use seslog::session::{
    Attachment, ForkFault, ForkSource, Intent, LiveFault, Log, Messages, Session, Sessions, Subscription,
};

use crate::sessions::*;

#[test]
fn sessions_and_what_they_hand_out_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Session>();
    shared::<Sessions>();
    shared::<Attachment>();
    shared::<Subscription>();
    shared::<Log>();
    shared::<Messages>();
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
    let attachment = Arc::new(Mutex::new(None::<Arc<Attachment>>));
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
    let slot = Arc::new(Mutex::new(None::<Arc<Attachment>>));
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
