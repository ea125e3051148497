#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seslog::fuzzing::row::fuzz_row(data));
