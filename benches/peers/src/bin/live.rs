//! Live sessions in seslog and in SQLite, the same work in turns; see `benches/live/mod.rs`.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml --bin live [ROUNDS]`, with `SESLOG_LIVE_SECONDS` for each
//! contender in each round.

#[path = "../../../live/mod.rs"]
mod live;
#[path = "../live_sqlite.rs"]
mod live_sqlite;

use live::ours::Ours;
use live::{Load, Outcome, run};
use live_sqlite::Sqlite;
use seslog::store::BehindOptions;

fn main() {
    let rounds = std::env::args().nth(1).map_or(3, |text| text.parse().expect("a number of rounds"));
    let load = Load::full();
    println!(
        "{} sessions, {} events a second each, for {:.1} s a round; beside them {} explicit appenders; SQLite {}",
        load.sessions,
        load.rate,
        load.time.as_secs_f64(),
        load.probes,
        rusqlite::version()
    );
    // On the disk of the build, not in memory.
    let target = std::env::current_exe().expect("it runs").parent().expect("a folder").to_path_buf();
    let folder = tempfile::tempdir_in(target).expect("the build folder can be written");
    let mut outcomes: [Vec<Outcome>; 2] = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for turn in 0..2 {
            let at = (round + turn) % 2;
            let folder = folder.path().join(format!("{round}-{at}"));
            let outcome = if at == 0 {
                run(&Ours::new(&folder, load, BehindOptions::default()), load)
            } else {
                run(&Sqlite::new(&folder), load)
            };
            println!("{outcome}");
            outcomes[at].push(outcome);
        }
    }
    println!("seslog against SQLite, by round; below 1 seslog takes less");
    for (what, pick) in [
        ("p50 of an explicit append", (|one| one.append_ms(500)) as fn(&Outcome) -> f64),
        ("p99 of an explicit append", |one| one.append_ms(990)),
        ("longest call of a producer", |one| one.route_max),
        ("cores", |one| one.cores),
    ] {
        let ratios = outcomes[0].iter().zip(&outcomes[1]).map(|(ours, theirs)| pick(ours) / pick(theirs));
        let ratios: Vec<String> = ratios.map(|ratio| format!("{ratio:.2}")).collect();
        println!("  {what:<28} {}", ratios.join("  "));
    }
}
