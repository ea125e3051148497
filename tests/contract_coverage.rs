//! Which of the contract's 140 rules have a test of their number, here or anywhere else in the crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The last number of the contract.
const LAST: u32 = 140;

/// The fewest that are to be covered.
const COVERED_MIN: usize = 137;

/// Why a rule has no test of its number. One that has a test may not stand here.
const UNCOVERED: &[(u32, &str)] = &[
    (2, "values come as JSON text: no property of an input can be read twice"),
    (28, "`system/message` is of generation 3, which is not the current one"),
    (63, "offsets and lengths are unsigned integers: none is negative or fractional"),
];

/// Where tests have the number of a rule in their names.
const PLACES: &[&str] = &[
    "src/contract",
    "tests/contract.rs",
    "tests/contract",
    "tests/projections",
    "tests/session.rs",
    "tests/session_oracle.rs",
    "tests/session_rules",
];

fn files_in(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("the folder can be listed") {
            files_in(&entry.expect("an entry can be read").path(), found);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        found.push(path.to_owned());
    }
}

/// The number in the name of a test: `fn r042_…`.
fn number(line: &str) -> Option<u32> {
    let name = line.trim_start().trim_start_matches("pub(crate) ").strip_prefix("fn r")?;
    let (digits, rest) = name.split_at_checked(3)?;
    rest.starts_with('_').then(|| digits.parse().ok())?
}

#[test]
fn all_but_a_few_rules_have_a_test_of_their_number() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    PLACES.iter().for_each(|place| files_in(&top.join(place), &mut files));
    let mut tests: BTreeMap<u32, usize> = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("sources are text");
        for number in text.lines().filter_map(number) {
            *tests.entry(number).or_default() += 1;
        }
    }
    assert!(tests.keys().all(|number| (1..=LAST).contains(number)), "{tests:?}");
    for number in 1..=LAST {
        let reason = UNCOVERED.iter().find(|(uncovered, _)| *uncovered == number);
        match (tests.get(&number), reason) {
            (None, Some((_, why))) => println!("rule {number} has no test: {why}"),
            (None, None) => panic!("rule {number} has neither a test nor a reason"),
            (Some(_), Some(_)) => panic!("rule {number} has a test, and a reason for having none"),
            (Some(_), None) => {}
        }
    }
    println!(
        "{} of {LAST} rules have a test of their number, {} functions in all",
        tests.len(),
        tests.values().sum::<usize>()
    );
    assert!(tests.len() >= COVERED_MIN, "{}", tests.len());
}

#[test]
fn a_number_is_read_from_the_name_of_a_function_only() {
    assert_eq!(number("    fn r042_it_is_so() {"), Some(42));
    assert_eq!(number("pub(crate) fn r140_it_is_so(backend: &dyn Backend) -> Outcome {"), Some(140));
    assert_eq!(number("fn read_all() {"), None);
    assert_eq!(number("// fn r042_it_was_so() {"), None);
    assert_eq!(number("fn r0421_and_so_on() {"), None);
}
