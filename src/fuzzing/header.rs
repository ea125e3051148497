//! Target `header`: the first line of a log, of any generation.

use crate::container::{Encoding, LogId, create, header_line};
use crate::format::catalog::{Classified, classify};
use crate::json::{Node, Tape, Text};
use crate::limits::Limits;
use crate::row::{Header, HeaderFault, Seeding};
use crate::units::Generation;

/// Reads `data` as a header line.
///
/// # Panics
/// If the borrowed reader and one that parses the whole tree disagree on the line or on any member; if a header that is
/// written and read again is another; if a beginning of it is taken for it; if a container gives back another line; or if its
/// class does not follow from it.
pub fn fuzz_header(data: &[u8]) {
    let limits = Limits::DEFAULT;
    let parsed = Header::parse(data, &limits);
    let expected = tree_reading(data);
    match (&parsed, &expected) {
        (Ok(header), Some(expected)) => assert_eq!(&Members::of(header), expected),
        (Err(_), None) => {}
        _ => unreachable!("one reader takes the line and the other does not: {parsed:?}, {expected:?}"),
    }
    class_follows(data, &parsed);
    let header = match parsed {
        Ok(header) => header,
        Err(HeaderFault::UnknownMember { name }) => {
            let spelled = data.get(name.start..name.end).expect("a span lies in the line");
            assert!(data.get(name.end) == Some(&b'"'), "a name ends in a quote");
            assert!(
                !NAMES.iter().any(|known| known.as_bytes() == spelled && is_common(known)),
                "{spelled:?}"
            );
            return;
        }
        Err(HeaderFault::NotUtf8 { offset }) => {
            assert_eq!(std::str::from_utf8(data).map_err(|error| error.valid_up_to()), Err(offset));
            return;
        }
        Err(_) => return,
    };

    let mut line = Vec::new();
    header.write(&mut line);
    assert_eq!(Header::parse(&line, &limits).as_ref(), Ok(&header), "written and read again");
    let mut tape = Tape::default();
    let node = tape.parse(&line, 2).expect("a header nests once");
    assert!(node.is_canonical(), "a header is written as JavaScript writes it");
    // Cut anywhere it is no header, and a limit below its length refuses it.
    for cut in (0..line.len()).step_by(line.len().div_euclid(40).max(1)) {
        let cut = line.get(..cut).unwrap_or_default();
        assert!(Header::parse(cut, &limits).is_err(), "a cut header was taken");
    }
    // The limit counts the newline.
    let exact = Limits { header_bytes_max: (line.len() as u64).saturating_add(1), ..limits };
    let short = Limits { header_bytes_max: line.len() as u64, ..limits };
    assert!(Header::parse(&line, &exact).is_ok(), "a header as long as the limit");
    assert!(matches!(Header::parse(&line, &short), Err(HeaderFault::TooLong { .. })), "one byte too long");
    containers_give_it_back(&header, line);
}

/// All member names.
const NAMES: [&str; 11] = [
    "type",
    "version",
    "id",
    "createdAt",
    "cwd",
    "parentSession",
    "seedLength",
    "isSeeded",
    "origin",
    "delegationDepth",
    "agentPreset",
];

/// Whether every generation has the member.
fn is_common(name: &str) -> bool {
    !matches!(name, "seedLength" | "isSeeded")
}

/// A header, member by member.
#[derive(Debug, PartialEq, Eq)]
struct Members {
    version: u64,
    id: Text,
    created_at: u64,
    cwd: Option<Text>,
    parent_session: Option<Text>,
    seeding: Seeding,
    origin_subagent: bool,
    delegation_depth: u64,
    agent_preset: Option<Text>,
}

impl Members {
    fn of(header: &Header) -> Self {
        Self {
            version: header.generation().get(),
            id: header.id().clone(),
            created_at: header.created_at().get().unsigned_abs(),
            cwd: header.cwd().cloned(),
            parent_session: header.parent_session().cloned(),
            seeding: header.seeding(),
            origin_subagent: header.is_origin_subagent(),
            delegation_depth: header.delegation_depth(),
            agent_preset: header.agent_preset().cloned(),
        }
    }
}

