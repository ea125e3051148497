use super::fault::Span;
use super::lex::{self, Members};
use crate::json::Str;

/// The members of an object whose names are known, as raw text. Duplicates are resolved as JavaScript does: the last
/// value counts, in the place of the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a, const N: usize> {
    names: [&'static str; N],
    found: [Option<Found<'a>>; N],
    unknown: Option<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Found<'a> {
    /// Of the first occurrence's name.
    span: Span,
    /// Of the last occurrence.
    value: &'a str,
}

impl<'a, const N: usize> Fields<'a, N> {
    pub(super) fn collect(members: Members<'a>, names: [&'static str; N]) -> Self {
        let mut fields = Self { names, found: [None; N], unknown: None };
        for member in members {
            let name = lex::literal(member.name);
            let slot = fields
                .found
                .iter_mut()
                .zip(names)
                .find(|(_, known)| name.eq_str(known))
                .map(|(slot, _)| slot);
            match slot {
                Some(slot) => {
                    let span = slot.map_or(member.span, |first| first.span);
                    *slot = Some(Found { span, value: member.value });
                }
                None => fields.unknown = fields.unknown.or(Some(member.span)),
            }
        }
        fields
    }

    /// The name of the first member that is none of the known ones.
    pub(super) fn unknown(&self) -> Option<Span> {
        self.unknown
    }

    /// The text of a member's value.
    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.slot(name).map(|found| found.value)
    }

    /// Where a member's name stands.
    pub(super) fn span(&self, name: &str) -> Option<Span> {
        self.slot(name).map(|found| found.span)
    }

    /// A member that is a string.
    pub(super) fn string(&self, name: &str) -> Option<Str<'a>> {
        self.get(name).and_then(lex::string)
    }

    /// A member that is an integer from 0 to 2^53 - 1.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(lex::count)
    }

    fn slot(&self, name: &str) -> Option<Found<'a>> {
        self.names.iter().zip(self.found).find(|(known, _)| **known == name).and_then(|(_, found)| found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_duplicates_counts_in_the_place_of_the_first() {
        let text = r#"{"a":1,"\u0062":"x","a":2,"zz":0,"b":3}"#;
        let fields = Fields::collect(Members::of(text).unwrap(), ["a", "b", "c"]);
        assert_eq!((fields.get("a"), fields.get("b"), fields.get("c")), (Some("2"), Some("3"), None));
        assert_eq!(fields.span("a").unwrap().start, 2);
        assert_eq!(fields.unknown().unwrap().of(text.as_bytes()), b"zz");
        assert_eq!((fields.count("b"), fields.string("b").is_none()), (Some(3), true));
    }
}
