#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seslog::fuzzing::open_bytes::fuzz_open_bytes(data));
