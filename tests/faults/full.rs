//! Disks that are full, files that may not grow, and file systems that may not be written to.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use seslog::Error;
use seslog::container::Encoding;
use seslog::store::{FileStore, SessionAccess};

use crate::common::sessions::{append, header, options, read_all, row_by};
use crate::common::{self};
use crate::mounts::{accepts, in_own_mounts, run, tmpfs};
use crate::program::{Root, command, has_program, row, seslog};

/// Where `zstd` and `jq` are here, they must take the log.
fn others_accept(path: &Path, encoding: Encoding, events: usize) {
    if !has_program("zstd") || !has_program("jq") {
        return common::skip("zstd or jq is not here");
    }
    let path = path.display();
    let cat = if encoding == Encoding::Plain { format!("cat {path}") } else { format!("zstd -dcq < {path}") };
    if encoding != Encoding::Plain {
        assert_eq!(accepts(&format!("zstd -tq < {path}")), (true, String::new()));
    }
    let counted = format!("test $({cat} | jq -c . | wc -l) = {}", events + 1);
    assert_eq!(accepts(&counted), (true, String::new()), "{counted}");
}

/// Events acknowledged before, during and after are all there; nothing is fused; other tools read the result.
#[test]
fn a_disk_fills_up_in_the_middle_of_appends_and_has_room_again() {
    in_own_mounts(|| {
        for encoding in Encoding::ALL {
            let scratch = tempfile::tempdir().unwrap();
            let Some(disk) = tmpfs(scratch.path(), "4m") else { return };
            fs::write(disk.join("filler"), vec![7; 1 << 20]).unwrap();
            let store = FileStore::with_options(disk.join("root"), options(encoding));
            let handle = store.create(header("s"), None).unwrap();
            let mut acknowledged = Vec::new();
            let mut refused = 0;
            let mut during = 0;
            // Batches of all sizes: what does not fit any more may fit in smaller pieces.
            for round in 0..400_u64 {
                let noise = [40_000, 9_000, 700, 20][round as usize % 4];
                let next = acknowledged.len() as u64;
                let rows: Vec<String> =
                    (next..next + 1 + round % 3).map(|seq| row_by("full", seq, noise)).collect();
                match append(&handle, &rows) {
                    Ok(()) => {
                        during += u64::from(refused > 0);
                        acknowledged.extend(rows);
                    }
                    Err(Error::Io { source, .. }) => {
                        assert_eq!(source.kind(), std::io::ErrorKind::StorageFull, "{encoding}: {source}");
                        refused += 1;
                    }
                    Err(error) => panic!("{encoding}: {error}"),
                }
                if refused > 12 {
                    break;
                }
            }
            assert!(refused > 12 && acknowledged.len() > 50, "{encoding}: {refused}, {}", acknowledged.len());
            assert_eq!(read_all(&handle).unwrap(), acknowledged, "{encoding}: read while it is full");
            // Nobody else can begin either, and leaves nothing.
            let other = store.create(header("other"), None).unwrap();
            let large: Vec<String> = (0..30).map(|seq| row_by("other", seq, 40_000)).collect();
            assert!(matches!(append(&other, &large), Err(Error::Io { .. })));
            let before = acknowledged.len();
            fs::remove_file(disk.join("filler")).unwrap();
            for _ in 0..3 {
                let next = acknowledged.len() as u64;
                let rows = vec![row_by("room", next, 30_000), row_by("room", next + 1, 10)];
                append(&handle, &rows)
                    .unwrap_or_else(|error| panic!("{encoding}: there is room again: {error}"));
                acknowledged.extend(rows);
            }
            handle.close().unwrap();
            append(&other, &large[..3]).unwrap();
            other.close().unwrap();
            let reader = store.open(&"s".into(), SessionAccess::Read).unwrap();
            assert_eq!(read_all(&reader).unwrap(), acknowledged, "{encoding}");
            assert_eq!(
                read_all(&store.open(&"other".into(), SessionAccess::Read).unwrap()).unwrap(),
                large[..3]
            );
            let path = store.stat(&"s".into()).unwrap().unwrap().path;
            seslog(&["verify", disk.join("root").to_str().unwrap()], b"").expect(0);
            others_accept(&path, encoding, acknowledged.len());
            println!(
                "faults: full disk, {encoding}: {before} events before and {during} appends while it was full, {refused} refused, {} in the end",
                acknowledged.len()
            );
            assert!(run("umount", &["-l", disk.to_str().unwrap()]));
        }
    });
}

