use memchr::{memchr, memchr2};

use crate::json::Str;

/// The strings of valid JSON text, and what stands between them.
pub(super) struct Literals<'j> {
    rest: &'j str,
    is_done: bool,
}

/// A string and what stands before it; at the end, what stands behind the last one.
pub(super) struct Literal<'j> {
    pub(super) before: &'j str,
    pub(super) value: Option<Str<'j>>,
    /// Whether it names a member.
    pub(super) is_name: bool,
}

impl<'j> Literals<'j> {
    /// `json` begins and ends outside of strings.
    pub(super) const fn of(json: &'j str) -> Self {
        Self { rest: json, is_done: false }
    }

    fn next_string(&self) -> Option<(&'j str, &'j str, &'j str)> {
        let quote = memchr(b'"', self.rest.as_bytes())?;
        let (before, text) = self.rest.split_at_checked(quote)?;
        let body = text.get(1..)?;
        let mut at = 0_usize;
        loop {
            let found = memchr2(b'"', b'\\', body.as_bytes().get(at..)?)?;
            at = at.saturating_add(found);
            if body.as_bytes().get(at) == Some(&b'"') {
                let (body, rest) = body.split_at_checked(at)?;
                return Some((before, body, rest.get(1..)?));
            }
            at = at.saturating_add(2);
        }
    }
}

impl<'j> Iterator for Literals<'j> {
    type Item = Literal<'j>;

    fn next(&mut self) -> Option<Literal<'j>> {
        if self.is_done {
            return None;
        }
        let Some((before, body, rest)) = self.next_string() else {
            self.is_done = true;
            return Some(Literal { before: self.rest, value: None, is_name: false });
        };
        self.rest = rest;
        let is_name = rest.trim_start_matches([' ', '\t', '\n', '\r']).starts_with(':');
        Some(Literal { before, value: Some(Str::of_body(body)), is_name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_what_is_between_give_the_text_again() {
        for json in [r#"{"a" : "b\"\\","c":[1,"é\n", ""]}"#, "", "[1,2]", r#""\\""#] {
            let mut again = String::new();
            let mut names = 0;
            for literal in Literals::of(json) {
                again.push_str(literal.before);
                names += usize::from(literal.is_name);
                if let Some(value) = literal.value {
                    again.push_str(&format!("\"{}\"", value.raw()));
                }
            }
            assert_eq!(again, json);
            assert_eq!(names, if json.starts_with('{') { 2 } else { 0 });
        }
    }
}
