//! What differs between the generations of session logic, as one value.
//!
//! Spec: `format-spec/06-migration.md`, "Surface" and "Frozen generations".

use super::kind::Kind;
use crate::row::{Event, PhysicalRow};
use crate::units::Generation;

/// The rules of one generation that session logic depends on. Everything here that a generation decides is taken from it.
///
/// A later generation is a value more; if it has event types that no earlier one had, they become [`Kind`]s first.
#[derive(Debug)]
pub struct Profile {
    generation: Generation,
    /// Released types that the generation does not have.
    lacks: &'static [Kind],
    surface: &'static [Kind],
    replace_keys: [&'static str; 2],
    message_sources: MessageSources,
    tool_results: ToolResults,
    cut: CutForm,
    refuses_retired: bool,
}

/// Whether an `assistant/message` may cite the events that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageSources {
    /// It may, and an empty list says that its stream was empty.
    Optional,
    /// It may not: its stream is inside it. So it can never replace anything.
    Forbidden,
}

/// What the message of a `tool/result` looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolResults {
    /// A message of the user whose content is exactly one block of type `tool-result`, which holds the content proper.
    OneBlock,
}

/// Where a log says how many of its events are inherited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CutForm {
    /// As a number in the header.
    Counted,
    /// By the last `session/end-seed` that is marked as `inherited`.
    Marked,
}

const SURFACE: &[Kind] = &[Kind::UserMessage, Kind::AssistantMessage, Kind::ToolResult];

const V0_VALUE: Profile = Profile {
    generation: Generation::V0,
    lacks: &[Kind::AssistantAttempt],
    surface: SURFACE,
    replace_keys: ["start", "end"],
    message_sources: MessageSources::Optional,
    tool_results: ToolResults::OneBlock,
    cut: CutForm::Counted,
    refuses_retired: true,
};

static V0: Profile = V0_VALUE;

static V1: Profile = Profile { generation: Generation::V1, ..V0_VALUE };

static V2: Profile = Profile {
    generation: Generation::V2,
    lacks: &[Kind::AssistantChunk],
    message_sources: MessageSources::Forbidden,
    cut: CutForm::Marked,
    refuses_retired: false,
    ..V0_VALUE
};

impl Profile {
    /// The profile of `generation`; `None` for one that this build does not know.
    #[must_use]
    pub fn of(generation: Generation) -> Option<&'static Self> {
        [&V0, &V1, &V2].into_iter().find(|profile| profile.generation == generation)
    }

    /// The profile of [`Generation::CURRENT`].
    ///
    /// # Panics
    /// Never: a test holds that there is one.
    #[must_use]
    pub fn current() -> &'static Self {
        Self::of(Generation::CURRENT).expect("the current generation has a profile")
    }

    /// The generation whose rules these are.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether the generation released the type `kind`.
    #[must_use]
    pub fn knows(&self, kind: Kind) -> bool {
        !self.lacks.contains(&kind)
    }

    /// The event type called `name`, if the generation released it.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<Kind> {
        Kind::from_name(name).filter(|kind| self.knows(*kind))
    }

    /// The event of `row` that a reader has to understand and the generation does not know, if there is one: of a type that it
    /// did not release, and not marked as ignorable. Packed rows are of known types by definition.
    ///
    /// Says what the generation's inventory says, and needs no inventory: the first read of a process would wait for it.
    #[must_use]
    pub fn unknown_event<'r>(&self, row: &PhysicalRow<'r>) -> Option<Event<'r>> {
        let PhysicalRow::Event(event) = row else { return None };
        let name = event.event_type();
        let known = match name.as_plain() {
            Some(name) => self.kind(name),
            None => self.kind(&name.to_string_lossy()),
        };
        (known.is_none() && !event.is_ignorable()).then_some(*event)
    }

    /// Whether events of type `kind` take part in the surface.
    #[must_use]
    pub fn is_surface(&self, kind: Kind) -> bool {
        self.surface.contains(&kind)
    }

    /// The members of a replacement that name the first and the last seq of its range.
    #[must_use]
    pub const fn replace_keys(&self) -> [&'static str; 2] {
        self.replace_keys
    }

    /// Whether an `assistant/message` may cite.
    #[must_use]
    pub const fn message_sources(&self) -> MessageSources {
        self.message_sources
    }

    /// The form of tool results.
    #[must_use]
    pub const fn tool_results(&self) -> ToolResults {
        self.tool_results
    }

    /// Where the number of inherited events stands.
    #[must_use]
    pub const fn cut(&self) -> CutForm {
        self.cut
    }

    /// Whether retired events are refused even where unknown ones are let through.
    #[must_use]
    pub const fn refuses_retired(&self) -> bool {
        self.refuses_retired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_supported_generation_has_a_profile() {
        for version in 0..=Generation::CURRENT.get() {
            let generation = Generation::new(version);
            assert_eq!(Profile::of(generation).unwrap().generation(), generation);
        }
        assert!(Profile::of(Generation::new(Generation::CURRENT.get() + 1)).is_none());
        assert_eq!(Profile::current().generation(), Generation::CURRENT);
    }

    #[test]
    fn chunks_and_attempts_exclude_each_other() {
        let (v0, v2) = (Profile::of(Generation::V0).unwrap(), Profile::of(Generation::V2).unwrap());
        assert_eq!(v0.kind("assistant/chunk"), Some(Kind::AssistantChunk));
        assert_eq!(v2.kind("assistant/chunk"), None);
        assert_eq!(v0.kind("assistant/attempt"), None);
        assert_eq!(v2.kind("assistant/attempt"), Some(Kind::AssistantAttempt));
        assert_eq!(v2.kind("request/header-delta"), None);
    }

    #[test]
    fn the_surface_of_a_profile_is_that_of_the_frozen_types() {
        for generation in [Generation::V0, Generation::V1, Generation::V2] {
            let profile = Profile::of(generation).unwrap();
            for kind in Kind::ALL {
                assert_eq!(profile.is_surface(*kind), kind.is_surface(), "{}", kind.name());
            }
        }
    }
}
