//! Cuts the power before every call of a run that changes the disk, and makes images of what is left.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use seslog::container::Encoding;
use seslog::container::disk::fault::{Failure, FaultDisk, OpKind};
use seslog::json::Text;
use seslog::store::{FileHandle, FileStore, SessionAccess, Verdict};
use seslog::{Error, Result};

use crate::common::sessions::append;
use crate::counts::Counts;
use crate::image::{Found, ID, Journal, append_more, check, fresh, judge, log_path, store_on};
use crate::policies::{Depth, few, many};
use crate::vouched::trailers_vouch_for_durable_bytes;

/// The system's numbers for a disk that failed, is full, is used up by this user, and for a call that a signal ended.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;
const EINTR: i32 = 4;

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
    /// Appends that were refused, and others tried instead.
    pub(crate) refused: u32,
}

impl<'d> Run<'d> {
    pub(crate) fn new(disk: &'d FaultDisk, encoding: Encoding, journal: &Journal) -> Self {
        Self { disk, encoding, journal: journal.clone(), refused: 0 }
    }
}

impl Run<'_> {
    pub(crate) fn store(&self) -> FileStore {
        store_on(self.disk, self.encoding)
    }

    /// Appends `rows`, which are acknowledged once this returns.
    ///
    /// A host whose append was refused goes on with something else: other rows take the same numbers then, and those that
    /// were refused must never be seen again.
    pub(crate) fn append(&mut self, handle: &FileHandle, rows: Vec<String>) -> Result<()> {
        let before = self.journal.inflight.len();
        self.journal.inflight.extend(rows.iter().cloned());
        let Err(refusal) = append(handle, &rows) else {
            self.acknowledge();
            return Ok(());
        };
        if self.disk.is_off() {
            return Err(refusal);
        }
        let others: Vec<String> = rows.iter().map(|row| row.replace("\"by\":\"", "\"by\":\"2")).collect();
        let refused = self.journal.inflight.split_off(before);
        self.refused += 1;
        self.journal.inflight.extend(others.iter().cloned());
        match append(handle, &others) {
            Ok(()) => {
                self.acknowledge();
                Ok(())
            }
            // What became of the first is not known, so it may be found, and nothing else was tried.
            Err(Error::Poisoned { .. }) => {
                self.journal.inflight.truncate(before);
                self.journal.inflight.extend(refused);
                Err(refusal)
            }
            Err(second) => Err(second),
        }
    }

    /// Everything that was handed to the store so far is acknowledged.
    pub(crate) fn acknowledge(&mut self) {
        self.journal.acked.append(&mut self.journal.inflight);
        self.journal.is_stored = true;
    }
}

/// Runs a scenario in every encoding, cut everywhere, and cuts some of the repairs again.
pub(crate) fn lose_power_everywhere(scenario: &Scenario) {
    lose_power_everywhere_in(&Encoding::ALL, scenario);
}

/// As [`lose_power_everywhere`], in some encodings.
pub(crate) fn lose_power_everywhere_in(encodings: &[Encoding], scenario: &Scenario) {
    let counts = Counts::new(scenario.name);
    for &encoding in encodings {
        let (disk, journal) = (scenario.start)(encoding);
        let mut seen = HashSet::new();
        let mut again = Vec::new();
        each_moment(&disk, encoding, &journal, &scenario.run, &mut |at, run| {
            counts.point();
            for (seed, policy) in many(run.disk) {
                let image = run.disk.crash_image(seed.wrapping_add(at << 8), policy);
                if !counts.image(&mut seen, print_of(&image, &run.journal)) {
                    continue;
                }
                let what = format!("{} in {encoding}, cut before call {at}, {policy:?}", scenario.name);
                let found = check(&image, encoding, &run.journal, &what);
                counts.verdict(found.verdict);
                if let Some(verdict) = found.verdict.filter(|&verdict| verdict != Verdict::DamagedTail) {
                    again.push((verdict == Verdict::Sound, image, found, what));
                }
            }
        });
        for (image, found, what) in chosen(again) {
            lose_power_again(&image, encoding, &found, &what, &counts);
        }
    }
}

