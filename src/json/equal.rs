use super::node::{Items, Kind, Members, Node};

/// See [`Node::deep_eq`].
pub(super) fn deep_eq(left: Node<'_>, right: Node<'_>) -> bool {
    if left.raw() == right.raw() {
        return true; // the same text means the same value
    }
    let mut comparison = Comparison { left, right, due: Vec::new() };
    if !comparison.value(left, right) {
        return false;
    }
    while let Some((left, right)) = comparison.due.pop() {
        if !comparison.container(left, right) {
            return false;
        }
    }
    true
}

struct Comparison<'l, 'r> {
    left: Node<'l>,
    right: Node<'r>,
    /// Slots of containers of the same kind whose contents are still to be compared.
    due: Vec<(u32, u32)>,
}

impl<'l, 'r> Comparison<'l, 'r> {
    /// Compares two values as far as their contents need no walk; puts off those that do.
    fn value(&mut self, left: Node<'l>, right: Node<'r>) -> bool {
        let kind = left.kind();
        if kind != right.kind() {
            return false;
        }
        match kind {
            Kind::Null => true,
            Kind::Bool => left.as_bool() == right.as_bool(),
            Kind::Number => match (left.as_number(), right.as_number()) {
                (Some(left), Some(right)) => left.raw() == right.raw() || left.value() == right.value(),
                _ => false,
            },
            Kind::String => match (left.as_str(), right.as_str()) {
                (Some(left), Some(right)) => left == right,
                _ => false,
            },
            Kind::Array | Kind::Object => {
                let ((.., left), (.., right)) = (left.parts(), right.parts());
                self.due.push((left, right));
                true
            }
        }
    }

    fn container(&mut self, left: u32, right: u32) -> bool {
        let ((left_slots, left_text, _), (right_slots, right_text, _)) =
            (self.left.parts(), self.right.parts());
        let (Some(left), Some(right)) =
            (Node::at(left_slots, left_text, left), Node::at(right_slots, right_text, right))
        else {
            return false;
        };
        if let (Some(left), Some(right)) = (left.items(), right.items()) {
            self.items(left, right)
        } else if let (Some(left), Some(right)) = (left.members(), right.members()) {
            self.members(left, right)
        } else {
            false
        }
    }

    fn items(&mut self, left: Items<'l>, right: Items<'r>) -> bool {
        left.len() == right.len() && left.zip(right).all(|(left, right)| self.value(left, right))
    }

    fn members(&mut self, mut left: Members<'l>, mut right: Members<'r>) -> bool {
        if left.len() != right.len() {
            return false;
        }
        // As far as the names come in the same order, they pair up as they stand.
        loop {
            let (left_rest, right_rest) = (left.clone(), right.clone());
            let (Some((left_name, left_value)), Some((right_name, right_value))) =
                (left.next(), right.next())
            else {
                return true;
            };
            if left_name != right_name {
                (left, right) = (left_rest, right_rest);
                break;
            }
            if !self.value(left_value, right_value) {
                return false;
            }
        }
        // Names are distinct on either side, so sorting pairs up the rest.
        let mut left: Vec<_> = left.collect();
        let mut right: Vec<_> = right.collect();
        left.sort_unstable_by_key(|(name, _)| *name);
        right.sort_unstable_by_key(|(name, _)| *name);
        left.into_iter().zip(right).all(|((left_name, left_value), (right_name, right_value))| {
            left_name == right_name && self.value(left_value, right_value)
        })
    }
}
