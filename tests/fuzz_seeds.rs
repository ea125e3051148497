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
    frames => seslog::fuzzing::frames::fuzz_frames,
    open_bytes => seslog::fuzzing::open_bytes::fuzz_open_bytes,
    stream_accumulate => seslog::fuzzing::stream::fuzz_stream_accumulate,
    stream_expand => seslog::fuzzing::stream::fuzz_stream_expand,
    migrate => seslog::fuzzing::migrate::fuzz_migrate,
    packed_row => seslog::fuzzing::packed_row::fuzz_packed_row,
    header => seslog::fuzzing::header::fuzz_header,
    trailer => seslog::fuzzing::trailer::fuzz_trailer,
    tail => seslog::fuzzing::tail::fuzz_tail,
    path_segment => seslog::fuzzing::path_segment::fuzz_path_segment,
    catalog => seslog::fuzzing::catalog::fuzz_catalog,
    checkpoint => seslog::fuzzing::checkpoint::fuzz_checkpoint,
    wire => seslog::fuzzing::wire::fuzz_wire,
    store_model => seslog::fuzzing::store_model::fuzz_store_model,
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

/// `SESLOG_WRITE_SEEDS=1 cargo test --all-features --test fuzz_seeds written` makes the seeds whose names begin with `made-`.
#[test]
fn written_seeds_are_what_this_build_writes() {
    for (name, choice, bytes) in made_logs() {
        let with_choice = [&[choice][..], &bytes].concat();
        for (target, bytes) in [("frames", &bytes), ("open_bytes", &with_choice)] {
            let path = fuzz().join("seeds").join(target).join(format!("made-{name}"));
            if std::env::var_os("SESLOG_WRITE_SEEDS").is_some() {
                fs::write(&path, bytes).expect("the seed can be written");
            }
            assert_eq!(&fs::read(&path).expect("the seed is there"), bytes, "{}", path.display());
        }
    }
}

/// Small sound logs of generation 2 in each encoding, one of them cut, and the choice byte of `open_bytes` for each.
fn made_logs() -> Vec<(&'static str, u8, Vec<u8>)> {
    use seslog::container::{Batch, Encoding, LogId, RowMark, create};
    let header = b"{\"type\":\"session\",\"version\":2,\"id\":\"s\",\"createdAt\":5,\"isSeeded\":false,\"delegationDepth\":0}\n";
    let mut logs = Vec::new();
    for (name, choice, encoding) in
        [("indexed", 0, Encoding::Indexed), ("zstd", 1, Encoding::Zstd), ("plain", 2, Encoding::Plain)]
    {
        let mut bytes = Vec::new();
        let id = LogId::new(0x5eed_10c0_ffee_0001).expect("not zero");
        let mut writer = create(encoding, id, header, 5, 3, &mut bytes).expect("a short header");
        let mut seq = 0;
        for rows in [1, 2, 4] {
            let (mut content, mut marks) = (Vec::new(), Vec::new());
            for _ in 0..rows {
                let row = format!(
                    "{{\"type\":\"plan/mode\",\"seq\":{seq},\"time\":{seq},\"data\":{{\"active\":true}}}}\n"
                );
                content.extend_from_slice(row.as_bytes());
                marks.push(RowMark { end: content.len(), events: 1, last_time: seq });
                seq += 1;
            }
            writer.stage(&Batch { content: &content, rows: &marks }, &mut bytes).expect("short rows");
            writer.accept(true);
        }
        if encoding == Encoding::Indexed {
            logs.push(("indexed-cut", choice, bytes[..bytes.len() - 20].to_vec()));
        }
        logs.push((name, choice, bytes));
    }
    logs
}
