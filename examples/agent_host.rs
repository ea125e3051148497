//! A small agent host, and the tour of the library: it streams a model's attempt, is killed in the middle of it, resumes,
//! forks, and checks both logs.
//!
//! ```sh
//! cargo run --example agent_host
//! ```
//!
//! The program starts itself once more with a folder as its argument: that process is the host which is killed.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seslog::container::disk::{Disk, OsDisk};
use seslog::json::{Text, write_string};
use seslog::limits::Limits;
use seslog::row::Header;
use seslog::session::{Intent, Session, Settings, fork_prefix};
use seslog::store::query::QueryOptions;
use seslog::store::{
    Cancel, FileStore, Host, LogFile, ReadMode, ScanOptions, SessionAccess, SessionPersistence, Verdict,
    no_setup, scan,
};
use seslog::stream::{Accumulator, Settlement, SettlementKind};
use seslog::units::{Generation, UnixMs};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const ID: &str = "tour";
const CHILD: &str = "tour-fork";

fn main() -> ExitCode {
    let toured = match std::env::args_os().nth(1) {
        Some(root) => doomed_host(Path::new(&root)),
        None => tour(),
    };
    match toured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the tour went wrong: {error}");
            ExitCode::FAILURE
        }
    }
}

fn tour() -> Outcome {
    let root = tempfile::tempdir()?;
    let store = FileStore::new(root.path());
    let never = Cancel::never();

    println!("1. A host answers one turn, and is killed while it streams the answer of the next.");
    kill_a_host(root.path())?;

    println!("2. What is stored? Anybody may look; reading takes no lock and changes nothing.");
    let reader = store.open(&Text::from(ID), SessionAccess::Read)?;
    let events = reader.read(0, u64::MAX)?;
    let host = host_on(&store);
    let query = host.query(QueryOptions::default());
    let seen = query.read(&Text::from(ID), &never)?;
    println!("   {} events; {} more would close the open turn", events.len(), seen.closers().len());
    ensure(events.len() == 9 && !seen.closers().is_empty(), "turn 1 and the start of turn 2")?;
    // The attempt that was streaming left nothing: it is stored whole, by its settlement, or not at all.
    ensure(settlements(&store, ID)? == 1, "the attempt of turn 1 and no other")?;

    println!("3. Another host resumes the session. What the crash left open is closed in the log.");
    let open = host.resume(&Text::from(ID), &mut no_setup, &never)?;
    let session = open.session();
    for event in session.log().suffix(events.len() as u64).iter() {
        println!("   {} {} {}", event.seq(), event.event_type().to_string_lossy(), event.data());
    }
    ensure(reader.read(0, u64::MAX)?.len() as u64 == session.next_seq(), "the closers are on disk")?;
    ensure(fork_prefix(&session.log(), None).is_ok(), "no turn is open any more")?;

    println!("4. The conversation goes on.");
    begin_turn(session, 3, "And now?")?;
    let answer = ["Now", " the", " tests", " are", " green", "."];
    print!("   ");
    stream(session, 3, &answer, |token| print!("{token}"))?;
    println!();
    end_turn(session, 3)?;
    open.flush(&never)?;
    println!("   {} messages for the model", session.messages().len());
    // The same question as before; the session answers now, not its log.
    ensure(query.read(&Text::from(ID), &never)?.live().is_some(), "it is live")?;

    println!("5. A fork begins with turn 1, and answers differently from there.");
    let end_of_turn_1 = 5;
    let child = host.fork(session, Some(end_of_turn_1), Text::from(CHILD), &mut no_setup, &never)?;
    begin_turn(child.session(), 2, "Are you sure?")?;
    stream(child.session(), 2, &["Yes", "."], |_| {})?;
    end_turn(child.session(), 2)?;
    let inherited = child.session().inherited_event_count();
    println!("   {inherited} of its {} events are inherited", child.session().next_seq());
    child.close()?;
    open.close()?;

    println!("6. Both logs are read from end to end.");
    ensure(
        verified(&store, ID)? == 18 && settlements(&store, ID)? == 2,
        "turns 1 and 3, and 2 without answer",
    )?;
    ensure(verified(&store, CHILD)? == 13 && settlements(&store, CHILD)? == 2, "turn 1, and one of its own")?;
    let id = Text::from(CHILD);
    let prefix = |id: &Text| store.open(id, SessionAccess::Read)?.read(0, inherited);
    ensure(prefix(&id)? == prefix(&Text::from(ID))?, "what is inherited is the parent's, byte for byte")
}

/// Runs [`doomed_host`] in a process of its own, and kills that when half of an attempt was streamed.
fn kill_a_host(root: &Path) -> Outcome {
    let mut host = Command::new(std::env::current_exe()?).arg(root).stdout(Stdio::piped()).spawn()?;
    let says = BufReader::new(host.stdout.take().ok_or("its stdout is a pipe")?);
    for line in says.lines() {
        let line = line?;
        println!("   process {}: {line}", host.id());
        if line.ends_with("…") {
            break;
        }
    }
    // SIGKILL: nothing of that host gets to run any more, no destructor either.
    host.kill()?;
    let status = host.wait()?;
    println!("   process {}: {status}", host.id());
    ensure(!status.success(), "it was killed")
}

