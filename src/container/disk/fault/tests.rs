//! What survives what, and that both disks answer alike.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use super::*;
use crate::container::disk::OsDisk;

const EIO: i32 = libc::EIO;
const ENOSPC: i32 = libc::ENOSPC;

fn path(path: &str) -> &Path {
    Path::new(path)
}

/// A disk with the durable file `/log`, and the file open for appending.
fn disk_with_log(bytes: &[u8]) -> (FaultDisk, Box<dyn DiskFile>) {
    let disk = FaultDisk::new();
    disk.plant("/log", bytes);
    let file = disk.open(path("/log"), Access::Append).unwrap();
    (disk, file)
}

fn after(disk: &FaultDisk, policy: impl Into<CrashPolicy>) -> Option<Vec<u8>> {
    disk.crash_image(0, policy).content("/log")
}

/// Every content of `/log` that `seeds` images have.
fn contents(
    disk: &FaultDisk,
    policy: impl Into<CrashPolicy> + Copy,
    seeds: u64,
) -> BTreeSet<Option<Vec<u8>>> {
    (0..seeds).map(|seed| disk.crash_image(seed, policy).content("/log")).collect()
}

fn held(attempt: LockAttempt) -> Box<dyn DiskLock> {
    match attempt {
        LockAttempt::Held(lock) => lock,
        LockAttempt::Contended => panic!("contended"),
    }
}

#[test]
fn any_chosen_sectors_land_and_the_others_are_zeros_or_what_was_there_before() {
    let (disk, file) = disk_with_log(&[1; 100]);
    assert_eq!(disk.unsynced(), (0, 0));
    file.append_all(&[2; 1500]).unwrap();
    assert_eq!(disk.unsynced(), (4, 1500));
    disk.leave_behind(&[9; 1024]);
    for mask in 0..16_u64 {
        let bytes = after(&disk, FileLoss::Sectors(mask)).unwrap();
        assert_eq!((bytes.len(), &bytes[..100]), (1600, &[1; 100][..]), "{mask}");
        for (sector, part) in [100..512, 512..1024, 1024..1536, 1536..1600].into_iter().enumerate() {
            let expected = if mask >> sector & 1 == 1 { 2 } else { 0 };
            assert!(bytes[part].iter().all(|&byte| byte == expected), "{mask}, sector {sector}");
        }
    }
    let stale = contents(&disk, FileLoss::StaleSectors, 100);
    assert_eq!(stale.len(), 16, "every subset");
    for bytes in stale.into_iter().flatten() {
        assert_eq!(bytes[..100], [1; 100]);
        assert!([2, 9].contains(&bytes[100]) && [2, 9].contains(&bytes[1023]));
        assert!([2, 0].contains(&bytes[1024]) && [2, 0].contains(&bytes[1599]));
    }
}

#[test]
fn synced_bytes_survive_every_policy() {
    for sync_all in [false, true] {
        let (disk, file) = disk_with_log(b"");
        file.append_all(&[1; 3000]).unwrap();
        match sync_all {
            true => file.sync_all().unwrap(),
            false => file.sync_data().unwrap(),
        }
        let losses = [
            FileLoss::DropUnsynced,
            FileLoss::KeepAll,
            FileLoss::RandomSectors,
            FileLoss::RandomPages,
            FileLoss::ZeroExtendedTail,
            FileLoss::TornAt(0),
        ];
        for loss in losses {
            assert_eq!(contents(&disk, loss, 20), BTreeSet::from([Some(vec![1; 3000])]), "{loss:?}");
        }
    }
}

#[test]
fn an_unsynced_append_lands_as_the_policy_says() {
    let (disk, file) = disk_with_log(b"old ");
    file.append_all(b"new").unwrap();
    assert_eq!(disk.content("/log").unwrap(), b"old new");
    assert_eq!(disk.durable_content("/log").unwrap(), b"old ");
    assert_eq!(after(&disk, FileLoss::DropUnsynced).unwrap(), b"old ");
    assert_eq!(after(&disk, FileLoss::KeepAll).unwrap(), b"old new");
    assert_eq!(after(&disk, FileLoss::ZeroExtendedTail).unwrap(), b"old \0\0\0");
    assert_eq!(after(&disk, FileLoss::TornAt(0)).unwrap(), b"old ");
    assert_eq!(after(&disk, FileLoss::TornAt(2)).unwrap(), b"old ne");
    assert_eq!(after(&disk, FileLoss::TornAt(9)).unwrap(), b"old new");
    // One sector and one length, each landed or not, by itself.
    let expected = [&b"old "[..], b"old \0\0\0", b"old new"].map(|bytes| Some(bytes.to_vec()));
    assert_eq!(contents(&disk, FileLoss::RandomSectors, 100), BTreeSet::from(expected));
}

