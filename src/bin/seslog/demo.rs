//! `demo`: the tour. Runs this very program step by step, and kills a writer in the middle of an append.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use seslog::json::Text;
use seslog::row::Draft;
use seslog::store::{FileStore, SessionAccess, StoreOptions};
use seslog::units::Seq;

use crate::failure::{Done, Failure, Outcome, quoted};
use crate::new::{now, random_uuid};
use crate::out::{Out, clean};
use crate::root::LIMITS;
use crate::stall::StallingDisk;

/// Shows what seslog does, in a temporary root: writes an agent session, kills a writer in the middle of an append,
/// reopens, recovers, lists and reads.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog demo --keep /tmp/seslog-demo")]
pub(crate) struct Args {
    /// Use this folder as the root, and leave it there
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// What the writer that is killed is told.
#[derive(Debug, clap::Args)]
pub(crate) struct WriterArgs {
    store: PathBuf,
    id: String,
    /// Appends that go through before one is cut short.
    whole: u64,
}

/// Events in one turn, and in one append of the writer.
const TURN_EVENTS: u64 = 6;
/// Turns that the writer gets acknowledged before it is killed.
const WHOLE_TURNS: u64 = 3;

/// Runs the tour.
pub(crate) fn run(args: &Args) -> Done {
    let (root, scratch) = match &args.keep {
        Some(dir) => (dir.clone(), None),
        None => {
            let dir = std::env::temp_dir().join(format!("seslog-demo-{}", random_uuid()?));
            (dir.clone(), Some(Scratch(dir)))
        }
    };
    let program = std::env::current_exe().map_err(|error| {
        Failure::io("this program's own file is not known", error, "run it by its full path")
    })?;
    let mut tour = Tour { out: Out::new(), program, root, step: 0 };
    tour.walk()?;
    tour.out.flush()?;
    drop(scratch);
    Ok(Outcome::Clean)
}

/// A folder that is removed when the tour ends, however it ends.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: it lies in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Debug)]
struct Tour {
    out: Out,
    program: PathBuf,
    root: PathBuf,
    step: u32,
}

impl Tour {
    fn walk(&mut self) -> Result<(), Failure> {
        // An id of its own, so that a kept root takes a second tour.
        let id = format!("demo-{}", random_uuid()?.get(..8).unwrap_or_default());
        let id = id.as_str();
        let root = self.root.to_string_lossy().into_owned();
        self.say("A session is created in a root of its own. Nothing but its header is in it.")?;
        self.out.line(&format!("     $ROOT is {}", clean(&root)))?;
        self.show(&["new", "--id", id, "--cwd", "/home/ann/proj"], b"")?;

        self.say("An agent appends two turns. Each line is printed when its append is on disk: it is acknowledged.")?;
        let rows = [turn(1), turn(2)].concat();
        self.show(&["append", id, "--batch", &TURN_EVENTS.to_string()], rows.as_bytes())?;

        self.say("Another process goes on, and is killed with SIGKILL when half of an append is written.")?;
        let acknowledged = self.kill_a_writer(id)?;

        self.say("What is there now? The end is torn; the writer left its name in the lock file, and the lock is free.")?;
        let verified = self.show(&["verify", &root], b"")?;
        expect(verified.status.code() == Some(3), "verify should have found a torn end")?;
        self.show(&["stat", id], b"")?;

        self.say(
            "Reading never writes. It serves every acknowledged event, and nothing of the torn append.",
        )?;
        self.show(&["cat", id, "--tail", "1"], b"")?;
        let events = self.run(&["cat", id, "--no-header"], b"")?;
        let count = lines(&events.stdout);
        expect(count == acknowledged, "not every acknowledged event is there")?;
        self.note(&format!("{count} events were acknowledged, and {count} are there"))?;

        self.say("recover does what the next append would do: the torn bytes are set aside, then cut off.")?;
        self.show(&["recover", id], b"")?;

        self.say("The session goes on where it stood.")?;
        self.show(&["append", id, "--batch", &TURN_EVENTS.to_string()], turn(9).as_bytes())?;
        let verified = self.show(&["verify", &root], b"")?;
        expect(verified.status.success(), "verify should have found everything in order")?;

        self.say("A listing reads both ends of each log, never its middle.")?;
        self.show(&["ls"], b"")?;
        self.show(&["cat", id, "--no-header", "--tail", "2"], b"")?;
        let events = self.run(&["cat", id, "--no-header"], b"")?;
        let expected = acknowledged.saturating_add(TURN_EVENTS);
        expect(lines(&events.stdout) == expected, "the log does not hold what was appended")?;
        self.out.line("")?;
        self.note(&format!("All {expected} acknowledged events are there, in order, once."))?;
        self.note("`seslog demo --keep DIR` leaves the files; `zstd -dc` reads them without seslog.")
    }

