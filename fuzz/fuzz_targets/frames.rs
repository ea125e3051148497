#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seslog::fuzzing::frames::fuzz_frames(data));
