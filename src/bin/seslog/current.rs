//! Any log as one of the current generation: as it is, or converted on the way.

use std::ops::ControlFlow;

use seslog::format::inventory::Inventory;
use seslog::format::{Refusal, Restore, Restored, Validation};
use seslog::row::{Check, Event, Header, PhysicalRow, Recovery};
use seslog::session::Log;
use seslog::store::layout::printable;
use seslog::store::{Item, LogFile, Report, ScanOptions, scan};
use seslog::units::Generation;
use seslog::{Error, Unsupported};

use crate::failure::{Failure, chain, next_step, quoted};
use crate::out::talk;
use crate::progress::Progress;
use crate::root::{LIMITS, Root};
use crate::target::Target;

/// Takes the rows of the current generation in order, without their newlines.
pub(crate) type Sink<'s> = &'s mut dyn FnMut(&[u8]) -> Result<ControlFlow<()>, Failure>;

/// Opens the log that `target` means, and checks that it is what its name and its place say.
///
/// # Errors
/// [`Failure`] for one that is not, and what opening gives.
pub(crate) fn open(root: &Root, target: &Target) -> Result<LogFile, Failure> {
    let log = target.open(root)?;
    log.check_encoding()?;
    if let Ok(header) = Header::parse(&log.header_line()?, log.limits()) {
        log.check_name(header.generation())?;
        target.check_place(root, &header)?;
    }
    Ok(log)
}

/// All events of `log` in memory, each of them understood.
///
/// # Errors
/// As [`rows`] and [`event`].
pub(crate) fn load(log: &LogFile) -> Result<(Log, Report), Failure> {
    let mut progress = Progress::new(1, log.stamp().size, false);
    let mut events = Log::new();
    let (report, _) = rows(log, &mut progress, &mut |line| {
        event(log, line)?;
        events.push(line, Check::Envelope, &LIMITS).map_err(not_a_row)?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((events, report))
}

/// A row that [`rows`] gave, as an event that this build understands or may pass over.
///
/// # Errors
/// [`Error::FormatUnsupported`] for one that may change what others mean.
pub(crate) fn event<'r>(log: &LogFile, line: &'r [u8]) -> Result<Event<'r>, Failure> {
    let event = Event::read(line, Check::Envelope, &LIMITS).map_err(not_a_row)?;
    let row = PhysicalRow::Event(event);
    let Some(unknown) = Inventory::of(Generation::CURRENT).unknown_event(&row) else { return Ok(event) };
    let event_type = printable(&unknown.event_type().to_text());
    let reason = Unsupported::EventType { seq: unknown.seq().get(), event_type };
    Err(Error::FormatUnsupported { path: log.path().to_path_buf(), reason }.into())
}

/// Says what is wrong with the end of the log, if anything is, and whether it is.
pub(crate) fn tell_end(log: &LogFile, report: &Report) -> bool {
    let end = report.end_error(log);
    if let Some(error) = &end {
        talk::warning(&chain(error));
        next_step(error).into_iter().for_each(|step| talk::next(&step));
    }
    end.is_some()
}

fn not_a_row(fault: seslog::row::RowFault) -> Failure {
    Failure::new(format!("a converted row is none: {fault}"), "report this as a bug")
}

/// The header of `log` in the current generation, and whether that is its own.
///
/// # Errors
/// [`Failure`] for a header that this build does not convert.
pub(crate) fn header(log: &LogFile) -> Result<Header, Failure> {
    let line = log.header_line()?;
    let restore = Restore::new(&line, Recovery::Recoverable, Validation::Transformed, log.limits());
    restore.map(|restore| restore.header().clone()).map_err(|refusal| refused(log, &refusal))
}

/// Gives the rows of `log` in the current generation to `sink`.
///
/// A refusal may come as late as the last row: what the sink took is a log only if this returns. A torn end is cut, and the
/// report says so.
///
/// # Errors
/// [`Failure`]: damage, a log that this build does not convert, and what the sink returns.
pub(crate) fn rows(
    log: &LogFile,
    progress: &mut Progress,
    sink: Sink<'_>,
) -> Result<(Report, Restored), Failure> {
    let mut restore = None;
    let mut failed = None;
    let mut line = Vec::new();
    let mut step = |failed: &mut Option<Failure>, row: &seslog::format::TargetRow<'_>| {
        line.clear();
        row.write_to(&mut line);
        sink(&line).unwrap_or_else(|failure| {
            *failed = Some(failure);
            ControlFlow::Break(())
        })
    };
    let report = scan(log, ScanOptions::STRICT, &mut |item| {
        let pushed = match item {
            Item::Header { line, .. } => {
                let started =
                    Restore::new(line, Recovery::Recoverable, Validation::Transformed, log.limits());
                started.map(|started| {
                    restore = Some(started);
                    ControlFlow::Continue(())
                })
            }
            Item::Row { row, place } => {
                progress.at(place.file_at);
                match &mut restore {
                    Some(restore) => restore.push(row.line().as_bytes(), &mut |row| step(&mut failed, row)),
                    None => Ok(ControlFlow::Break(())),
                }
            }
            _ => Ok(ControlFlow::Continue(())),
        };
        Ok(pushed.unwrap_or_else(|refusal| {
            failed = Some(refused(log, &refusal));
            ControlFlow::Break(())
        }))
    })?;
    report.require(log)?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    let Some(mut restore) = restore else {
        return Err(Failure::new(format!("{}: there is no header", log.path().display()), "check the file"));
    };
    let finished = restore.finish(&mut |row| step(&mut failed, row));
    match (failed, finished) {
        (Some(failure), _) => Err(failure),
        (None, Err(refusal)) => Err(refused(log, &refusal)),
        (None, Ok(restored)) => Ok((report, restored)),
    }
}

fn refused(log: &LogFile, refusal: &Refusal) -> Failure {
    let path = log.path();
    Failure::new(
        format!("{}: it cannot be read as the current generation: {refusal}", path.display()),
        format!(
            "the log is left as it is; `seslog cat --rows {}` shows its rows as they are stored",
            quoted(path)
        ),
    )
}