    /// Starts the writer and kills it when it says that half of an append is in the file. Gives the events acknowledged.
    fn kill_a_writer(&mut self, id: &str) -> Result<u64, Failure> {
        let start = |error| Failure::io("starting the writer failed", error, "run the demo again");
        let mut child = Command::new(&self.program)
            .arg("demo-writer")
            .arg(&self.root)
            .args([id, &WHOLE_TURNS.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(start)?;
        let mut next_seq = None;
        let mut stalled = false;
        let stdout = child.stdout.take();
        for line in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
            let line = line.map_err(start)?;
            self.note(&format!("process {}: {line}", child.id()))?;
            next_seq = line
                .strip_prefix("appended")
                .and_then(|rest| rest.rsplit(' ').next()?.parse().ok())
                .or(next_seq);
            if line.starts_with("half") {
                stalled = true;
                break;
            }
        }
        child.kill().map_err(start)?;
        let status = child.wait().map_err(start)?;
        expect(stalled && !status.success(), "the writer ended before it could be killed")?;
        self.note(&format!("process {}: killed", child.id()))?;
        next_seq.ok_or_else(|| Failure::new("the writer acknowledged nothing", "run the demo again"))
    }

    /// Runs a command of this program and shows it with what it prints.
    fn show(&mut self, args: &[&str], input: &[u8]) -> Result<Output, Failure> {
        let mut line = String::from("$ seslog");
        for arg in args {
            let _ = write!(line, " {}", quoted(Path::new(arg)));
        }
        if !input.is_empty() {
            let _ = write!(line, " < {} rows", lines(input));
        }
        let line = line.replace(&*self.root.to_string_lossy(), "$ROOT");
        let line = self.out.styled(Style::new().bold(), &line);
        self.out.line(&format!("   {line}"))?;
        let output = self.run(args, input)?;
        for text in [&output.stdout, &output.stderr] {
            for line in String::from_utf8_lossy(text).lines() {
                self.note(line)?;
            }
        }
        if let Some(code) = output.status.code().filter(|&code| code != 0) {
            self.note(&format!("(exit status {code})"))?;
        }
        expect(matches!(output.status.code(), Some(0 | 3)), "a step of the tour failed")?;
        Ok(output)
    }

    fn run(&self, args: &[&str], input: &[u8]) -> Result<Output, Failure> {
        let failed = |error| Failure::io("running a step of the tour failed", error, "run the demo again");
        let mut child = Command::new(&self.program)
            .arg("--root")
            .arg(&self.root)
            .args(args)
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input).map_err(failed)?;
        }
        child.wait_with_output().map_err(failed)
    }

    fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.step = self.step.saturating_add(1);
        let head = self.out.styled(AnsiColor::Cyan.on_default().bold(), &format!("{}. {text}", self.step));
        self.out.line("")?;
        self.out.line(&head)?;
        self.out.flush()
    }

    fn note(&mut self, text: &str) -> Result<(), Failure> {
        let text = text.replace(&*self.root.to_string_lossy(), "$ROOT");
        self.out.line(&format!("     {}", clean(&text)))?;
        self.out.flush()
    }
}

fn expect(holds: bool, what: &str) -> Result<(), Failure> {
    if holds {
        Ok(())
    } else {
        Err(Failure::new(format!("the tour went wrong: {what}"), "report this as a bug"))
    }
}

fn lines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

