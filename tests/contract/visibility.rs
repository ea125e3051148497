//! C7: who sees what, and when.

use std::sync::{Arc, Mutex};

use seslog::Error;
use seslog::container::disk::fault::FaultDisk;
use seslog::json::Text;
use seslog::store::{FileHandle, FileStore, SessionAccess};

use crate::common::sessions::{append, options, read_all, row_by, rows_by};
use crate::seam::{ROOT, Seam, once_per_encoding};

once_per_encoding! {
    r090_a_read_beside_appends_is_a_prefix_and_ends,
    r090_a_read_beside_a_repair_is_no_corruption,
}

/// A writer that appends one event before every call of others, a number of times.
struct Restless {
    writer: Arc<FileHandle>,
    left: Mutex<u32>,
}

impl Restless {
    fn interfere(self: &Arc<Self>, disk: &FaultDisk, at: u64) {
        let this = Arc::clone(self);
        disk.before(at, move |disk| {
            // Not before its own calls.
            let Ok(mut left) = this.left.try_lock() else { return };
            if *left > 0 {
                *left -= 1;
                let next = this.writer.next_seq().unwrap();
                append(&this.writer, &[row_by("foreign", next, 40)]).unwrap();
                drop(left);
                // The call that is waiting for this one has the next number.
                this.interfere(disk, disk.ops() + 1);
            }
        });
    }
}

fn r090_a_read_beside_appends_is_a_prefix_and_ends(seam: &Seam) {
    for times in [1, 2, 3, 5, 8, 13, 21, 34, 100] {
        let seam = Seam::new(seam.encoding);
        seam.store("s", &[rows_by("foreign", 0..2)]);
        let writer = seam.open("s", SessionAccess::Write).unwrap();
        append(&writer, &[row_by("foreign", 2, 40)]).unwrap();
        let reader = seam.open("s", SessionAccess::Read).unwrap();
        let restless = Arc::new(Restless { writer, left: Mutex::new(times) });
        restless.interfere(&seam.disk, seam.disk.ops());
        let mut before = 3;
        for _ in 0..4 {
            let served = read_all(&reader).unwrap();
            assert!(served.len() >= before);
            before = served.len();
            let ours = (3..served.len() as u64).map(|seq| row_by("foreign", seq, 40));
            let expected = rows_by("foreign", 0..2).into_iter().chain([row_by("foreign", 2, 40)]).chain(ours);
            assert_eq!(served, expected.collect::<Vec<_>>());
        }
    }
}

// A writer that repairs makes the file shorter under a reader. That is neither damage nor the end of the log.
fn r090_a_read_beside_a_repair_is_no_corruption(seam: &Seam) {
    seam.store("s", &[rows_by("a", 0..2), vec![row_by("a", 2, 5000)]]);
    let mut torn = seam.bytes();
    torn.truncate(torn.len() - 1500);
    for at in 0..14 {
        for reads in [true, false] {
            let seam = Seam { disk: FaultDisk::new(), encoding: seam.encoding };
            seam.replace(&torn);
            let reader = seam.open("s", SessionAccess::Read).unwrap();
            let store = seam.instance();
            let options = options(seam.encoding);
            seam.disk.before(seam.disk.ops() + at, move |disk| {
                let store = FileStore::on_disk(Arc::new(disk.clone()), ROOT, options);
                let writer = store.open(&Text::from("s"), SessionAccess::Write).unwrap();
                append(&writer, &rows_by("b", 2..3)).unwrap();
                writer.close().unwrap();
            });
            if reads {
                let served = read_all(&reader).unwrap_or_else(|error| panic!("call {at}: {error}"));
                assert!(served.len() == 2 || served == [rows_by("a", 0..2), rows_by("b", 2..3)].concat());
                assert_eq!(served[..2], rows_by("a", 0..2));
            } else {
                let stat = store.stat(&Text::from("s")).unwrap().unwrap();
                let is_torn = matches!(stat.error.as_deref(), None | Some(Error::TornTail { .. }));
                assert!(is_torn, "call {at}: {:?}", stat.error);
            }
        }
    }
}
