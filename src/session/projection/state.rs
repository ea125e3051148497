//! Writing and reading of states: one spelling, members in order, absent rather than null.

use crate::json::{Node, Text, write_i64, write_string, write_text, write_u64};
use crate::units::UnixMs;

/// The largest count that a state holds: JSON numbers above it are not exact.
pub(super) const COUNT_MAX: u64 = (1 << 53) - 1;

/// One more, as far as a state can count.
pub(super) fn add(count: u64, more: u64) -> u64 {
    count.saturating_add(more).min(COUNT_MAX)
}

/// An object that is being written.
pub(super) struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    is_first: bool,
}

impl<'o> ObjectWriter<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_first: true }
    }

    pub(super) fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(b',');
        }
        write_string(self.out, name);
        self.out.push(b':');
        self.out
    }

    pub(super) fn count(&mut self, name: &str, count: u64) {
        write_u64(self.name(name), count);
    }

    pub(super) fn time(&mut self, name: &str, time: Option<UnixMs>) {
        if let Some(time) = time {
            write_i64(self.name(name), time.get());
        }
    }

    pub(super) fn text(&mut self, name: &str, text: &Text) {
        write_text(self.name(name), text);
    }

    /// A member that is there if it is true.
    pub(super) fn flag(&mut self, name: &str, is_set: bool) {
        if is_set {
            self.name(name).extend_from_slice(b"true");
        }
    }

    pub(super) fn list<T>(&mut self, name: &str, items: &[T], write: impl Fn(&T, &mut Vec<u8>)) {
        let out = self.name(name);
        out.push(b'[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write(item, out);
        }
        out.push(b']');
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

pub(super) fn read_count(node: Node<'_>, name: &str) -> Option<u64> {
    node.get(name)?.as_number()?.as_count()
}

pub(super) fn read_text(node: Node<'_>, name: &str) -> Option<Text> {
    Some(node.get(name)?.as_str()?.to_text())
}

/// A time that may be absent: `None` if it is there and none.
pub(super) fn read_time(node: Node<'_>, name: &str) -> Option<Option<UnixMs>> {
    match node.get(name) {
        None => Some(None),
        Some(time) => time.as_number()?.as_safe_integer().map(|time| Some(UnixMs::new(time))),
    }
}

pub(super) fn read_flag(node: Node<'_>, name: &str) -> Option<bool> {
    match node.get(name) {
        None => Some(false),
        Some(flag) => flag.as_bool().filter(|set| *set),
    }
}

pub(super) fn read_list<T>(
    node: Node<'_>,
    name: &str,
    len_max: usize,
    read: impl Fn(Node<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let items = node.get(name)?.items()?;
    if items.len() > len_max {
        return None;
    }
    items.map(read).collect()
}
