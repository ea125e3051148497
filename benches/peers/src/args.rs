//! The command line.

use std::path::PathBuf;

use crate::Result;

pub const USAGE: &str = "\
seslog and what people would use instead, on the same work, in turns.

    cargo run --release --manifest-path benches/peers/Cargo.toml -- [OPTIONS]

--quick          small sets and few rounds: whether everything works, no numbers to keep
--only WORK      only works whose name begins so; may be repeated, or a list with commas. `scale`, `study` and `journal` are among them
--rounds N       at most so many rounds of everything (11; with --quick 3)
--budget MIN     start no further round after so many minutes, at least 3 rounds are run (18); the curves come after that
--out DIR        where results go (benches/results/DATE-MACHINE; with --quick target/quick of this package)
--machine NAME   what to call this machine in the folder's name
--dir DIR        where stores are made, on the disk that is to be measured (target of this package); at most 8 GB,
                 deleted afterwards
--list           the names of all works

SESLOG_ORACLE    where the original is installed; otherwise target/oracle, where `.ci/run oracle` puts it
";

#[derive(Clone, Debug)]
pub struct Options {
    pub quick: bool,
    pub only: Vec<String>,
    pub rounds: usize,
    pub budget_minutes: f64,
    pub out: Option<PathBuf>,
    pub machine: Option<String>,
    pub dir: PathBuf,
    pub list: bool,
    /// As it was typed.
    pub command: String,
}

impl Options {
    pub fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self {
            quick: false,
            only: Vec::new(),
            rounds: 0,
            budget_minutes: 18.0,
            out: None,
            machine: None,
            dir: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target")),
            list: false,
            command: args.join(" "),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value\n\n{USAGE}"));
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--list" => options.list = true,
                "--only" => options.only.extend(value()?.split(',').map(str::to_owned)),
                "--rounds" => options.rounds = value()?.parse()?,
                "--budget" => options.budget_minutes = value()?.parse()?,
                "--out" => options.out = Some(value()?.into()),
                "--machine" => options.machine = Some(value()?.clone()),
                "--dir" => options.dir = value()?.into(),
                _ => return Err(format!("{arg}?\n\n{USAGE}").into()),
            }
        }
        if options.rounds == 0 {
            options.rounds = if options.quick { 3 } else { 11 };
        }
        Ok(options)
    }

    /// Whether a work is wanted.
    pub fn wants(&self, work: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| work.starts_with(only.as_str()))
    }
}
