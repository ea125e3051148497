//! seslog and what people would use instead of it, on the same work, in turns. See [`args::USAGE`].
//!
//! A run makes its sets from a seed, lets every contender store them, checks that each gives back every byte, and then
//! measures all works in rounds: each measurement is this program started again for one task ([`child`]), or node for the
//! original (`dsh.mjs`). What was measured goes to a folder of its own, see [`report`].

mod args;
mod child;
#[path = "../../data/mod.rs"]
mod data;
mod digest;
mod journal;
mod lab;
mod limits;
#[path = "../../live/mod.rs"]
mod live;
mod live_sqlite;
mod machine;
mod peer;
mod plot;
mod race;
mod report;
mod rival;
mod sample;
mod scale;
mod seslog_only;
mod set;
mod stats;
mod study;
mod supply;
mod targets;
mod walk;
mod works;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use crate::args::Options;
use crate::child::Task;
use crate::lab::Lab;
use crate::machine::Machine;
use crate::race::Outcome;
use crate::set::{Sets, Sizes};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.as_slice() {
        [flag, name, peer, folder, set, args @ ..] if flag == "--child" => {
            child::run(&Task { name, peer, folder: Path::new(folder), set: Path::new(set), args })
                .map(|()| true)
        }
        [flag] if flag == "--help" || flag == "-h" => {
            print!("{}", args::USAGE);
            Ok(true)
        }
        args => Options::parse(args).and_then(|options| run(&options)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures what is wanted and writes the results; `false` if a contender failed or gave another answer.
fn run(options: &Options) -> Result<bool> {
    if options.list {
        works::WORKS.iter().for_each(|work| println!("{:<16} {}", work.name, work.what));
        println!("{:<16} How costs grow: sessions, and the length of a log", "scale");
        println!(
            "{:<16} What would make logs smaller: larger segments, higher levels, a dictionary",
            "study"
        );
        return Ok(true);
    }
    let start = Instant::now();
    let load_before = machine::load();
    let sizes = if options.quick { Sizes::QUICK } else { Sizes::FULL };
    let mut lab = Lab::new(&options.dir, |folder| Sets::make(folder, sizes))?;
    lab.skips.iter().for_each(|skip| eprintln!("SKIPPED: {skip}"));
    let mut outcome = Outcome::default();
    race::run(&mut lab, options, &sizes, &mut outcome)?;
    let points =
        if options.wants("scale") { scale::run(&lab, options, &mut outcome.failures)? } else { Vec::new() };
    let study = if options.wants("study") { study::run(options.quick)? } else { Vec::new() };
    let journal =
        if options.wants("journal") { journal::run(&options.dir, options.quick)? } else { Vec::new() };
    let machine = Machine::here(&options.dir);
    let out = options.out.clone().unwrap_or_else(|| default_out(options, &machine));
    let about = report::About {
        machine: &machine,
        options,
        load_before,
        load_after: machine::load(),
        minutes: start.elapsed().as_secs_f64() / 60.0,
        skips: &lab.skips,
    };
    let table = report::write(
        &out,
        &about,
        &outcome,
        &report::Studies { points: &points, sizes: &study, journal: &journal },
    )?;
    println!("{table}");
    outcome.failures.iter().for_each(|failure| println!("FAILED: {failure}"));
    lab.skips.iter().for_each(|skip| println!("SKIPPED: {skip}"));
    println!("results in {}", out.display());
    Ok(outcome.failures.is_empty())
}

fn default_out(options: &Options, machine: &Machine) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    if options.quick {
        return package.join("target/quick");
    }
    let name = options.machine.clone().unwrap_or_else(|| machine.slug());
    package.join("../results").join(format!("{}-{name}", machine.date))
}
