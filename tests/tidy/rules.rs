//! The rules. Each takes paths and text, so that a test can plant what it looks for.

use std::collections::{BTreeMap, BTreeSet};

use crate::tokens::{Token, after_group, literals, starts_with, tokens};

/// The modules at the crate's root. A file imports only from its own and from those before it.
///
/// `error` is the public boundary: `store` and what follows use it, layers below return faults of their own. Only tests
/// import `fuzzing`: they may feed its bodies.
const LAYERS: &[&str] = &[
    "units",
    "limits",
    "json",
    "container",
    "row",
    "stream",
    "session",
    "format",
    "error",
    "store",
    "live",
    "export",
    "contract",
    "fuzzing",
];

/// Pairs inside the order that the design keeps apart all the same: the first does not know the second.
const STRANGERS: &[(&str, &str)] =
    &[("row", "container"), ("stream", "container"), ("stream", "row"), ("session", "container")];

/// What strangers may know of each other: instructions of the processor are nothing that a container has, and stand where they do
/// because no other module may have `unsafe`.
const VECTOR: &[&str] = &["container", "::", "raw", "::", "vector"];

/// Where a file may be opened: the disk, the mapping, and what knows where logs live.
const FILE_USERS: &[&str] =
    &["src/container/disk/", "src/container/raw/", "src/store/", "src/live/", "src/bin/"];

/// Entries that may stand at the top of the checkout.
const TOP: &[&str] = &[
    ".ci",
    ".gitattributes",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "assets",
    "benches",
    "clippy.toml",
    "deny.toml",
    "examples",
    "format-spec",
    "fuzz",
    "justfile",
    "rustfmt.toml",
    "src",
    "tests",
];

const COLUMNS_MAX: usize = 140;

const TEST_ONLY: &[&str] = &["#", "[", "cfg", "(", "test", ")", "]"];

/// Imports against the order of layers, by `crate::`, by a group, or by climbing `super::` to the root.
pub(crate) fn layers(path: &str, text: &str) -> Vec<String> {
    let Some(module) = module_path(path) else { return Vec::new() };
    let own = module.first().copied().unwrap_or_default();
    let Some(rank) = LAYERS.iter().position(|layer| *layer == own) else {
        return vec![format!(
            "{path}: `{own}` is no known layer; give it a place in LAYERS of tests/tidy/rules.rs"
        )];
    };
    let tokens = tokens(text);
    let shipped = without_tests(&tokens);
    let refuse = |token: Token<'_>| {
        let below = LAYERS.iter().position(|layer| *layer == token.text).is_some_and(|other| other <= rank);
        let allowed = below || (token.text == "fuzzing" && !shipped.contains(&token));
        let is_vector =
            || (0..tokens.len()).any(|at| tokens.get(at) == Some(&token) && starts_with(&tokens, at, VECTOR));
        let strange = STRANGERS.contains(&(own, token.text)) && !is_vector();
        (!allowed || strange)
            .then(|| format!("{path}:{}: `{own}` must not use `crate::{}`", token.line, token.text))
    };
    root_names(&tokens, module.len()).into_iter().filter_map(refuse).collect()
}

/// Files that a parent declares as `#[cfg(test)] mod name;`.
pub(crate) fn test_files(path: &str, text: &str) -> Vec<String> {
    if !is_rust(path) {
        return Vec::new();
    }
    let folder = match path.rsplit_once('/') {
        Some((folder, "mod.rs" | "lib.rs" | "main.rs")) => folder,
        _ => path.trim_end_matches(".rs"),
    };
    let tokens = tokens(text);
    let declared = (0..tokens.len()).filter_map(|at| {
        let name = at + TEST_ONLY.len() + 1;
        let declares = starts_with(&tokens, at, TEST_ONLY) && starts_with(&tokens, name - 1, &["mod"]);
        (declares && starts_with(&tokens, name + 1, &[";"]))
            .then(|| tokens.get(name).map(|token| token.text))?
    });
    declared.flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]).collect()
}

