//! Each rule is shown what it is there to find, and what it must leave alone.

use crate::links;
use crate::rules;

/// Fails unless `found` holds one finding for each of `wanted`, in that order, that contains its text.
#[track_caller]
fn expect(found: &[String], wanted: &[&str]) {
    let fits =
        found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| found.contains(wanted));
    assert!(fits, "wanted {wanted:#?}\nfound {found:#?}");
}

#[test]
fn an_import_from_a_higher_layer() {
    let row = |text| rules::layers("src/row/range.rs", text);
    expect(&row("use crate::store::Store;"), &["range.rs:1: `row` must not use `crate::store`"]);
    expect(&row("\nfn f() -> crate::error::Error;"), &["range.rs:2: `row` must not use `crate::error`"]);
    expect(
        &row("use crate::{units::Seq, store::{self, units}, json, live};"),
        &["`crate::store`", "`crate::live`"],
    );
    expect(&row("use super::super::stream::X;"), &["`crate::stream`"]);
    expect(&row("mod tests { use super::super::super::session; }"), &["`crate::session`"]);
    expect(&row("use crate::*;"), &["`crate::*`"]);
    expect(&row("fn f() { crate::store::exported!() }"), &["`crate::store`"]);
    expect(&row("use crate::Limits;"), &["`crate::Limits`"]);
    expect(&row("use crate::container::zstd;"), &["`crate::container`"]);
    expect(&rules::layers("src/limits.rs", "use super::json;"), &["`limits` must not use `crate::json`"]);
    expect(&rules::layers("src/store/mod.rs", "use crate::fuzzing::x;"), &["`crate::fuzzing`"]);
    expect(&row("use crate::fuzzing::row;\n#[cfg(test)] mod tests {}"), &["`crate::fuzzing`"]);
    expect(&rules::layers("src/helpers.rs", ""), &["`helpers` is no known layer"]);
    expect(&rules::layers("src/stream/x.rs", "use crate::container::Frame;"), &["`crate::container`"]);
    expect(&rules::layers("src/stream/x.rs", "use crate::container::raw::map;"), &["`crate::container`"]);
}

