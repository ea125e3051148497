//! `import`: a session made of a log file or of stdin.
use crate::failure::Done;
use crate::root::Root;
/// x
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog import session.jsonl")]
pub(crate) struct Args { src: std::ffi::OsString }
pub(crate) fn run(_root: &Root, _args: &Args) -> Done { Ok(crate::failure::Outcome::Clean) }
