//! Names: which folder a session lives in, which file its log is, and which names are none of ours.
//!
//! Spec: `format-spec/01-container.md`, "Folders and files".

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::container::Encoding;
use crate::json::Text;
use crate::units::Generation;

/// Where sessions without a working directory live.
const NO_CWD: &str = "_no-cwd";
/// A project folder's name keeps this many characters between its dashes.
const PROJECT_NAME_MAX: usize = 251;
/// The write lock beside a log.
pub const LOCK_NAME: &str = "session.lock";
/// 2^53 - 1: a higher number in a file name is no generation.
const VERSION_MAX: u64 = 9_007_199_254_740_991;

/// Name of a session's folder: the id with every unsafe UTF-16 unit as `~XXXX`. `None` for the empty id, which no
/// folder can hold.
///
/// Different ids have different names, and no name leads out of its folder.
#[must_use]
pub fn session_dir_name(id: &Text) -> Option<String> {
    match id.as_bytes() {
        b"" => None,
        b"." => Some("~002E".to_owned()),
        b".." => Some("~002E~002E".to_owned()),
        _ => {
            let mut name = String::with_capacity(id.len_units());
            id.units().for_each(|unit| push_unit(&mut name, unit));
            Some(name)
        }
    }
}

/// Name of the folder that holds the sessions of a working directory. `None` for an empty path.
///
/// Different working directories may share one: separators fold into dashes and long paths are cut.
#[must_use]
pub fn project_dir_name(cwd: Option<&Text>) -> Option<String> {
    let Some(cwd) = cwd else { return Some(NO_CWD.to_owned()) };
    if cwd.is_empty() {
        return None;
    }
    let mut name = String::new();
    let mut in_separators = false;
    for unit in cwd.units() {
        let is_separator = [b'/', b'\\', b':'].map(u16::from).contains(&unit);
        if !is_separator {
            push_unit(&mut name, unit);
        } else if !in_separators {
            name.push('-');
        }
        in_separators = is_separator;
    }
    let kept: String = name.trim_start_matches('-').chars().take(PROJECT_NAME_MAX).collect();
    Some(format!("--{}--", if kept.is_empty() { "root" } else { &kept }))
}

/// Whether a folder's name is one that [`project_dir_name`] gives. A session's folder below any other stands in no root.
#[must_use]
pub fn is_project_dir_name(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    bytes == NO_CWD.as_bytes() || (bytes.len() > 4 && bytes.starts_with(b"--") && bytes.ends_with(b"--"))
}

/// Name of the log file of a generation and encoding.
#[must_use]
pub fn log_name(generation: Generation, encoding: Encoding) -> String {
    match generation.get() {
        0 => format!("session{}", encoding.suffix()),
        version => format!("session.v{version}{}", encoding.suffix()),
    }
}

/// The generation and encoding that a file name states, if it is canonical: `session[.vN].jsonl[.zst|.zstd]`.
#[must_use]
pub fn parse_log_name(name: &OsStr) -> Option<(Generation, Encoding)> {
    let stem = name.to_str()?.strip_prefix("session")?;
    // The longest suffix first: each is a prefix of the next.
    let encodings = [Encoding::Zstd, Encoding::Indexed, Encoding::Plain];
    let (version, encoding) =
        encodings.into_iter().find_map(|encoding| Some((stem.strip_suffix(encoding.suffix())?, encoding)))?;
    if version.is_empty() {
        return Some((Generation::V0, encoding));
    }
    let digits = version.strip_prefix(".v")?;
    let plain =
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let number = digits.parse::<u64>().ok().filter(|&number| plain && number <= VERSION_MAX)?;
    Some((Generation::new(number), encoding))
}

/// What a name beside a log is, when it is no log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Beside {
    /// The write lock.
    Lock,
    /// A temporary file of a publication that was interrupted.
    Temporary,
    /// A torn tail that a repair set aside.
    SetAside,
    /// Nothing of ours.
    Stray,
}

/// Tells what a name in a session folder is, when [`parse_log_name`] does not know it.
#[must_use]
pub fn classify_beside(name: &OsStr) -> Beside {
    let Some(name) = name.to_str() else { return Beside::Stray };
    if name == LOCK_NAME {
        return Beside::Lock;
    }
    let is_hex = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    if let Some((log, tag)) = name.strip_suffix(".tmp").and_then(|stem| stem.rsplit_once('.'))
        && is_hex(tag, 12)
        && (parse_log_name(OsStr::new(log)).is_some() || classify_beside(OsStr::new(log)) == Beside::SetAside)
    {
        return Beside::Temporary;
    }
    let migration = name.strip_prefix("session.migration.").and_then(|rest| rest.strip_suffix(".tmp"));
    if migration.and_then(|rest| rest.split_once('.')).is_some_and(|(tag, _)| is_hex(tag, 16)) {
        return Beside::Temporary;
    }
    match name.split_once(".torn-") {
        Some((log, _)) if parse_log_name(OsStr::new(log)).is_some() => Beside::SetAside,
        _ => Beside::Stray,
    }
}

/// Whether a file directly in a project folder is a log of the retired flat layout.
#[must_use]
pub fn is_flat_log(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    Encoding::ALL.iter().any(|encoding| bytes.ends_with(encoding.suffix().as_bytes()))
}

/// Path of a session's folder below `root`, if both names exist.
#[must_use]
pub fn session_path(root: &Path, cwd: Option<&Text>, id: &Text) -> Option<PathBuf> {
    Some(root.join(project_dir_name(cwd)?).join(session_dir_name(id)?))
}