#[test]
fn sectors_land_in_any_subset_and_whole() {
    let (disk, file) = disk_with_log(&[]);
    file.append_all(&[7; 512 * 3]).unwrap();
    let seen = contents(&disk, FileLoss::RandomSectors, 300);
    for subset in 0..8_u8 {
        let bit = |sector: u8| if subset >> sector & 1 == 1 { [7; 512] } else { [0; 512] };
        let bytes = [bit(0), bit(1), bit(2)].concat();
        assert!(seen.contains(&Some(bytes)), "subset {subset:03b}");
    }
    assert!(seen.contains(&Some(Vec::new())), "no length");
    assert_eq!(seen.len(), 9);
}

#[test]
fn a_page_lands_as_it_was_at_one_moment() {
    let (disk, file) = disk_with_log(&[]);
    file.append_all(&[1; 1024]).unwrap();
    let inside = disk.open(path("/log"), Access::Repair).unwrap();
    inside.write_at(0, &[2; 512]).unwrap();
    inside.write_at(512, &[3; 512]).unwrap();
    let page = |first: u8, second: u8| Some([[first; 512], [second; 512]].concat());
    let pages = BTreeSet::from([Some(Vec::new()), page(0, 0), page(1, 1), page(2, 1), page(2, 3)]);
    assert_eq!(contents(&disk, FileLoss::RandomPages, 300), pages);
    let sectors = contents(&disk, FileLoss::RandomSectors, 300);
    assert!(sectors.contains(&page(1, 3)), "sectors need no common moment");
    assert_eq!(sectors.len(), 1 + 3 * 3);
}

#[test]
fn an_unsynced_cut_may_not_have_happened() {
    let (disk, file) = disk_with_log(&[1; 1000]);
    file.truncate(100).unwrap();
    assert_eq!(disk.content("/log").unwrap().len(), 100);
    assert_eq!(after(&disk, FileLoss::DropUnsynced).unwrap(), [1; 1000]);
    let seen = contents(&disk, FileLoss::RandomSectors, 200);
    assert!(seen.contains(&Some(vec![1; 1000])));
    assert!(seen.contains(&Some(vec![1; 100])));
    // The rest of the sector went, its length stayed.
    assert!(seen.iter().flatten().any(|bytes| bytes.len() == 1000 && bytes[100..512] == [0; 412]));
    file.sync_all().unwrap();
    assert_eq!(contents(&disk, FileLoss::RandomSectors, 20), BTreeSet::from([Some(vec![1; 100])]));
}

#[test]
fn a_data_sync_keeps_what_was_appended_but_need_not_keep_a_shorter_length() {
    let (disk, file) = disk_with_log(&[1; 2000]);
    file.truncate(100).unwrap();
    file.append_all(&[2; 100]).unwrap();
    file.sync_data().unwrap();
    let seen = contents(&disk, FileLoss::RandomSectors, 200);
    assert!(seen.iter().flatten().all(|bytes| bytes[..200] == [[1; 100], [2; 100]].concat()));
    let lens: BTreeSet<_> = seen.iter().flatten().map(Vec::len).collect();
    assert_eq!(lens, BTreeSet::from([200, 2000]));
    assert!(seen.iter().flatten().any(|bytes| bytes.ends_with(&[1])), "an earlier life of the file");
    file.sync_all().unwrap();
    assert_eq!(contents(&disk, FileLoss::RandomSectors, 50).len(), 1);

    // A length beyond the durable one is needed to read the bytes back.
    let (disk, file) = disk_with_log(&[1; 1000]);
    file.truncate(100).unwrap();
    file.append_all(&[2; 1000]).unwrap();
    file.sync_data().unwrap();
    assert_eq!(contents(&disk, FileLoss::RandomSectors, 50).len(), 1);
}

#[test]
fn bytes_beyond_a_cut_and_an_extension_are_zeros() {
    let (disk, file) = disk_with_log(b"abcdef");
    file.truncate(2).unwrap();
    file.truncate(4).unwrap();
    assert_eq!(disk.content("/log").unwrap(), b"ab\0\0");
    let inside = disk.open(path("/log"), Access::Repair).unwrap();
    inside.write_at(6, b"x").unwrap();
    inside.write_at(6, b"").unwrap();
    inside.sync_all().unwrap();
    assert_eq!(after(&disk, FileLoss::DropUnsynced).unwrap(), b"ab\0\0\0\0x");
}

