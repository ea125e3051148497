//! Target `path_segment`: names that come from ids, paths and folders that somebody else filled.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use crate::container::Encoding;
use crate::json::Text;
use crate::store::layout::{
    Beside, classify_beside, is_flat_log, is_project_dir_name, log_name, parse_log_name, printable,
    project_dir_name, session_dir_name, session_path,
};
use crate::units::Generation;

/// Takes `data` for an id, a working directory and a file name: once as UTF-8, once as UTF-16 units.
///
/// # Panics
/// If a name leads out of its folder, is not one component of plain ASCII, stands for two ids, or is taken for another kind of
/// file; if a log's name does not read back; or if text for a person holds a control character.
pub fn fuzz_path_segment(data: &[u8]) {
    let mut units = Text::new();
    for pair in data.chunks(2) {
        units.push_unit(u16::from_le_bytes([
            pair.first().copied().unwrap_or(0),
            pair.get(1).copied().unwrap_or(0),
        ]));
    }
    let texts = [std::str::from_utf8(data).ok().map(Text::from), Some(units)];
    for text in texts.into_iter().flatten() {
        ids_have_names(&text);
        directories_have_names(&text);
        nobody_drives_a_terminal(&text);
    }
    file_names_are_told_apart(OsStr::from_bytes(data));
    if let Some(version) = data.first_chunk::<8>() {
        log_names_read_back(u64::from_le_bytes(*version));
    }
}

fn ids_have_names(id: &Text) {
    let Some(name) = session_dir_name(id) else {
        assert!(id.is_empty(), "every id but the empty one has a folder");
        return;
    };
    is_one_component(&name);
    assert_eq!(id_of(&name).as_ref(), Some(id), "{name} stands for another id");
    let path = session_path(Path::new("/root"), Some(id), id);
    let path = path.expect("an id that has a name is no empty path");
    assert!(path.starts_with("/root") && path.components().count() == 4, "{}", path.display());
}

/// What a session's folder is named after, read by the rule in reverse.
fn id_of(name: &str) -> Option<Text> {
    let mut id = Text::new();
    let mut rest = name;
    while let Some(char) = rest.chars().next() {
        rest = rest.get(char.len_utf8()..)?;
        if char == '~' {
            let (digits, behind) = rest.split_at_checked(4)?;
            id.push_unit(u16::from_str_radix(digits, 16).ok()?);
            rest = behind;
        } else {
            id.push(char);
        }
    }
    Some(id)
}

fn directories_have_names(cwd: &Text) {
    assert!(project_dir_name(None).is_some_and(|name| is_project_dir_name(OsStr::new(&name))));
    let Some(name) = project_dir_name(Some(cwd)) else {
        assert!(cwd.is_empty());
        return;
    };
    is_one_component(&name);
    assert!(name.len() <= 255, "{} bytes are too long for a file system", name.len());
    assert!(is_project_dir_name(OsStr::new(&name)), "{name}");
    // Separators fold: doubling one changes nothing.
    let mut doubled = Text::new();
    for unit in cwd.units() {
        doubled.push_unit(unit);
        if unit == u16::from(b'/') {
            doubled.push_unit(unit);
        }
    }
    assert_eq!(project_dir_name(Some(&doubled)), Some(name));
}

/// A name that every file system takes for one entry of the folder it is joined to.
fn is_one_component(name: &str) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-~".contains(&byte);
    assert!(name.bytes().all(is_plain), "{name}");
    let mut components = Path::new(name).components();
    let first = components.next();
    assert!(first == Some(Component::Normal(OsStr::new(name))) && components.next().is_none(), "{name}");
}

fn nobody_drives_a_terminal(text: &Text) {
    let shown = printable(text);
    assert!(!shown.chars().any(char::is_control), "{shown:?}");
    let turns = ['\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}', '\u{200e}'..='\u{200f}'];
    assert!(!shown.chars().any(|char| turns.iter().any(|turn| turn.contains(&char)) || char == '\u{61c}'));
    // What needs no escape stays as it is.
    if let Some(plain) = text.as_str().filter(|plain| plain.bytes().all(|byte| (b' '..0x7f).contains(&byte)))
    {
        assert_eq!(shown, plain);
    }
}

fn file_names_are_told_apart(name: &OsStr) {
    let beside = classify_beside(name);
    let Some((generation, encoding)) = parse_log_name(name) else {
        if beside == Beside::Temporary {
            assert!(name.as_bytes().ends_with(b".tmp"), "{name:?}");
        }
        return;
    };
    assert_eq!(OsStr::new(&log_name(generation, encoding)), name, "a generation has one spelling");
    assert_eq!(beside, Beside::Stray, "{name:?} is a log and nothing else");
    assert!(is_flat_log(name), "{name:?}");
    assert!(!is_project_dir_name(name), "{name:?}");
    // What is set aside or half written beside it never passes for it.
    let mut torn = name.to_owned();
    torn.push(".torn-5");
    assert_eq!((classify_beside(&torn), parse_log_name(&torn)), (Beside::SetAside, None));
    for log in [name, &torn] {
        let mut temporary = log.to_owned();
        temporary.push(".0123456789ab.tmp");
        assert_eq!((classify_beside(&temporary), parse_log_name(&temporary)), (Beside::Temporary, None));
    }
}

fn log_names_read_back(version: u64) {
    for encoding in Encoding::ALL {
        for version in [version, version >> 11, version & 0xff] {
            let name = log_name(Generation::new(version), encoding);
            let read = parse_log_name(OsStr::new(&name));
            let is_number = version <= crate::units::Seq::MAX.get();
            assert_eq!(read, is_number.then_some((Generation::new(version), encoding)), "{name}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_that_is_read_backwards_gives_its_id() {
        assert_eq!(id_of("a~002Fb"), Some(Text::from("a/b")));
        assert_eq!(id_of("~002E~002E"), Some(Text::from("..")));
        assert_eq!(id_of("~00"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_named_safely(data in prop::collection::vec(any::<u8>(), 0..80)) {
            fuzz_path_segment(&data);
        }

        #[test]
        fn names_near_those_of_logs_are_told_apart(name in "session(\\.v[0-9]{0,3})?\\.jsonl(\\.zstd?)?(\\.torn-[0-9])?(\\.[0-9a-f]{12}\\.tmp)?") {
            fuzz_path_segment(name.as_bytes());
        }
    }
}
