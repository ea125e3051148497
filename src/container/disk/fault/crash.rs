//! What a power loss leaves: which bytes and which names.

/// What becomes of bytes and lengths that no sync has covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileLoss {
    /// Nothing of it has landed.
    DropUnsynced,
    /// All of it has landed.
    KeepAll,
    /// Every 512-byte sector is as some write since the last sync left it, or as it was; the file has any length that it had
    /// since. Each is chosen by itself.
    RandomSectors,
    /// As `RandomSectors`, in pages of 4096 bytes, each as it was at one moment.
    RandomPages,
    /// The length has landed and the bytes have not: an extension reads as zeros.
    ZeroExtendedTail,
    /// All has landed, but of an extension only so many bytes.
    TornAt(u64),
    /// The length has landed, and of the sectors written since the last sync those whose bit is set, as they were last:
    /// bit 0 for the first such sector of each file, bit 63 for every one from the 64th on.
    Sectors(u64),
    /// The length has landed, and each sector of it has or has not, by itself. What has not shows what
    /// [`FaultDisk::leave_behind`](super::FaultDisk::leave_behind) left there: the blocks of a file that is gone. Worse than
    /// the media that the specification assumes, where it would read as zeros.
    StaleSectors,
}

/// What becomes of names made, moved or removed that no directory sync has covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NameLoss {
    /// None of the changes has landed.
    DropUnsynced,
    /// All of them have.
    KeepAll,
    /// The first few have, in the order in which they were made: a journal that was cut somewhere.
    RandomPrefix,
    /// Each has or has not, by itself: the most that the interface allows. A rename lands whole, and no change lands on
    /// a name whose earlier change, which it needs, has not.
    RandomSubset,
}

/// One way to lose power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CrashPolicy {
    /// For bytes and lengths.
    pub files: FileLoss,
    /// For names.
    pub names: NameLoss,
}

impl From<FileLoss> for CrashPolicy {
    /// The names that fit: dropped with the bytes, any subset where sectors are chosen at random, else kept.
    fn from(files: FileLoss) -> Self {
        let names = match files {
            FileLoss::DropUnsynced => NameLoss::DropUnsynced,
            FileLoss::RandomSectors | FileLoss::RandomPages => NameLoss::RandomSubset,
            FileLoss::KeepAll
            | FileLoss::ZeroExtendedTail
            | FileLoss::TornAt(_)
            | FileLoss::Sectors(_)
            | FileLoss::StaleSectors => NameLoss::KeepAll,
        };
        Self { files, names }
    }
}

/// A small generator of repeatable numbers (Steele, Lea and Flood's SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0. The bias of the remainder is of no consequence here.
    pub(super) const fn below(&mut self, bound: usize) -> usize {
        let remainder = self.next().checked_rem(bound as u64).expect("a bound that is not 0");
        #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
        let remainder = remainder as usize;
        remainder
    }

    pub(super) const fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// One of the items, or none of them, all equally likely.
    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len().saturating_add(1)))
    }
}