/// Runs a scenario in every encoding, kills it behind every call, and cuts the power behind every call of the append of
/// the process that comes next.
pub(crate) fn kill_then_lose_power(scenario: &Scenario) {
    let counts = Counts::new(&format!("{}, killed", scenario.name));
    for encoding in Encoding::ALL {
        let (disk, journal) = (scenario.start)(encoding);
        let mut seen = HashSet::new();
        each_moment(&disk, encoding, &journal, &scenario.run, &mut |at, run| {
            let killed = run.disk.kill_image();
            let what = format!("{} in {encoding}, killed before call {at}", scenario.name);
            power_after_death(&killed, encoding, &run.journal, &what, &mut seen, &counts);
        });
    }
}

/// Runs a scenario with every sync failing in turn, lets the process give up or die on the spot, and cuts the power everywhere
/// in the append of the process that comes next. That one reads from a cache what the failed sync did not write.
pub(crate) fn fail_each_sync(scenario: &Scenario) {
    let counts = Counts::new(&format!("{}, failed syncs", scenario.name));
    // A plain log has nothing to tell which lines a failed sync was to cover, so they are not written again.
    for encoding in [Encoding::Indexed, Encoding::Zstd] {
        let (disk, journal) = (scenario.start)(encoding);
        let whole = disk.kill_image();
        let mut run = Run::new(&whole, encoding, &journal);
        (scenario.run)(&mut run).unwrap();
        let mut seen = HashSet::new();
        for sync in whole.trace().iter().filter(|op| op.kind.is_sync()) {
            for (how, dies) in [("gives up", false), ("dies", true)] {
                let disk = disk.kill_image();
                disk.fail_at(sync.call, Failure::Error(EIO));
                if dies {
                    disk.crash_after(sync.call + 1);
                }
                let mut run = Run::new(&disk, encoding, &journal);
                let outcome = (scenario.run)(&mut run);
                let name = scenario.name;
                let what = format!(
                    "{name} in {encoding}, {:?} {} fails, and the process {how}",
                    sync.kind, sync.call
                );
                assert!(outcome.is_err() || run.refused > 0, "{what}: nobody was told");
                power_after_death(&disk.kill_image(), encoding, &run.journal, &what, &mut seen, &counts);
            }
        }
    }
}

/// Runs a scenario with every call going wrong in turn, in each of the ways that its kind has; the process goes on where it may,
/// and the power is cut before every later change, and at the end.
pub(crate) fn fail_each_call(scenario: &Scenario) {
    let counts = Counts::new(&format!("{}, failed calls", scenario.name));
    for encoding in Encoding::ALL {
        let (disk, journal) = (scenario.start)(encoding);
        let whole = disk.kill_image();
        (scenario.run)(&mut Run::new(&whole, encoding, &journal)).unwrap();
        let mut seen = HashSet::new();
        for op in &whole.trace() {
            for failure in failures_of(op.kind, op.len) {
                let journal = Journal { was_split: matches!(failure, Failure::Short(_)), ..journal.clone() };
                let what = format!("{} in {encoding}, {:?} {}: {failure:?}", scenario.name, op.kind, op.call);
                let to_the_end = disk.kill_image();
                to_the_end.fail_at(op.call, failure);
                let _told = (scenario.run)(&mut Run::new(&to_the_end, encoding, &journal));
                let later = to_the_end.trace().into_iter().filter(|later| later.call > op.call);
                let moments = later.filter(|later| later.kind.is_change()).map(|later| later.call);
                for at in moments.chain([u64::MAX]) {
                    let disk = disk.kill_image();
                    disk.fail_at(op.call, failure);
                    disk.crash_after(at);
                    let mut run = Run::new(&disk, encoding, &journal);
                    let _told = (scenario.run)(&mut run);
                    counts.point();
                    for (seed, policy) in few() {
                        let image = disk.crash_image(seed.wrapping_add(op.call << 8), policy);
                        if counts.image(&mut seen, print_of(&image, &run.journal)) {
                            let what = format!("{what}, then cut before call {at}, {policy:?}");
                            let found = check(&image, encoding, &run.journal, &what);
                            counts.verdict(found.verdict);
                        }
                    }
                }
            }
        }
    }
}