/// The host that is killed: answers turn 1, begins turn 2, and streams for ever.
fn doomed_host(root: &Path) -> Outcome {
    let host = host_on(&FileStore::new(root));
    let header = Header::new(Generation::CURRENT, Text::from(ID), now())?;
    let open = host.create(header, &mut no_setup, &Cancel::never())?;
    let session = open.session();
    begin_turn(session, 1, "Do the tests pass?")?;
    stream(session, 1, &["They", " do", "."], |_| {})?;
    end_turn(session, 1)?;
    open.flush(&Cancel::never())?;
    println!("turn 1 is stored, {} events", session.next_seq());

    begin_turn(session, 2, "All of them?")?;
    // Before a model is asked, what it is asked is on disk.
    open.flush(&Cancel::never())?;
    let words = std::iter::repeat_n(" hmm", 1 << 20).collect::<Vec<_>>();
    let mut streamed = 0;
    stream(session, 2, &words, |_| {
        streamed += 1;
        if streamed == 40 {
            println!("turn 2: {streamed} tokens streamed, and more to come …");
            // Nobody is left to print for if the tour has ended.
            let _ = std::io::stdout().flush();
        }
        sleep(Duration::from_millis(1));
    })
}

fn host_on(store: &FileStore) -> Host {
    let store: Arc<dyn SessionPersistence> = Arc::new(store.clone());
    Host::new(store, Settings::new(now))
}

fn now() -> UnixMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMs::new(since.as_millis().try_into().unwrap_or(i64::MAX))
}

/// A user's question, and the step that will answer it.
fn begin_turn(session: &Session, turn: u64, question: &str) -> Outcome {
    session.append("turn/start", &format!("{{\"turn\":{turn}}}"), Intent::log_only())?;
    let message = format!(
        "{{\"id\":\"user-{turn}\",\"role\":\"user\",\"source\":{{\"kind\":\"user\"}},\"content\":[{}]}}",
        text_block(question)
    );
    session.append("user/message", &message, Intent::append())?;
    session.append("step/start", &format!("{{\"turn\":{turn},\"step\":1}}"), Intent::log_only())?;
    Ok(())
}

fn end_turn(session: &Session, turn: u64) -> Outcome {
    session.append("step/end", &format!("{{\"turn\":{turn},\"step\":1}}"), Intent::log_only())?;
    let reason = format!("{{\"turn\":{turn},\"reason\":{{\"kind\":\"completed\"}}}}");
    session.append("turn/end", &reason, Intent::log_only())?;
    Ok(())
}

/// One attempt of a model: its tokens as they come, shown by `show`, and at its end one event that holds them all with
/// their times.
fn stream(session: &Session, turn: u64, tokens: &[&str], mut show: impl FnMut(&str)) -> Outcome {
    let mut attempt = Accumulator::new();
    attempt.push_json(now(), br#"{"type":"block-start","index":0,"blockType":"text"}"#)?;
    for token in tokens {
        attempt.push_text(now(), 0, token)?;
        show(token);
    }
    let block = text_block(&tokens.concat());
    attempt
        .push_json(now(), format!("{{\"type\":\"block-end\",\"index\":0,\"block\":{block}}}").as_bytes())?;
    attempt.push_json(now(), br#"{"type":"finish","reason":{"kind":"stop"}}"#)?;
    let settlement = format!(
        "{{\"turn\":{turn},\"step\":1,\"message\":{{\"id\":\"assistant-{turn}\",\"role\":\"assistant\",\"content\":[{block}],\
         \"source\":{{\"kind\":\"model\",\"provider\":\"tour\",\"model\":\"tour-1\"}}}},\"stream\":{}}}",
        attempt.snapshot()
    );
    session.append("assistant/message", &settlement, Intent::append())?;
    Ok(())
}

fn text_block(text: &str) -> String {
    let mut block = b"{\"type\":\"text\",\"text\":".to_vec();
    write_string(&mut block, text);
    block.push(b'}');
    String::from_utf8_lossy(&block).into_owned()
}

/// Events of a log in which everything is in order.
fn verified(store: &FileStore, id: &str) -> Outcome<u64> {
    let path = store.stat(&Text::from(id))?.ok_or("it is stored")?.path;
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new());
    let log = LogFile::open(&disk, &path, Limits::DEFAULT, ReadMode::default())?;
    let report = scan(&log, ScanOptions::STRICT, &mut |_| Ok(ControlFlow::Continue(())))?;
    println!("   {id}: {:?}, {} events, {} inherited", report.verdict, report.events, report.inherited);
    ensure(report.verdict == Verdict::Sound, "every byte and every row is in order")?;
    Ok(report.events)
}

/// Attempts of a log whose streams say what their messages say.
fn settlements(store: &FileStore, id: &str) -> Outcome<u64> {
    let mut count = 0;
    for event in store.open(&Text::from(id), SessionAccess::Read)?.read(0, u64::MAX)?.iter() {
        if let Some(kind) = SettlementKind::of_event(&event.event_type().to_string_lossy()) {
            Settlement::read(kind, event.data())?.verify()?;
            count += 1;
        }
    }
    Ok(count)
}

fn ensure(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(format!("it does not hold that {what}").into()) }
}