/// Files opened where decoders take `&[u8]`, outside their tests. `path` is no file of [`test_files`].
pub(crate) fn no_files_in_decoders(path: &str, text: &str) -> Vec<String> {
    let places = [&["std", "::", "fs"][..], &["rustix", "::"], &["memmap2", "::"], &["libc", "::"]];
    if module_path(path).is_none() || FILE_USERS.iter().any(|user| path.starts_with(user)) {
        return Vec::new();
    }
    let tokens = without_tests(&tokens(text));
    (0..tokens.len())
        .filter_map(|at| {
            let place = places.iter().find(|place| starts_with(&tokens, at, place))?;
            Some(format!("{path}:{}: `{}` below the disk", tokens.get(at)?.line, place.concat()))
        })
        .collect()
}

/// `unsafe` outside the one module that proves it. Tests and benches may: a counting allocator has no other way.
pub(crate) fn unsafe_outside_raw(path: &str, text: &str) -> Vec<String> {
    let watched = ["src/", "examples/", "fuzz/"].iter().any(|folder| path.starts_with(folder));
    if !is_rust(path) || !watched || path.starts_with("src/container/raw/") {
        return Vec::new();
    }
    let found = tokens(text).into_iter().filter(|token| token.text == "unsafe");
    found.map(|token| format!("{path}:{}: unsafe outside src/container/raw", token.line)).collect()
}

/// Stand-ins and switched-off tests.
pub(crate) fn unfinished(path: &str, text: &str) -> Vec<String> {
    if !is_rust(path) {
        return Vec::new();
    }
    let shapes: [&[&str]; 6] = [
        &["todo", "!"],
        &["unimplemented", "!"],
        &["dbg", "!"],
        &["[", "ignore", "]"],
        &["[", "ignore", "="],
        &[",", "ignore", ")"],
    ];
    let tokens = tokens(text);
    let code = (0..tokens.len()).filter_map(|at| {
        let shape = shapes.iter().find(|shape| starts_with(&tokens, at, shape))?;
        Some(format!("{path}:{}: {}", tokens.get(at)?.line, shape.concat()))
    });
    let fence = format!("{}ignore", "`".repeat(3));
    let examples = text.lines().enumerate().filter(|(_, line)| {
        line.trim_start()
            .strip_prefix("//")
            .is_some_and(|doc| doc.trim_start_matches(['/', '!', ' ']).starts_with(&fence))
    });
    let examples = examples.map(|(at, _)| format!("{path}:{}: an example that is not compiled", at + 1));
    code.chain(examples).collect()
}

/// Skip lines printed through the macros, which the harness swallows while the test passes.
pub(crate) fn captured_skips(path: &str, text: &str) -> Vec<String> {
    if !is_rust(path) {
        return Vec::new();
    }
    let macros = ["eprintln!(", "println!(", "eprint!(", "print!("];
    let skips = text.lines().enumerate().filter(|(_, line)| {
        let prints = macros.iter().any(|name| line.trim_start().starts_with(name));
        prints && line.contains("\"SKIPPED")
    });
    skips
        .map(|(at, _)| {
            format!("{path}:{}: a captured skip line: use common::skip, or write to io::stderr()", at + 1)
        })
        .collect()
}

/// Registry hosts, and absolute paths of the machine that something was written on.
pub(crate) fn foreign_places(path: &str, text: &str) -> Vec<String> {
    // Cargo writes its registry's name into lock files.
    if path.ends_with("Cargo.lock") {
        return Vec::new();
    }
    // In halves, so that this file does not name them.
    let places = [
        ("crates", ".io"),
        ("npmjs", ".org"),
        ("npmjs", ".com"),
        ("pypi", ".org"),
        ("pythonhosted", ".org"),
        ("deb.debian", ".org"),
        ("/wor", "k/"),
        ("/roo", "t/."),
    ];
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for (one, two) in places {
            let place = format!("{one}{two}");
            // A path must begin there: `target/work/x` and `{dir}/work/x` are no machine's folders.
            let begins = |(start, _): (usize, &str)| {
                let before = line.get(..start).and_then(|text| text.chars().next_back());
                let inside = before.is_some_and(|c| c.is_alphanumeric() || "._-~*/})>]".contains(c));
                !(place.starts_with('/') && inside)
            };
            if line.match_indices(&place).any(begins) {
                found.push(format!("{path}:{}: names `{one}…`", at + 1));
            }
        }
    }
    found
}