#[test]
fn what_a_failed_sync_gave_up_stays_lost_until_it_is_written_again() {
    let (disk, file) = disk_with_log(b"old ");
    file.append_all(b"new").unwrap();
    disk.fail_next(OpKind::SyncData, Failure::Error(EIO));
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(EIO));
    file.sync_data().unwrap();
    assert_eq!(disk.content("/log").unwrap(), b"old new", "still read back");
    assert_eq!(after(&disk, FileLoss::DropUnsynced).unwrap(), b"old \0\0\0", "the length is durable");
    let maybe = [&b"old \0\0\0"[..], b"old new"].map(|bytes| Some(bytes.to_vec()));
    assert_eq!(contents(&disk, FileLoss::RandomSectors, 50), BTreeSet::from(maybe), "it may have landed");

    // Killing the process does not make it durable either; writing the same bytes again does.
    let disk = disk.kill_image();
    assert_eq!(disk.content("/log").unwrap(), b"old new");
    assert_eq!(after(&disk, FileLoss::DropUnsynced).unwrap(), b"old \0\0\0");
    let inside = disk.open(path("/log"), Access::Repair).unwrap();
    inside.write_at(4, b"new").unwrap();
    inside.sync_all().unwrap();
    assert_eq!(contents(&disk, FileLoss::RandomSectors, 20), BTreeSet::from([Some(b"old new".to_vec())]));
}

#[test]
fn a_name_is_durable_only_after_its_directory_was_synced() {
    let disk = FaultDisk::new();
    assert!(disk.create_dir(path("/a")).unwrap());
    assert!(disk.create_dir(path("/a/b")).unwrap());
    let file = disk.create_new(path("/a/b/log")).unwrap();
    file.append_all(b"x").unwrap();
    file.sync_all().unwrap();
    let dropped = |disk: &FaultDisk| disk.crash_image(0, FileLoss::DropUnsynced).paths();
    assert_eq!(dropped(&disk), Vec::<PathBuf>::new());
    disk.sync_dir(path("/a/b")).unwrap();
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(dropped(&disk), [path("/a")], "b has no durable name in a");
    disk.sync_dir(path("/a")).unwrap();
    assert_eq!(dropped(&disk), [path("/a"), path("/a/b"), path("/a/b/log")]);
    assert_eq!(disk.paths(), dropped(&disk));
}

#[test]
fn publication_by_link_survives_in_any_subset_until_the_directory_is_synced() {
    let disk = FaultDisk::new();
    let file = disk.create_new(path("/tmp")).unwrap();
    file.append_all(b"x").unwrap();
    file.sync_all().unwrap();
    disk.link(path("/tmp"), path("/log")).unwrap();
    disk.remove_file(path("/tmp")).unwrap();
    let images = |names| {
        let policy = CrashPolicy { files: FileLoss::DropUnsynced, names };
        (0..200).map(move |seed| (seed, policy))
    };
    let states = |names| -> BTreeSet<(bool, bool)> {
        images(names)
            .map(|(seed, policy)| disk.crash_image(seed, policy))
            .map(|image| (image.content("/tmp").is_some(), image.content("/log").is_some()))
            .collect()
    };
    let all = BTreeSet::from([(false, false), (false, true), (true, false), (true, true)]);
    assert_eq!(states(NameLoss::RandomSubset), all, "the link may be lost and the removal not");
    assert_eq!(states(NameLoss::RandomPrefix), all, "cut after none, the creation, the link, the removal");
    assert_eq!(states(NameLoss::KeepAll), BTreeSet::from([(false, true)]));
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(states(NameLoss::RandomSubset), BTreeSet::from([(false, true)]));
}

#[test]
fn a_prefix_never_has_the_removal_without_the_link() {
    let disk = FaultDisk::new();
    disk.plant("/tmp", b"x");
    disk.link(path("/tmp"), path("/log")).unwrap();
    disk.remove_file(path("/tmp")).unwrap();
    let lost_in = |names| {
        (0..100).any(|seed| {
            let image = disk.crash_image(seed, CrashPolicy { files: FileLoss::KeepAll, names });
            image.paths().is_empty()
        })
    };
    assert!(!lost_in(NameLoss::RandomPrefix));
    assert!(lost_in(NameLoss::RandomSubset));
}

