//! One JSON object a line: members in the order in which they are added, absent rather than null.

use std::path::Path;

use seslog::json::{Text, write_i64, write_number, write_string, write_text, write_u64};

/// An object that is being written.
#[derive(Debug, Default)]
pub(crate) struct Object {
    text: Vec<u8>,
}

impl Object {
    /// An object without members.
    pub(crate) fn new() -> Self {
        Self { text: vec![b'{'] }
    }

    /// A string.
    pub(crate) fn string(&mut self, name: &str, value: &str) -> &mut Self {
        write_string(self.name(name), value);
        self
    }

    /// A string from a log: lone surrogates stay what they are, as escapes.
    pub(crate) fn text(&mut self, name: &str, value: &Text) -> &mut Self {
        write_text(self.name(name), value);
        self
    }

    /// A path. What is not UTF-8 in it is replaced.
    pub(crate) fn path(&mut self, name: &str, value: &Path) -> &mut Self {
        self.string(name, &value.to_string_lossy())
    }

    /// A count, a size, an offset.
    pub(crate) fn number(&mut self, name: &str, value: u64) -> &mut Self {
        write_u64(self.name(name), value);
        self
    }

    /// A count, if there is one.
    pub(crate) fn opt_number(&mut self, name: &str, value: Option<u64>) -> &mut Self {
        if let Some(value) = value {
            self.number(name, value);
        }
        self
    }

    /// A time.
    pub(crate) fn signed(&mut self, name: &str, value: i64) -> &mut Self {
        write_i64(self.name(name), value);
        self
    }

    /// JSON text, as it is.
    pub(crate) fn json(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name).extend_from_slice(value.as_bytes());
        self
    }

    /// A number with a fraction.
    pub(crate) fn real(&mut self, name: &str, value: f64) -> &mut Self {
        write_number(self.name(name), value);
        self
    }

    /// True or false.
    pub(crate) fn flag(&mut self, name: &str, value: bool) -> &mut Self {
        self.name(name).extend_from_slice(if value { b"true" } else { b"false" });
        self
    }

    /// An array of paths.
    pub(crate) fn paths<P: AsRef<Path>>(&mut self, name: &str, values: &[P]) -> &mut Self {
        let text = self.name(name);
        text.push(b'[');
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            write_string(text, &value.as_ref().to_string_lossy());
        }
        text.push(b']');
        self
    }

    /// An array of objects.
    pub(crate) fn objects(&mut self, name: &str, values: impl Iterator<Item = Self>) -> &mut Self {
        let text = self.name(name);
        text.push(b'[');
        for (index, mut value) in values.enumerate() {
            if index > 0 {
                text.push(b',');
            }
            value.text.push(b'}');
            text.append(&mut value.text);
        }
        text.push(b']');
        self
    }

    /// An object as a member.
    pub(crate) fn object(&mut self, name: &str, mut value: Self) -> &mut Self {
        value.text.push(b'}');
        self.name(name).append(&mut value.text);
        self
    }

    /// The object as one line, newline included.
    pub(crate) fn into_line(mut self) -> Vec<u8> {
        self.text.extend_from_slice(b"}\n");
        self.text
    }

    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if self.text.len() > 1 {
            self.text.push(b',');
        }
        write_string(&mut self.text, name);
        self.text.push(b':');
        &mut self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_in_order_and_lone_surrogates_as_escapes() {
        let mut lone = Text::from("a");
        lone.push_unit(0xd83d);
        let mut inner = Object::new();
        inner.number("pid", 7);
        let mut object = Object::new();
        object.text("id", &lone).opt_number("none", None).flag("isSeeded", false).object("lock", inner);
        object.paths("older", &["x\u{1b}"]).objects("damage", std::iter::once(Object::new()));
        assert_eq!(
            String::from_utf8(object.into_line()).unwrap(),
            "{\"id\":\"a\\ud83d\",\"isSeeded\":false,\"lock\":{\"pid\":7},\"older\":[\"x\\u001b\"],\"damage\":[{}]}\n"
        );
    }
}
