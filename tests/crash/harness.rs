//! Cuts the power before every call of a run that changes the disk, and makes images of what is left.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};

use seslog::Result;
use seslog::container::Encoding;
use seslog::container::disk::fault::{CrashPolicy, Failure, FaultDisk, FileLoss, NameLoss};
use seslog::json::Text;
use seslog::store::{FileHandle, FileStore, Verdict};

use crate::common::sessions::append;
use crate::image::{Found, ID, Journal, append_more, check, fresh, judge, log_path, store_on};

/// The system's number for a disk that failed.
const EIO: i32 = 5;

/// One run and what it starts from.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// A disk on which everything is durable, and what it holds.
    pub(crate) start: fn(Encoding) -> (FaultDisk, Journal),
    /// Stops at its first error.
    pub(crate) run: fn(&mut Run<'_>) -> Result<()>,
}

/// A run in the middle of its work.
pub(crate) struct Run<'d> {
    pub(crate) disk: &'d FaultDisk,
    pub(crate) encoding: Encoding,
    pub(crate) journal: Journal,
}

impl Run<'_> {
    pub(crate) fn store(&self) -> FileStore {
        store_on(self.disk, self.encoding)
    }

    /// Appends `rows`, which are acknowledged once this returns.
    pub(crate) fn append(&mut self, handle: &FileHandle, rows: Vec<String>) -> Result<()> {
        self.journal.inflight.extend(rows.iter().cloned());
        append(handle, &rows)?;
        self.acknowledge();
        Ok(())
    }

    /// Everything that was handed to the store so far is acknowledged.
    pub(crate) fn acknowledge(&mut self) {
        self.journal.acked.append(&mut self.journal.inflight);
        self.journal.is_stored = true;
    }
}

/// What the runs of one test came to.
#[derive(Debug, Default)]
struct Counts {
    moments: AtomicU64,
    images: AtomicU64,
    distinct: AtomicU64,
    unfinished: AtomicU64,
    torn: AtomicU64,
    damaged: AtomicU64,
    again: AtomicU64,
}

impl Counts {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn print(&self, name: &str) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        println!(
            "{name}: {} moments, {} images, {} distinct: {} torn, {} unfinished, {} damaged; {} images of a second cut",
            get(&self.moments),
            get(&self.images),
            get(&self.distinct),
            get(&self.torn),
            get(&self.unfinished),
            get(&self.damaged),
            get(&self.again),
        );
    }
}

/// Runs a scenario in every encoding, cut everywhere, and cuts some of the repairs again.
pub(crate) fn lose_power_everywhere(scenario: &Scenario) {
    let counts = Counts::default();
    for encoding in Encoding::ALL {
        let (disk, journal) = (scenario.start)(encoding);
        let mut seen = HashSet::new();
        let mut again = Vec::new();
        each_moment(&disk, encoding, &journal, &scenario.run, &mut |at, run| {
            Counts::add(&counts.moments);
            for (seed, policy) in policies() {
                let image = run.disk.crash_image(seed.wrapping_add(at << 8), policy);
                Counts::add(&counts.images);
                if !seen.insert(print_of(&image, &run.journal)) {
                    continue;
                }
                Counts::add(&counts.distinct);
                let what = format!("{} in {encoding}, cut before call {at}, {policy:?}", scenario.name);
                let found = check(&image, encoding, &run.journal, &what);
                count(&counts, found.verdict);
                if let Some(verdict) = found.verdict.filter(|&verdict| verdict != Verdict::DamagedTail) {
                    again.push((verdict == Verdict::Sound, image, found, what));
                }
            }
        });
        for (image, found, what) in chosen(again) {
            lose_power_again(&image, encoding, &found, &what, &counts);
        }
    }
    counts.print(scenario.name);
}

/// Runs a scenario in every encoding, kills it behind every call, and cuts the power behind every call of the append of
/// the process that comes next.
pub(crate) fn kill_then_lose_power(scenario: &Scenario) {
    let counts = Counts::default();
    for encoding in Encoding::ALL {
        let (disk, journal) = (scenario.start)(encoding);
        let mut seen = HashSet::new();
        each_moment(&disk, encoding, &journal, &scenario.run, &mut |at, run| {
            let killed = run.disk.kill_image();
            let what = format!("{} in {encoding}, killed before call {at}", scenario.name);
            power_after_death(&killed, encoding, &run.journal, &what, &mut seen, &counts);
        });
    }
    counts.print(&format!("{}, killed", scenario.name));
}

