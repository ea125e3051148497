//! Over the file store, on a disk that fails.

use std::sync::Arc;

use seslog::container::Encoding;
use seslog::container::disk::fault::{Failure, FaultDisk, FileLoss, OpKind};
use seslog::json::Text;
use seslog::store::{
    Cancel, Durability, FileStore, SessionAccess, SessionHandle, SessionPersistence, WriteBehind,
};

use crate::common::sessions::{header, options, rows_by};
use crate::inner::behind;

const EIO: i32 = 5;

fn store(disk: &FaultDisk, encoding: Encoding, durability: Durability) -> FileStore {
    let mut options = options(encoding);
    options.durability = durability;
    FileStore::on_disk(Arc::new(disk.clone()), "/store", options)
}

fn route(behind: &WriteBehind, seqs: std::ops::Range<u64>) {
    for row in rows_by("s", seqs) {
        let _queued = behind.try_route(&Text::from("s"), row.as_bytes()).unwrap();
    }
}

fn read(handle: &dyn SessionHandle) -> Vec<String> {
    let events = handle.read(0, u64::MAX, &Cancel::never()).unwrap();
    events.rows().map(|row| String::from_utf8(row.to_vec()).unwrap()).collect()
}

/// What a power loss leaves that keeps nothing but what was synced.
fn durable(disk: &FaultDisk, encoding: Encoding) -> Vec<String> {
    let disk = disk.crash_image(0, FileLoss::DropUnsynced);
    let handle =
        store(&disk, encoding, Durability::Sync).open(&Text::from("s"), SessionAccess::Read).unwrap();
    read(&*handle)
}

#[test]
fn a_drain_is_durable_whatever_the_store_below_does_with_appends() {
    for encoding in Encoding::ALL {
        for durability in [Durability::Sync, Durability::OnFlush] {
            let disk = FaultDisk::new();
            let (behind, clock, _) = behind(Arc::new(store(&disk, encoding, durability)), |_| {});
            let _handle = behind.create(header("s"), None, &Cancel::never()).unwrap();
            for round in 0..3 {
                route(&behind, round * 5..round * 5 + 5);
                clock.step(seslog::store::WINDOW);
                behind.settle();
                assert_eq!(
                    durable(&disk, encoding),
                    rows_by("s", 0..round * 5 + 5),
                    "{encoding} {durability:?}"
                );
            }
        }
    }
}

#[test]
fn a_drain_is_one_write_and_one_sync() {
    for encoding in Encoding::ALL {
        for durability in [Durability::Sync, Durability::OnFlush] {
            let disk = FaultDisk::new();
            let (behind, clock, _) = behind(Arc::new(store(&disk, encoding, durability)), |_| {});
            let handle = behind.create(header("s"), None, &Cancel::never()).unwrap();
            handle.flush(&Cancel::never()).unwrap();
            disk.forget_trace();
            route(&behind, 0..20);
            clock.step(seslog::store::WINDOW);
            behind.settle();
            let changes = disk.trace().into_iter().filter(|op| op.kind.is_change());
            let changes: Vec<OpKind> = changes.map(|op| op.kind).collect();
            assert_eq!(changes, [OpKind::Append, OpKind::SyncData], "{encoding} {durability:?}");
        }
    }
}

/// r117 on a real log: a sync that failed poisons the handle below, and the next flush goes on from what the disk holds.
#[test]
fn r117_a_failed_write_or_sync_of_a_log_is_made_good_by_the_next_flush() {
    for encoding in Encoding::ALL {
        for durability in [Durability::Sync, Durability::OnFlush] {
            for kind in [OpKind::Append, OpKind::SyncData] {
                let disk = FaultDisk::new();
                let (behind, clock, reports) = behind(Arc::new(store(&disk, encoding, durability)), |_| {});
                let handle = behind.create(header("s"), None, &Cancel::never()).unwrap();
                route(&behind, 0..3);
                handle.flush(&Cancel::never()).unwrap();
                route(&behind, 3..6);
                disk.fail_next(kind, Failure::Error(EIO));
                clock.step(seslog::store::WINDOW);
                behind.settle();
                let what = format!("{encoding} {durability:?} {kind:?}");
                assert_eq!(reports.lock().unwrap().len(), 1, "{what}");
                route(&behind, 6..8);
                disk.fail_next(kind, Failure::Error(EIO));
                let again = handle.flush(&Cancel::never());
                // A repair on the way syncs in its own way, and need not meet the second fault.
                if again.is_err() {
                    handle.flush(&Cancel::never()).unwrap();
                }
                assert_eq!(read(&*handle), rows_by("s", 0..8), "{what}");
                assert_eq!(durable(&disk, encoding), rows_by("s", 0..8), "{what}");
                route(&behind, 8..9);
                handle.close().unwrap();
                assert_eq!(durable(&disk, encoding), rows_by("s", 0..9), "{what}");
            }
        }
    }
}
