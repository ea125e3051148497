#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seslog::fuzzing::stream::fuzz_stream_accumulate(data));
