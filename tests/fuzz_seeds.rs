//! Every fuzz target's body over its seeds, in the ordinary suite: what a campaign found stays found.
#![cfg(feature = "fuzzing")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Each seed is also run cut short at this many places, evenly spread: a fuzzer's favourite mutation, for free.
const CUTS: usize = 64;

/// One test a target, and the list of their names and bodies.
macro_rules! targets {
    ($($name:ident => $($body:ident)::+,)+) => {
        const TARGETS: &[(&str, &str)] = &[$((stringify!($name), stringify!($($body)::+))),+];
        $(
            #[test]
            fn $name() {
                run_seeds(stringify!($name), $($body)::+);
            }
        )+
    };
}

targets! {
    row => seslog::fuzzing::row::fuzz_row,
    range => seslog::fuzzing::range::fuzz_range,
}

fn run_seeds(target: &str, body: fn(&[u8])) {
    let mut count = 0;
    for seed in fs::read_dir(fuzz().join("seeds").join(target)).expect("the seeds can be listed") {
        let path = seed.expect("a seed can be listed").path();
        let bytes = fs::read(&path).expect("a seed can be read");
        // Shown only if the body panics.
        println!("{}", path.display());
        body(&bytes);
        for cut in 0..CUTS {
            let len = bytes.len() * cut / CUTS;
            println!("cut to {len}");
            body(&bytes[..len]);
        }
        count += 1;
    }
    assert!(count > 0, "{target} has no seeds");
}

#[test]
fn every_target_stands_in_the_table_and_calls_its_own_body() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names, stems("fuzz_targets"), "fuzz/fuzz_targets against the table above");
    assert_eq!(names, stems("seeds"), "fuzz/seeds against the table above");
    for (name, body) in TARGETS {
        let call = format!("{}(data)", body.replace(' ', ""));
        let text = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs")))
            .expect("the target can be read");
        assert!(text.contains(&call), "{name} calls another body");
    }
}

/// Names in a folder of `fuzz/`, without their ends.
fn stems(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(fuzz().join(folder)).expect("a folder of fuzz/ can be listed");
    entries
        .map(|entry| {
            let path = entry.expect("an entry can be read").path();
            path.file_stem().and_then(|stem| stem.to_str()).expect("names are UTF-8").to_owned()
        })
        .collect()
}

fn fuzz() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz"))
}
