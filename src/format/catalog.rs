//! What a header line says about its log: current, to be converted, not for this build, or no header at all.
//!
//! There is one list of generations and one chain of steps between neighbours, fixed at build time, so the same bytes
//! give the same result everywhere.

use super::migration::translate;
use super::refusal::{Code, Detail, Refusal, Stage};
use crate::json::{Node, Number, Tape};
use crate::limits::Limits;
use crate::row::{Header, HeaderFault, HeaderMember};
use crate::units::Generation;

/// The steps of the chain, each from a generation to the next.
pub const STEPS: [(Generation, Generation); 2] =
    [(Generation::V0, Generation::V1), (Generation::V1, Generation::V2)];

const _: () = {
    let (mut at, mut from) = (0, 0);
    while let Some((step, _)) = STEPS.split_at(at).1.split_first() {
        assert!(step.0.get() == from && step.1.get() == from + 1, "a step for every generation, in order");
        (at, from) = (at + 1, from + 1);
    }
    assert!(from == Generation::CURRENT.get(), "the chain ends at the current generation");
};

/// The class of a log by its header line alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Classified {
    /// A log of the current generation.
    Current(Header),
    /// A log of an older generation that this build converts.
    MigrationRequired {
        /// The header as stored.
        stored: Header,
        /// The header of the same session in the current generation. How many events are inherited only the rows tell.
        header: Header,
    },
    /// No log that this build interprets: class `unsupported` for a newer generation, else `malformed`.
    Refused {
        /// The generation, where the header states one.
        stored: Option<Generation>,
        /// Why.
        refusal: Refusal,
    },
}

/// Classifies a log by its header line, without its newline. Reads no row and writes nothing.
///
/// The version is judged before anything else, so a newer header is never called malformed.
///
/// Spec: `format-spec/06-migration.md`, "Header classification".
#[must_use]
pub fn classify(line: &[u8], limits: &Limits) -> Classified {
    let fault = match Header::parse(line, limits) {
        Ok(header) if header.generation() == Generation::CURRENT => return Classified::Current(header),
        Ok(stored) => match translate(&stored) {
            Ok(header) => return Classified::MigrationRequired { stored, header },
            Err(fault) => fault,
        },
        Err(fault) => fault,
    };
    let (stored, code) = match fault {
        HeaderFault::Newer { version } => (Some(Generation::new(version)), Code::NewerVersion),
        HeaderFault::NotUtf8 { .. }
        | HeaderFault::NotJson(_)
        | HeaderFault::NotObject
        | HeaderFault::Missing(HeaderMember::Version)
        | HeaderFault::Member(HeaderMember::Version) => (None, Code::HeaderVersion),
        _ => (stated_version(line, limits), Code::HeaderInvalid),
    };
    let refusal = Refusal::new(Stage::Header, code).at_line(1).with(Detail::Header(fault));
    Classified::Refused { stored, refusal }
}

/// The version that a header states, although it is not that version's header.
fn stated_version(line: &[u8], limits: &Limits) -> Option<Generation> {
    let mut tape = Tape::default();
    let line = (u64::try_from(line.len()).ok()? < limits.header_bytes_max).then_some(line)?;
    let version = tape.parse(line, limits.nesting_max).ok()?.get("version")?;
    Node::as_number(version).and_then(Number::as_count).map(Generation::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> (Option<u64>, &'static str, &'static str) {
        match classify(line.as_bytes(), &Limits::DEFAULT) {
            Classified::Refused { stored, refusal } => {
                (stored.map(Generation::get), refusal.class().name(), refusal.code().name())
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_version_is_judged_first() {
        assert_eq!(refused(r#"{"version":9,"x":-0}"#), (Some(9), "unsupported", "newer-version"));
        assert_eq!(refused(r#"{"version":-0}"#), (None, "malformed", "header-version"));
        assert_eq!(refused("[]"), (None, "malformed", "header-version"));
        assert_eq!(refused("{"), (None, "malformed", "header-version"));
        assert_eq!(refused(r#"{"version":1}"#), (Some(1), "malformed", "header-invalid"));
        assert_eq!(refused(r#"{"version":2,"sandboxMode":1}"#), (Some(2), "malformed", "header-invalid"));
    }

    #[test]
    fn an_older_header_is_translated() {
        let line =
            br#"{"type":"session","version":0,"id":"","createdAt":1,"delegationDepth":0,"seedLength":0}"#;
        let Classified::MigrationRequired { stored, header } = classify(line, &Limits::DEFAULT) else {
            panic!("a v0 header")
        };
        let mut out = Vec::new();
        header.write(&mut out);
        let expected =
            br#"{"type":"session","version":2,"id":"","createdAt":1,"isSeeded":true,"delegationDepth":0}"#;
        assert_eq!((stored.generation(), out.as_slice()), (Generation::V0, expected.as_slice()));
    }
}