/// The writer: appends turns, acknowledges each, and stops for ever when half of the last one is written.
pub(crate) fn write_until_killed(args: &WriterArgs) -> Done {
    let disk = Arc::new(StallingDisk::new(args.whole, || {
        let mut out = Out::new();
        // The parent waits for these words; if it is gone, there is nobody to tell.
        let _ = out.line("half of the next append is written");
        let _ = out.flush();
        loop {
            thread::sleep(Duration::from_secs(60));
        }
    }));
    let store = FileStore::on_disk(disk, &args.store, StoreOptions::default());
    let handle = store.open(&Text::from(args.id.as_str()), SessionAccess::Write)?;
    for number in 3_u64.. {
        let first = handle.next_seq().unwrap_or(0);
        let mut rows = Vec::new();
        for (seq, line) in (first..).zip(turn(number).lines()) {
            let mut row = Vec::new();
            let bad =
                |fault| Failure::new(format!("a row of the demo is none: {fault}"), "report this as a bug");
            let seq = Seq::new(seq).ok_or_else(|| Failure::new("the log is full", "start a new session"))?;
            Draft::parse(line.as_bytes(), &LIMITS).map_err(bad)?.write(seq, now(), &mut row).map_err(bad)?;
            rows.push(row);
        }
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        handle.append(&rows)?;
        let mut out = Out::new();
        out.line(&format!("appended {}, next seq {}", rows.len(), handle.next_seq().unwrap_or(0)))?;
        out.flush()?;
    }
    Ok(Outcome::Clean)
}

/// The rows of one turn of a conversation, without seqs and times.
fn turn(number: u64) -> String {
    let question = format!("How many of the tests of step {number} pass?");
    let answer = format!("All of them: I ran the suite twice, and step {number} was green both times.");
    let block = format!("{{\"type\":\"text\",\"text\":\"{answer}\"}}");
    format!(
        concat!(
            "{{\"type\":\"turn/start\",\"data\":{{\"turn\":{n}}}}}\n",
            "{{\"type\":\"user/message\",\"data\":{{\"id\":\"user-{n}\",\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"{question}\"}}],",
            "\"source\":{{\"kind\":\"user\"}}}},\"surfaceOp\":\"append\"}}\n",
            "{{\"type\":\"step/start\",\"data\":{{\"turn\":{n},\"step\":1}}}}\n",
            "{{\"type\":\"assistant/message\",\"data\":{{\"turn\":{n},\"step\":1,\"message\":{{\"id\":\"assistant-{n}\",\"role\":\"assistant\",",
            "\"content\":[{block}],\"source\":{{\"kind\":\"model\",\"provider\":\"demo\",\"model\":\"demo\"}}}},\"stream\":[",
            "{{\"type\":\"chunk\",\"time\":0,\"chunk\":{{\"type\":\"block-start\",\"index\":0,\"blockType\":\"text\"}}}},",
            "{{\"type\":\"text-chunks\",\"time0\":0,\"index\":0,\"dt\":[],\"texts\":[\"{answer}\"]}},",
            "{{\"type\":\"chunk\",\"time\":0,\"chunk\":{{\"type\":\"block-end\",\"index\":0,\"block\":{block}}}}},",
            "{{\"type\":\"chunk\",\"time\":0,\"chunk\":{{\"type\":\"finish\",\"reason\":{{\"kind\":\"stop\"}}}}}}]}},\"surfaceOp\":\"append\"}}\n",
            "{{\"type\":\"step/end\",\"data\":{{\"turn\":{n},\"step\":1}}}}\n",
            "{{\"type\":\"turn/end\",\"data\":{{\"turn\":{n},\"reason\":{{\"kind\":\"completed\"}}}}}}\n",
        ),
        n = number,
        question = question,
        answer = answer,
        block = block,
    )
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use seslog::format::{Restore, Validation};
    use seslog::row::Recovery;

    use super::*;

    #[test]
    fn the_turns_make_a_log_that_a_host_accepts() {
        let header =
            br#"{"type":"session","version":2,"id":"d","createdAt":5,"isSeeded":false,"delegationDepth":0}"#;
        let mut restore = Restore::new(header, Recovery::Strict, Validation::Current, &LIMITS).unwrap();
        let mut sink = |_: &seslog::format::TargetRow<'_>| ControlFlow::Continue(());
        for (seq, line) in (0..).zip([turn(1), turn(2)].concat().lines()) {
            let mut row = Vec::new();
            Draft::parse(line.as_bytes(), &LIMITS)
                .unwrap()
                .write(Seq::new(seq).unwrap(), now(), &mut row)
                .unwrap();
            assert!(restore.push(&row, &mut sink).unwrap().is_continue());
        }
        assert_eq!(restore.finish(&mut sink).unwrap().events, 2 * TURN_EVENTS);
    }
}
