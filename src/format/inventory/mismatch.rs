//! Why a payload does not fit its schema.

use std::fmt;

use super::rules::Rule;
use crate::json::Str;

/// The first way in which a payload departs from its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Where: member names from the outside in, joined by dots; empty for the payload itself.
    path: String,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    Value,
    Length,
    Repeated,
    Missing,
    Unexpected(String),
    /// A number that would not survive being written again.
    Lossy,
    Rule(Rule),
    /// The inventory itself is incomplete; its tests exclude that.
    Unfinished,
}

/// A member name from the input is shown up to this many bytes.
const NAME_BYTES_MAX: usize = 64;

impl Mismatch {
    pub(super) fn unexpected(name: Str<'_>) -> Self {
        let mut shown = name.to_string_lossy().into_owned();
        if shown.len() > NAME_BYTES_MAX {
            let end = (0..=NAME_BYTES_MAX).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or(0);
            shown.truncate(end);
        }
        Problem::Unexpected(shown).into()
    }

    /// Whether the payload has its form, and only holds a number that would be lost when it is written again.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        self.problem == Problem::Lossy
    }

    /// The same mismatch seen from the object that holds the value as member `name`.
    pub(super) fn inside(mut self, name: &str) -> Self {
        if self.path.is_empty() {
            name.clone_into(&mut self.path);
        } else {
            self.path = format!("{name}.{}", self.path);
        }
        self
    }
}

impl From<Problem> for Mismatch {
    fn from(problem: Problem) -> Self {
        Self { path: String::new(), problem }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "data" } else { &self.path };
        match &self.problem {
            Problem::Value => write!(f, "{path} has a value that its schema does not admit"),
            Problem::Length => write!(f, "{path} has too few or too many elements"),
            Problem::Repeated => write!(f, "{path} repeats an element"),
            Problem::Missing => write!(f, "{path} is missing"),
            Problem::Unexpected(name) => write!(f, "{path} has the unexpected member {name:?}"),
            Problem::Lossy => {
                write!(f, "{path} holds -0 or a number too large, which JSON cannot write back")
            }
            Problem::Rule(rule) => write!(f, "{path} breaks the rule {}", rule.name()),
            Problem::Unfinished => write!(f, "{path} has no finished check"),
        }
    }
}

impl std::error::Error for Mismatch {}
