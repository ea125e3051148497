//! `completions`: what a shell needs to complete the command line.

use clap::Command;
use clap_complete::{Shell, generate};

use crate::failure::{Done, Outcome};
use crate::out::Out;

/// Prints completions for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog completions fish > ~/.config/fish/completions/seslog.fish")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the completions of `command` for the shell that `args` name.
pub(crate) fn run(mut command: Command, args: &Args) -> Done {
    let mut text = Vec::new();
    generate(args.shell, &mut command, "seslog", &mut text);
    let mut out = Out::new();
    out.bytes(&text)?;
    out.flush()?;
    Ok(Outcome::Clean)
}