/// The ways in which a call of a kind goes wrong.
fn failures_of(kind: OpKind, len: u64) -> Vec<Failure> {
    use Failure::{Error, Partial, Short};
    let len = usize::try_from(len).unwrap();
    match kind {
        OpKind::Append => vec![
            Error(ENOSPC),
            Error(EIO),
            Error(EDQUOT),
            Error(EINTR),
            Short(1),
            Short(len / 2),
            Partial(len / 2, ENOSPC),
            Partial(len.saturating_sub(1), EDQUOT),
            Partial(len, EIO),
        ],
        OpKind::WriteAt => vec![Error(EIO), Error(ENOSPC), Partial(len / 2, EIO)],
        OpKind::CreateNew | OpKind::CreateDir | OpKind::Link | OpKind::Lock => {
            vec![Error(ENOSPC), Error(EDQUOT), Error(EIO)]
        }
        OpKind::ReadAt => vec![Error(EIO), Short(1)],
        _ => vec![Error(EIO)],
    }
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
    for (then, next) in [("append", append_after as fn(&mut Run<'_>) -> Result<()>), ("flush", flush_after)] {
        each_moment(killed, encoding, &journal, &next, &mut |at, run| {
            counts.point();
            for (seed, policy) in few() {
                let image = run.disk.crash_image(seed.wrapping_add(at << 8), policy);
                if counts.image(seen, print_of(&image, &run.journal)) {
                    let what = format!("{what}, then cut before call {at} of the next {then}, {policy:?}");
                    let found = check(&image, encoding, &run.journal, &what);
                    counts.verdict(found.verdict);
                }
            }
        });
    }
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
        counts.point();
        for (seed, policy) in few() {
            let image = run.disk.crash_image(seed.wrapping_add(at << 8), policy);
            if seen.insert(print_of(&image, &run.journal)) {
                counts.second();
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

/// The run of a process that makes durable what it finds.
fn flush_after(run: &mut Run<'_>) -> Result<()> {
    match run.store().open(&Text::from(ID), SessionAccess::Write) {
        Err(Error::NotFound { .. }) => Ok(()),
        opened => {
            let handle = opened?;
            handle.flush()?;
            run.acknowledge();
            handle.close()
        }
    }
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
    let mut to_the_end = Run::new(&whole, encoding, journal);
    run(&mut to_the_end).unwrap_or_else(|error| panic!("the run fails by itself: {error:?}"));
    for change in whole.trace().iter().filter(|op| op.kind.is_change()) {
        let disk = running(change.call);
        let mut cut = Run::new(&disk, encoding, journal);
        let _lost = run(&mut cut);
        assert_eq!(disk.ops(), change.call, "the same calls each time");
        trailers_vouch_for_durable_bytes(&disk);
        show(change.call, &cut);
    }
    trailers_vouch_for_durable_bytes(&whole);
    show(whole.ops(), &to_the_end);
}

fn served_of(disk: &FaultDisk, encoding: Encoding) -> Vec<String> {
    let store = store_on(&fresh(disk), encoding);
    match store.open(&Text::from(ID), SessionAccess::Read) {
        Ok(reader) => crate::common::sessions::read_all(&reader).unwrap(),
        Err(Error::NotFound { .. }) => Vec::new(),
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
    let wanted = Depth::get().second_cuts();
    let step = broken.div_ceil(wanted).max(1);
    images.into_iter().step_by(step).take(wanted).map(|(_, a, b, c)| (a, b, c)).collect()
}

/// A number that is equal for equal files and equal demands.
fn print_of(disk: &FaultDisk, journal: &Journal) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&journal.acked, &journal.inflight, journal.is_stored).hash(&mut hasher);
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
