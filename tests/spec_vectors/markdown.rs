//! The Markdown of `format-spec/`, as far as it uses it: headings, tables, fences.

use std::fs;
use std::path::PathBuf;

use crate::hex;

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/format-spec"))
}

/// The numbered texts and the introduction.
pub(crate) const TEXTS: [&str; 10] = [
    "README.md",
    "01-container.md",
    "02-frames.md",
    "03-trailer.md",
    "04-rows.md",
    "05-append-and-repair.md",
    "06-migration.md",
    "07-inventory.md",
    "08-exports.md",
    "09-caches.md",
];

pub(crate) struct Doc {
    pub(crate) name: String,
    lines: Vec<String>,
}

impl Doc {
    pub(crate) fn read(name: &str) -> Self {
        let path = folder().join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { name: name.to_owned(), lines: text.lines().map(str::to_owned).collect() }
    }

    pub(crate) fn headings(&self) -> Vec<&str> {
        let headings = self.lines.iter().filter(|line| line.starts_with('#'));
        headings.map(|line| line.trim_start_matches('#').trim()).collect()
    }

    /// The lines under `heading`, up to the next heading.
    fn section(&self, heading: &str) -> &[String] {
        let is_heading = |line: &String| line.starts_with('#');
        let named = |line: &String| is_heading(line) && line.trim_start_matches('#').trim() == heading;
        let start = self.lines.iter().position(named);
        let start = start.unwrap_or_else(|| panic!("{} has no section {heading:?}", self.name)) + 1;
        let len = self.lines[start..].iter().position(is_heading).unwrap_or(self.lines.len() - start);
        &self.lines[start..start + len]
    }

    /// The tables under `heading`.
    pub(crate) fn tables(&self, heading: &str) -> Vec<Table> {
        let mut tables: Vec<Table> = Vec::new();
        let mut open = false;
        for line in self.section(heading) {
            match (line.starts_with('|'), open) {
                (true, false) => tables.push(Table { columns: cells(line), rows: Vec::new() }),
                (true, true) if !line.starts_with("|---") => {
                    let row = cells(line);
                    let table = tables.last_mut().expect("a table is open");
                    assert_eq!(row.len(), table.columns.len(), "{}, {heading}: {line}", self.name);
                    table.rows.push(row);
                }
                _ => {}
            }
            open = line.starts_with('|');
        }
        tables
    }

    /// The only table under `heading`.
    pub(crate) fn table(&self, heading: &str) -> Table {
        let mut tables = self.tables(heading);
        assert_eq!(tables.len(), 1, "{}, {heading}", self.name);
        tables.remove(0)
    }

    /// The bytes of the fence that opens with ```` ```hex label ````.
    pub(crate) fn hex(&self, label: &str) -> Vec<u8> {
        let fence = format!("```hex {label}");
        let start = self.lines.iter().position(|line| *line == fence);
        let start = start.unwrap_or_else(|| panic!("{} has no fence {label:?}", self.name)) + 1;
        let len = self.lines[start..].iter().position(|line| line == "```").expect("the fence ends");
        hex::parse(&self.lines[start..start + len].join("\n"))
    }

    /// The lines of the JSON fences under `heading`.
    pub(crate) fn json_lines(&self, heading: &str) -> Vec<&str> {
        self.json_fences(heading).concat()
    }

    /// The JSON fences under `heading`, each as its lines.
    pub(crate) fn json_fences(&self, heading: &str) -> Vec<Vec<&str>> {
        let mut inside = false;
        let mut found = Vec::new();
        for line in self.section(heading) {
            match (line.as_str(), inside) {
                ("```json", false) => {
                    inside = true;
                    found.push(Vec::new());
                }
                ("```", true) => inside = false,
                (line, true) => found.last_mut().expect("a fence is open").push(line),
                _ => {}
            }
        }
        found
    }

    /// The sentences outside code fences; a table cell and a list item begin sentences of their own.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut paragraphs = vec![String::new()];
        let mut fenced = false;
        for line in &self.lines {
            if line.starts_with("```") {
                fenced = !fenced;
            } else if !fenced {
                let breaks = line.is_empty() || line.starts_with(['|', '-', '#']) || starts_numbered(line);
                if breaks {
                    paragraphs.push(String::new());
                }
                if line.starts_with('|') {
                    paragraphs.extend(cells(line));
                    paragraphs.push(String::new());
                } else {
                    let paragraph = paragraphs.last_mut().expect("never empty");
                    paragraph.push(' ');
                    paragraph.push_str(line.trim());
                }
            }
        }
        let ends = [". ", "; ", ": "];
        let mut sentences = Vec::new();
        for paragraph in paragraphs {
            let mut rest = paragraph.as_str();
            while let Some(at) = ends.iter().filter_map(|end| rest.find(end)).min() {
                sentences.push(rest[..=at].trim().to_owned());
                rest = &rest[at + 1..];
            }
            sentences.push(rest.trim().to_owned());
        }
        sentences.retain(|sentence| !sentence.is_empty());
        sentences
    }
}

fn starts_numbered(line: &str) -> bool {
    line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// The cells of the named columns, row by row.
    pub(crate) fn select<const N: usize>(&self, names: [&str; N]) -> Vec<[String; N]> {
        let at = names.map(|name| {
            let at = self.columns.iter().position(|column| column == name);
            at.unwrap_or_else(|| panic!("no column {name:?} in {:?}", self.columns))
        });
        self.rows.iter().map(|row| at.map(|at| row[at].clone())).collect()
    }
}

fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// The text of a cell that is one code span; empty for an empty one.
pub(crate) fn code(cell: &str) -> &str {
    cell.trim_matches('`')
}
