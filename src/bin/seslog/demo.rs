//! `demo`
use crate::failure::Done;
/// x
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog demo")]
pub(crate) struct Args { }
/// x
#[derive(Debug, clap::Args)]
pub(crate) struct WriterArgs { }
pub(crate) fn run(_args: &Args) -> Done { Ok(crate::failure::Outcome::Clean) }
pub(crate) fn write_until_killed(_args: &WriterArgs) -> Done { Ok(crate::failure::Outcome::Clean) }
