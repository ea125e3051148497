//! All works in rounds, contenders in turns, answers compared.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use crate::Result;
use crate::args::Options;
use crate::data::older::{self, Shape};
use crate::digest::Digest;
use crate::lab::Lab;
use crate::sample::Sample;
use crate::set::Sizes;
use crate::walk::{self, Size};
use crate::works::{ONCE, On, STORED, WORKS, Work, store_of};

/// One measurement in its place.
#[derive(Clone, Debug)]
pub struct Measured {
    pub work: &'static str,
    pub contender: &'static str,
    pub round: usize,
    pub sample: Sample,
}

/// Everything that the rounds gave.
#[derive(Debug, Default)]
pub struct Outcome {
    pub measured: Vec<Measured>,
    /// By set and peer.
    pub sizes: BTreeMap<(&'static str, &'static str), Size>,
    /// Bytes of the rows of a set.
    pub logical: BTreeMap<&'static str, u64>,
    pub rounds: usize,
    /// What went wrong: a contender that failed, or answers that differ.
    pub failures: Vec<String>,
    /// Peak memory of a process that does nothing, in KiB.
    pub idle_rss_kib: Option<f64>,
    /// System calls of a list, a session.
    pub system_calls: BTreeMap<&'static str, f64>,
}

/// The sets whose stores are read, and the rows of a batch that they are written in.
const SETS: &[(&str, usize)] = &[("small", 8), ("large", 32), ("tiny", 32)];

/// Runs everything that is wanted.
pub fn run(lab: &mut Lab, options: &Options, sizes: &Sizes, outcome: &mut Outcome) -> Result<()> {
    let start = Instant::now();
    let works: Vec<&Work> = WORKS.iter().filter(|work| options.wants(work.name)).collect();
    prepare(lab, &works, sizes, outcome)?;
    let budget = Duration::from_secs_f64(options.budget_minutes * 60.0);
    let mut longest = Duration::ZERO;
    for round in 0..options.rounds {
        // A round that would end behind the budget is not begun.
        if works.is_empty() || (round >= 3 && start.elapsed() + longest > budget) {
            break;
        }
        let begun = Instant::now();
        for work in &works {
            turn(lab, work, round, sizes, outcome)?;
        }
        outcome.rounds = round + 1;
        longest = longest.max(begun.elapsed());
        eprintln!("round {} took {:.0} s", round + 1, begun.elapsed().as_secs_f64());
    }
    compare(outcome);
    system_calls(lab, options, outcome)
}

/// Writes what is read later, and checks that every peer gives back every byte.
fn prepare(lab: &Lab, works: &[&Work], sizes: &Sizes, outcome: &mut Outcome) -> Result<()> {
    for &(set, batch) in SETS {
        outcome.logical.insert(set, crate::set::logical_bytes(&fs::read_to_string(lab.sets.path(set))?));
        let needs: Vec<&str> = STORED
            .iter()
            .copied()
            .filter(|peer| {
                let reads = |work: &&&Work| {
                    work.on == On::Stored
                        && work.set == set
                        && work.contenders.iter().any(|one| store_of(one) == *peer)
                };
                lab.has(peer) && works.iter().any(|work| reads(&work))
            })
            .collect();
        for peer in needs {
            let start = Instant::now();
            let folder = lab.fresh(&format!("stores/{set}/{peer}"))?;
            let path = lab.sets.path(set);
            let written = lab.run("write", peer, &folder, &path, &[batch.to_string()]);
            let checked = written.and_then(|_| lab.run("check", peer, &folder, &path, &[]));
            match checked {
                Ok(_) => {
                    outcome.sizes.insert((set, peer), walk::size(&folder)?);
                }
                Err(error) => outcome.failures.push(format!("{set} in {peer}: {error}")),
            }
            eprintln!("{set} stored and checked: {peer}, {:.1} s", start.elapsed().as_secs_f64());
        }
    }
    for work in works {
        match (work.on, work.task) {
            (On::Older, _) => {
                let shape = if work.set == "bulky" { Shape::Bulky } else { Shape::Packed };
                fs::write(lab.path(&format!("{}.jsonl", work.set)), older::log(1, shape, sizes.older_bytes))?;
            }
            (On::Fresh, "append") => {
                let folder = lab.fresh("pieces-store")?;
                let mut args = (work.args)(sizes);
                args.push(lab.path(work.name).display().to_string());
                lab.run("pieces", "seslog", &folder, &lab.sets.path(work.set), &args)?;
            }
            // Appends must not change what others read.
            (On::Stored, "open-write") => {
                let folder = lab.fresh("stores/open-write")?;
                lab.run("write", "seslog", &folder, &lab.sets.path(work.set), &["32".to_owned()])?;
            }
            _ => {}
        }
    }
    let folder = lab.fresh("nothing")?;
    outcome.idle_rss_kib =
        lab.run("nothing", "seslog", &folder, &lab.sets.path("large"), &[])?.get("rss_kib");
    Ok(())
}

