//! `new`: a session with nothing in it.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use seslog::container::Encoding;
use seslog::json::Text;
use seslog::row::Header;
use seslog::store::StoreOptions;
use seslog::units::{Generation, UnixMs};

use crate::failure::{Done, Failure, Outcome};
use crate::json::Object;
use crate::out::{Out, clean};
use crate::root::Root;

/// Creates a session, makes it durable, and prints its id.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog new --cwd ~/proj")]
pub(crate) struct Args {
    /// The session's id, any text; a random UUID if not given
    #[arg(long, allow_hyphen_values = true)]
    id: Option<String>,
    /// The working directory that the session belongs to; the present one if not given
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Id of the session that this one comes from
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    parent: Option<String>,
    /// How the log is stored; zstd where DSH's logs stand, indexed elsewhere
    #[arg(long, value_name = "indexed|zstd|plain")]
    encoding: Option<Encoding>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Creates the session.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let id = match &args.id {
        Some(id) => id.clone(),
        None => random_uuid()?,
    };
    let invalid = |error| Failure::Usage(format!("the session cannot have that header: {error}"));
    let mut header = Header::new(Generation::CURRENT, Text::from(id.as_str()), now()).map_err(invalid)?;
    header = header.with_cwd(Text::from(working_directory(args)?.as_str())).map_err(invalid)?;
    if let Some(parent) = &args.parent {
        header = header.with_parent_session(Text::from(parent.as_str()));
    }
    let mut options = StoreOptions::default();
    options.encoding = root.encoding(args.encoding)?;
    let handle = root.store_with(options).create(header, None)?;
    handle.flush()?;
    handle.close()?;
    let mut out = Out::new();
    if args.json {
        let mut object = Object::new();
        object.string("id", &id).string("encoding", options.encoding.name());
        out.bytes(&object.into_line())?;
    } else {
        let shown = if out.is_terminal() { clean(&id).into_owned() } else { id };
        out.line(&shown)?;
    }
    out.flush()?;
    Ok(Outcome::Clean)
}

fn working_directory(args: &Args) -> Result<String, Failure> {
    let given = args.cwd.clone().unwrap_or_else(|| PathBuf::from("."));
    let absolute = match &args.cwd {
        Some(cwd) => std::path::absolute(cwd),
        None => std::env::current_dir(),
    };
    let next = "name an absolute path with --cwd";
    let absolute = absolute.map_err(|error| {
        Failure::io(format!("{}: the working directory is not known", given.display()), error, next)
    })?;
    absolute.into_os_string().into_string().map_err(|path| {
        Failure::new(format!("{}: a working directory has to be UTF-8", path.display()), next)
    })
}

/// The time in Unix milliseconds.
pub(crate) fn now() -> UnixMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMs::new(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A version 4 UUID (RFC 9562, 5.4).
pub(crate) fn random_uuid() -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::io("drawing a random id failed", std::io::Error::other(error), "name one with --id")
    })?;
    Ok(uuid_of(u128::from_le_bytes(bytes)))
}

fn uuid_of(random: u128) -> String {
    let versioned = (random & !(0xf << 76) & !(0b11 << 62)) | (4 << 76) | (0b10 << 62);
    let hex = format!("{versioned:032x}");
    let mut uuid = String::with_capacity(36);
    for (index, digit) in hex.chars().enumerate() {
        if matches!(index, 8 | 12 | 16 | 20) {
            uuid.push('-');
        }
        uuid.push(digit);
    }
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_states_its_version_and_variant() {
        assert_eq!(uuid_of(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid_of(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_ne!(random_uuid().unwrap(), random_uuid().unwrap());
    }
}
