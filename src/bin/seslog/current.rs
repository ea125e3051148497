//! Any log as one of the current generation: as it is, or converted on the way.

use std::ops::ControlFlow;

use seslog::format::{Refusal, Restore, Restored, Validation};
use seslog::row::{Header, Recovery};
use seslog::store::{Item, LogFile, Report, ScanOptions, scan};

use crate::failure::{Failure, quoted};
use crate::progress::Progress;

/// Takes the rows of the current generation in order, without their newlines.
pub(crate) type Sink<'s> = &'s mut dyn FnMut(&[u8]) -> Result<ControlFlow<()>, Failure>;

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