#[test]
fn a_rename_lands_whole_and_replaces_in_one_step() {
    let (disk, _) = disk_with_log(b"old");
    let new = disk.create_new(path("/new")).unwrap();
    new.append_all(b"new").unwrap();
    new.sync_all().unwrap();
    disk.sync_dir(path("/")).unwrap();
    disk.rename(path("/new"), path("/log")).unwrap();
    let seen: BTreeSet<_> = (0..50)
        .map(|seed| disk.crash_image(seed, FileLoss::RandomSectors))
        .map(|image| (image.content("/log").unwrap(), image.content("/new").is_some()))
        .collect();
    assert_eq!(seen, BTreeSet::from([(b"old".to_vec(), true), (b"new".to_vec(), false)]));
}

#[test]
fn a_move_to_another_directory_is_durable_with_either_and_brings_its_past_along() {
    for synced in ["/a", "/b"] {
        let disk = FaultDisk::new();
        disk.plant_dir("/a");
        disk.plant_dir("/b");
        drop(disk.create_new(path("/a/log")).unwrap());
        drop(disk.create_new(path("/other")).unwrap());
        disk.rename(path("/a/log"), path("/b/log")).unwrap();
        disk.sync_dir(path(synced)).unwrap();
        let image = disk.crash_image(0, FileLoss::DropUnsynced);
        assert_eq!(image.paths(), [path("/a"), path("/b"), path("/b/log")], "synced {synced}");
        for seed in 0..20 {
            // Its creation in the other directory is part of that past and cannot land once more.
            assert!(disk.crash_image(seed, FileLoss::RandomSectors).content("/a/log").is_none());
        }
    }
}

#[test]
fn what_moved_twice_has_one_name_and_a_removal_takes_no_other_file_along() {
    let disk = FaultDisk::new();
    disk.plant_dir("/a");
    disk.plant("/log", b"old");
    disk.rename(path("/a"), path("/b")).unwrap();
    disk.rename(path("/b"), path("/c")).unwrap();
    disk.rename(path("/log"), path("/backup")).unwrap();
    drop(disk.create_new(path("/log")).unwrap());
    disk.remove_file(path("/log")).unwrap();
    for seed in 0..200 {
        let image = disk.crash_image(seed, FileLoss::RandomSectors);
        let paths = image.paths();
        let dirs = ["/a", "/b", "/c"].iter().filter(|dir| paths.contains(&PathBuf::from(dir)));
        assert_eq!(dirs.count(), 1, "seed {seed}: {paths:?}");
        let backup = image.content("/backup").or_else(|| image.content("/log"));
        assert_eq!(backup.as_deref(), Some(&b"old"[..]), "seed {seed}: {paths:?}");
    }
}

