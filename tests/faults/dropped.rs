//! An ext4 file system on a loop device, dropped under a writer without a sync and mounted again: what a power loss is to
//! software, with the file system's own journal in between.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::common;
use crate::mounts::{in_own_mounts, is_root, run};
use crate::program::{Chance, command, row, seslog};
use crate::times;

/// Shuts a file system down on the spot: nothing that is in memory is written, the journal neither, and every later call fails.
fn drop_it(at: &Path) -> bool {
    // FS_IOC_SHUTDOWN with the flag NOLOGFLUSH, which ext4, xfs and f2fs have.
    let script = "open F, '<', $ARGV[0] or die; my $how = pack('L', 2); ioctl(F, 0x8004587D, $how) or die $!";
    run("perl", &["-e", script, at.to_str().unwrap()])
}

#[test]
fn acknowledged_events_survive_a_file_system_that_is_dropped_without_unmount() {
    if !is_root() {
        return common::skip("only root may mount a loop device");
    }
    in_own_mounts(|| {
        let scratch = tempfile::tempdir().unwrap();
        let (image, disk) = (scratch.path().join("image"), scratch.path().join("disk"));
        fs::create_dir(&disk).unwrap();
        fs::File::create(&image).unwrap().set_len(48 << 20).unwrap();
        let (image, at) = (image.to_str().unwrap(), disk.to_str().unwrap());
        let mount = || run("mount", &["-o", "loop", image, at]);
        if !run("mkfs.ext4", &["-q", image]) || !mount() {
            return common::skip("no file system on a loop device can be made here");
        }
        let mut chance = Chance::new();
        let on = |args: &[&str], input: &[u8]| {
            let mut command = command();
            command.arg("--root").arg(disk.join("root")).args(args);
            crate::program::run(command, input)
        };
        let rounds = times(3, 25);
        for encoding in ["indexed", "zstd", "plain"] {
            let mut acknowledged = 0;
            let mut torn = 0;
            for round in 0..rounds {
                // The first round drops the creation too.
                if round == 0 {
                    on(&["new", "--id", encoding, "--cwd", "/w", "--encoding", encoding], b"").expect(0);
                }
                let next = on(&["cat", encoding, "--no-header"], b"").lines().len() as u64;
                let mut writer = command();
                writer
                    .arg("--root")
                    .arg(disk.join("root"))
                    .args(["append", encoding, "--json", "--batch", "3"]);
                let mut writer = writer.stdin(std::process::Stdio::piped()).spawn().unwrap();
                let mut stdin = writer.stdin.take().unwrap();
                let stdout = writer.stdout.take().unwrap();
                let feeder = thread::spawn(move || {
                    let mut seq = next;
                    while stdin.write_all(row(seq).as_bytes()).is_ok() {
                        seq += 1;
                    }
                });
                let said = Arc::new(AtomicU64::new(0));
                let heard = Arc::clone(&said);
                let reader = thread::spawn(move || {
                    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
                        heard.store(line["nextSeq"].as_u64().unwrap(), Ordering::SeqCst);
                    }
                });
                thread::sleep(Duration::from_millis(10 + chance.below(120)));
                // What is said behind this moment a power loss would have kept to itself: the kernel lets a sync that waits for
                // a journal which is being shut down succeed.
                acknowledged = said.load(Ordering::SeqCst).max(acknowledged);
                if !drop_it(&disk) {
                    let _gone = (writer.kill(), writer.wait(), feeder.join(), reader.join());
                    return common::skip("a file system cannot be shut down here");
                }
                let output = writer.wait_with_output().unwrap();
                feeder.join().unwrap();
                reader.join().unwrap();
                assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
                assert!(run("umount", &[at]) && mount(), "{encoding}, round {round}: it mounts again");
                let cat = on(&["cat", encoding, "--no-header"], b"");
                torn += u64::from(cat.code == 3);
                let events: Vec<String> = cat
                    .lines()
                    .into_iter()
                    .map(|line| format!("{}\n", String::from_utf8_lossy(line)))
                    .collect();
                assert!(
                    events.len() as u64 >= acknowledged,
                    "{encoding}: {} of {acknowledged}",
                    events.len()
                );
                for (event, seq) in events.iter().zip(0..) {
                    assert_eq!(*event, row(seq), "{encoding}, round {round}");
                }
            }
            let next = on(&["cat", encoding, "--no-header"], b"").lines().len() as u64;
            on(&["append", encoding], row(next).as_bytes()).expect(0);
            println!(
                "faults: dropped ext4, {encoding}: {rounds} drops, {acknowledged} events acknowledged, {torn} torn ends"
            );
        }
        seslog(&["verify", disk.join("root").to_str().unwrap()], b"").expect(0);
        let _unmounted = Command::new("umount").arg(at).status();
    });
}
