#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seslog::fuzzing::wire::fuzz_wire(data));

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let bytewise = &mut libfuzzer_sys::fuzzer_mutate;
    seslog::fuzzing::mutate::mutate_json(data, size, max_size, seed, 1, bytewise)
});
