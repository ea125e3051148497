//! The command line: global options, and one entry for each verb.

use std::path::PathBuf;

use clap::{Command, CommandFactory as _, Parser, Subcommand};

use crate::failure::Done;
use crate::root::Root;
use crate::{
    append, archive, cat, compact, completions, convert, demo, export, follow, fork, grep, import, ls, man,
    messages, migrate, mv, new, prune, recover, rm, stat, timeline, turns, verify,
};

/// Lists, reads, checks and repairs the event logs of AI-agent sessions.
#[derive(Debug, Parser)]
#[command(
    name = "seslog",
    version,
    arg_required_else_help = true,
    after_help = "TARGET is a path to a log file or to a session folder, or a session id; a unique beginning of an id is enough.\n\
                  Root: --root, else $SESLOG_ROOT, else $DSH_HOME/sessions, else ~/.dsh/sessions where it exists, else the\n\
                  data folder + seslog.\n\
                  Exit status: 0 all is well; 1 failed; 2 usage; 3 done, but something is torn, damaged or was lost.\n\n\
                  Example: seslog demo"
)]
struct Args {
    /// Folder that holds the sessions: <root>/<project>/<session>/session*.jsonl*
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(demo::Args),
    Ls(ls::Args),
    Stat(stat::Args),
    Cat(cat::Args),
    Verify(verify::Args),
    Recover(recover::Args),
    New(new::Args),
    Append(append::Args),
    Import(import::Args),
    Convert(convert::Args),
    Compact(compact::Args),
    Migrate(migrate::Args),
    Grep(grep::Args),
    Messages(messages::Args),
    Timeline(timeline::Args),
    Turns(turns::Args),
    Follow(follow::Args),
    Export(export::Args),
    Fork(fork::Args),
    Mv(mv::Args),
    Rm(rm::Args),
    Prune(prune::Args),
    Archive(archive::Args),
    Completions(completions::Args),
    Man(man::Args),
    /// The writer that `demo` kills.
    #[command(hide = true)]
    DemoWriter(demo::WriterArgs),
}

/// Reads the command line and does what it says. Usage errors end the program here, with status 2.
pub(crate) fn run() -> Done {
    let args = Args::parse();
    let root = || Root::resolve(args.root.as_deref());
    match args.verb {
        Verb::Demo(args) => demo::run(&args),
        Verb::DemoWriter(args) => demo::write_until_killed(&args),
        Verb::Ls(args) => ls::run(&root()?, &args),
        Verb::Stat(args) => stat::run(&root()?, &args),
        Verb::Cat(args) => cat::run(&root()?, &args),
        Verb::Verify(args) => verify::run(&args),
        Verb::Recover(args) => recover::run(&root()?, &args),
        Verb::New(args) => new::run(&root()?, &args),
        Verb::Append(args) => append::run(&root()?, &args),
        Verb::Import(args) => import::run(&root()?, &args),
        Verb::Convert(args) => convert::run(&root()?, &args),
        Verb::Compact(args) => compact::run(&root()?, &args),
        Verb::Migrate(args) => migrate::run(&args),
        Verb::Grep(args) => grep::run(&root()?, &args),
        Verb::Messages(args) => messages::run(&root()?, &args),
        Verb::Follow(args) => follow::run(&root()?, &args),
        Verb::Fork(args) => fork::run(&root()?, &args),
        Verb::Timeline(args) => timeline::run(&root()?, &args),
        Verb::Turns(args) => turns::run(&root()?, &args),
        Verb::Export(args) => export::run(&root()?, &args),
        Verb::Mv(args) => mv::run(&root()?, &args),
        Verb::Rm(args) => rm::run(&root()?, &args),
        Verb::Prune(args) => prune::run(&root()?, &args),
        Verb::Archive(args) => archive::run(&root()?, &args),
        Verb::Completions(args) => completions::run(command(), &args),
        Verb::Man(args) => man::run(command(), &args),
    }
}

/// The whole command line as a value, for completions and pages.
fn command() -> Command {
    Args::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_each_verb_has_an_example() {
        let mut command = Args::command();
        command.build();
        command.clone().debug_assert();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
        {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("Example: seslog {}", verb.get_name())), "{}", verb.get_name());
        }
    }
}
