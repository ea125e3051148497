//! `follow`: another process writes, and every event comes out once.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::program::{Root, command, row};

/// A running `follow`, and its lines as they come.
struct Followed {
    child: Child,
    lines: Receiver<String>,
}

impl Followed {
    fn start(root: &Root, args: &[&str]) -> Self {
        let mut child = follow(root).args(args).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if sender.send(line.unwrap()).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(60)).expect("a line within a minute")
    }

    fn lines(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.line()).collect()
    }

    /// Interrupts it, and gives what it still printed and said.
    fn interrupt(mut self) -> (i32, Vec<String>, String) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let status = wait(&mut self.child);
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (status, self.lines.iter().collect(), stderr)
    }
}

fn follow(root: &Root) -> Command {
    let mut command = command();
    command.arg("--root").arg(root.path()).arg("follow");
    command
}

fn wait(child: &mut Child) -> i32 {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    panic!("it did not end");
}

fn rows(seqs: std::ops::Range<u64>) -> Vec<String> {
    seqs.map(|seq| row(seq).trim_end().to_owned()).collect()
}

#[test]
fn what_other_processes_append_is_printed_once_through_a_move_a_compaction_and_a_new_life() {
    let root = Root::new();
    let dirs = ["old", "new"].map(|name| root.scratch().join(name));
    dirs.iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
    let [old, new] = dirs.map(|dir| dir.to_str().unwrap().to_owned());
    let followed = Followed::start(&root, &["one", "--poll", "200"]);
    std::thread::sleep(Duration::from_millis(100));
    root.run(&["new", "--id", "one", "--cwd", &old]).expect(0);
    assert!(followed.line().contains("\"id\":\"one\""));
    root.append("one", 0..3);
    assert_eq!(followed.lines(3), rows(0..3));
    root.run(&["mv", &old, &new]).expect(0);
    root.append("one", 3..200);
    assert_eq!(followed.lines(197), rows(3..200));
    root.run(&["compact", "one"]).expect(0);
    root.append("one", 200..201);
    assert_eq!(followed.lines(1), rows(200..201));

    let late = Followed::start(&root, &["one", "--tail", "2", "--no-header"]);
    assert_eq!(late.lines(2), rows(199..201));
    let from = Followed::start(&root, &["one", "--from", "198", "--no-header"]);
    assert_eq!(from.lines(3), rows(198..201));

    root.run(&["rm", "one"]).expect(0);
    root.run(&["new", "--id", "one", "--cwd", &new]).expect(0);
    root.append("one", 0..1);
    assert!(followed.line().contains("\"type\":\"session\""), "a header line says that a log begins");
    assert_eq!(followed.lines(1), rows(0..1));
    assert_eq!(late.lines(1), rows(0..1));
    let (status, rest, stderr) = followed.interrupt();
    assert_eq!((status, rest), (0, Vec::new()), "{stderr}");
    assert!(stderr.contains("waiting for one") && stderr.contains("created anew"), "{stderr}");
    for other in [late, from] {
        let (status, rest, stderr) = other.interrupt();
        assert_eq!((status, rest), (0, Vec::new()), "{stderr}");
    }
}

#[test]
fn it_ends_quietly_when_nobody_reads_although_nothing_new_comes() {
    let root = Root::new();
    root.run(&["new", "--id", "one"]).expect(0);
    root.append("one", 0..1);
    let mut child = follow(&root).args(["one", "--poll", "50"]).spawn().unwrap();
    let mut stdout: BufReader<ChildStdout> = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    drop(stdout);
    assert_eq!(wait(&mut child), 0);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(stderr, "");
}

#[test]
fn damage_ends_it_behind_the_events_before() {
    let root = Root::new();
    root.run(&["new", "--id", "one", "--encoding", "zstd"]).expect(0);
    root.append("one", 0..20);
    root.append("one", 20..21);
    root.append("one", 21..22);
    let log = root.log("one");
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&log, bytes).unwrap();
    let followed = Followed::start(&root, &["one", "--poll", "50"]);
    let Followed { mut child, lines } = followed;
    assert_eq!(wait(&mut child), 1);
    let lines: Vec<String> = lines.iter().skip(1).collect();
    assert_eq!(lines, rows(0..lines.len() as u64));
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(stderr.contains("corrupt at byte"), "{stderr}");
}
