use super::node::{Kind, Node, kind_at};
use super::number::Number;
use super::string::{Piece, Str};
use super::tape::{COUNT, OBJECT_INDEXED, OBJECT_REPEATS, STRING_ODD, Slot, position};
use super::write::{short_escape, write_number, write_piece};

/// Whether `node` is spelled as `JSON.stringify` spells it, judging objects with array-index names pessimistically.
pub(super) fn is_canonical(node: Node<'_>) -> bool {
    let (slots, text, at) = node.parts();
    let own = slots.get(position(at)..position(node.after())).unwrap_or_default();
    // The tokens and the punctuation between them fill the text exactly, unless there is white space.
    let mut len: usize = 0;
    for slot in own {
        let bytes = match kind_at(text, *slot) {
            kind @ (Kind::Array | Kind::Object) => {
                if kind == Kind::Object && slot.has(OBJECT_INDEXED | OBJECT_REPEATS) {
                    return false;
                }
                let count = position(slot.meta & COUNT);
                let colons = if kind == Kind::Object { count } else { 0 };
                count.saturating_sub(1).saturating_add(colons).saturating_add(2)
            }
            Kind::String => {
                if slot.has(STRING_ODD) && !is_canonical_literal(slot.literal(text)) {
                    return false;
                }
                position(slot.end.saturating_sub(slot.start))
            }
            kind => {
                if kind == Kind::Number && !Number::new(slot.raw(text)).is_canonical() {
                    return false;
                }
                position(slot.end.saturating_sub(slot.start))
            }
        };
        len = len.saturating_add(bytes);
    }
    len == node.raw().len()
}

/// Whether every escape of a literal is the one that `JSON.stringify` writes.
fn is_canonical_literal(literal: Str<'_>) -> bool {
    let raw = literal.raw();
    let mut len: usize = 0;
    for piece in literal.pieces() {
        let bytes = match piece {
            Piece::Run(run) => run.len(),
            Piece::Char(char) => match u8::try_from(char) {
                Ok(byte) if short_escape(byte).is_some() => 2,
                Ok(byte) if byte < 0x20 => 6,
                _ => return false,
            },
            Piece::Half(_) => 6,
        };
        // A spelling is never shorter than the canonical one. Where one is longer `len` falls behind for good.
        let end = len.saturating_add(bytes);
        let lower = |spelling: &str| !spelling.bytes().any(|byte| byte.is_ascii_uppercase());
        if bytes == 6 && !matches!(piece, Piece::Run(_)) && !raw.get(len..end).is_some_and(lower) {
            return false;
        }
        len = end;
    }
    len == raw.len()
}

pub(super) fn write(node: Node<'_>, out: &mut Vec<u8>) {
    if is_canonical(node) {
        out.extend_from_slice(node.raw().as_bytes());
    } else {
        Writer { node, out, open: Vec::new(), order: Vec::new() }.write();
    }
}

struct Writer<'t, 'o> {
    node: Node<'t>,
    out: &'o mut Vec<u8>,
    open: Vec<Open>,
    /// Slots of the names of the open objects that are written in another order than they stand, outermost first.
    order: Vec<u32>,
}

/// A container that is being written.
#[derive(Clone, Copy)]
struct Open {
    kind: Kind,
    /// Whether `next` and `base` are places in `Writer::order` instead of slots.
    ordered: bool,
    next: u32,
    left: u32,
    base: u32,
}

impl Writer<'_, '_> {
    fn write(&mut self) {
        let (.., root) = self.node.parts();
        self.value(root);
        while let Some(open) = self.open.last().copied() {
            match open.left.checked_sub(1) {
                Some(left) => self.element(open, left),
                None => {
                    self.out.push(if open.kind == Kind::Array { b']' } else { b'}' });
                    self.open.pop();
                    if open.ordered {
                        self.order.truncate(position(open.base));
                    }
                }
            }
        }
    }

    /// Writes the next item or member of the innermost container; `left` more follow it.
    fn element(&mut self, mut open: Open, left: u32) {
        if !matches!(self.out.last(), Some(b'[' | b'{')) {
            self.out.push(b',');
        }
        open.left = left;
        let value = if open.kind == Kind::Array {
            let value = open.next;
            open.next = self.slot(value).link;
            value
        } else {
            let name = if open.ordered {
                let name = self.order.get(position(open.next)).copied().unwrap_or_default();
                open.next = open.next.saturating_add(1);
                name
            } else {
                let name = open.next;
                open.next = self.slot(name.saturating_add(1)).link;
                name
            };
            let slot = self.slot(name);
            self.literal(slot);
            self.out.push(b':');
            slot.link
        };
        if let Some(last) = self.open.last_mut() {
            *last = open;
        }
        self.value(value);
    }

    /// Writes a scalar, or the opening bracket of a container.
    fn value(&mut self, at: u32) {
        let (_, text, _) = self.node.parts();
        let slot = self.slot(at);
        match kind_at(text, slot) {
            Kind::Null | Kind::Bool => self.out.extend_from_slice(slot.raw(text).as_bytes()),
            Kind::Number => write_number(self.out, Number::new(slot.raw(text)).value()),
            Kind::String => self.literal(slot),
            kind @ (Kind::Array | Kind::Object) => {
                self.out.push(if kind == Kind::Array { b'[' } else { b'{' });
                let mut open = Open {
                    kind,
                    ordered: false,
                    next: at.saturating_add(1),
                    left: slot.meta & COUNT,
                    base: 0,
                };
                if kind == Kind::Object && slot.has(OBJECT_INDEXED | OBJECT_REPEATS) {
                    open.base = u32::try_from(self.order.len()).expect("one for each name at most");
                    open.next = open.base;
                    open.ordered = true;
                    self.put_in_order(at);
                }
                self.open.push(open);
            }
        }
    }

    /// Appends the names of an object to `order`: array indexes ascending, then the others as they stand.
    fn put_in_order(&mut self, object: u32) {
        let (slots, text, _) = self.node.parts();
        let Some(mut members) = Node::at(slots, text, object).and_then(Node::members) else { return };
        let mut indexes = Vec::new();
        let base = self.order.len();
        while let Some((at, name)) = members.next_slots() {
            match array_index(name.literal(text)) {
                Some(index) => indexes.push((index, at)),
                None => self.order.push(at),
            }
        }
        indexes.sort_unstable();
        self.order.splice(base..base, indexes.into_iter().map(|(_, at)| at));
    }

    fn literal(&mut self, slot: Slot) {
        let (_, text, _) = self.node.parts();
        if slot.has(STRING_ODD) {
            self.out.push(b'"');
            slot.literal(text).pieces().for_each(|piece| write_piece(self.out, piece));
            self.out.push(b'"');
        } else {
            self.out.extend_from_slice(slot.raw(text).as_bytes());
        }
    }

    fn slot(&self, at: u32) -> Slot {
        let (slots, ..) = self.node.parts();
        *slots.get(position(at)).expect("links lead to slots of the same value")
    }
}

/// The array index that `name` is: a decimal integer in its canonical spelling, at most 2^32 - 2.
fn array_index(name: Str<'_>) -> Option<u32> {
    let name = name.to_string_lossy();
    let canonical =
        name.bytes().all(|byte| byte.is_ascii_digit()) && (name.len() == 1 || !name.starts_with('0'));
    name.parse().ok().filter(|index| canonical && *index != u32::MAX)
}
