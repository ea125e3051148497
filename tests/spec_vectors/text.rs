//! The words: rules that name whom they bind, and references that lead somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::markdown::{Doc, TEXTS};
use crate::vectors;

#[test]
fn each_rule_has_one_must_and_names_the_writer_or_the_reader() {
    let mut wrong = Vec::new();
    for name in TEXTS {
        for sentence in Doc::read(name).sentences() {
            let musts = sentence.matches("MUST").count();
            let defines = sentence.contains("BCP 14") || sentence.contains("MUST, MUST NOT");
            let names = ["reader", "writer", "Reader", "Writer"].iter().any(|who| sentence.contains(who));
            if !defines && (musts > 1 || (musts == 1 && !names)) {
                wrong.push(format!("{name}: {sentence}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_opening_says_what_the_capitals_mean() {
    let opening = fs::read_to_string(crate::markdown::folder().join("README.md")).unwrap();
    let opening: String = opening.lines().take(6).collect::<Vec<_>>().join(" ");
    for word in
        ["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "BCP 14", "RFC 2119", "RFC 8174", "lower case"]
    {
        assert!(opening.contains(word), "{word}");
    }
}

#[test]
fn sections_that_vectors_name_exist() {
    let texts: Vec<Doc> = TEXTS.map(Doc::read).into();
    for vector in ["valid", "invalid"].into_iter().flat_map(vectors::read) {
        for section in vector.spec() {
            let (file, heading) = section.split_once('#').expect("a file and a heading");
            let text = texts.iter().find(|text| text.name == file);
            let text = text.unwrap_or_else(|| panic!("{}: no text {file}", vector.name));
            assert!(text.headings().contains(&heading), "{}: {section}", vector.name);
        }
    }
}

#[test]
fn sections_that_the_code_cites_exist() {
    let texts: Vec<Doc> = TEXTS.map(Doc::read).into();
    let mut cited = 0;
    for path in sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))) {
        let code = fs::read_to_string(&path).unwrap();
        for (_, rest) in
            code.match_indices("`format-spec/").map(|(at, found)| (at, &code[at + found.len()..]))
        {
            let (file, rest) = rest.split_once('`').expect("a code span ends");
            if crate::markdown::folder().join(file).is_dir() {
                continue;
            }
            cited += 1;
            let text = texts.iter().find(|text| text.name == file);
            let text = text.unwrap_or_else(|| panic!("{}: no text {file}", path.display()));
            let Some(heading) = rest.strip_prefix(", \"").and_then(|rest| rest.split_once('"')) else {
                continue;
            };
            let wanted = heading.0.to_lowercase();
            let found = text.headings().iter().any(|heading| heading.to_lowercase().contains(&wanted));
            assert!(found, "{}: {file} has no section {:?}", path.display(), heading.0);
        }
    }
    assert!(cited > 20, "{cited} citations");
}

#[test]
fn sections_that_the_text_cites_exist() {
    let texts: Vec<Doc> = TEXTS.map(Doc::read).into();
    let all: BTreeSet<String> = texts.iter().flat_map(|text| text.headings()).map(str::to_owned).collect();
    for text in &texts {
        for sentence in text.sentences() {
            // "Heading" of 05; 05, "Heading"; ("Heading").
            for (at, _) in sentence.match_indices('"') {
                let rest = &sentence[at + 1..];
                let Some((quoted, after)) = rest.split_once('"') else { continue };
                let before = &sentence[..at];
                let numbered = |text: &str| text.trim_start().starts_with('0') && text.trim_start().len() > 1;
                let cited =
                    after.starts_with(" of 0") || after.starts_with(" in 0") || ends_in_number(before);
                if cited && !numbered(quoted) {
                    assert!(all.contains(quoted), "{}: no section {quoted:?} ({sentence})", text.name);
                }
            }
        }
    }
}

/// `05, ` before a quoted heading.
fn ends_in_number(before: &str) -> bool {
    let Some(before) = before.strip_suffix(", ") else { return false };
    let digits: String = before.chars().rev().take(2).collect();
    digits.len() == 2 && digits.ends_with('0') && digits.chars().all(|digit| digit.is_ascii_digit())
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
