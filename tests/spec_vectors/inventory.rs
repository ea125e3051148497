//! 07: the notation of the inventories, against the files and the code.

use std::collections::BTreeSet;
use std::fs;

use seslog::format::inventory::{Inventory, Kind, Place};
use seslog::json::Tape;
use seslog::units::Generation;

use crate::markdown::{Doc, code, folder};

fn doc() -> Doc {
    Doc::read("07-inventory.md")
}

/// The words of a file, without remarks and quoted texts.
fn words(name: &str) -> Vec<String> {
    let text = fs::read_to_string(folder().join("inventory").join(name)).unwrap();
    let plain = text.lines().filter_map(|line| line.split('#').next()).map(|line| {
        let pieces: Vec<&str> = line.split('"').step_by(2).collect();
        pieces.join(" ")
    });
    let is_word = |c: char| c.is_ascii_alphanumeric() || "/-_&".contains(c);
    plain
        .flat_map(|line| line.split(|c| !is_word(c)).map(str::to_owned).collect::<Vec<_>>())
        .filter(|word| !word.is_empty())
        .collect()
}

#[test]
fn files_declare_as_many_types_as_the_table_says() {
    let tables = doc().tables("07 Inventory");
    let rows = tables[0].select(["file", "event types"]);
    assert_eq!(rows.len(), 2);
    for ([file, types], name) in rows.iter().zip(["v1.schema", "v2.schema"]) {
        assert!(file.contains(&format!("(inventory/{name})")));
        let declared = words(name).iter().filter(|word| *word == "event").count();
        assert_eq!(types.parse(), Ok(declared), "{name}");
    }
}

#[test]
fn rules_that_the_files_name_are_those_of_the_table() {
    let rows = doc().table("Rules").select(["rule"]);
    let listed: BTreeSet<String> = rows.into_iter().map(|[rule]| code(&rule).to_owned()).collect();
    let mut named = BTreeSet::new();
    for name in ["v1.schema", "v2.schema"] {
        let words = words(name);
        named.extend(words.windows(2).filter(|pair| pair[0] == "&").map(|pair| pair[1].clone()));
    }
    assert_eq!(listed, named);
}

#[test]
fn examples_fit_or_break_what_the_table_says() {
    let rows = doc().table("Examples").select(["type", "generation", "data", "breaks"]);
    let mut broken = BTreeSet::new();
    for [name, generation, data, breaks] in rows {
        let generation = Generation::new(generation.parse().unwrap());
        let inventory = if generation < Generation::V2 { Inventory::v1() } else { Inventory::v2() };
        let mut tape = Tape::default();
        let node = tape.parse(code(&data).as_bytes(), 64).unwrap_or_else(|error| panic!("{error}: {data}"));
        let kind = Kind::from_name(code(&name)).expect("a listed type");
        let found = inventory.check(kind, node, Place { generation, seq: 7 });
        match (found, breaks.as_str()) {
            (Ok(()), "") => {}
            (Err(mismatch), breaks) if !breaks.is_empty() => {
                let text = mismatch.to_string();
                let rule = text.split_once(" breaks the rule ").map_or("a form", |(_, rule)| rule);
                assert_eq!(rule, code(breaks), "{name} {data}: {text}");
                broken.insert(rule.to_owned());
            }
            (found, _) => panic!("{name} {data}: {found:?}"),
        }
    }
    // In v0 no version of a session reference fits its form, so that its rule is never the one that fails.
    let rules = doc().table("Rules").select(["rule"]);
    let unshown: Vec<&str> =
        rules.iter().map(|[rule]| code(rule)).filter(|rule| !broken.contains(*rule)).collect();
    assert_eq!(unshown, ["captured-format-version"]);
}