/// One work of one round: all contenders, in an order that moves on with the rounds.
fn turn(
    lab: &mut Lab,
    work: &'static Work,
    round: usize,
    sizes: &Sizes,
    outcome: &mut Outcome,
) -> Result<()> {
    if work.cold && !lab.can_drop {
        return Ok(());
    }
    // What failed here once, or could not store the set, is not tried again.
    let failed = |contender: &str| {
        let here = format!("{} {contender}:", work.name);
        let before = format!("{} in {}:", work.set, store_of(contender));
        outcome.failures.iter().any(|failure| failure.starts_with(&here) || failure.starts_with(&before))
    };
    let takes_part = |contender: &&&str| {
        lab.has(contender) && !(ONCE.contains(contender) && (round > 0 || work.cold)) && !failed(contender)
    };
    let contenders: Vec<&'static str> = work.contenders.iter().filter(takes_part).copied().collect();
    let count = contenders.len();
    for turn in 0..count {
        // Forward in even rounds and backward in odd ones, each time from another one on.
        let at = (round + if round.is_multiple_of(2) { turn } else { count - 1 - turn }) % count;
        let contender = contenders[at];
        match measure(lab, work, contender, sizes) {
            Ok(sample) => {
                eprintln!(
                    "{:>3}  {:<16} {:<18} {:>10.3} ms",
                    round + 1,
                    work.name,
                    contender,
                    sample.ns / 1e6
                );
                outcome.measured.push(Measured { work: work.name, contender, round, sample });
            }
            Err(error) => {
                eprintln!("FAILED: {} {contender}: {error}", work.name);
                outcome.failures.push(format!("{} {contender}: {error}", work.name));
            }
        }
    }
    Ok(())
}

fn measure(lab: &Lab, work: &Work, contender: &str, sizes: &Sizes) -> Result<Sample> {
    let set = lab.sets.path(work.set);
    let mut args = (work.args)(sizes);
    let is_original = contender.starts_with("dsh");
    match work.on {
        On::Memory if is_original => lab.stream_original(),
        On::Memory => lab.run(work.task, contender, &lab.path("nothing"), &set, &args),
        On::Older if is_original => lab.migrate_original(&lab.path(&format!("{}.jsonl", work.set))),
        On::Older => lab.run(work.task, contender, &lab.path(&format!("{}.jsonl", work.set)), &set, &args),
        On::Fresh => {
            let folder = lab.fresh("fresh")?;
            if work.task == "append" && contender.starts_with("limit-") {
                args.push(lab.path(work.name).display().to_string());
            }
            let sample = lab.run(work.task, contender, &folder, &set, &args);
            fs::remove_dir_all(folder)?;
            sample
        }
        On::Stored => {
            let store = match work.task {
                "open-write" => "stores/open-write".to_owned(),
                _ => format!("stores/{}/{}", work.set, store_of(contender)),
            };
            let folder = lab.path(&store);
            if work.cold {
                // A catalog is what an earlier process left.
                if contender == "seslog-catalog" {
                    lab.run(work.task, contender, &folder, &set, &args)?;
                }
                lab.drop_caches()?;
            } else if !is_original && work.task != "open-write" {
                // Once unmeasured: what it reads is in the page cache then, and freed memory is at hand.
                lab.run(work.task, contender, &folder, &set, &args)?;
            }
            lab.run(work.task, contender, &folder, &set, &args)
        }
    }
}

/// Everybody's digest of a work against that of seslog in its first round.
fn compare(outcome: &mut Outcome) {
    let mut first: BTreeMap<&str, Digest> = BTreeMap::new();
    for one in outcome.measured.iter().filter(|one| one.contender == "seslog" && one.work != "open-write") {
        first.entry(one.work).or_insert(one.sample.digest);
    }
    let differs =
        |one: &&Measured| first.get(one.work).is_some_and(|digest| !digest.agrees(&one.sample.digest));
    let differing = outcome.measured.iter().filter(differs).map(|one| {
        format!("{} {}: digest {}, seslog {}", one.work, one.contender, one.sample.digest, first[one.work])
    });
    let mut differing: Vec<String> = differing.collect();
    differing.dedup();
    outcome.failures.extend(differing);
}

/// System calls of a list, less those of a process that lists nothing, a session.
fn system_calls(lab: &mut Lab, options: &Options, outcome: &mut Outcome) -> Result<()> {
    if !options.wants("list-warm") {
        return Ok(());
    }
    let set = lab.sets.path("small");
    let sessions = outcome.measured.iter().find(|one| one.work == "list-warm");
    let Some(sessions) = sessions.and_then(|one| one.sample.digest.seqs) else { return Ok(()) };
    for contender in ["seslog", "seslog-catalog", "jsonl"] {
        let folder = lab.path(&format!("stores/small/{}", store_of(contender)));
        let empty = lab.fresh("empty")?;
        let calls =
            lab.system_calls(contender, &folder, &set)?.zip(lab.system_calls(contender, &empty, &set)?);
        let Some((all, idle)) = calls else {
            lab.skips.push("system calls: strace is not installed".to_owned());
            return Ok(());
        };
        outcome.system_calls.insert(contender, (all - idle) / sessions as f64);
    }
    Ok(())
}