/// Runs a scenario with every sync failing in turn, lets the process give up or die on the spot, and cuts the power everywhere
/// in the append of the process that comes next. That one reads from a cache what the failed sync did not write.
pub(crate) fn fail_each_sync(scenario: &Scenario) {
    let counts = Counts::default();
    // A plain log has nothing to tell which lines a failed sync was to cover, so they are not written again.
    for encoding in [Encoding::Indexed, Encoding::Zstd] {
        let (disk, journal) = (scenario.start)(encoding);
        let whole = disk.kill_image();
        let mut run = Run { disk: &whole, encoding, journal: journal.clone() };
        (scenario.run)(&mut run).unwrap();
        let mut seen = HashSet::new();
        for sync in whole.trace().iter().filter(|op| op.kind.is_sync()) {
            for (how, dies) in [("gives up", false), ("dies", true)] {
                let disk = disk.kill_image();
                disk.fail_at(sync.call, Failure::Error(EIO));
                if dies {
                    disk.crash_after(sync.call + 1);
                }
                let mut run = Run { disk: &disk, encoding, journal: journal.clone() };
                let outcome = (scenario.run)(&mut run);
                let name = scenario.name;
                let what = format!(
                    "{name} in {encoding}, {:?} {} fails, and the process {how}",
                    sync.kind, sync.call
                );
                assert!(outcome.is_err(), "{what}: nobody was told");
                power_after_death(&disk.kill_image(), encoding, &run.journal, &what, &mut seen, &counts);
            }
        }
    }
    counts.print(&format!("{}, failed syncs", scenario.name));
}

/// Goes on after a process died, and cuts the power everywhere in that.
fn power_after_death(
    killed: &FaultDisk,
    encoding: Encoding,
    journal: &Journal,
    what: &str,
    seen: &mut HashSet<u64>,
    counts: &Counts,
) {
    let served = served_of(killed, encoding);
    let mut journal = journal.clone();
    assert!(served.starts_with(&journal.acked), "{what}");
    journal.inflight = served[journal.acked.len()..].to_vec();
    each_moment(killed, encoding, &journal, &append_after, &mut |at, run| {
        Counts::add(&counts.moments);
        for (seed, policy) in few_policies() {
            let image = run.disk.crash_image(seed.wrapping_add(at << 8), policy);
            Counts::add(&counts.images);
            if seen.insert(print_of(&image, &run.journal)) {
                Counts::add(&counts.distinct);
                let what = format!("{what}, then cut before call {at}, {policy:?}");
                let found = check(&image, encoding, &run.journal, &what);
                count(counts, found.verdict);
            }
        }
    });
}

/// Cuts the repair and append of a process that starts on an image.
fn lose_power_again(image: &FaultDisk, encoding: Encoding, found: &Found, what: &str, counts: &Counts) {
    let journal = Journal {
        acked: found.served.clone(),
        is_stored: found.verdict.is_some(),
        torn: torn_of(image),
        ..Journal::default()
    };
    let mut seen = HashSet::new();
    each_moment(image, encoding, &journal, &append_after, &mut |at, run| {
        for (seed, policy) in few_policies() {
            let image = run.disk.crash_image(seed.wrapping_add(at << 8), policy);
            if seen.insert(print_of(&image, &run.journal)) {
                Counts::add(&counts.again);
                check(&image, encoding, &run.journal, &format!("{what}, again before call {at}, {policy:?}"));
            }
        }
    });
}

/// The run of a process that finds a log as a crash left it.
fn append_after(run: &mut Run<'_>) -> Result<()> {
    let store = run.store();
    let next = run.journal.acked.len() + run.journal.inflight.len();
    let expected =
        (next as u64..next as u64 + 2).map(|seq| crate::common::sessions::row_by("second", seq, 24));
    run.journal.inflight.extend(expected);
    append_more(&store, "second", 2, &mut Vec::new())?;
    run.acknowledge();
    Ok(())
}