#[test]
fn directories_move_with_all_that_is_in_them() {
    let disk = FaultDisk::new();
    disk.plant("/a/x/log", b"1");
    disk.plant_dir("/b");
    assert_eq!(disk.rename(path("/a"), path("/a/x/a")).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(disk.rename(path("/b"), path("/a")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    disk.rename(path("/a/x"), path("/b")).unwrap();
    assert_eq!(disk.content("/b/log").unwrap(), b"1");
    assert_eq!(disk.crash_image(0, FileLoss::DropUnsynced).content("/a/x/log").unwrap(), b"1");
}

#[test]
fn after_a_power_loss_every_call_fails_and_nothing_changes() {
    let (disk, file) = disk_with_log(b"");
    let held = held(disk.lock(path("/lock")).unwrap());
    file.append_all(b"a").unwrap();
    disk.crash_after(disk.ops() + 1);
    assert!(!disk.is_off());
    file.append_all(b"b").unwrap();
    assert!(disk.is_off());
    let calls = disk.ops();
    let mut buf = [0];
    let errors = [
        file.append_all(b"c").unwrap_err(),
        file.sync_data().unwrap_err(),
        file.truncate(0).unwrap_err(),
        file.stamp().unwrap_err(),
        file.read_at(0, &mut buf).unwrap_err(),
        disk.open(path("/log"), Access::Read).unwrap_err(),
        disk.create_new(path("/new")).unwrap_err(),
        disk.create_dir(path("/new")).unwrap_err(),
        disk.stamp(path("/log")).unwrap_err(),
        disk.sync_dir(path("/")).unwrap_err(),
        disk.lock(path("/lock")).unwrap_err(),
        held.release().unwrap_err(),
    ];
    assert!(errors.iter().all(is_power_loss), "{errors:?}");
    assert!(!is_power_loss(&io::Error::other("something else")));
    assert_eq!(disk.ops(), calls);
    assert_eq!(disk.content("/log").unwrap(), b"ab");
    assert_eq!(disk.paths(), [path("/lock"), path("/log")]);
}

#[test]
fn an_image_is_a_machine_of_its_own_with_free_locks_and_the_same_inodes() {
    let (disk, file) = disk_with_log(b"1");
    let _held = held(disk.lock(path("/lock")).unwrap());
    assert!(
        matches!(disk.clone().lock(path("/lock")).unwrap(), LockAttempt::Contended),
        "clones share locks"
    );
    disk.crash_after(0);
    for image in [disk.crash_image(1, FileLoss::KeepAll), disk.kill_image()] {
        assert_eq!(image.ops(), 0);
        held(image.lock(path("/lock")).unwrap()).release().unwrap();
        let stamp = image.stamp(path("/log")).unwrap().unwrap();
        assert_eq!(stamp.size, 1);
        image.open(path("/log"), Access::Append).unwrap().append_all(b"2").unwrap();
        assert_eq!(image.content("/log").unwrap(), b"12");
        let other = image.create_new(path("/other")).unwrap().stamp().unwrap();
        assert!(!other.is_same_file(&stamp));
        assert!(other.modified_ns > stamp.modified_ns, "the clock went on");
    }
    drop(file);
    assert_eq!(disk.content("/log").unwrap(), b"1");
}

#[test]
fn images_depend_on_the_seed_alone() {
    let (disk, file) = disk_with_log(&[]);
    for byte in 0..50 {
        file.append_all(&[byte; 700]).unwrap();
        drop(disk.create_new(path(&format!("/file{byte}"))).unwrap());
    }
    let image = |seed| {
        let image = disk.crash_image(seed, FileLoss::RandomSectors);
        (image.paths(), image.content("/log"))
    };
    assert_eq!(image(3), image(3));
    assert_ne!(image(3), image(4));
}

#[test]
fn one_call_fails_or_stops_short_and_the_next_does_not() {
    let (disk, file) = disk_with_log(b"");
    disk.fail_at(disk.ops() + 1, Failure::Short(2));
    file.append_all(b"ab").unwrap();
    assert_eq!(file.append(b"cdef").unwrap(), 2);
    assert_eq!(file.append(b"ef").unwrap(), 2);
    disk.fail_next(OpKind::Append, Failure::Error(ENOSPC));
    disk.fail_next(OpKind::Append, Failure::Partial(1, EIO));
    assert_eq!(file.append(b"gh").unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.append(b"gh").unwrap_err().raw_os_error(), Some(EIO));
    disk.fail_next(OpKind::Append, Failure::Short(0));
    assert_eq!(file.append_all(b"x").unwrap_err().kind(), ErrorKind::WriteZero);
    disk.fail_next(OpKind::Append, Failure::Short(1));
    file.append_all(b"hij").unwrap();
    assert_eq!(disk.content("/log").unwrap(), b"abcdefghij");

    let mut buf = [0; 4];
    disk.fail_next(OpKind::ReadAt, Failure::Short(3));
    file.read_exact_at(1, &mut buf).unwrap();
    assert_eq!(&buf, b"bcde");
    disk.fail_next(OpKind::ReadAt, Failure::Error(EIO));
    assert!(file.read_at(0, &mut buf).is_err());
    disk.fail_next(OpKind::Link, Failure::Error(EIO));
    assert!(disk.link(path("/log"), path("/other")).is_err());
    disk.link(path("/log"), path("/other")).unwrap();
    disk.fail_next(OpKind::SyncDir, Failure::Error(EIO));
    assert!(disk.sync_dir(path("/")).is_err());
    assert!(disk.crash_image(0, FileLoss::DropUnsynced).content("/other").is_none());
}

#[test]
fn the_trace_tells_order_places_and_bytes() {
    let (disk, file) = disk_with_log(b"0123456789");
    file.append_all(b"abc").unwrap();
    file.sync_data().unwrap();
    let mut buf = [0; 8];
    assert_eq!(file.read_at(9, &mut buf).unwrap(), 4);
    disk.fail_next(OpKind::Truncate, Failure::Error(EIO));
    assert!(file.truncate(3).is_err());
    disk.rename(path("/log"), path("/new")).unwrap();
    let trace = disk.trace();
    let seen: Vec<_> =
        trace.iter().map(|op| (op.call, op.kind, op.offset, op.len, op.done, op.is_ok)).collect();
    let expected = [
        (0, OpKind::Open, 0, 0, 0, true),
        (1, OpKind::Append, 10, 3, 3, true),
        (2, OpKind::SyncData, 0, 0, 0, true),
        (3, OpKind::ReadAt, 9, 8, 4, true),
        (4, OpKind::Truncate, 0, 3, 0, false),
        (5, OpKind::Rename, 0, 0, 0, true),
    ];
    assert_eq!(seen, expected);
    assert!(trace.iter().all(|op| op.path == path("/log")));
    assert_eq!(trace[5].to.as_deref(), Some(path("/new")));
    assert_eq!(disk.bytes_read("/log"), 4);
    assert_eq!(disk.bytes_read("/new"), 0, "a file counts under the name that it was opened by");
    disk.forget_trace();
    assert_eq!((disk.trace(), disk.bytes_read("/log"), disk.ops()), (vec![], 0, 6));
    assert!(OpKind::SyncData.is_sync() && OpKind::SyncData.is_change() && !OpKind::ReadAt.is_change());
}

#[test]
fn a_hook_of_a_kind_runs_before_the_next_call_of_it_and_once() {
    let disk = FaultDisk::new();
    disk.before_next(OpKind::SyncData, |disk| disk.plant("/other", b"by then"));
    let file = disk.create_new(Path::new("/log")).unwrap();
    file.append_all(b"ours").unwrap();
    assert_eq!(disk.content("/other"), None);
    file.sync_data().unwrap();
    assert_eq!(disk.content("/other"), Some(b"by then".to_vec()));
    disk.plant("/other", b"again");
    file.sync_data().unwrap();
    assert_eq!(disk.content("/other"), Some(b"again".to_vec()));
}

#[test]
fn a_hook_interferes_right_before_its_call() {
    let (disk, file) = disk_with_log(b"a");
    disk.before(disk.ops() + 1, |disk| {
        disk.open(path("/log"), Access::Append).unwrap().append_all(b"foreign").unwrap();
    });
    assert_eq!(file.stamp().unwrap().size, 1);
    assert_eq!(file.stamp().unwrap().size, 8);
    assert_eq!(file.stamp().unwrap().size, 8);
}

#[test]
fn stamps_move_with_the_clock_and_the_clock_is_settable() {
    let (disk, file) = disk_with_log(b"a");
    let first = file.stamp().unwrap();
    assert_eq!(file.stamp().unwrap(), first, "looking changes nothing");
    file.append_all(b"b").unwrap();
    let second = file.stamp().unwrap();
    assert!(second.modified_ns > first.modified_ns && second.is_same_file(&first));
    disk.link(path("/log"), path("/new")).unwrap();
    let third = file.stamp().unwrap();
    assert!(third.modified_ns == second.modified_ns && third.changed_ns > second.changed_ns);
    disk.set_clock_ns(5);
    file.append_all(b"c").unwrap();
    assert_eq!(file.stamp().unwrap().modified_ns, 1_000_005);
}

#[test]
fn an_open_file_outlives_its_name() {
    let (disk, file) = disk_with_log(b"a");
    disk.remove_file(path("/log")).unwrap();
    file.append_all(b"b").unwrap();
    assert_eq!(file.stamp().unwrap().size, 2);
    assert_eq!(disk.stamp(path("/log")).unwrap(), None);
    disk.plant("/log", b"another");
    assert_eq!(file.stamp().unwrap().size, 2);
    assert!(!disk.stamp(path("/log")).unwrap().unwrap().is_same_file(&file.stamp().unwrap()));
}

#[test]
fn links_lead_on_in_the_middle_of_a_path_only() {
    let disk = FaultDisk::new();
    disk.plant("/real/dir/log", b"a");
    disk.plant_symlink("/up", "real/dir/../dir");
    disk.plant_symlink("/real/absolute", "/up/log");
    disk.plant_symlink("/loop", "/loop");
    assert!(disk.open(path("/up/log"), Access::Read).is_ok());
    assert!(disk.open(path("up/../up/./log"), Access::Read).is_err(), "the parent of what the link means");
    assert!(disk.open(path("up/../dir/./log"), Access::Read).is_ok());
    assert_eq!(
        disk.open(path("/real/absolute"), Access::Read).unwrap_err().raw_os_error(),
        Some(libc::ELOOP)
    );
    assert_eq!(disk.content("/real/absolute").unwrap(), b"a", "planting and looking follow");
    assert_eq!(disk.stamp(path("/loop/x")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
    assert_eq!(disk.read_dir(path("/up")).unwrap().len(), 1);
}

#[test]
fn a_lock_leaves_a_note_while_it_is_held() {
    let disk = FaultDisk::new();
    assert_eq!(disk.lock_owner(path("/lock")).unwrap(), None);
    let first = held(disk.lock(path("/lock")).unwrap());
    let owner = disk.lock_owner(path("/lock")).unwrap().unwrap();
    assert_eq!((owner.pid, owner.since_ms), (std::process::id(), 1_767_225_600_002));
    assert!(matches!(disk.lock(path("/lock")).unwrap(), LockAttempt::Contended));
    drop(first);
    assert_eq!(disk.lock_owner(path("/lock")).unwrap(), None);
    disk.fail_next(OpKind::Lock, Failure::Error(libc::EACCES));
    assert_eq!(disk.lock(path("/lock")).unwrap_err().kind(), ErrorKind::PermissionDenied);
    let second = held(disk.lock(path("/lock")).unwrap());
    disk.fail_next(OpKind::Unlock, Failure::Error(EIO));
    assert_eq!(second.release().unwrap_err().raw_os_error(), Some(EIO));
    assert!(matches!(disk.lock(path("/lock")).unwrap(), LockAttempt::Held(_)), "free all the same");
    // Removing the lock file forfeits the exclusion.
    let _third = held(disk.lock(path("/lock")).unwrap());
    disk.remove_file(path("/lock")).unwrap();
    assert!(matches!(disk.lock(path("/lock")).unwrap(), LockAttempt::Held(_)));
}

/// One run over names, kinds, accesses and refusals, told as text.
fn tour(disk: &dyn Disk, root: &Path) -> Vec<String> {
    fn said<T: fmt::Debug>(result: io::Result<T>) -> String {
        match result {
            Ok(value) => format!("{value:?}"),
            Err(error) => match error.raw_os_error() {
                Some(errno) => format!("errno {errno}"),
                None => format!("{:?}", error.kind()),
            },
        }
    }
    let at = |name: &str| root.join(name);
    let open = |name: &str, access| disk.open(&at(name), access).map(|_| ());
    let stamp = |name: &str| {
        disk.stamp(&at(name))
            .map(|stamp| stamp.map(|s| (s.kind, if s.kind == FileKind::File { s.size } else { 0 }, s.mode)))
    };
    let listed = |name: &str| {
        disk.read_dir(&at(name)).map(|mut entries| {
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            entries
        })
    };
    let mut tour = Vec::new();
    let mut say = |text: String| tour.push(text);

    let file = disk.create_new(&at("log")).unwrap();
    say(said(file.append(b"hello")));
    say(said(file.append(b"")));
    say(said(file.write_at(0, b"x")));
    say(said(file.truncate(4)));
    say(said(file.truncate(6)));
    let repair = disk.open(&at("log"), Access::Repair).unwrap();
    say(said(repair.append(b"x")));
    say(said(repair.write_at(1, b"EL")));
    say(said(repair.write_at(8, b"!")));
    say(said(repair.write_at(8, b"")));
    let read = disk.open(&at("log"), Access::Read).unwrap();
    say(said(read.append(b"x")));
    say(said(read.write_at(0, b"x")));
    say(said(read.truncate(0)));
    let mut buf = [0; 16];
    say(said(read.read_at(0, &mut buf)));
    say(format!("{buf:?}"));
    say(said(read.read_at(9, &mut buf)));
    say(said(read.read_at(1 << 50, &mut buf)));
    say(said(read.read_exact_at(0, &mut buf)));
    say(said(file.sync_data().and(file.sync_all()).and(read.sync_data())));
    say(said(stamp("log")));
    say(said(stamp("none")));
    say(said(stamp("none/none")));
    say(said(stamp("log/below")));

    say(said(disk.create_new(&at("log")).map(|_| ())));
    say(said(disk.create_new(&at("none/log")).map(|_| ())));
    say(said(disk.create_dir(&at("dir"))));
    say(said(disk.create_dir(&at("dir"))));
    say(said(disk.create_dir(&at("log"))));
    say(said(disk.create_dir(&at("none/dir"))));
    say(said(disk.create_dir(&at("log/dir"))));
    say(said(stamp("dir")));
    say(said(disk.create_new(&at("dir")).map(|_| ())));
    say(said(open("dir", Access::Read)));
    say(said(open("dir", Access::Append)));
    say(said(open("dir", Access::Repair)));
    say(said(disk.lock(&at("dir")).map(|_| ())));
    say(said(disk.lock_owner(&at("dir"))));
    say(said(open("none", Access::Read)));
    say(said(open("log/below", Access::Read)));
    say(said(listed("dir")));
    say(said(listed("log")));
    say(said(listed("none")));

    say(said(disk.link(&at("log"), &at("dir/second"))));
    say(said(disk.link(&at("log"), &at("dir/second"))));
    say(said(disk.link(&at("none"), &at("third"))));
    say(said(disk.link(&at("log"), &at("none/third"))));
    say(said(disk.link(&at("dir"), &at("third"))));
    let second = disk.open(&at("dir/second"), Access::Read).unwrap();
    say(said(second.stamp().and_then(|s| Ok(s.is_same_file(&file.stamp()?)))));
    say(said(listed("")));
    say(said(listed("dir")));

    say(said(disk.remove_dir(&at("dir"))));
    say(said(disk.remove_dir(&at("log"))));
    say(said(disk.remove_dir(&at("none"))));
    say(said(disk.remove_file(&at("dir"))));
    say(said(disk.remove_file(&at("none"))));
    say(said(disk.rename(&at("none"), &at("third"))));
    say(said(disk.rename(&at("log"), &at("dir/second"))));
    say(said(listed("")));
    say(said(disk.rename(&at("log"), &at("dir"))));
    say(said(disk.rename(&at("dir"), &at("log"))));
    say(said(disk.create_dir(&at("empty"))));
    say(said(disk.rename(&at("empty"), &at("dir"))));
    say(said(disk.rename(&at("empty"), &at("empty/deeper"))));
    say(said(disk.rename(&at("dir"), &at("empty"))));
    say(said(disk.create_new(&at("other")).map(|_| ())));
    say(said(disk.rename(&at("other"), &at("log"))));
    say(said(listed("")));
    say(said(stamp("log")));
    say(said(file.stamp().map(|s| s.size)));
    say(said(disk.sync_dir(&at("empty"))));
    say(said(disk.sync_dir(&at("log"))));
    say(said(disk.sync_dir(&at("none"))));
    say(said(disk.remove_file(&at("empty/second"))));
    say(said(disk.remove_dir(&at("empty"))));

    let lock = held(disk.lock(&at("lock")).unwrap());
    say(said(stamp("lock").map(|s| s.map(|(kind, size, mode)| (kind, size > 0, mode)))));
    say(said(disk.lock_owner(&at("lock")).map(|owner| owner.map(|o| o.pid))));
    say(said(disk.lock(&at("lock")).map(|l| matches!(l, LockAttempt::Contended))));
    say(said(lock.release()));
    say(said(stamp("lock")));
    say(said(disk.lock_owner(&at("lock"))));
    say(said(disk.lock_owner(&at("none"))));
    say(said(disk.lock(&at("lock")).map(|l| matches!(l, LockAttempt::Held(_)))));
    say(said(disk.lock(&at("none/lock")).map(|_| ())));
    tour
}

#[test]
fn both_disks_answer_alike() {
    let folder = tempfile::tempdir().unwrap();
    let real = tour(&OsDisk::new(), folder.path());
    let disk = FaultDisk::new();
    disk.plant_dir("/root");
    let fault = tour(&disk, path("/root"));
    for (step, (real, fault)) in real.iter().zip(&fault).enumerate() {
        assert_eq!(real, fault, "step {step}");
    }
    assert_eq!(real.len(), fault.len());
}

#[test]
fn both_disks_refuse_links_alike() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FaultDisk::new();
    std::fs::create_dir(folder.path().join("dir")).unwrap();
    disk.plant_dir("/dir");
    for (name, target) in [("to_dir", "dir"), ("dangling", "nowhere")] {
        std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
        disk.plant_symlink(path("/").join(name), target);
    }
    let real = OsDisk::new();
    let kind = |disk: &dyn Disk, at: PathBuf| {
        [
            disk.open(&at, Access::Read).map(|_| ()),
            disk.create_new(&at).map(|_| ()),
            disk.create_dir(&at).map(|_| ()),
            disk.lock(&at).map(|_| ()),
            disk.lock_owner(&at).map(|_| ()),
            disk.remove_dir(&at),
        ]
        .map(|result| result.map_err(|error| error.raw_os_error()))
    };
    for name in ["to_dir", "dangling"] {
        let expected = kind(&real, folder.path().join(name));
        assert!(expected.iter().all(Result::is_err), "{expected:?}");
        assert_eq!(kind(&disk, path("/").join(name)), expected, "{name}");
    }
    for (disk, root) in [(&real as &dyn Disk, folder.path()), (&disk, path("/"))] {
        assert_eq!(disk.read_dir(&root.join("to_dir")).unwrap(), []);
        disk.sync_dir(&root.join("to_dir")).unwrap();
        assert_eq!(disk.read_dir(&root.join("dangling")).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(disk.create_dir(&root.join("to_dir/through")).unwrap());
        assert_eq!(disk.stamp(&root.join("dir/through")).unwrap().unwrap().kind, FileKind::Dir);
        disk.remove_file(&root.join("to_dir")).unwrap();
        assert_eq!(disk.stamp(&root.join("to_dir")).unwrap(), None);
    }
}