/// The program, with a limit on how long a file may get: in blocks of 512 bytes, by the shell.
fn limited(root: &Root, blocks: u32, ignored: bool, rows: &str) -> (std::process::ExitStatus, usize, String) {
    let trap = if ignored { "trap '' XFSZ; " } else { "" };
    let mut child = Command::new("sh")
        .args(["-c", &format!("{trap}ulimit -f {blocks}; exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_seslog"))
        .arg("--root")
        .arg(root.path())
        .args(["append", "s", "--json", "--batch", "4"])
        .env("SESLOG_ROOT", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let rows = rows.to_owned();
    let feeder = std::thread::spawn(move || {
        // It stops reading when it fails.
        let _unread = std::io::Write::write_all(&mut stdin, rows.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    let acknowledged = String::from_utf8_lossy(&output.stdout).lines().count() * 4;
    (output.status, acknowledged, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_file_that_may_not_grow_refuses_an_append_and_keeps_what_it_has() {
    for encoding in ["indexed", "zstd", "plain"] {
        let root = Root::new();
        root.session("s", encoding, 4);
        let rows: String = (4..404).map(row).collect();
        let (status, acknowledged, stderr) = limited(&root, 40, true, &rows);
        assert_eq!(status.code(), Some(1), "{encoding}: {stderr}");
        assert!(stderr.contains("writing") && stderr.contains("next: "), "{encoding}: {stderr}");
        assert!((4..400).contains(&acknowledged), "{encoding}: {acknowledged}");
        let events = root.events("s");
        assert_eq!(events.len(), 4 + acknowledged, "{encoding}: taken back whole");
        seslog(&["verify", root.log("s").to_str().unwrap()], b"").expect(0);
        // Nobody ignores the signal: the system ends the program in the middle of a write.
        let next = events.len() as u64;
        let rows: String = (next..next + 40).map(row).collect();
        let (status, acknowledged, _) = limited(&root, 40, false, &rows);
        assert_eq!((status.signal(), acknowledged), (Some(25), 0), "{encoding}: {status}");
        assert!(root.events("s").len() >= events.len(), "{encoding}");
        let next = root.events("s").len() as u64;
        root.append("s", next..next + 8);
        let all: Vec<String> = (0..next + 8).map(|seq| row(seq).trim_end().to_owned()).collect();
        assert_eq!(root.events("s"), all, "{encoding}");
        seslog(&["verify", root.log("s").to_str().unwrap()], b"").expect(0);
    }
}

#[test]
fn a_read_only_file_system_is_read_and_never_written_to() {
    in_own_mounts(|| {
        let scratch = tempfile::tempdir().unwrap();
        let Some(disk) = tmpfs(scratch.path(), "16m") else { return };
        let on = |args: &[&str], input: &[u8]| {
            let mut command = command();
            command.arg("--root").arg(disk.join("root")).args(args);
            crate::program::run(command, input)
        };
        let rows: String = (0..6).map(row).collect();
        for encoding in ["indexed", "zstd", "plain"] {
            on(&["new", "--id", encoding, "--cwd", "/w", "--encoding", encoding], b"").expect(0);
            on(&["append", encoding, "--batch", "3"], rows.as_bytes()).expect(0);
        }
        // One of them torn.
        let stat = on(&["stat", "zstd", "--json"], b"").object();
        let torn = Path::new(stat["path"].as_str().unwrap()).to_path_buf();
        let bytes = fs::read(&torn).unwrap();
        fs::write(&torn, &bytes[..bytes.len() - 5]).unwrap();
        assert!(run("mount", &["-o", "remount,ro", disk.to_str().unwrap()]));
        let before = crate::program::tree(&disk);
        on(&["ls"], b"").expect(3);
        for (id, code) in [("indexed", 0), ("zstd", 3), ("plain", 0)] {
            on(&["stat", id], b"").expect(code);
            on(&["cat", id], b"").expect(code);
            on(&["append", id], row(6).as_bytes()).expect(1).says("Read-only file system").says("next: ");
        }
        on(&["recover", "zstd", "--dry-run"], b"").expect(3);
        on(&["recover", "zstd"], b"").expect(1).says("Read-only file system");
        on(&["new", "--id", "x"], b"").expect(1).says("Read-only file system");
        on(&["fork", "indexed"], b"").expect(1).says("Read-only file system");
        on(&["import", torn.to_str().unwrap(), "--id", "y"], b"").expect(1).says("Read-only file system");
        assert!(crate::program::tree(&disk) == before, "nothing changed");
        assert!(run("mount", &["-o", "remount,rw", disk.to_str().unwrap()]));
        on(&["append", "zstd"], row(3).as_bytes()).expect(0);
        seslog(&["verify", disk.join("root").to_str().unwrap()], b"").expect(0);
    });
}
