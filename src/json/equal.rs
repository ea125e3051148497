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

#[cfg(test)]
mod tests {
    use crate::json::Tape;
    use std::fmt::Write as _;

    fn equal(left: &str, right: &str) -> bool {
        let (mut one, mut other) = (Tape::default(), Tape::default());
        let depth_max = u32::MAX;
        let (left, right) = (
            one.parse(left.as_bytes(), depth_max).unwrap(),
            other.parse(right.as_bytes(), depth_max).unwrap(),
        );
        assert_eq!(left.deep_eq(right), right.deep_eq(left));
        assert!(left.deep_eq(left) && right.deep_eq(right));
        left.deep_eq(right)
    }

    #[test]
    fn spelling_and_member_order_do_not_matter() {
        for (left, right) in [
            ("1", "1.0"),
            ("9007199254740992", "9007199254740993"),
            ("0", "-0"),
            ("1e400", "2e400"),
            (r#""a""#, r#""\u0061""#),
            (r#""😀""#, r#""\ud83d\ude00""#),
            ("[ ]", "[]"),
            ("{}", "{ }"),
            ("[1,[2,{}],null,true]", "[1e0, [2, {}], null, true]"),
            (r#"{"a":1,"b":{"c":2,"d":[3]}}"#, r#"{"b":{"d":[3],"c":2},"a":1}"#),
            (r#"{"x":0,"a":1,"b":2,"c":3}"#, r#"{"x":0,"c":3,"\u0062":2,"a":1}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#"{"b":0,"a":1,"b":2}"#, r#"{"a":9,"b":2,"a":1}"#),
        ] {
            assert!(equal(left, right), "{left} {right}");
        }
    }

    #[test]
    fn any_other_difference_does() {
        let different = [
            "null",
            "true",
            "false",
            "0",
            "1",
            "1e400",
            "-1e400",
            r#""""#,
            r#""0""#,
            r#""\ud800""#,
            r#""\ufffd""#,
            "[]",
            "[0]",
            "[1]",
            "[0,0]",
            "[[]]",
            "[{}]",
            "{}",
            r#"{"a":0}"#,
            r#"{"a":1}"#,
            r#"{"b":0}"#,
            r#"{"a":0,"b":0}"#,
            r#"{"a":0,"c":0}"#,
            r#"{"a":{"a":0}}"#,
            r#"{"a":{"b":0}}"#,
            r#"{"a":[],"b":[[]]}"#,
            r#"{"a":[[]],"b":[]}"#,
        ];
        for (left_at, left) in different.iter().enumerate() {
            for (right_at, right) in different.iter().enumerate() {
                assert_eq!(equal(left, right), left_at == right_at, "{left} {right}");
            }
        }
    }

    #[test]
    fn a_hundred_thousand_names_in_reverse_order_are_paired_up() {
        const NAMES: usize = 100_000;
        let object = |names: &mut dyn Iterator<Item = usize>| {
            let mut text = String::from("{\"\":0");
            names.for_each(|at| write!(text, ",\"n{at}\":{at}").unwrap());
            text.push('}');
            text
        };
        assert!(equal(&object(&mut (0..NAMES)), &object(&mut (0..NAMES).rev())));
    }

    #[test]
    fn depth_costs_no_stack() {
        let nested = |inner: &str| {
            const LEVELS: usize = 100_000;
            "[{\"a\":".repeat(LEVELS) + inner + &"}]".repeat(LEVELS)
        };
        assert!(equal(&nested("1"), &nested("1.0")));
        assert!(!equal(&nested("1"), &nested("2")));
    }
}
