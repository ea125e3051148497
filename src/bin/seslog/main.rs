//! `seslog`: lists, reads, checks and repairs sessions. Arguments, tables and progress; everything else is the library's.

mod append;
mod archive;
mod args;
mod bar;
mod cat;
mod compact;
mod completions;
mod convert;
mod current;
mod demo;
mod export;
mod failure;
mod follow;
mod fork;
mod globs;
mod grep;
mod import;
mod interrupt;
mod json;
mod ls;
mod man;
mod messages;
mod migrate;
mod migrated;
mod mv;
mod new;
mod out;
mod overview;
mod plan;
mod progress;
mod prune;
mod recover;
mod report;
mod rm;
mod root;
mod stall;
mod stat;
mod target;
mod timeline;
mod turns;
mod verdict;
mod verify;
mod vocabulary;

use std::process::ExitCode;

fn main() -> ExitCode {
    failure::exit(args::run())
}
