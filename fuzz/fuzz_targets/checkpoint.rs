#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seslog::fuzzing::checkpoint::fuzz_checkpoint(data));
