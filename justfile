# Every recipe but `peers` is a step of .ci/run, which CI calls; `just` only saves typing.

# Everything that CI checks.
check:
    .ci/run

# rustfmt over the crate and fuzz/; `cargo fmt` repairs.
fmt:
    .ci/run fmt

# Lints, for each feature set.
clippy:
    .ci/run clippy

# The test suite, compared with the oracle where it can be installed.
test:
    .ci/run oracle test

# The crash lab, whole: every tear, every subset of sectors, and real faults.
lab:
    SESLOG_LAB=whole .ci/run lab

# Removes each sync call in turn, and says which test notices.
mutants:
    .ci/run mutants

# The tour: writes a session, kills the writer, recovers, lists, reads.
demo:
    .ci/run demo

# The documentation builds without a warning.
doc:
    .ci/run doc

# The oldest Rust that Cargo.toml allows.
msrv:
    .ci/run lock msrv

# Benches compile; `cargo bench` runs them.
bench:
    .ci/run bench

# Instruction counts of the hot paths; `cargo bench --bench guard -- --update` stores new ones.
guard:
    .ci/run guard

# seslog beside other stores, all works in turns; results go to benches/results.
peers *options:
    cargo run --release --manifest-path benches/peers/Cargo.toml -- {{options}}

# Licences, banned crates, sources.
deny:
    .ci/run deny

# Every fuzz target, `seconds` long each.
fuzz seconds="15":
    FUZZ_SECONDS={{seconds}} .ci/run fuzz

# Lines of the decoders that the fuzz seeds reach.
coverage:
    .ci/run coverage

# A bug for each fuzz target in a copy of the sources: does the target find it within a minute?
plant *targets:
    fuzz/plant {{targets}}

# Fuzzing for `minutes`, shared over the targets, one core at a time.
campaign minutes="60":
    fuzz/campaign {{minutes}}

# The suite under AddressSanitizer, the unsafe module under valgrind.
sanitize:
    SANITIZE=whole .ci/run asan valgrind
