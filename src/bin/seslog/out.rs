//! What goes out: data on a buffered stdout, talk on stderr. Nothing from a log drives a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};
use std::path::Path;

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use seslog::json::Text;
use seslog::store::layout::printable;

use crate::failure::Failure;

/// Bytes that are collected before they are written.
const BUFFER_LEN: usize = 256 << 10;

/// Standard output. A write to a pipe that nobody reads comes back as [`Failure::ClosedPipe`].
#[derive(Debug)]
pub(crate) struct Out {
    writer: BufWriter<Stdout>,
    styled: bool,
    is_terminal: bool,
}

impl Out {
    /// Standard output, of which a program has one.
    pub(crate) fn new() -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let writer = BufWriter::with_capacity(BUFFER_LEN, stdout);
        Self { writer, styled: is_styled(), is_terminal }
    }

    /// Whether a person looks at it directly.
    pub(crate) const fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes bytes as they are: log data, JSON.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes).map_err(Failure::stdout)
    }

    /// Writes a log line and its newline.
    pub(crate) fn row(&mut self, line: &[u8]) -> Result<(), Failure> {
        self.bytes(line)?;
        self.bytes(b"\n")
    }

    /// Writes a log line for whoever reads it: as it is, but for a terminal with what could drive it as JSON escapes.
    pub(crate) fn log_row(&mut self, line: &[u8]) -> Result<(), Failure> {
        if self.is_terminal { self.line(&for_a_terminal(line)) } else { self.row(line) }
    }

    /// Writes a line for people.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.row(text.as_bytes())
    }

    /// `text` in `style`, if stdout shows colours.
    pub(crate) fn styled(&self, style: Style, text: &str) -> String {
        if self.styled { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Whether nobody reads any more what goes out, as far as that shows before something is written.
    pub(crate) fn is_abandoned(&self) -> bool {
        let mut looked = [PollFd::new(self.writer.get_ref(), PollFlags::empty())];
        let gone = PollFlags::ERR | PollFlags::HUP;
        poll(&mut looked, Some(&Timespec::default())).is_ok()
            && looked.iter().any(|looked| looked.revents().intersects(gone))
    }

    /// Writes what was collected.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(Failure::stdout)
    }
}

/// Whether stdout shows colours.
pub(crate) fn is_styled() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}

/// A table for people: columns as wide as their widest cell, two spaces between, numbers to the right.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<(&'static str, Align)>,
    rows: Vec<Vec<(String, Option<Style>)>>,
}

/// Where a cell's text stands in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// At the left edge.
    Left,
    /// At the right edge.
    Right,
}

