//! A file on blocks that an earlier file had: nothing of that one is ever read.
//!
//! The media of the specification show zeros where nothing landed. Here they show what the blocks held before, and the earlier
//! file is as like the new one as it can be: the same session, rows of the same lengths, so that every segment of the one stands
//! where a segment of the other belongs. Only the log id differs. Without one, the zstd and the plain encoding cannot tell.

use seslog::Result;
use seslog::container::Encoding;
use seslog::container::disk::fault::{FaultDisk, FileLoss};
use seslog::store::SessionAccess;
use std::collections::HashSet;

use crate::common::sessions::{header, row_by};
use crate::counts::Counts;
use crate::harness::{Run, each_moment};
use crate::image::{ID, Journal, check, log_path};
use crate::policies::Depth;

fn live(run: &mut Run<'_>) -> Result<()> {
    let store = run.store();
    let handle = store.create(header(ID), None)?;
    for (seqs, noise) in [(0..2, 60), (2..3, 900), (3..6, 400), (6..7, 2000)] {
        run.append(&handle, seqs.map(|seq| row_by("one", seq, noise)).collect())?;
    }
    handle.close()?;
    let handle = store.open(&ID.into(), SessionAccess::Write)?;
    run.append(&handle, vec![row_by("one", 7, 700)])?;
    handle.close()
}

#[test]
fn segments_of_an_earlier_life_of_the_blocks_never_return() {
    let counts = Counts::new("stale blocks");
    let encoding = Encoding::Indexed;
    let first = FaultDisk::new();
    live(&mut Run::new(&first, encoding, &Journal::default())).unwrap();
    let old = first.content(log_path(&first).unwrap()).unwrap();

    let disk = FaultDisk::new();
    disk.leave_behind(&old);
    let journal = Journal { was_damaged: true, ..Journal::default() };
    let seeds = if Depth::get() == Depth::Whole { 200 } else { 12 };
    let mut seen = HashSet::new();
    each_moment(&disk, encoding, &journal, &|run| live(run), &mut |at, run| {
        counts.point();
        for seed in 0..seeds {
            let image = run.disk.crash_image(seed + (at << 8), FileLoss::StaleSectors);
            let content = log_path(&image).and_then(|path| image.content(path));
            let mut hasher = std::hash::DefaultHasher::new();
            std::hash::Hash::hash(&(content, &run.journal.acked, &run.journal.inflight), &mut hasher);
            if counts.image(&mut seen, std::hash::Hasher::finish(&hasher)) {
                let what = format!("stale blocks, cut before call {at}, seed {seed}");
                counts.verdict(check(&image, encoding, &run.journal, &what).verdict);
            }
        }
    });
    // The two lives are alike in everything but the id and what it seals.
    let new = {
        let disk = FaultDisk::new();
        live(&mut Run::new(&disk, encoding, &Journal::default())).unwrap();
        disk.content(log_path(&disk).unwrap()).unwrap()
    };
    assert_eq!(new.len(), old.len());
}
