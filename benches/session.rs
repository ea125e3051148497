//! Session logic in memory: a log restored from its rows, the messages of its surface, and appends.

mod data;
mod limits;
mod race;

use std::hint::black_box;
use std::sync::Arc;

use race::{Race, Unit};
use seslog::limits::Limits;
use seslog::row::Check;
use seslog::session::{Admission, Intent, Log, Session, Settings, fold_surface};
use seslog::units::UnixMs;

fn main() {
    let stored = data::large();
    let unit = Unit::Bytes(stored.rows.text.len() as u64);
    let events = stored.rows.len();
    let settings = Settings::new(|| UnixMs::new(1_700_000_000_000)).with_admission(Admission::Anything);
    let read = |check| Log::of_rows(stored.rows.iter(), check, &Limits::DEFAULT).expect("sound rows");
    let log = read(Check::Full);
    let whole = Session::restore(stored.header.clone(), &log, None, &settings).expect("a sound log");
    let mut race = Race::new("session");
    race.add(format!("session/log_of_rows/{events}_events"), unit, || {
        black_box(read(Check::Envelope));
    });
    race.add(format!("session/restore/{events}_events"), unit, || {
        black_box(Session::restore(stored.header.clone(), &log, None, &settings).expect("a sound log"));
    });
    race.add(format!("session/fold_surface/{events}_events"), unit, || {
        black_box(fold_surface(settings.profile(), &log).expect("a sound log"));
    });
    race.add("session/messages/again", Unit::Elements(whole.messages().len() as u64), || {
        black_box(whole.messages());
    });
    let data = r#"{"turn":1,"step":1,"callId":"c","name":"sh","arguments":"{\"command\":\"ls -l src\"}"}"#;
    let appends = 10_000_u64;
    race.add("session/append/tool_call", Unit::Elements(appends), || {
        let session =
            Session::seeded(stored.header.clone(), &Log::new(), None, &settings).expect("an empty seed");
        for _ in 0..appends {
            session.append("tool/call", data, Intent::log_only()).expect("a sound event");
        }
        black_box(Arc::clone(&session));
    });
    race.add("limit/memcpy", unit, || {
        black_box(stored.rows.text.clone());
    });
    race.add("limit/json_check", unit, || {
        for row in stored.rows.iter() {
            seslog::json::check(row, Limits::DEFAULT.nesting_max).expect("it is JSON");
        }
    });
    race.run();
}