impl Table {
    /// A table with these column heads.
    pub(crate) fn new(heads: &[(&'static str, Align)]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, one cell a column. Cells are printable already.
    pub(crate) fn push(&mut self, cells: Vec<(String, Option<Style>)>) {
        self.rows.push(cells);
    }

    /// Writes the heads and all rows.
    pub(crate) fn write(&self, out: &mut Out) -> Result<(), Failure> {
        write_table(out, &self.heads, &self.rows, Clone::clone)
    }
}

/// Writes a table whose rows are made of `items` when they are needed, twice: as long tables need no memory then.
pub(crate) fn write_table<T>(
    out: &mut Out,
    heads: &[(&'static str, Align)],
    items: &[T],
    row: impl Fn(&T) -> Vec<(String, Option<Style>)>,
) -> Result<(), Failure> {
    let head_style = Style::new().bold();
    let mut widths: Vec<usize> = heads.iter().map(|(head, _)| width(head)).collect();
    for item in items {
        for (widest, (text, _)) in widths.iter_mut().zip(row(item)) {
            *widest = width(&text).max(*widest);
        }
    }
    let mut write = |row: &[(String, Option<Style>)]| {
        let mut line = String::new();
        let last = row.len().saturating_sub(1);
        for (column, (text, style)) in row.iter().enumerate() {
            let align = heads.get(column).map_or(Align::Left, |(_, align)| *align);
            let space = widths.get(column).copied().unwrap_or(0).saturating_sub(width(text));
            let shown = style.map_or_else(|| text.clone(), |style| out.styled(style, text));
            if align == Align::Right {
                line.extend(std::iter::repeat_n(' ', space));
            }
            line.push_str(&shown);
            if column < last {
                let behind = if align == Align::Left { space } else { 0 };
                line.extend(std::iter::repeat_n(' ', behind.saturating_add(2)));
            }
        }
        out.line(&line)
    };
    let heads: Vec<_> = heads.iter().map(|(head, _)| ((*head).to_owned(), Some(head_style))).collect();
    write(&heads)?;
    items.iter().try_for_each(|item| write(&row(item)))
}

/// Columns of a terminal that `text` takes, nearly: characters from the wide blocks count two.
fn width(text: &str) -> usize {
    /// Blocks whose characters are two columns wide: East Asian scripts and emoji.
    const WIDE: [(u32, u32); 8] = [
        (0x1100, 0x115f),
        (0x2e80, 0xa4cf),
        (0xac00, 0xd7a3),
        (0xf900, 0xfaff),
        (0xfe30, 0xfe6f),
        (0xff00, 0xff60),
        (0x1f300, 0x1faff),
        (0x20000, 0x3fffd),
    ];
    let wide = |char: char| WIDE.iter().any(|&(first, last)| (first..=last).contains(&u32::from(char)));
    text.chars().map(|char| if wide(char) { 2 } else { 1 }).sum()
}

/// Any text as a person may see it: control characters escaped.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(printable(&Text::from(text)))
    }
}

/// A line of a log as a terminal may see it: what could drive it stands as JSON escapes, which in a string mean the same.
fn for_a_terminal(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        match clean(char.encode_utf8(&mut [0; 4])) {
            Cow::Owned(changed) if !changed.contains(char) => {
                let _ = write!(shown, "\\u{:04x}", u32::from(char));
            }
            _ => shown.push(char),
        }
    }
    shown
}

/// A path as a person may see it.
pub(crate) fn clean_path(path: &Path) -> String {
    clean(&path.to_string_lossy()).into_owned()
}

/// A number of bytes in the unit that suits it.
pub(crate) fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    // In tenths of the unit, rounded.
    let mut tenths = bytes.saturating_add(50) / 100;
    let mut unit = 0_usize;
    while tenths >= 10_000 && unit < UNITS.len().saturating_sub(1) {
        tenths = tenths.saturating_add(500) / 1000;
        unit = unit.saturating_add(1);
    }
    let name = UNITS.get(unit).copied().unwrap_or("TB");
    if tenths >= 1000 {
        format!("{} {name}", tenths / 10)
    } else {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    }
}

/// A time in the local zone, to the second.
pub(crate) fn human_time(unix_ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(unix_ms) {
        Ok(time) => {
            time.to_zoned_datetime(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
        }
        Err(_) => format!("{unix_ms} ms"),
    }
}

/// Milliseconds in the unit that suits them.
pub(crate) fn human_duration(ms: i64) -> String {
    let (sign, ms) = (if ms < 0 { "-" } else { "" }, ms.unsigned_abs());
    match ms {
        0..1000 => format!("{sign}{ms} ms"),
        1000..60_000 => format!("{sign}{}.{} s", ms / 1000, ms % 1000 / 100),
        60_000..3_600_000 => format!("{sign}{} min {:02} s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{sign}{} h {:02} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// A count with its noun.
pub(crate) fn counted(count: u64, one: &str, more: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {more}") }
}

/// Talk: stderr, in colour where it is a terminal.
pub(crate) mod talk {
    use std::io::Write as _;

    use anstyle::{AnsiColor, Style};

    use super::clean;

    /// Something failed.
    pub(crate) fn error(text: &str) {
        say(AnsiColor::Red.on_default().bold(), "error", text);
    }

    /// Something is not as it should be, and the work goes on.
    pub(crate) fn warning(text: &str) {
        say(AnsiColor::Yellow.on_default().bold(), "warning", text);
    }

    /// Something worth knowing.
    pub(crate) fn note(text: &str) {
        say(Style::new().bold(), "note", text);
    }

    /// More about what was said last.
    pub(crate) fn detail(text: &str) {
        put(&format!("  {}", clean(text)));
    }

    /// Why something failed.
    pub(crate) fn cause(text: &str) {
        put(&format!("  because: {}", clean(text)));
    }

    /// What to do next.
    pub(crate) fn next(text: &str) {
        put(&format!("  next: {}", clean(text)));
    }

    fn say(style: Style, word: &str, text: &str) {
        put(&format!("seslog: {style}{word}{style:#}: {}", clean(text)));
    }

    fn put(line: &str) {
        // Nobody is left to be told that stderr is gone.
        let _ = writeln!(anstream::stderr().lock(), "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well_at_every_border() {
        for (bytes, shown) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KB"),
            (99_949, "99.9 KB"),
            (99_950, "100 KB"),
            (999_949, "999 KB"),
            (999_950, "1.0 MB"),
            (123_456_789, "123 MB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(human_bytes(bytes), shown);
        }
    }

    #[test]
    fn durations_read_well_at_every_border() {
        for (ms, shown) in [
            (0, "0 ms"),
            (-7, "-7 ms"),
            (999, "999 ms"),
            (1000, "1.0 s"),
            (59_999, "59.9 s"),
            (60_000, "1 min 00 s"),
            (3_599_999, "59 min 59 s"),
            (3_660_000, "1 h 01 min"),
            (i64::MIN, "-2562047788015 h 12 min"),
        ] {
            assert_eq!(human_duration(ms), shown);
        }
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(clean("plain"), "plain");
        assert_eq!(clean("emoji-🔑"), "emoji-🔑");
        let line = "{\"a\":\"é\u{1b}[2J\u{202e}🔑\u{85}\"}".as_bytes();
        assert_eq!(for_a_terminal(line), "{\"a\":\"é\\u001b[2J\\u202e🔑\\u0085\"}");
        assert_eq!(for_a_terminal(b"\xff\x07"), "\u{fffd}\\u0007");
    }
}