/// The header read the slow way: all of it into a tree, then rule by rule.
fn tree_reading(line: &[u8]) -> Option<Members> {
    if line.len() as u64 >= Limits::DEFAULT.header_bytes_max {
        return None;
    }
    let mut tape = Tape::default();
    let row = tape.parse(line, Limits::DEFAULT.nesting_max).ok()?;
    let text = |name: &str| row.get(name).map(|node| node.as_str().map(|text| text.to_text()));
    let count = |node: Node<'_>| node.as_number().and_then(|number| number.as_count());
    let version = count(row.get("version")?)?;
    let counts_seed = version < 2;
    let allowed = |name: &str| match name {
        "seedLength" => counts_seed,
        "isSeeded" => !counts_seed,
        _ => true,
    };
    let is_known =
        |name: crate::json::Str<'_>| NAMES.iter().any(|&known| name.eq_str(known) && allowed(known));
    let is_session = row.get("type")?.as_str()?.eq_str("session");
    let is_ours = version <= Generation::CURRENT.get() && is_session;
    (is_ours && row.members()?.all(|(name, _)| is_known(name))).then_some(())?;
    let cwd = text("cwd").map_or(Some(None), |cwd| cwd.map(Some))?;
    cwd.as_ref().is_none_or(|cwd| cwd.as_bytes().first() == Some(&b'/')).then_some(())?;
    Some(Members {
        version,
        id: text("id")??,
        created_at: count(row.get("createdAt")?)?,
        cwd,
        parent_session: text("parentSession").map_or(Some(None), |parent| parent.map(Some))?,
        seeding: match (counts_seed, row.get("seedLength"), row.get("isSeeded")) {
            (true, Some(cut), _) => Seeding::Counted(count(cut)?),
            (true, None, _) => Seeding::Unseeded,
            (false, _, is_seeded) => {
                if is_seeded?.as_bool()? {
                    Seeding::Marked
                } else {
                    Seeding::Unseeded
                }
            }
        },
        origin_subagent: match row.get("origin") {
            None => false,
            Some(origin) => origin.as_str()?.eq_str("subagent").then_some(true)?,
        },
        delegation_depth: count(row.get("delegationDepth")?)?,
        agent_preset: text("agentPreset").map_or(Some(None), |preset| preset.map(Some))?,
    })
}

fn class_follows(line: &[u8], parsed: &Result<Header, HeaderFault>) {
    match (classify(line, &Limits::DEFAULT), parsed) {
        (Classified::Current(class), Ok(header)) => {
            assert_eq!(&class, header);
            assert_eq!(class.generation(), Generation::CURRENT);
        }
        (Classified::MigrationRequired { stored, header: converted }, Ok(header)) => {
            assert_eq!(&stored, header);
            assert!(
                stored.generation() < Generation::CURRENT && converted.generation() == Generation::CURRENT
            );
            assert_eq!((stored.id(), stored.created_at()), (converted.id(), converted.created_at()));
        }
        (Classified::Refused { stored, .. }, Err(HeaderFault::Newer { version })) => {
            assert_eq!(stored, Some(Generation::new(*version)));
            assert!(*version > Generation::CURRENT.get());
        }
        (Classified::Refused { stored, .. }, _) => {
            assert!(stored.is_none_or(Generation::is_supported), "{stored:?}");
        }
        (class, parsed) => unreachable!("{class:?} for {parsed:?}"),
    }
}

/// A file that holds the header gives back its line, cut or not.
fn containers_give_it_back(header: &Header, mut line: Vec<u8>) {
    line.push(b'\n');
    let id = LogId::new(9).expect("not 0");
    for encoding in Encoding::ALL {
        let mut bytes = Vec::new();
        create(encoding, id, &line, header.created_at().get(), 1, &mut bytes).expect("a short header");
        let read = header_line(&mut bytes.as_slice(), encoding, Limits::DEFAULT).expect("it is there");
        assert_eq!(read, line, "{encoding}");
        bytes.pop();
        // The last byte of an indexed header is its trailer's.
        if encoding != Encoding::Indexed {
            let cut = header_line(&mut bytes.as_slice(), encoding, Limits::DEFAULT);
            assert!(cut.is_err(), "{encoding}: half a header was served");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_each_generation_hold_and_so_do_their_neighbours() {
        let headers = [
            r#"{"type":"session","version":0,"id":"a","createdAt":1,"seedLength":2,"delegationDepth":0}"#,
            r#"{"type":"session","version":1,"id":"a","createdAt":1,"origin":"subagent","delegationDepth":1}"#,
            r#"{"type":"session","version":2,"id":"\ud800","createdAt":1,"cwd":"/w","isSeeded":true,"delegationDepth":0,"agentPreset":"x"}"#,
        ];
        for header in headers {
            assert!(tree_reading(header.as_bytes()).is_some(), "{header}");
            fuzz_header(header.as_bytes());
            for at in 0..header.len() {
                for byte in b"\"\\,:{}[]0 9e-\x80" {
                    let mut changed = header.as_bytes().to_vec();
                    changed[at] = *byte;
                    fuzz_header(&changed);
                    changed.remove(at);
                    fuzz_header(&changed);
                }
            }
        }
    }
}