/// Lines of the sources too long to read beside another. A literal counts as one column: data is not wrapped.
pub(crate) fn long_lines(path: &str, text: &str) -> Vec<String> {
    if !is_rust(path) || path.starts_with("fuzz/") {
        return Vec::new();
    }
    let literals = literals(text);
    let mut long = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        let data: usize =
            literals.iter().filter(|(number, _)| *number == at + 1).map(|(_, columns)| columns).sum();
        if columns.saturating_sub(data) > COLUMNS_MAX {
            long.push(format!("{path}:{}: {columns} columns", at + 1));
        }
    }
    long
}

/// Trailing blanks, carriage returns, and a missing or doubled last newline, in what people write.
pub(crate) fn blanks(path: &str, text: &str) -> Vec<String> {
    let data =
        ["tests/data/", "fuzz/seeds/", "format-spec/vectors/"].iter().any(|folder| path.starts_with(folder));
    let written = [".rs", ".md", ".toml", ".ci/run", "justfile"].iter().any(|end| path.ends_with(end));
    if data || !written {
        return Vec::new();
    }
    let mut found: Vec<String> = (text.split('\n').enumerate())
        .filter(|(_, line)| line.ends_with([' ', '\t', '\r']))
        .map(|(at, _)| format!("{path}:{}: ends in blanks", at + 1))
        .collect();
    if !text.ends_with('\n') || text.ends_with("\n\n") {
        found.push(format!("{path}: must end in exactly one newline"));
    }
    found
}

/// Top-level entries that nobody agreed on.
pub(crate) fn strangers_at_the_top(paths: &[&str]) -> Vec<String> {
    let tops: BTreeSet<&str> = paths.iter().filter_map(|path| path.split('/').next()).collect();
    tops.into_iter()
        .filter(|top| !TOP.contains(top))
        .map(|top| format!("{top}: does not belong at the top"))
        .collect()
}

/// Fuzz targets without an entry in the manifest or without seeds, and the other way round.
pub(crate) fn fuzz_targets(paths: &[&str], manifest: &str) -> Vec<String> {
    let files: BTreeSet<&str> = paths
        .iter()
        .filter_map(|path| path.strip_prefix("fuzz/fuzz_targets/")?.strip_suffix(".rs"))
        .collect();
    let seeds: BTreeSet<&str> =
        paths.iter().filter_map(|path| Some(path.strip_prefix("fuzz/seeds/")?.split_once('/')?.0)).collect();
    let bins: BTreeSet<&str> = manifest
        .split("[[bin]]")
        .skip(1)
        .filter_map(|bin| bin.split_once("name = \"")?.1.split_once('"').map(|(name, _)| name))
        .collect();
    let mut found = Vec::new();
    for name in files.iter().chain(&seeds).chain(&bins).collect::<BTreeSet<_>>() {
        let parts =
            [("a file in fuzz_targets", &files), ("seeds", &seeds), ("a [[bin]] in fuzz/Cargo.toml", &bins)];
        let missing = parts.iter().filter(|(_, names)| !names.contains(name));
        found.extend(missing.map(|(part, _)| format!("fuzz target {name}: has no {part}")));
    }
    if files.is_empty() {
        found.push("there are no fuzz targets".to_owned());
    }
    found
}

/// Commands that CI runs as the README's and that the README does not give, each on a line of its own.
pub(crate) fn readme_commands(readme: &str, ci: &str) -> Vec<String> {
    let given: Vec<&str> =
        readme.lines().map(|line| line.split(" #").next().unwrap_or(line).trim()).collect();
    let mut found = Vec::new();
    for name in ["DEMO_COMMAND", "TEST_COMMAND"] {
        let assigned =
            ci.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'));
        match assigned {
            None => found.push(format!(".ci/run: has no {name}")),
            Some(command) if given.contains(&command) => {}
            Some(command) => found.push(format!("README.md: has no line `{command}`")),
        }
    }
    found
}

