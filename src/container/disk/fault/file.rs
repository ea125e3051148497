//! One file's bytes, twice: as the running system sees them, and as they surely are on the medium.

use std::collections::BTreeMap;

use super::crash::{FileLoss, SplitMix64};

/// What a disk writes whole or not at all, in bytes.
pub(super) const SECTOR: usize = 512;

/// Sectors in a page, the unit in which a system writes back.
const PAGE_SECTORS: u64 = 8;

/// Live and durable content, and what lies between them.
#[derive(Clone, Debug, Default)]
pub(super) struct FileImage {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// What each changed sector was since the last sync, oldest first; any one of them may be on the medium.
    sectors: BTreeMap<u64, Vec<Version>>,
    /// When and to what the length changed since the last sync, oldest first.
    lens: Vec<usize>,
}

/// A sector after one write, zeros beyond the end of the file.
#[derive(Clone, Debug)]
struct Version {
    /// Number of the call that wrote it.
    call: u64,
    /// A sync failed over it: later syncs no longer try to write it.
    is_lost: bool,
    bytes: Box<[u8; SECTOR]>,
}

impl FileImage {
    /// A file whose every byte is durable.
    pub(super) fn durable_with(bytes: Vec<u8>) -> Self {
        Self { durable: bytes.clone(), live: bytes, ..Self::default() }
    }

    pub(super) fn live(&self) -> &[u8] {
        &self.live
    }

    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// Writes at `offset`, extending with zeros if it lies beyond the end.
    pub(super) fn write(&mut self, call: u64, offset: usize, bytes: &[u8]) {
        let end = offset.saturating_add(bytes.len());
        if bytes.is_empty() {
            return;
        }
        if end > self.live.len() {
            self.live.resize(end, 0);
            self.lens.push(end);
        }
        self.live.get_mut(offset..end).expect("extended to `end` above").copy_from_slice(bytes);
        self.note_sectors(call, offset, end);
    }

    /// Cuts or extends with zeros.
    pub(super) fn truncate(&mut self, call: u64, len: usize) {
        let before = self.live.len();
        if len == before {
            return;
        }
        self.live.resize(len, 0);
        self.lens.push(len);
        // What is cut may be zeros on the medium from now on, and so may the rest of the last sector.
        self.note_sectors(call, len, before);
    }

    /// Makes everything durable that no earlier failure has lost. With `data_only` (`fdatasync`) a length that only became
    /// shorter stays undecided, since no byte needs it to be read back.
    pub(super) fn sync(&mut self, data_only: bool) {
        let keeps_len = data_only && self.live.len() < self.durable.len();
        let live_sectors = self.live.len().div_ceil(SECTOR) as u64;
        let durable = &mut self.durable;
        self.sectors.retain(|&sector, versions| {
            let is_cut = keeps_len && sector >= live_sectors;
            match versions.last() {
                // All lost: what is on the medium stays anybody's guess.
                Some(last) if !last.is_lost && !is_cut => {
                    put_sector(durable, sector, &last.bytes);
                    false
                }
                _ => true,
            }
        });
        self.lens.clear();
        if keeps_len {
            self.lens.push(self.live.len());
        } else {
            self.durable.resize(self.live.len(), 0);
        }
    }

    /// A sync that failed: the system takes the bytes for written, whether they are or not.
    pub(super) fn fail_sync(&mut self) {
        for version in self.sectors.values_mut().flatten() {
            version.is_lost = true;
        }
    }

    /// What no sync has covered: how many sectors, and by how many bytes the file has grown.
    pub(super) fn unsynced(&self) -> (u64, u64) {
        let grown = self.live.len().saturating_sub(self.durable.len());
        (self.sectors.len() as u64, grown as u64)
    }

