//! Writes one JSON object, member by member.

use crate::json::{Node, Str, Text, write_string, write_text, write_u64};

/// An object that is being written, member by member.
#[derive(Debug)]
pub(super) struct Object<'o> {
    pub(super) out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> Object<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }

    fn comma(&mut self) {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
    }

    /// Starts a member whose name comes from the input.
    pub(super) fn name(&mut self, name: Str<'_>) {
        self.comma();
        self.out.push(b'"');
        self.out.extend_from_slice(name.raw().as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// Starts a member whose name needs no escapes.
    pub(super) fn plain_key(&mut self, name: &'static str) {
        self.comma();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// Starts a member.
    pub(super) fn key(&mut self, name: &str) {
        self.comma();
        write_string(self.out, name);
        self.out.push(b':');
    }

    /// Copies a member as it is spelled.
    pub(super) fn copy(&mut self, name: Str<'_>, value: Node<'_>) {
        self.name(name);
        self.out.extend_from_slice(value.raw().as_bytes());
    }

    pub(super) fn copy_all(&mut self, object: Node<'_>) {
        self.copy_except(object, &[]);
    }

    pub(super) fn copy_except(&mut self, object: Node<'_>, names: &[&str]) {
        for (name, value) in object.members().into_iter().flatten() {
            if !names.iter().any(|left_out| name.eq_str(left_out)) {
                self.copy(name, value);
            }
        }
    }

    pub(super) fn value(&mut self, name: &str, value: Node<'_>) {
        self.key(name);
        self.out.extend_from_slice(value.raw().as_bytes());
    }

    pub(super) fn plain(&mut self, name: &'static str, value: &str) {
        self.plain_key(name);
        write_string(self.out, value);
    }

    pub(super) fn text(&mut self, name: &str, value: &Text) {
        self.key(name);
        write_text(self.out, value);
    }

    pub(super) fn count(&mut self, name: &'static str, value: u64) {
        self.plain_key(name);
        write_u64(self.out, value);
    }

    pub(super) fn object(&mut self, name: &str) -> Object<'_> {
        self.key(name);
        Object::new(self.out)
    }

    /// Starts a list and an object as its first item; the list's end is left to the caller.
    pub(super) fn object_in_list(&mut self, name: &str) -> Object<'_> {
        self.key(name);
        self.out.push(b'[');
        Object::new(self.out)
    }
}