/// `folder` and `name` in memory of just their length: [`Path::join`] takes nearly twice as much.
pub(crate) fn joined(folder: &Path, name: &OsStr) -> PathBuf {
    let len = folder.as_os_str().len().saturating_add(name.len()).saturating_add(1);
    let mut path = PathBuf::with_capacity(len);
    path.push(folder);
    path.push(name);
    path
}

/// An id, a path or any other stored text as a person may see it: control characters and lone surrogates escaped, so
/// that nothing from a log can drive a terminal.
#[must_use]
pub fn printable(text: &Text) -> String {
    let mut shown = String::with_capacity(text.len_units());
    for decoded in char::decode_utf16(text.units()) {
        match decoded {
            Ok(char) if char.is_control() || is_direction(char) => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(char));
            }
            Ok(char) => shown.push(char),
            Err(_) => shown.push(char::REPLACEMENT_CHARACTER),
        }
    }
    shown
}

/// Characters that turn the writing direction, and with it what a person believes to read.
const fn is_direction(char: char) -> bool {
    matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

fn push_unit(name: &mut String, unit: u16) {
    match u8::try_from(unit).map(char::from) {
        Ok(char) if char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-') => name.push(char),
        _ => {
            let _ = write!(name, "~{unit:04X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(string: &str) -> Text {
        Text::from(string)
    }

    #[test]
    fn session_folders_follow_the_table() {
        for (id, folder) in [
            ("session-1", "session-1"),
            ("a/b", "a~002Fb"),
            ("a~b", "a~007Eb"),
            ("é", "~00E9"),
            ("😀", "~D83D~DE00"),
            ("..", "~002E~002E"),
            (".", "~002E"),
            ("...", "..."),
            (".hidden", ".hidden"),
            ("\0", "~0000"),
        ] {
            assert_eq!(session_dir_name(&text(id)).as_deref(), Some(folder));
        }
        let mut lone = Text::new();
        lone.push_unit(0xd800);
        assert_eq!(session_dir_name(&lone).as_deref(), Some("~D800"));
        assert_eq!(session_dir_name(&Text::new()), None);
    }

    #[test]
    fn project_folders_follow_the_table() {
        for (cwd, folder) in [
            ("/home/ann/proj", "--home-ann-proj--"),
            ("C:\\work\\agent", "--C-work-agent--"),
            ("/a//b/", "--a-b---"),
            ("/a/-b", "--a--b--"),
            ("/", "--root--"),
            ("/-", "--root--"),
            ("\\\\srv\\share", "--srv-share--"),
            ("/开发/~x", "--~5F00~53D1-~007Ex--"),
            ("/a.b_c d", "--a.b_c~0020d--"),
        ] {
            assert_eq!(project_dir_name(Some(&text(cwd))).as_deref(), Some(folder));
        }
        assert_eq!(project_dir_name(None).as_deref(), Some("_no-cwd"));
        assert_eq!(project_dir_name(Some(&Text::new())), None);
        for name in ["--root--", "_no-cwd", "----x--"] {
            assert!(is_project_dir_name(OsStr::new(name)), "{name}");
        }
        for name in ["", "--", "----", "input", "--x", "x--"] {
            assert!(!is_project_dir_name(OsStr::new(name)), "{name}");
        }
        let long = project_dir_name(Some(&text(&format!("/{}", "é".repeat(60))))).unwrap();
        assert_eq!(long.len(), 255);
        assert!(long.ends_with("~00E9~--"), "the cut falls inside an escape: {long}");
    }

    #[test]
    fn only_canonical_names_are_logs() {
        for generation in [0, 1, 2, 17, VERSION_MAX] {
            for encoding in Encoding::ALL {
                let name = log_name(Generation::new(generation), encoding);
                assert_eq!(parse_log_name(OsStr::new(&name)), Some((Generation::new(generation), encoding)));
            }
        }
        for name in [
            "session.v0.jsonl",
            "session.v01.jsonl",
            "session.V1.jsonl",
            "session.v9007199254740992.jsonl",
            "session.v.jsonl",
            "session.v+1.jsonl",
            "session.jsonl.zstd.bak",
            "session.jsonl.gz",
            "xsession.jsonl",
            "session (conflicted copy 2025-08-12).jsonl.zstd",
        ] {
            assert_eq!(parse_log_name(OsStr::new(name)), None, "{name}");
        }
    }

    #[test]
    fn leftovers_are_told_from_strays() {
        for (name, beside) in [
            ("session.lock", Beside::Lock),
            ("session.v2.jsonl.zstd.9f3a1c0b2d4e.tmp", Beside::Temporary),
            ("session.migration.0123456789abcdef.jsonl.zstd.tmp", Beside::Temporary),
            ("session.v2.jsonl.zst.torn-12-3-deadbeef", Beside::SetAside),
            ("session.v2.jsonl.zst.torn-12-3-deadbeef-2", Beside::SetAside),
            ("session.v2.jsonl.zst.torn-12-3-deadbeef.9f3a1c0b2d4e.tmp", Beside::Temporary),
            ("session.jsonl.zstd.bak.1755000000000", Beside::Stray),
            ("session.v2.jsonl.zstd.XXXX.tmp", Beside::Stray),
            ("attachments.txt", Beside::Stray),
        ] {
            assert_eq!(classify_beside(OsStr::new(name)), beside, "{name}");
        }
    }

    #[test]
    fn shown_text_cannot_drive_a_terminal() {
        assert_eq!(printable(&text("tab\there\u{1b}[2J\u{202e}x")), "tab\\u{9}here\\u{1b}[2J\\u{202e}x");
        assert_eq!(printable(&text("emoji-🔑")), "emoji-🔑");
    }
}
