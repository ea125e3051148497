//! `turns`: a session's turns, and what each was about.

use std::ffi::OsString;
use std::ops::ControlFlow;

use seslog::store::history::{Turn, TurnIndex};

use crate::current;
use crate::failure::{Done, Outcome};
use crate::json::Object;
use crate::out::{Align, Out, Table, clean, human_duration, human_time, talk};
use crate::progress::Progress;
use crate::root::Root;
use crate::target::Target;

/// Lists the turns of a session: when, how long, how they ended, and how the human's prompt begins.
///
/// Older generations are shown converted; the log stays as it is. Seqs are what `cat --from` and `messages --at` take.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog turns 4f1c --tail 20")]
pub(crate) struct Args {
    /// A log file, a session folder, a session id or its beginning
    target: OsString,
    /// List the last turns only
    #[arg(long, value_name = "N")]
    tail: Option<usize>,
    /// One JSON object a turn
    #[arg(long)]
    json: bool,
}

/// Lists the turns of the session that `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let target = Target::resolve(root, &args.target)?;
    let log = current::open(root, &target)?;
    let mut index = TurnIndex::new(0);
    let mut progress = Progress::new(1, log.stamp().size, false);
    let (report, _) = current::rows(&log, &mut progress, &mut |line| {
        index.push(&current::event(&log, line)?);
        Ok(ControlFlow::Continue(()))
    })?;
    progress.finish();
    let skipped = args.tail.map_or(0, |tail| index.turns().len().saturating_sub(tail));
    let turns = index.turns().get(skipped..).unwrap_or_default();
    let mut out = Out::new();
    if args.json {
        turns.iter().try_for_each(|turn| out.bytes(&json(turn).into_line()))?;
    } else if !turns.is_empty() {
        table(turns).write(&mut out)?;
    }
    out.flush()?;
    if index.turns().is_empty() && !args.json {
        talk::note(&format!("{}: no turns", log.path().display()));
    }
    Ok(Outcome::marred_if(current::tell_end(&log, &report)))
}

fn json(turn: &Turn) -> Object {
    let mut object = Object::new();
    object.number("turn", turn.number).number("firstSeq", turn.first_seq).number("lastSeq", turn.last_seq);
    object.signed("startTime", turn.start_time.get());
    if let Some(end) = turn.end_time {
        object.signed("endTime", end.get());
    }
    object.number("steps", turn.steps).number("attempts", turn.attempts);
    for (name, text) in [("outcome", &turn.outcome), ("prompt", &turn.prompt)] {
        if let Some(text) = text {
            object.string(name, text);
        }
    }
    object
}

fn table(turns: &[Turn]) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("TURN", Right),
        ("SEQ", Right),
        ("START", Left),
        ("DURATION", Right),
        ("STEPS", Right),
        ("ATTEMPTS", Right),
        ("OUTCOME", Left),
        ("PROMPT", Left),
    ]);
    let text = |text: &Option<String>| {
        text.as_deref().map_or_else(|| "-".to_owned(), |text| clean(text).into_owned())
    };
    for turn in turns {
        // Where the clock stepped back there is no duration.
        let ms = turn.end_time.map(|end| end.get().saturating_sub(turn.start_time.get()));
        let cells = [
            turn.number.to_string(),
            turn.first_seq.to_string(),
            human_time(turn.start_time.get()),
            ms.filter(|ms| *ms >= 0).map_or_else(|| "-".to_owned(), human_duration),
            turn.steps.to_string(),
            turn.attempts.to_string(),
            text(&turn.outcome),
            text(&turn.prompt),
        ];
        table.push(cells.map(|cell| (cell, None)).to_vec());
    }
    table
}
