//! A number for a JSON value, equal for values that are deeply equal: member order, spelling and escapes do not count.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::json::{Items, Kind, Members, Node, Str};

/// Makes fingerprints of one run. They are keyed at random, so no input is made to collide; 128 bits wide.
#[derive(Debug, Default)]
pub(crate) struct Fingerprints {
    keys: [RandomState; 2],
}

/// A value's fingerprint. Members of an object are summed, so their order does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint([u64; 2]);

/// A container whose elements are being hashed.
enum Open<'t> {
    List { items: Items<'t>, sum: Fingerprint, index: u64 },
    Object { members: Members<'t>, sum: Fingerprint, name: Option<Str<'t>> },
}

impl Fingerprints {
    /// The fingerprint of the members of an object, one of them left out. Time linear in the text; no recursion.
    pub(crate) fn of_members(&self, object: Node<'_>, left_out: &str) -> Fingerprint {
        let mut sum = Fingerprint::default();
        for (name, value) in object.members().into_iter().flatten() {
            if !name.eq_str(left_out) {
                sum = sum.plus(self.member(name, self.of(value)));
            }
        }
        sum
    }

    /// The fingerprint of several parts in order.
    pub(crate) fn of_parts(&self, parts: &[Fingerprint]) -> Fingerprint {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.0).flat_map(u64::to_le_bytes).collect();
        self.of_bytes(b'p', &bytes)
    }

    fn of(&self, value: Node<'_>) -> Fingerprint {
        let mut open: Vec<Open<'_>> = Vec::new();
        let mut next = Some(value);
        loop {
            // Either a value is to be hashed, or the innermost container goes on or ends.
            let done = match next.take() {
                Some(value) => match self.start(value) {
                    Ok(done) => done,
                    Err(container) => {
                        open.push(container);
                        match self.advance(&mut open, &mut next) {
                            Some(done) => done,
                            None => continue,
                        }
                    }
                },
                None => return Fingerprint::default(),
            };
            let mut done = done;
            loop {
                let Some(container) = open.last_mut() else { return done };
                self.add(container, done);
                match self.advance(&mut open, &mut next) {
                    Some(closed) => done = closed,
                    None => break,
                }
            }
        }
    }

    /// The fingerprint of a scalar, or the container to go into.
    fn start<'t>(&self, value: Node<'t>) -> Result<Fingerprint, Open<'t>> {
        if let Some(items) = value.items() {
            return Err(Open::List { items, sum: Fingerprint::default(), index: 0 });
        }
        if let Some(members) = value.members() {
            return Err(Open::Object { members, sum: Fingerprint::default(), name: None });
        }
        Ok(match value.kind() {
            Kind::String => match value.as_str() {
                Some(text) => self.of_text(text),
                None => Fingerprint::default(),
            },
            Kind::Number => {
                let number = value.as_number().map_or(0.0, |number| number.value());
                // 0 and -0 are equal.
                let number = if number == 0.0 { 0.0 } else { number };
                self.of_bytes(b'n', &number.to_bits().to_le_bytes())
            }
            _ => self.of_bytes(b'w', value.raw().as_bytes()),
        })
    }

    /// Goes to the next element of the innermost container; its fingerprint if it has no more.
    fn advance<'t>(&self, open: &mut Vec<Open<'t>>, next: &mut Option<Node<'t>>) -> Option<Fingerprint> {
        match open.last_mut()? {
            Open::List { items, .. } => *next = items.next(),
            Open::Object { members, name, .. } => {
                let member = members.next();
                *name = member.map(|(name, _)| name);
                *next = member.map(|(_, value)| value);
            }
        }
        if next.is_some() {
            return None;
        }
        let (tag, sum) = match open.pop()? {
            Open::List { sum, .. } => (b'l', sum),
            Open::Object { sum, .. } => (b'o', sum),
        };
        let [a, b] = sum.0.map(u64::to_le_bytes);
        Some(self.of_bytes(tag, &[a, b].concat()))
    }

    fn add(&self, container: &mut Open<'_>, element: Fingerprint) {
        match container {
            Open::List { sum, index, .. } => {
                let [a, b] = element.0.map(u64::to_le_bytes);
                *sum = sum.plus(self.of_bytes(b'i', &[index.to_le_bytes(), a, b].concat()));
                *index = index.wrapping_add(1);
            }
            Open::Object { sum, name, .. } => {
                if let Some(name) = *name {
                    *sum = sum.plus(self.member(name, element));
                }
            }
        }
    }

    fn member(&self, name: Str<'_>, value: Fingerprint) -> Fingerprint {
        let words = [self.of_text(name).0, value.0].concat();
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        self.of_bytes(b'm', &bytes)
    }

    fn of_text(&self, text: Str<'_>) -> Fingerprint {
        match text.as_plain() {
            Some(plain) => self.of_bytes(b's', plain.as_bytes()),
            None => self.of_bytes(b's', text.to_text().as_bytes()),
        }
    }

    fn of_bytes(&self, tag: u8, bytes: &[u8]) -> Fingerprint {
        Fingerprint(self.keys.each_ref().map(|key| {
            let mut hasher = key.build_hasher();
            hasher.write_u8(tag);
            hasher.write(bytes);
            hasher.finish()
        }))
    }
}

impl Fingerprint {
    fn plus(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.0, other.0);
        Self([a.wrapping_add(c), b.wrapping_add(d)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Tape;

    #[test]
    fn equal_values_have_equal_fingerprints() {
        let fingerprints = Fingerprints::default();
        let of = |text: &str| {
            let mut tape = Tape::default();
            fingerprints.of(tape.parse(text.as_bytes(), 1_000_000).expect("test data is JSON"))
        };
        for (a, b) in [
            (r#"{"a":[1,{"x":null}],"b":"é"}"#, r#" {"b":"\u00e9","a":[1.0, {"x":null}]}"#),
            ("[0]", "[-0]"),
            (r#"{"a":2,"a":1}"#, r#"{"a":1}"#),
            ("{}", "{ }"),
        ] {
            assert_eq!(of(a), of(b), "{a} {b}");
        }
        let different = [
            "[]", "{}", "null", "false", "0", "\"\"", "[[]]", "[{}]", "[1,2]", "[2,1]", "[1]", "\"0\"",
            "[[1],2]", "[[1,2]]",
        ];
        for (index, a) in different.iter().enumerate() {
            for b in &different[index + 1..] {
                assert_ne!(of(a), of(b), "{a} {b}");
            }
        }
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(of(&deep), of(&deep));
    }
}