/// Runs `run` once for each of its calls that change something, with the power cut before that call, and once to its end;
/// shows what is left each time. What the disk holds does not change in between.
pub(crate) fn each_moment(
    disk: &FaultDisk,
    encoding: Encoding,
    journal: &Journal,
    run: &dyn Fn(&mut Run<'_>) -> Result<()>,
    show: &mut dyn FnMut(u64, &Run<'_>),
) {
    let running = |at: u64| {
        let disk = disk.kill_image();
        disk.crash_after(at);
        disk
    };
    let whole = running(u64::MAX);
    let mut to_the_end = Run { disk: &whole, encoding, journal: journal.clone() };
    run(&mut to_the_end).unwrap_or_else(|error| panic!("the run fails by itself: {error:?}"));
    for change in whole.trace().iter().filter(|op| op.kind.is_change()) {
        let disk = running(change.call);
        let mut cut = Run { disk: &disk, encoding, journal: journal.clone() };
        let _lost = run(&mut cut);
        assert_eq!(disk.ops(), change.call, "the same calls each time");
        show(change.call, &cut);
    }
    show(whole.ops(), &to_the_end);
}

fn count(counts: &Counts, verdict: Option<Verdict>) {
    match verdict {
        Some(Verdict::Torn) => Counts::add(&counts.torn),
        Some(Verdict::Unfinished) => Counts::add(&counts.unfinished),
        Some(Verdict::DamagedTail) => Counts::add(&counts.damaged),
        _ => {}
    }
}

fn served_of(disk: &FaultDisk, encoding: Encoding) -> Vec<String> {
    let store = store_on(&fresh(disk), encoding);
    match store.open(&Text::from(ID), seslog::store::SessionAccess::Read) {
        Ok(reader) => crate::common::sessions::read_all(&reader).unwrap(),
        Err(seslog::Error::NotFound { .. }) => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

/// What stands behind the last good record.
pub(crate) fn torn_of(disk: &FaultDisk) -> Option<(u64, Vec<u8>)> {
    let path = log_path(disk)?;
    let tail = judge(&fresh(disk), &path).tail?;
    let torn = disk.content(&path)?.get(tail.good_end as usize..)?.to_vec();
    (!torn.is_empty()).then_some((tail.good_end, torn))
}

/// Images whose repair is cut again: those with something to repair first, spread over the run.
fn chosen(mut images: Vec<(bool, FaultDisk, Found, String)>) -> Vec<(FaultDisk, Found, String)> {
    images.sort_by_key(|(is_sound, ..)| *is_sound);
    let broken = images.iter().filter(|(is_sound, ..)| !is_sound).count().max(1);
    let step = broken.div_ceil(number("SESLOG_CRASH_SECOND", 6) as usize).max(1);
    images
        .into_iter()
        .step_by(step)
        .take(number("SESLOG_CRASH_SECOND", 6) as usize)
        .map(|(_, a, b, c)| (a, b, c))
        .collect()
}

/// A number that is equal for equal files and equal demands.
fn print_of(disk: &FaultDisk, journal: &Journal) -> u64 {
    let mut hasher = DefaultHasher::new();
    (journal.acked.len(), journal.inflight.len(), journal.is_stored).hash(&mut hasher);
    for path in disk.paths() {
        // The note of a lock holder tells nothing of a log, nor does a draft that has no name yet.
        let is_draft = path.extension().is_some_and(|end| end == "tmp");
        if !is_draft && !path.ends_with("session.lock") {
            disk.content(&path).hash(&mut hasher);
            path.hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Every way to lose power, and for the random ones several seeds.
fn policies() -> Vec<(u64, CrashPolicy)> {
    const CUTS: [u64; 17] = [0, 1, 2, 3, 5, 8, 30, 63, 64, 65, 100, 128, 200, 400, 512, 700, 5000];
    let mut all = few_policies();
    all.extend(CUTS.map(|cut| (0, FileLoss::TornAt(cut).into())));
    let seeds = number("SESLOG_CRASH_SEEDS", 6);
    for seed in 2..seeds {
        let names = [NameLoss::RandomSubset, NameLoss::RandomPrefix][seed as usize % 2];
        all.push((seed, CrashPolicy { files: FileLoss::RandomSectors, names }));
        all.push((seed, CrashPolicy { files: FileLoss::RandomPages, names }));
    }
    all
}

fn few_policies() -> Vec<(u64, CrashPolicy)> {
    use FileLoss::{DropUnsynced, KeepAll, RandomSectors, ZeroExtendedTail};
    let one = |files: FileLoss, names| (0, CrashPolicy { files, names });
    vec![
        one(DropUnsynced, NameLoss::DropUnsynced),
        one(KeepAll, NameLoss::KeepAll),
        one(DropUnsynced, NameLoss::KeepAll),
        one(KeepAll, NameLoss::DropUnsynced),
        one(ZeroExtendedTail, NameLoss::KeepAll),
        (0, RandomSectors.into()),
        (1, RandomSectors.into()),
    ]
}
