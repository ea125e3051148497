//! What is lost in a power loss: how many ways are tried.

use std::sync::LazyLock;

use seslog::container::disk::fault::{CrashPolicy, FaultDisk, FileLoss, NameLoss};

/// A seed and a way to lose power.
pub(crate) type Loss = (u64, CrashPolicy);

/// How much of the lab runs: `SESLOG_LAB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// A beginning of each kind of loss: for every run of the tests.
    Sample,
    /// Every subset of up to eight unsynced sectors, a tear at every byte, and forty random images a moment.
    Whole,
}

impl Depth {
    pub(crate) fn get() -> Self {
        static DEPTH: LazyLock<Depth> = LazyLock::new(|| match std::env::var("SESLOG_LAB").as_deref() {
            Err(_) | Ok("sample") => Depth::Sample,
            Ok("whole") => Depth::Whole,
            Ok(other) => panic!("SESLOG_LAB={other}: it is sample or whole"),
        });
        *DEPTH
    }

    /// Random images a moment, of sectors and of pages each.
    const fn seeds(self) -> u64 {
        match self {
            Self::Sample => 4,
            Self::Whole => 20,
        }
    }

    /// Unsynced sectors of which every subset is tried.
    const fn subset_sectors(self) -> u64 {
        match self {
            Self::Sample => 2,
            Self::Whole => 8,
        }
    }

    /// Images of a scenario and an encoding whose repair is cut again.
    pub(crate) const fn second_cuts(self) -> usize {
        match self {
            Self::Sample => 6,
            Self::Whole => 40,
        }
    }
}

/// Every way to lose power at a moment.
pub(crate) fn many(disk: &FaultDisk) -> Vec<Loss> {
    const CUTS: [u64; 17] = [0, 1, 2, 3, 5, 8, 30, 63, 64, 65, 100, 128, 200, 400, 512, 700, 5000];
    let depth = Depth::get();
    let (sectors, grown) = disk.unsynced();
    let mut all = few();
    let cuts: Vec<u64> = match depth {
        Depth::Sample => CUTS.to_vec(),
        // At every byte; far behind, where it says nothing that those before did not, at some.
        Depth::Whole => (0..=grown.min(1500)).chain((1500..grown.min(6000)).step_by(13)).collect(),
    };
    all.extend(cuts.into_iter().map(|cut| (0, FileLoss::TornAt(cut).into())));
    all.extend(
        subsets(sectors, depth.subset_sectors()).into_iter().map(|mask| (0, FileLoss::Sectors(mask).into())),
    );
    for seed in 2..2 + depth.seeds() {
        let names = [NameLoss::RandomSubset, NameLoss::RandomPrefix][seed as usize % 2];
        all.push((seed, CrashPolicy { files: FileLoss::RandomSectors, names }));
        all.push((seed, CrashPolicy { files: FileLoss::RandomPages, names }));
    }
    all
}

/// All subsets of `sectors` sectors, where they are at most `all_of`; else each beginning, each end, and all but one.
fn subsets(sectors: u64, all_of: u64) -> Vec<u64> {
    if sectors <= all_of {
        return (0..1 << sectors).collect();
    }
    let shown = sectors.min(64);
    let each = (0..shown).flat_map(|bit| [(1 << bit) - 1, !((1 << bit) - 1), 1 << bit, !(1 << bit)]);
    each.collect()
}

/// The ways that are tried where there are many moments.
pub(crate) fn few() -> Vec<Loss> {
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
