//! Sessions that are live: what is asked of them, and what is kept of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use seslog::container::Encoding;
use seslog::container::disk::fault::FileLoss;
use seslog::json::Text;
use seslog::limits::Limits;
use seslog::row::{Check, Event};
use seslog::session::{Counts, Intent, Overview, Projected, Projections, Session, Settings};
use seslog::store::{Cancel, Host, LiveProjections, OpenSession, WriteBehind, no_setup};
use seslog::units::UnixMs;

use crate::common::sessions::header;
use crate::machine::{Machine, json, listed};

fn settings() -> Settings {
    let clock = AtomicI64::new(1_700_000_000_000);
    Settings::new(move || UnixMs::new(clock.fetch_add(1, Ordering::Relaxed)))
}

fn host(machine: &Machine, behind: bool) -> (Host, LiveProjections) {
    let live = LiveProjections::new(Projections::built_in(), machine.store());
    let store = Arc::new(machine.bare());
    let host = match behind {
        true => Host::new(Arc::new(WriteBehind::new(store)), settings()),
        false => Host::new(store, settings()),
    };
    (host.with_projections(live.clone()), live)
}

fn turn(session: &Session, turn: u32) {
    let say = |kind: &str, data: String, intent: Intent<'_>| session.append(kind, &data, intent).unwrap();
    say("turn/start", format!("{{\"turn\":{turn}}}"), Intent::log_only());
    let text = format!(
        r#"{{"role":"user","id":"u{turn}","content":[{{"type":"text","text":"prompt {turn}"}}],"source":{{"kind":"user"}}}}"#
    );
    say("user/message", text, Intent::append());
    say("turn/end", format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#), Intent::log_only());
}

fn scratch(session: &Session) -> String {
    let mut projected = Projected::new(&Projections::built_in());
    for row in session.log().iter() {
        projected.push(&Event::read(row.line().as_bytes(), Check::Full, &Limits::DEFAULT).unwrap()).unwrap();
    }
    json(&projected)
}

fn turns(live: &LiveProjections, open: &OpenSession) -> u64 {
    live.now(open.session()).get::<Counts>().unwrap().turns
}

fn listed_turns(machine: &Machine) -> Option<u64> {
    let sessions = machine.store().list_with_overviews().unwrap();
    listed(&sessions, "s").map(|overview| overview.counts.turns)
}

#[test]
fn states_of_a_live_session_are_kept_behind_its_flushes_and_go_on_when_it_is_resumed() {
    for behind in [false, true] {
        let machine = Machine::new(Encoding::Indexed);
        let never = Cancel::never();
        let (host, live) = host(&machine, behind);
        let open = host.create(header("s"), &mut no_setup, &never).unwrap();
        assert_eq!((turns(&live, &open), machine.kept().len()), (0, 0), "one without events is not stored");
        turn(open.session(), 1);
        assert_eq!(turns(&live, &open), 1, "asked before it is stored");
        assert_eq!(machine.kept().len(), 0, "and not kept before it is flushed");
        open.flush(&never).unwrap();
        assert_eq!(machine.kept().len(), 1);
        assert_eq!(listed_turns(&machine), Some(1));
        // Nothing that ends a turn: not worth a write.
        open.session().append("plan/mode", "{\"active\":true}", Intent::log_only()).unwrap();
        let before = machine.disk.content(&machine.kept()[0]).unwrap();
        open.flush(&never).unwrap();
        assert_eq!(machine.disk.content(&machine.kept()[0]).unwrap(), before);
        assert_eq!(json(&live.now(open.session())), scratch(open.session()));
        turn(open.session(), 2);
        assert!(!live.keep(open.session()), "it is not stored yet");
        open.close().unwrap();
        machine.check("s", "closed");

        // Another host goes on from what is kept.
        let (host, live) = self::host(&machine, behind);
        let open = host.resume(&Text::from("s"), &mut no_setup, &never).unwrap();
        machine.wait(3);
        assert_eq!(json(&live.now(open.session())), scratch(open.session()));
        turn(open.session(), 3);
        assert_eq!(turns(&live, &open), 3);
        open.close().unwrap();
        machine.check("s", "closed again");
        assert_eq!(listed_turns(&machine), Some(3));
        // And another session of that id in the same process begins anew.
        let path = machine.log("s");
        seslog::store::remove(&machine.disk, path.parent().unwrap(), false).unwrap();
        let open = host.create(header("s"), &mut no_setup, &never).unwrap();
        assert_eq!(turns(&live, &open), 0);
        (1..=7).for_each(|number| turn(open.session(), number));
        assert_eq!(json(&live.now(open.session())), scratch(open.session()));
        open.close().unwrap();
        machine.check("s", "another life");
    }
}

#[test]
fn what_is_kept_never_leads_the_log_that_a_power_loss_leaves() {
    let run = |machine: &Machine| -> Result<(), seslog::store::HostFault> {
        let never = Cancel::never();
        let (host, _live) = host(machine, false);
        let open = host.create(header("s"), &mut no_setup, &never)?;
        for number in 1..=3 {
            turn(open.session(), number);
            open.flush(&never)?;
        }
        open.close()
    };
    let machine = Machine::new(Encoding::Indexed);
    let start = machine.disk.ops();
    run(&machine).unwrap();
    let end = machine.disk.ops();
    for calls in start..=end {
        let machine = Machine::new(Encoding::Indexed);
        machine.disk.crash_after(calls);
        let _lost = run(&machine);
        for seed in 0..3 {
            let disk = machine.disk.crash_image(seed, FileLoss::RandomSectors);
            let after = Machine { disk, encoding: Encoding::Indexed };
            if after.bare().stat(&Text::from("s")).unwrap().is_none_or(|found| found.event_count.is_none()) {
                continue;
            }
            after.check("s", &format!("after call {calls}"));
            let sessions = after.store().list_with_overviews().unwrap();
            let events = |overview: Overview| overview.events;
            let shown = listed(&sessions, "s").map(events);
            assert!(shown.is_none() || shown == sessions[0].event_count, "{shown:?} after call {calls}");
        }
    }
}