    /// One content that may be found after a power loss. `stale` is what the medium held before at the file's offsets.
    pub(super) fn after_loss(&self, loss: FileLoss, random: &mut SplitMix64, stale: &[u8]) -> Vec<u8> {
        match loss {
            FileLoss::DropUnsynced => self.durable.clone(),
            FileLoss::KeepAll => self.live.clone(),
            FileLoss::ZeroExtendedTail => {
                let mut bytes = self.durable.clone();
                bytes.resize(self.live.len(), 0);
                bytes
            }
            FileLoss::TornAt(kept) => {
                let kept = usize::try_from(kept).unwrap_or(usize::MAX);
                let mut bytes = self.live.clone();
                bytes.truncate(self.durable.len().saturating_add(kept));
                bytes
            }
            FileLoss::RandomSectors => self.random_landing(1, random),
            FileLoss::RandomPages => self.random_landing(PAGE_SECTORS, random),
            FileLoss::Sectors(landed) => {
                let mut bit = 0_u32;
                self.chosen_landing(&[], |_| {
                    let lands = landed & 1_u64.wrapping_shl(bit) != 0;
                    bit = bit.saturating_add(1).min(63);
                    lands
                })
            }
            FileLoss::StaleSectors => self.chosen_landing(stale, |_| random.coin()),
        }
    }

    /// The live length, and of the unsynced sectors those that `lands` says, in their last state. The rest of an extension
    /// is as `before`, or zeros where that ends.
    fn chosen_landing(&self, before: &[u8], mut lands: impl FnMut(u64) -> bool) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let whole = before.get(..self.live.len()).unwrap_or(before);
        bytes.extend_from_slice(whole.get(bytes.len()..).unwrap_or_default());
        for (&sector, versions) in &self.sectors {
            if let Some(last) = versions.last().filter(|_| lands(sector)) {
                put_sector(&mut bytes, sector, &last.bytes);
            }
        }
        bytes.resize(self.live.len(), 0);
        bytes
    }

    /// Any length that the file had, and for each group of sectors the state at any one moment.
    fn random_landing(&self, group_sectors: u64, random: &mut SplitMix64) -> Vec<u8> {
        let len = random.pick(&self.lens).copied().unwrap_or(self.durable.len());
        let mut moments: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (sector, versions) in &self.sectors {
            let group = moments.entry(sector.div_euclid(group_sectors)).or_default();
            group.extend(versions.iter().map(|version| version.call));
        }
        let mut bytes = self.durable.clone();
        for (group, mut calls) in moments {
            calls.sort_unstable();
            calls.dedup();
            // None: nothing of this group has landed.
            let Some(&moment) = random.pick(&calls) else { continue };
            let start = group.saturating_mul(group_sectors);
            for (&sector, versions) in self.sectors.range(start..start.saturating_add(group_sectors)) {
                if let Some(landed) = versions.iter().rev().find(|version| version.call <= moment) {
                    put_sector(&mut bytes, sector, &landed.bytes);
                }
            }
        }
        bytes.resize(len, 0);
        bytes
    }

    /// Keeps a version of every sector that touches `start..end`.
    fn note_sectors(&mut self, call: u64, start: usize, end: usize) {
        for sector in start.div_euclid(SECTOR)..end.div_ceil(SECTOR) {
            let from = sector.saturating_mul(SECTOR);
            let mut bytes = Box::new([0; SECTOR]);
            let live = self.live.get(from..).unwrap_or_default();
            let len = live.len().min(SECTOR);
            if let (Some(copy), Some(live)) = (bytes.get_mut(..len), live.get(..len)) {
                copy.copy_from_slice(live);
            }
            self.sectors.entry(sector as u64).or_default().push(Version { call, is_lost: false, bytes });
        }
    }
}

/// Writes a whole sector, extending with zeros.
fn put_sector(bytes: &mut Vec<u8>, sector: u64, content: &[u8; SECTOR]) {
    let start = usize::try_from(sector).expect("sectors of a file in memory").saturating_mul(SECTOR);
    let end = start.saturating_add(SECTOR);
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes.get_mut(start..end).expect("extended to `end` above").copy_from_slice(content);
}
