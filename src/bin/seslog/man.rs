//! `man`: manual pages.

use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;

use crate::failure::{Done, Failure, Outcome};
use crate::out::Out;

/// Prints the manual page, or writes the pages of all verbs to a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog man --dir /usr/local/share/man/man1")]
pub(crate) struct Args {
    /// Write seslog.1 and a page for each verb to this folder, which must exist
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The page of this verb instead of the whole program's
    #[arg(value_name = "VERB", conflicts_with = "dir")]
    verb: Option<String>,
}

/// Prints or writes pages of `command`.
pub(crate) fn run(mut command: Command, args: &Args) -> Done {
    command.build();
    if let Some(dir) = &args.dir {
        for (name, page) in pages(command)? {
            let path = dir.join(name);
            std::fs::write(&path, page).map_err(|error| {
                Failure::io(format!("{}: writing failed", path.display()), error, "check the folder")
            })?;
        }
        return Ok(Outcome::Clean);
    }
    let page = match &args.verb {
        None => page(command)?,
        Some(verb) => match verbs(&command).find(|command| command.get_name() == verb) {
            Some(command) => page(of_verb(command))?,
            None => {
                return Err(Failure::Usage(format!("there is no verb {verb}; `seslog --help` lists them")));
            }
        },
    };
    let mut out = Out::new();
    out.bytes(&page)?;
    out.flush()?;
    Ok(Outcome::Clean)
}

/// File names and pages of the program and of each verb.
fn pages(command: Command) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut pages = Vec::new();
    for verb in verbs(&command) {
        pages.push((format!("seslog-{}.1", verb.get_name()), page(of_verb(verb))?));
    }
    pages.push(("seslog.1".to_owned(), page(command)?));
    Ok(pages)
}

fn verbs(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
}

/// The verb with what its page says of the whole program. Its name is `seslog-VERB` since the command was built.
fn of_verb(verb: &Command) -> Command {
    verb.clone().version(env!("CARGO_PKG_VERSION"))
}

fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::io("the page could not be rendered", error, "report this as a bug"))?;
    Ok(page)
}
