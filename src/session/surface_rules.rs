//! What a running host demands of surface events besides their place on the surface.
//!
//! Spec: `format-spec/06-migration.md`, "Installed session".

use super::fingerprint::{Fingerprint, Fingerprints};
use super::kind::Kind;
use super::profile::MessageSources;
use super::seqs::SeqList;
use super::surface::SurfaceFault;
use crate::json::Node;

/// Checks the sources that the event `seq` of type `kind` cites.
pub(crate) fn check_sources(
    kind: Kind,
    seq: u64,
    sources: &SeqList,
    policy: MessageSources,
) -> Result<(), SurfaceFault> {
    let is_message = kind == Kind::AssistantMessage;
    if is_message && policy == MessageSources::Forbidden {
        return Err(SurfaceFault::MessageSources);
    }
    if sources.is_empty() && !is_message {
        return Err(SurfaceFault::NoSources);
    }
    if sources.is_below(seq) && sources.is_unique() { Ok(()) } else { Err(SurfaceFault::BadSources) }
}

/// The fingerprint of a tool result without the content of its one block, which is all that a replacement may change;
/// `None` if it has no such block. Time linear in `data`.
pub(crate) fn kept(fingerprints: &Fingerprints, data: Node<'_>) -> Option<Fingerprint> {
    let message = data.get("message")?;
    let mut blocks = message.get("content")?.items()?;
    let (block, None) = (blocks.next()?, blocks.next()) else { return None };
    let of = |object, left_out| fingerprints.of_members(object, left_out);
    let parts = [of(data, "message"), of(message, "content"), of(block, "content")];
    Some(fingerprints.of_parts(&parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Tape;

    fn list(seqs: &[u64]) -> SeqList {
        let mut list = SeqList::default();
        seqs.iter().for_each(|seq| list.push_run(*seq, *seq));
        list
    }

    #[test]
    fn r025_sources_are_earlier_and_unique_and_some() {
        let check = |kind, seqs: &[u64], policy| check_sources(kind, 5, &list(seqs), policy);
        let (user, policy) = (Kind::UserMessage, MessageSources::Optional);
        assert_eq!(check(user, &[4, 0], policy), Ok(()));
        assert_eq!(check(user, &[], policy), Err(SurfaceFault::NoSources));
        assert_eq!(check(user, &[5], policy), Err(SurfaceFault::BadSources));
        assert_eq!(check(user, &[1, 1], policy), Err(SurfaceFault::BadSources));
        let message = Kind::AssistantMessage;
        assert_eq!(check(message, &[], policy), Ok(()), "a stream known to be empty");
        assert_eq!(check(message, &[1], MessageSources::Forbidden), Err(SurfaceFault::MessageSources));
        assert_eq!(check(message, &[], MessageSources::Forbidden), Err(SurfaceFault::MessageSources));
    }

    #[test]
    fn r027_what_a_rewritten_tool_result_keeps_is_everything_but_the_inner_content() {
        let fingerprints = Fingerprints::default();
        let of = |text: &str| {
            let mut tape = Tape::default();
            kept(&fingerprints, tape.parse(text.as_bytes(), 64).unwrap())
        };
        let result = r#"{"turn":1,"step":1,"message":{"id":"m","role":"user","source":{"kind":"tool","callId":"c"},"content":[{"type":"tool-result","toolCallId":"c","isError":false,"content":[1]}]},"meta":{"a":1}}"#;
        let former = of(result);
        assert!(former.is_some());
        assert_eq!(of(&result.replace("[1]", "[2,{}]")), former);
        assert_eq!(of(&result.replace(r#""turn":1,"step":1"#, r#""step":1.0,"turn":1"#)), former);
        for (from, to) in [
            (r#""turn":1"#, r#""turn":2"#),
            (r#""id":"m""#, r#""id":"n""#),
            (r#""role":"user""#, r#""role":"tool""#),
            (r#""callId":"c""#, r#""callId":"d""#),
            (r#""toolCallId":"c""#, r#""toolCallId":"d""#),
            (r#""isError":false,"#, r#""isError":true,"#),
            (r#""isError":false,"#, ""),
            (r#""a":1"#, r#""a":2"#),
            (r#""meta""#, r#""error""#),
        ] {
            assert!(result.contains(from));
            assert_ne!(of(&result.replace(from, to)), former, "{from} -> {to}");
        }
        assert_eq!(of(&result.replace("}]},\"meta", "},1]},\"meta")), None, "two blocks");
        assert_eq!(of(r#"{"turn":1}"#), None);
    }
}
