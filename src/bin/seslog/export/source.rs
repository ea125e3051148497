use std::ops::ControlFlow;

use seslog::Error;
use seslog::export::Redactor;
use seslog::json::Text;
use seslog::row::{Event, Header};
use seslog::store::{Item, LogFile, Report, ScanOptions, scan};

use crate::current;
use crate::failure::Failure;
use crate::out::talk;
use crate::progress::Progress;
use crate::root::{LIMITS, Root};
use crate::target::Target;

/// A log that is exported.
#[derive(Debug)]
pub(super) struct Source {
    target: Target,
    log: LogFile,
    header: Header,
    is_raw: bool,
}

/// One line of an export.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line<'l> {
    /// The header record.
    Header(&'l [u8]),
    /// An event as it may be shown, and as it is stored: for what is no text, like times.
    Event { shown: &'l [u8], stored: &'l Event<'l> },
    /// A row that is not looked into.
    Raw(&'l [u8]),
}

impl<'l> Line<'l> {
    /// As it may be shown.
    pub(super) const fn text(self) -> &'l [u8] {
        match self {
            Self::Header(text) | Self::Raw(text) | Self::Event { shown: text, .. } => text,
        }
    }
}

impl Source {
    /// Opens what `target` means: as a log of the current generation, or with `is_raw` as it is stored.
    pub(super) fn open(root: &Root, target: Target, is_raw: bool) -> Result<Self, Failure> {
        let log = current::open(root, &target)?;
        let header = if is_raw {
            Header::parse(&log.header_line()?, &LIMITS).map_err(|fault| {
                let what = format!("{}: the header cannot be read: {fault}", log.path().display());
                Failure::new(what, "`seslog cat --rows` shows what can be shown")
            })?
        } else {
            current::header(&log)?
        };
        Ok(Self { target, log, header, is_raw })
    }

    pub(super) const fn target(&self) -> &Target {
        &self.target
    }

    pub(super) const fn log(&self) -> &LogFile {
        &self.log
    }

    /// In the generation that is exported.
    pub(super) const fn header(&self) -> &Header {
        &self.header
    }

    pub(super) const fn id(&self) -> &Text {
        self.header.id()
    }

    /// Gives all lines to `sink`; says how the log ended.
    pub(super) fn each_line(
        &self,
        redactor: Option<&mut Redactor>,
        sink: &mut dyn FnMut(Line<'_>) -> Result<(), Failure>,
    ) -> Result<Report, Failure> {
        let mut progress = Progress::new(1, self.log.stamp().size, false);
        let report = if self.is_raw {
            self.rows(&mut progress, sink)
        } else {
            self.events(&mut progress, redactor, sink)
        }?;
        match report.end_error(&self.log) {
            // What is lost there may have been acknowledged: the export would not be complete.
            Some(error @ Error::DamagedTail { .. }) => Err(error.into()),
            _ => Ok(report),
        }
    }

    fn events(
        &self,
        progress: &mut Progress,
        mut redactor: Option<&mut Redactor>,
        sink: &mut dyn FnMut(Line<'_>) -> Result<(), Failure>,
    ) -> Result<Report, Failure> {
        let (mut header, mut shown) = (Vec::new(), Vec::new());
        self.header.write(&mut header);
        if let Some(redactor) = &mut redactor {
            let line = std::mem::take(&mut header);
            redactor.header(&String::from_utf8_lossy(&line), &mut header);
        }
        sink(Line::Header(&header))?;
        let (report, _) = current::rows(&self.log, progress, &mut |line| {
            let event = current::event(&self.log, line)?;
            match &mut redactor {
                Some(redactor) => {
                    shown.clear();
                    redactor.event(&event, &mut shown);
                    sink(Line::Event { shown: &shown, stored: &event })?;
                }
                None => sink(Line::Event { shown: line, stored: &event })?,
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(report)
    }

    fn rows(
        &self,
        progress: &mut Progress,
        sink: &mut dyn FnMut(Line<'_>) -> Result<(), Failure>,
    ) -> Result<Report, Failure> {
        let mut failed = None;
        let report = scan(&self.log, ScanOptions::STRICT, &mut |item| {
            let line = match item {
                Item::Header { line, .. } => Line::Header(line),
                Item::Row { row, place } => {
                    progress.at(place.file_at);
                    Line::Raw(row.line().as_bytes())
                }
                // What is damaged fails the export below; what is only not known goes along.
                Item::Bad { line, fault, .. } if !fault.kind().is_damage() => Line::Raw(line),
                Item::Opaque { line, .. } => Line::Raw(line),
                _ => return Ok(ControlFlow::Continue(())),
            };
            Ok(sink(line).map_or_else(
                |failure| {
                    failed = Some(failure);
                    ControlFlow::Break(())
                },
                ControlFlow::Continue,
            ))
        })?;
        if let Some(failure) = failed {
            return Err(failure);
        }
        match report.require(&self.log) {
            Err(Error::FormatUnsupported { path, reason }) => {
                talk::warning(&format!("{}: {reason}; exported as it is", path.display()));
                Ok(report)
            }
            Err(error) => Err(error.into()),
            Ok(()) => Ok(report),
        }
    }
}