#[test]
fn an_import_from_a_lower_layer_is_left_alone() {
    let clean = "
        //! See [`crate::store`].
        use crate::{json::{Node, Tape}, units::{self, Seq}};
        use super::header; // crate::store
        pub(crate) fn f() { let s = \"crate::store\"; super::super::limits::Limits::DEFAULT; }
        mod tests { use super::super::borrowed; use super::*; }";
    expect(&rules::layers("src/row/range.rs", clean), &[]);
    expect(&rules::layers("src/store/mod.rs", "use crate::error::Error; use super::format::v2;"), &[]);
    expect(&rules::layers("src/row/range.rs", "#[cfg(test)]\nmod tests { use crate::fuzzing::range; }"), &[]);
    expect(&rules::layers("src/error.rs", "use crate::container::Fault;"), &[]);
    expect(&rules::layers("src/stream/x.rs", "use crate::container::raw::vector::Avx512;"), &[]);
    expect(&rules::layers("src/lib.rs", "pub use crate::store::Store;"), &[]);
    expect(&rules::layers("src/row/range.rs", "crate::exported! {} $crate::$named! {}"), &[]);
    expect(&rules::layers("src/bin/seslog/main.rs", "use crate::args::Args;"), &[]);
}

#[test]
fn a_decoder_that_opens_a_file() {
    let row = |text| rules::no_files_in_decoders("src/row/mod.rs", text);
    expect(&row("use std::fs::File;"), &["mod.rs:1: `std::fs` below the disk"]);
    expect(&row("fn f() { memmap2::Mmap::map(x) }"), &["`memmap2::`"]);
    expect(&row("#[cfg(test)] mod tests { use std::fs; } use rustix::fs;"), &["`rustix::`"]);
    expect(&row("#[cfg(test)]\nmod tests {\n    use std::fs;\n}\nuse std::io;"), &[]);
    expect(&rules::no_files_in_decoders("src/container/disk/os.rs", "use std::fs::File;"), &[]);
}

#[test]
fn a_file_of_tests_is_told_from_one_that_ships() {
    let text = "#[cfg(test)]\nmod reference;\nmod rules;\n#[cfg(test)]\nmod tests {}";
    let under = ["src/format/reference.rs", "src/format/reference/mod.rs"];
    expect(&rules::test_files("src/format/mod.rs", text), &under);
    expect(&rules::test_files("src/format.rs", text), &under);
    expect(&rules::test_files("README.md", text), &[]);
}

#[test]
fn unsafe_code_outside_its_module() {
    let text = "fn f() { unsafe { g() } } // unsafe";
    expect(&rules::unsafe_outside_raw("src/container/zstd.rs", text), &["zstd.rs:1: unsafe"]);
    expect(&rules::unsafe_outside_raw("fuzz/fuzz_targets/row.rs", "\nunsafe fn f() {}"), &["row.rs:2"]);
    expect(&rules::unsafe_outside_raw("src/container/raw/map.rs", text), &[]);
    expect(
        &rules::unsafe_outside_raw("src/lib.rs", "#![deny(unsafe_code)] // unsafe\nlet s = \"unsafe\";"),
        &[],
    );
}

#[test]
fn a_stand_in_or_a_test_switched_off() {
    let found = |text: &str| rules::unfinished("src/row/mod.rs", text);
    // In halves, so that a plain search of the tree for stand-ins finds none.
    let planted = |one: &str, two: &str| found(&[one, two].concat());
    expect(&planted("fn f() { to", "do!(\"later\") }"), &["mod.rs:1: to"]);
    expect(&planted("unimple", "mented! {}"), &["unimple"]);
    expect(&found("let x = dbg!(y);"), &["dbg!"]);
    expect(&planted("#[test]\n#[", "ignore]\nfn f() {}"), &["mod.rs:2: [ignore]"]);
    expect(&planted("#[", "ignore = \"slow\"]"), &["[ignore="]);
    expect(&found("#[cfg_attr(miri, ignore)]"), &[",ignore)"]);
    expect(&found("/// ```ignore\n/// x\n/// ```"), &["mod.rs:1: an example"]);
    expect(&planted("/// Never `to", "do!()`.\nlet ignore = \"dbg!(x)\"; f(ignore);\n/// ```no_run"), &[]);
}

#[test]
fn a_skip_line_that_nobody_sees() {
    let found = |text| rules::captured_skips("tests/x.rs", text);
    expect(&found("\n        eprintln!(\"SKIPPED: no shared\");"), &["x.rs:2"]);
    expect(&found("common::skip(\"SKIPPED twice\"); eprintln!(\"hello\");"), &[]);
}

#[test]
fn a_registry_host_or_a_path_of_one_machine() {
    let found = |text: &str| rules::foreign_places("CONTRIBUTING.md", text);
    expect(&found(&["see crates", ".io"].concat()), &["CONTRIBUTING.md:1: names"]);
    expect(&found(&["\nhttps://registry.npmjs", ".org/x"].concat()), &["CONTRIBUTING.md:2: names"]);
    expect(&found(&["cd /wor", "k/main"].concat()), &["names `/wor"]);
    expect(&found(&["\"/roo", "t/.cargo\""].concat()), &["names `/roo"]);
    expect(
        &found("/workspace, target/work/x, {dir}/work/y, <root>/x, cases/R40/root/p, /root/s, crates and io"),
        &[],
    );
    expect(&rules::foreign_places("Cargo.lock", &["crates", ".io"].concat()), &[]);
}

#[test]
fn a_line_too_long() {
    let line = |columns: usize| format!("fn f() {{}}\n// {}\n", "ä".repeat(columns - 3));
    expect(&rules::long_lines("src/x.rs", &line(141)), &["x.rs:2: 141 columns"]);
    expect(&rules::long_lines("src/x.rs", &line(140)), &[]);
    expect(&rules::long_lines("src/x.rs", &format!("f(r#\"{}\"#);", "x".repeat(200))), &[]);
    expect(&rules::long_lines("src/x.rs", &format!("f(\n\"a\n{}\nb\");", "x".repeat(200))), &[]);
    expect(&rules::long_lines("src/x.rs", &format!("f(\"x\"); // {}", "x".repeat(140))), &["x.rs:1"]);
}

#[test]
fn blanks_at_an_end() {
    expect(&rules::blanks("a.md", "a \nb\n"), &["a.md:1: ends in blanks"]);
    expect(&rules::blanks("a.rs", "a\r\n"), &["a.rs:1"]);
    expect(&rules::blanks("a.rs", "a"), &["exactly one newline"]);
    expect(&rules::blanks("a.rs", "a\n\n"), &["exactly one newline"]);
    expect(&rules::blanks("a.rs", "a\n\nb\n"), &[]);
    expect(&rules::blanks("tests/data/a.md", "a "), &[]);
}

#[test]
fn a_stranger_at_the_top() {
    expect(&rules::strangers_at_the_top(&["src/lib.rs", "notes.txt", "tmp/x"]), &["notes.txt", "tmp"]);
    expect(&rules::strangers_at_the_top(&["Cargo.toml", ".ci/run", "fuzz/Cargo.toml", "LICENSE-MIT"]), &[]);
}

#[test]
fn a_link_to_nowhere() {
    let paths = ["README.md", "format-spec/01-container.md", "src/lib.rs"];
    let text_of = |path: &str| {
        (path == "format-spec/01-container.md").then_some("# The chain\n## Row ends\n## Row ends\n")
    };
    let found = |path, text| links::broken(path, text, &paths, &text_of);
    expect(&found("README.md", "[a](docs/x.md)"), &["README.md:1: `docs/x.md` does not exist"]);
    expect(&found("README.md", "\n[`a`](docs/y.md \"title\")"), &["README.md:2: `docs/y.md`"]);
    expect(&found("README.md", "[a]: gone.md"), &["`gone.md`"]);
    expect(&found("README.md", "[a](../shared/x)"), &["leaves the checkout"]);
    expect(&found("README.md", "# Use\n[a](#usage)"), &["names no heading"]);
    expect(&found("README.md", "[a](format-spec/01-container.md#rows)"), &["names no heading"]);
    let good = "# Use `it`\n[a](#use-it) [b](src/) [c](format-spec/01-container.md#row-ends-1) [d](https://x.invalid/)\n\
                `[e](gone.md)`\n```\n[f](gone.md)\n```\n[g](src/lib.rs#L3)";
    expect(&found("README.md", good), &[]);
    expect(&found("format-spec/01-container.md", "[r](../README.md)"), &[]);
}

#[test]
fn a_fuzz_target_without_its_parts() {
    let manifest = "[package]\nname = \"x\"\n[[bin]]\nname = \"row\"\n[[bin]]\nname = \"old\"\n";
    let paths =
        ["fuzz/fuzz_targets/row.rs", "fuzz/fuzz_targets/range.rs", "fuzz/seeds/row/a", "fuzz/seeds/gone/a"];
    expect(
        &rules::fuzz_targets(&paths, manifest),
        &[
            "gone: has no a file",
            "gone: has no a [[bin]]",
            "old: has no a file",
            "old: has no seeds",
            "range: has no seeds",
            "range: has no a [[bin]]",
        ],
    );
    let paths = ["fuzz/fuzz_targets/row.rs", "fuzz/seeds/row/a"];
    expect(&rules::fuzz_targets(&paths, "[[bin]]\nname = \"row\""), &[]);
    expect(&rules::fuzz_targets(&[], ""), &["no fuzz targets"]);
}

#[test]
fn a_readme_with_other_commands() {
    let ci = "x=1\nDEMO_COMMAND=\"cargo run -- demo\"\nTEST_COMMAND=\"cargo test --all-features\"\n";
    let found = |readme| rules::readme_commands(readme, ci);
    expect(
        &found("cargo run -- demo --keep\n    cargo test"),
        &["cargo run -- demo", "cargo test --all-features"],
    );
    expect(&found("cargo run -- demo   # the tour\n    cargo test --all-features\n"), &[]);
    expect(&rules::readme_commands("", ""), &["has no DEMO_COMMAND", "has no TEST_COMMAND"]);
}

#[test]
fn a_toolchain_floor_said_wrong() {
    expect(&rules::toolchain_floor("rust-version = \"1.95\"\n", "Needs Rust 1.94."), &["Rust 1.95"]);
    expect(&rules::toolchain_floor("rust-version = \"1.95\"\n", "Needs Rust 1.95 or newer."), &[]);
    expect(&rules::toolchain_floor("", ""), &["no rust-version"]);
}

#[test]
fn a_copied_corpus_file() {
    let corpus = [("corpus/a".to_owned(), b"rows".to_vec()), ("corpus/empty".to_owned(), Vec::new())];
    expect(&rules::copies(&[("tests/data/x", b"rows")], &corpus), &["tests/data/x: is a copy of corpus/a"]);
    expect(&rules::copies(&[("tests/data/x", b"row"), ("tests/data/y", b"")], &corpus), &[]);
}
