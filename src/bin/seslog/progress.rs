//! A progress bar on stderr, for work that takes longer than a second and a person who watches.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How far the work is, in bytes and in files.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    bar: Option<ProgressBar>,
    may_show: bool,
    total: u64,
    /// Bytes of files that are done.
    before: u64,
    /// Where the bar stood when it was moved last.
    shown: u64,
    files: (u64, u64),
}

/// Nothing is drawn before.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes between two looks at the clock.
const STEP: u64 = 1 << 20;

impl Progress {
    /// Work on `files` files of `total` bytes. `quiet` keeps it silent: when the data itself goes to the terminal.
    pub(crate) fn new(files: u64, total: u64, quiet: bool) -> Self {
        let may_show = !quiet && std::io::stderr().is_terminal();
        Self { started: Instant::now(), bar: None, may_show, total, before: 0, shown: 0, files: (0, files) }
    }

    /// The work stands at byte `at` of the present file.
    pub(crate) fn at(&mut self, at: u64) {
        let position = self.before.saturating_add(at);
        if !self.may_show || position < self.shown.saturating_add(STEP) {
            return;
        }
        self.shown = position;
        if self.bar.is_none() && self.started.elapsed() >= PATIENCE {
            self.bar = Some(self.draw());
        }
        if let Some(bar) = &self.bar {
            bar.set_position(position);
        }
    }

    /// Time went by: the bar appears when it should, and shows it.
    pub(crate) fn tick(&mut self) {
        if self.may_show && self.bar.is_none() && self.started.elapsed() >= PATIENCE {
            self.bar = Some(self.draw());
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.before);
        }
    }

    /// The present file, of `size` bytes, is done.
    pub(crate) fn file_done(&mut self, size: u64) {
        self.before = self.before.saturating_add(size);
        self.files.0 = self.files.0.saturating_add(1);
        self.at(0);
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}/{} files", self.files.0, self.files.1));
        }
    }

    /// Runs `print` while the bar is out of the way.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Takes the bar away: what follows is the summary.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.may_show = false;
    }

    fn draw(&self) -> ProgressBar {
        let template = "{bar:20} {bytes}/{total_bytes} {bytes_per_sec} {eta} left  {msg}";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar =
            ProgressBar::with_draw_target(Some(self.total), ProgressDrawTarget::stderr()).with_style(style);
        bar.with_elapsed(self.started.elapsed())
            .with_message(format!("{}/{} files", self.files.0, self.files.1))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
