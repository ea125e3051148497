//! Live sessions written behind: 200 of them, 50 events a second each, with explicit appends beside them; and what it gains
//! that their syncs run side by side.
//!
//! `SESLOG_LIVE_SECONDS=60` for as long as the issue on the seam wants it. The same beside SQLite: the bin `live` of the package
//! in `benches/peers`.

mod limits;
#[path = "live/mod.rs"]
mod live;

use std::sync::Arc;
use std::time::{Duration, Instant};

use live::ours::Ours;
use live::{Contender, Load, run};
use seslog::store::{BehindOptions, ManualClock};

fn main() {
    let measures = std::env::args().any(|arg| arg == "--bench");
    let load = if measures { Load::full() } else { Load::small() };
    println!(
        "\nlive: {} sessions, {} events a second each, for {:.1} s; beside them {} explicit appenders",
        load.sessions,
        load.rate,
        load.time.as_secs_f64(),
        load.probes
    );
    let folder = limits::folder();
    let ours = Ours::new(&folder.path().join("load"), load, BehindOptions::default());
    println!("{}", run(&ours, load));
    if measures {
        shared_syncs(load, folder.path());
    }
}

/// A flush of all sessions with an event each, by how many syncs run side by side.
fn shared_syncs(load: Load, folder: &std::path::Path) {
    const ROUNDS: u64 = 9;
    let drains = [1, 2, 4, 8, 16, 32];
    let stores: Vec<Ours> = drains
        .iter()
        .map(|&drains| {
            // No window ends by itself.
            let options =
                BehindOptions { drains, clock: Arc::new(ManualClock::new()), ..BehindOptions::default() };
            Ours::new(&folder.join(format!("drains-{drains}")), load, options)
        })
        .collect();
    let mut times = vec![Vec::new(); drains.len()];
    for seq in 0..ROUNDS {
        for turn in 0..drains.len() {
            let at = (turn + seq as usize) % drains.len();
            (0..load.sessions).for_each(|session| stores[at].route(session, seq, &live::row(session, seq)));
            let start = Instant::now();
            stores[at].flush();
            times[at].push(start.elapsed());
        }
    }
    println!("  a flush of {} sessions with an event each, median of {ROUNDS} in turns", load.sessions);
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e3
    };
    let alone = median(&mut times[0]);
    for (drains, times) in drains.iter().zip(&mut times) {
        let ms = median(times);
        println!(
            "    {drains:>2} side by side {ms:>8.1} ms, {:>5.1} times as fast as one after the other",
            alone / ms
        );
    }
    stores.iter().for_each(Contender::finish);
}
