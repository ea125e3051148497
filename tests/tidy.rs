//! House rules, kept by an ordinary test. A rule is a function from a path and its text to findings; `planted` shows
//! that each rule finds what it is there for.

#[path = "tidy/links.rs"]
mod links;
#[path = "tidy/planted.rs"]
mod planted;
#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/tokens.rs"]
mod tokens;

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// The working tree as git sees it: tracked files and new ones that are not ignored.
static TREE: LazyLock<Vec<Entry>> = LazyLock::new(read_tree);

/// One file of the tree.
struct Entry {
    /// From the top of the checkout, with `/`.
    path: String,
    bytes: Vec<u8>,
}

impl Entry {
    /// The file's text, if it is text.
    fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read_tree() -> Vec<Entry> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(top())
        .output()
        .expect("git is installed");
    assert!(listed.status.success(), "not a checkout: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).expect("file names in the tree are UTF-8");
    names
        .split_terminator('\0')
        .filter_map(|path| {
            // A file deleted but not yet committed is listed and cannot be read.
            let bytes = fs::read(top().join(path)).ok()?;
            Some(Entry { path: path.to_owned(), bytes })
        })
        .collect()
}

/// Runs `rule` over every text file and fails with all that it found.
fn check(rule: impl Fn(&str, &str) -> Vec<String>) {
    let texts: Vec<(&str, &str)> =
        TREE.iter().filter_map(|entry| Some((entry.path.as_str(), entry.text()?))).collect();
    assert!(texts.len() > 10, "the tree was not read");
    report(&texts.iter().flat_map(|(path, text)| rule(path, text)).collect::<Vec<_>>());
}

fn report(findings: &[String]) {
    assert!(findings.is_empty(), "{} found:\n{}", findings.len(), findings.join("\n"));
}

fn paths() -> Vec<&'static str> {
    TREE.iter().map(|entry| entry.path.as_str()).collect()
}

#[test]
fn a_file_imports_only_from_layers_below_its_own() {
    check(rules::layers);
}

#[test]
fn decoders_open_no_files() {
    let texts = TREE.iter().filter_map(|entry| Some((entry.path.as_str(), entry.text()?)));
    let tests: Vec<String> = texts.flat_map(|(path, text)| rules::test_files(path, text)).collect();
    check(|path, text| {
        let shipped = !tests.iter().any(|test| test == path);
        if shipped { rules::no_files_in_decoders(path, text) } else { Vec::new() }
    });
}

#[test]
fn unsafe_stands_in_container_raw_only() {
    check(rules::unsafe_outside_raw);
}

#[test]
fn nothing_is_left_unfinished() {
    check(rules::unfinished);
}

#[test]
fn a_skipped_test_says_so_where_it_is_seen() {
    check(rules::captured_skips);
}

#[test]
fn no_file_names_a_registry_host_or_a_folder_of_one_machine() {
    check(rules::foreign_places);
}

#[test]
fn source_lines_are_at_most_140_columns() {
    check(rules::long_lines);
}

#[test]
fn text_files_end_in_one_newline_and_no_line_in_blanks() {
    check(rules::blanks);
}

#[test]
fn the_top_of_the_checkout_holds_only_what_belongs_there() {
    report(&rules::strangers_at_the_top(&paths()));
}

#[test]
fn relative_links_resolve() {
    let paths = paths();
    let text_of = |path: &str| TREE.iter().find(|entry| entry.path == path).and_then(Entry::text);
    check(|path, text| links::broken(path, text, &paths, &text_of));
}

#[test]
fn each_fuzz_target_has_an_entry_and_seeds() {
    let manifest = fs::read_to_string(top().join("fuzz/Cargo.toml")).expect("fuzz/Cargo.toml can be read");
    report(&rules::fuzz_targets(&paths(), &manifest));
}

#[test]
fn the_readme_gives_the_commands_that_ci_runs() {
    let read = |path| fs::read_to_string(top().join(path)).expect("the file can be read");
    report(&rules::readme_commands(&read("README.md"), &read(".ci/run")));
}

#[test]
fn the_toolchain_floor_is_the_same_everywhere() {
    let read = |path| fs::read_to_string(top().join(path)).expect("the file can be read");
    report(&rules::toolchain_floor(&read("Cargo.toml"), &read("CONTRIBUTING.md")));
}

#[test]
fn no_corpus_file_is_copied_into_the_tree() {
    let Some(shared) = common::shared() else { return };
    let mut corpus = Vec::new();
    let mut folders = vec![shared.join("corpus")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a corpus folder can be listed") {
            let path = entry.expect("a corpus entry can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).expect("a corpus file can be read");
                corpus.push((path.display().to_string(), bytes));
            }
        }
    }
    assert!(corpus.len() > 100, "the corpus was not read");
    let tree: Vec<(&str, &[u8])> = TREE.iter().map(|entry| (entry.path.as_str(), &*entry.bytes)).collect();
    report(&rules::copies(&tree, &corpus));
}
