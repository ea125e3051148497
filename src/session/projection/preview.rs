use super::state::{ObjectWriter, read_flag, read_text};
use crate::json::{Node, Str, Text};

/// The beginning of a text, in one line: runs of white space and control characters are one space, and none stands at either end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// At most [`Preview::UNITS_MAX`] UTF-16 code units.
    pub text: Text,
    /// Whether the text goes on.
    pub is_cut: bool,
}

impl Preview {
    /// Longest preview, in UTF-16 code units. Another number makes other states: those that have previews get another version.
    pub const UNITS_MAX: usize = 160;

    /// Whether there was no text but white space.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The preview of `parts`, one behind the other with a space between.
    pub(super) fn of<'t>(parts: impl IntoIterator<Item = Str<'t>>) -> Self {
        let mut units: Vec<u16> = Vec::new();
        let (mut space_due, mut is_cut) = (false, false);
        'parts: for part in parts {
            for unit in part.units() {
                if is_space(unit) {
                    space_due = !units.is_empty();
                    continue;
                }
                let room = if space_due { 2 } else { 1 };
                if units.len().saturating_add(room) > Self::UNITS_MAX {
                    is_cut = true;
                    break 'parts;
                }
                if std::mem::take(&mut space_due) {
                    units.push(u16::from(b' '));
                }
                units.push(unit);
            }
            space_due = !units.is_empty();
        }
        if is_cut && units.last().is_some_and(|last| (0xd800..0xdc00).contains(last)) {
            // Half of what does not fit, and what stood before it.
            units.pop();
            units.pop_if(|last| *last == u16::from(b' '));
        }
        let mut text = Text::new();
        units.into_iter().for_each(|unit| text.push_unit(unit));
        Self { text, is_cut }
    }

    pub(super) fn write(&self, object: &mut ObjectWriter<'_>) {
        object.text("text", &self.text);
        object.flag("cut", self.is_cut);
    }

    pub(super) fn read(node: Node<'_>) -> Option<Self> {
        let text = read_text(node, "text").filter(|text| text.len_units() <= Self::UNITS_MAX)?;
        Some(Self { text, is_cut: read_flag(node, "cut")? })
    }
}

fn is_space(unit: u16) -> bool {
    char::from_u32(u32::from(unit)).is_some_and(|char| char.is_whitespace() || char.is_control())
}
