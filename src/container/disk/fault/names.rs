//! Which names are in which directory, twice: as the running system sees them, and as they surely are on the medium.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use super::crash::{NameLoss, SplitMix64};

/// The entries of every directory: number of the directory, name, number of what has it.
pub(super) type Listing = BTreeMap<u64, BTreeMap<OsString, u64>>;

/// Live and durable entries, and what lies between them.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    live: Listing,
    durable: Listing,
    /// Changes that no directory sync has covered, oldest first.
    changes: Vec<Change>,
}

/// One name in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) dir: u64,
    pub(super) name: OsString,
}

/// One change of names, which lands whole or not at all.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Add { at: Name, inode: u64 },
    Remove { at: Name, inode: u64 },
    Move { from: Name, to: Name, inode: u64 },
}

impl Names {
    /// Directories whose every entry is durable.
    pub(super) fn durable_with(listing: Listing) -> Self {
        Self { durable: listing.clone(), live: listing, changes: Vec::new() }
    }

    /// Makes a directory without entries.
    pub(super) fn add_dir(&mut self, dir: u64) {
        self.live.insert(dir, BTreeMap::new());
        self.durable.insert(dir, BTreeMap::new());
    }

    /// The live entries of a directory, or `None` if it is none.
    pub(super) fn of(&self, dir: u64) -> Option<&BTreeMap<OsString, u64>> {
        self.live.get(&dir)
    }

    /// Carries a change out in the live entries and keeps it for the durable ones.
    pub(super) fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.changes.push(change);
    }

    /// Makes the entries of a directory durable, and with them every earlier change elsewhere that they build upon.
    pub(super) fn sync(&mut self, dir: u64) {
        let mut dirs = BTreeSet::from([dir]);
        let mut landing = Vec::new();
        let mut staying = Vec::new();
        for change in std::mem::take(&mut self.changes).into_iter().rev() {
            if change.dirs().any(|dir| dirs.contains(&dir)) {
                dirs.extend(change.dirs());
                landing.push(change);
            } else {
                staying.push(change);
            }
        }
        staying.reverse();
        self.changes = staying;
        for change in landing.into_iter().rev() {
            change.apply(&mut self.durable);
        }
    }

    /// Makes all entries durable.
    pub(super) fn sync_all(&mut self) {
        self.durable.clone_from(&self.live);
        self.changes.clear();
    }

    /// One listing that may be found after a power loss.
    pub(super) fn after_loss(&self, loss: NameLoss, random: &mut SplitMix64) -> Listing {
        let mut listing = self.durable.clone();
        let prefix = random.below(self.changes.len().saturating_add(1));
        for (number, change) in self.changes.iter().enumerate() {
            let has_landed = match loss {
                NameLoss::DropUnsynced => false,
                NameLoss::KeepAll => true,
                NameLoss::RandomPrefix => number < prefix,
                NameLoss::RandomSubset => random.coin() && change.can_land(&listing),
            };
            if has_landed {
                change.apply(&mut listing);
            }
        }
        listing
    }
}

impl Change {
    /// What gets, loses or changes its name.
    pub(super) const fn inode(&self) -> u64 {
        match self {
            Self::Add { inode, .. } | Self::Remove { inode, .. } | Self::Move { inode, .. } => *inode,
        }
    }

    /// The directories that the change touches.
    pub(super) fn dirs(&self) -> impl Iterator<Item = u64> + use<> {
        let (first, second) = match self {
            Self::Add { at, .. } | Self::Remove { at, .. } => (at.dir, None),
            Self::Move { from, to, .. } => (from.dir, Some(to.dir)),
        };
        std::iter::once(first).chain(second)
    }

    /// Whether the change finds the name that it starts from: an earlier change of that name may not have landed.
    fn can_land(&self, listing: &Listing) -> bool {
        let holder = |at: &Name| listing.get(&at.dir).and_then(|names| names.get(&at.name));
        match self {
            Self::Add { at, .. } => holder(at).is_none(),
            Self::Remove { at, inode } | Self::Move { from: at, inode, .. } => holder(at) == Some(inode),
        }
    }

    fn apply(&self, listing: &mut Listing) {
        match self {
            Self::Add { at, inode } => {
                listing.entry(at.dir).or_default().insert(at.name.clone(), *inode);
            }
            Self::Remove { at, .. } => {
                listing.entry(at.dir).or_default().remove(&at.name);
            }
            Self::Move { from, to, inode } => {
                listing.entry(from.dir).or_default().remove(&from.name);
                listing.entry(to.dir).or_default().insert(to.name.clone(), *inode);
            }
        }
    }
}