/// A minimum Rust version that the guide for contributors gets wrong.
pub(crate) fn toolchain_floor(manifest: &str, contributing: &str) -> Vec<String> {
    let floor = manifest.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'));
    match floor {
        None => vec!["Cargo.toml: states no rust-version".to_owned()],
        Some(floor) if contributing.contains(&format!("Rust {floor}")) => Vec::new(),
        Some(floor) => vec![format!("CONTRIBUTING.md: does not say `Rust {floor}`")],
    }
}

/// Files of the tree that are byte for byte a file of the corpus.
pub(crate) fn copies(tree: &[(&str, &[u8])], corpus: &[(String, Vec<u8>)]) -> Vec<String> {
    let known: BTreeMap<&[u8], &str> = corpus
        .iter()
        .filter(|(_, bytes)| !bytes.is_empty())
        .map(|(path, bytes)| (&**bytes, &**path))
        .collect();
    let copied = tree.iter().filter_map(|(path, bytes)| Some((path, known.get(bytes)?)));
    copied.map(|(path, origin)| format!("{path}: is a copy of {origin}")).collect()
}

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// The module a file of the library holds: `["row", "range"]` for `src/row/range.rs`. None for the root, the programs
/// (crates of their own, which see the public items only) and everything outside `src/`.
fn module_path(path: &str) -> Option<Vec<&str>> {
    let module = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let module: Vec<&str> = module.split('/').filter(|name| *name != "mod").collect();
    (!matches!(module.first(), None | Some(&("lib" | "bin")))).then_some(module)
}

/// Names of the crate's root that `tokens` use, in a file whose module is `depth` levels below the root.
fn root_names<'t>(tokens: &[Token<'t>], depth: usize) -> Vec<Token<'t>> {
    let mut found = Vec::new();
    let mut inline_ends: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        inline_ends.retain(|end| at < *end);
        if starts_with(tokens, at, &["mod"]) && starts_with(tokens, at + 2, &["{"]) {
            inline_ends.push(after_group(tokens, at + 2));
        }
        let mut next = at;
        let mut climbed = 0;
        while starts_with(tokens, next, &["super", "::"]) {
            climbed += 1;
            next += 2;
        }
        if starts_with(tokens, at, &["crate", "::"]) {
            found.extend(heads(tokens, at + 2));
            next = at + 2;
        } else if climbed == depth + inline_ends.len() && climbed > 0 {
            found.extend(heads(tokens, next));
        }
        at = next.max(at + 1);
    }
    found
}

/// The first name of each path that starts at `at`: one, or one for each member of a group.
fn heads<'t>(tokens: &[Token<'t>], at: usize) -> Vec<Token<'t>> {
    if !starts_with(tokens, at, &["{"]) {
        // Exported macros stand at the root, whatever layer they are of.
        let is_macro = starts_with(tokens, at + 1, &["!"]) || starts_with(tokens, at, &["$"]);
        return tokens.get(at).copied().filter(|_| !is_macro).into_iter().collect();
    }
    let end = after_group(tokens, at);
    let mut heads = Vec::new();
    let mut member = at + 1;
    while member + 1 < end {
        heads.extend(tokens.get(member).copied());
        while member + 1 < end && !starts_with(tokens, member, &[","]) {
            member =
                if starts_with(tokens, member, &["{"]) { after_group(tokens, member) } else { member + 1 };
        }
        member += 1;
    }
    heads
}

/// The tokens outside `#[cfg(test)] mod …`.
fn without_tests<'t>(tokens: &[Token<'t>]) -> Vec<Token<'t>> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let after = at + TEST_ONLY.len();
        if starts_with(tokens, at, TEST_ONLY) && starts_with(tokens, after, &["mod"]) {
            at = after_group(tokens, after + 2);
        } else {
            kept.extend(tokens.get(at).copied());
            at += 1;
        }
    }
    kept
}
