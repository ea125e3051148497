//! Several processes on one root: a lock that dies with its holder, readers beside a writer, and writers that are killed.
//!
//! Children are this very binary, started again with `SESLOG_TEST_CHILD` saying what to do. `SESLOG_TEST_KILLS` (default 20) is
//! how many writers of each encoding are killed, `SESLOG_TEST_APPENDS` (default 1500) how many events a reader watches arrive; the
//! full numbers are 200 and 10000.

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use seslog::Error;
use seslog::container::Encoding;
use seslog::json::Text;
use seslog::store::{FileStore, SessionAccess, State, StoreOptions};

use common::sessions::{append, header, options, read_all, row_by, rows_by};

/// Where children start: the name of the test that sends them on.
const CHILD: &str = "child";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A child that works, and what it says.
struct Worker {
    process: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(what: &str, root: &Path, encoding: Encoding, count: u64) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", CHILD, "--nocapture", "--test-threads", "1"])
            .env("SESLOG_TEST_CHILD", what)
            .env("SESLOG_TEST_ROOT", root)
            .env("SESLOG_TEST_ENCODING", encoding.name())
            .env("SESLOG_TEST_COUNT", count.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// The next thing that it says; `None` when it is gone. The harness says things too.
    fn says(&mut self) -> Option<String> {
        self.lines.find_map(|line| line.ok()?.strip_prefix("worker: ").map(str::to_owned))
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _gone = self.process.wait();
    }
}

/// Says something that the parent hears at once; what was said was said even if this process dies now.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // In a line of its own, whatever the harness has printed.
    out.write_all(format!("\nworker: {text}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

#[test]
fn child() {
    let Ok(what) = std::env::var("SESLOG_TEST_CHILD") else { return };
    let root = PathBuf::from(std::env::var_os("SESLOG_TEST_ROOT").unwrap());
    let encoding: Encoding = std::env::var("SESLOG_TEST_ENCODING").unwrap().parse().unwrap();
    let count = number("SESLOG_TEST_COUNT", 0);
    match what.as_str() {
        "own" => {
            let handle =
                FileStore::with_options(root, options(encoding)).open(&id(), SessionAccess::Write).unwrap();
            say("owned");
            // Until it is killed, or its parent is gone.
            let _ended = std::io::stdin().read_line(&mut String::new());
            loop {
                std::thread::park();
                assert!(handle.next_seq().is_some());
            }
        }
        "append one by one" => {
            append_events(&root, options(encoding), count, &|seq| vec![row_by("one", seq, 90)])
        }
        "append until killed" => append_events(&root, options(encoding), u64::MAX, &|seq| {
            (seq..seq + 1 + seq % 3).map(|seq| row_by("killed", seq, (seq * 37 % 900) as usize)).collect()
        }),
        other => panic!("{other}"),
    }
}

/// Opens or creates the session and appends `count` batches; says the next seq after each.
fn append_events(root: &Path, options: StoreOptions, count: u64, batch: &dyn Fn(u64) -> Vec<String>) {
    let store = FileStore::with_options(root, options);
    let handle = match store.open(&id(), SessionAccess::Write) {
        Err(Error::NotFound { .. }) => store.create(header("s"), None).unwrap(),
        opened => opened.unwrap(),
    };
    say(&handle.next_seq().unwrap().to_string());
    for _ in 0..count {
        let next = handle.next_seq().unwrap();
        append(&handle, &batch(next)).unwrap();
        say(&handle.next_seq().unwrap().to_string());
    }
    handle.close().unwrap();
    say("closed");
}

fn id() -> Text {
    Text::from("s")
}

#[test]
fn a_second_process_is_told_at_once_and_the_death_of_the_first_frees_the_session_at_once() {
    for encoding in Encoding::ALL {
        let root = tempfile::tempdir().unwrap();
        let store = FileStore::with_options(root.path(), options(encoding));
        let handle = store.create(header("s"), None).unwrap();
        append(&handle, &rows_by("a", 0..2)).unwrap();
        handle.close().unwrap();
        let mut owner = Worker::start("own", root.path(), encoding, 0);
        assert_eq!(owner.says().as_deref(), Some("owned"));
        match store.open(&id(), SessionAccess::Write) {
            Err(Error::AlreadyOwned { owner: Some(named), .. }) => assert_eq!(named.pid, owner.process.id()),
            other => panic!("{other:?}"),
        }
        assert_eq!(read_all(&store.open(&id(), SessionAccess::Read).unwrap()).unwrap(), rows_by("a", 0..2));
        owner.kill();
        let handle = store.open(&id(), SessionAccess::Write).unwrap();
        append(&handle, &rows_by("a", 2..3)).unwrap();
        handle.close().unwrap();
    }
}

#[test]
fn a_reader_sees_a_valid_prefix_grow_while_another_process_appends() {
    let appends = number("SESLOG_TEST_APPENDS", 1500);
    for encoding in Encoding::ALL {
        let root = tempfile::tempdir().unwrap();
        let store = FileStore::with_options(root.path(), options(encoding));
        let mut writer = Worker::start("append one by one", root.path(), encoding, appends);
        assert_eq!(writer.says().as_deref(), Some("0"));
        assert_eq!(writer.says().as_deref(), Some("1"), "it is stored now");
        let expected = |from: u64, to: u64| (from..to).map(|seq| row_by("one", seq, 90)).collect::<Vec<_>>();
        let reader = store.open(&id(), SessionAccess::Read).unwrap();
        let (mut seen, mut looks) = (0, 0_u64);
        // What the writer has said while we looked is read behind our back, or its pipe would fill up.
        let mut said = std::thread::spawn(move || {
            let mut last = 1;
            while let Some(text) = writer.says() {
                last = text.parse().unwrap_or(last);
            }
            last
        });
        while seen < appends {
            looks += 1;
            // The whole now and then, what is new otherwise.
            let from = if looks.is_multiple_of(16) { 0 } else { seen };
            let events = reader.read(from, u64::MAX).unwrap();
            let rows: Vec<String> =
                events.rows().map(|row| String::from_utf8(row.to_vec()).unwrap()).collect();
            let now = from + rows.len() as u64;
            assert!(now >= seen, "{encoding}: {now} after {seen}");
            assert_eq!(rows, expected(from, now), "{encoding}");
            let stat = store.stat(&id()).unwrap().unwrap();
            assert!(matches!(stat.state, State::Ok | State::Torn), "{stat:?}");
            assert!(stat.event_count.unwrap() >= now, "{stat:?}");
            seen = now;
            if said.is_finished() {
                let last = said.join().unwrap();
                assert_eq!(last, appends, "the writer died");
                said = std::thread::spawn(move || last);
            }
        }
        assert_eq!(said.join().unwrap(), appends);
        assert!(looks > 1);
        println!("{encoding}: {appends} appends, {looks} looks");
    }
}

#[test]
fn every_event_that_a_killed_writer_called_acknowledged_is_there() {
    let kills = number("SESLOG_TEST_KILLS", 20);
    for encoding in Encoding::ALL {
        let root = tempfile::tempdir().unwrap();
        let store = FileStore::with_options(root.path(), options(encoding));
        let mut acknowledged = 0;
        let mut torn = 0;
        for round in 0..kills {
            let mut writer = Worker::start("append until killed", root.path(), encoding, 0);
            let next: u64 = writer.says().expect("it starts").parse().unwrap();
            assert!(next >= acknowledged, "{encoding}: {next} events, {acknowledged} were acknowledged");
            // It says more while it lives, and dies in the middle of something.
            for _ in 0..1 + round * 7 % 13 {
                acknowledged = writer.says().expect("it goes on").parse().unwrap();
            }
            writer.process.kill().unwrap();
            while let Some(more) = writer.says() {
                acknowledged = more.parse().unwrap();
            }
            writer.kill();
            let stat = store.stat(&id()).unwrap().unwrap();
            assert!(matches!(stat.state, State::Ok | State::Torn), "{stat:?}");
            torn += u64::from(stat.state == State::Torn);
            let served = read_all(&store.open(&id(), SessionAccess::Read).unwrap()).unwrap();
            assert!(served.len() as u64 >= acknowledged, "{encoding}, round {round}");
            let expected =
                (0..served.len() as u64).map(|seq| row_by("killed", seq, (seq * 37 % 900) as usize));
            assert_eq!(served, expected.collect::<Vec<_>>(), "{encoding}, round {round}");
        }
        println!("{encoding}: {kills} writers killed, {acknowledged} events, {torn} torn ends");
    }
}
