//! A small bar: how much came when.

/// Columns of a bar.
const COLUMNS: usize = 16;

/// Counts by time, in equal pieces of a span.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bar {
    first: i64,
    /// Milliseconds from the first to the last, both included.
    span: i128,
    counts: [u64; COLUMNS],
}

/// What a bar is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// Eighths of a block.
    Unicode,
    /// Characters of about that weight.
    Ascii,
}

impl Blocks {
    /// Blocks, unless the locale names another character set than UTF-8.
    pub(crate) fn of_locale() -> Self {
        let set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let named = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(set).and_then(std::env::var_os);
        Self::of(named.map(|value| value.to_string_lossy().into_owned()).as_deref())
    }

    fn of(locale: Option<&str>) -> Self {
        let is_utf8 = |locale: &str| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        };
        if locale.is_none_or(is_utf8) { Self::Unicode } else { Self::Ascii }
    }

    const fn levels(self) -> [char; 8] {
        match self {
            Self::Unicode => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Self::Ascii => ['.', ':', '-', '=', '+', '*', '#', '@'],
        }
    }
}

impl Bar {
    /// An empty bar over the time from `first` to `last`, in milliseconds.
    pub(crate) fn over(first: i64, last: i64) -> Self {
        let span = i128::from(last).saturating_sub(first.into()).max(0).saturating_add(1);
        Self { first, span, counts: [0; COLUMNS] }
    }

    /// Counts one at `time`. What lies outside, as the clock stepped, counts at the edge.
    pub(crate) fn add(&mut self, time: i64) {
        let since =
            i128::from(time).saturating_sub(self.first.into()).clamp(0, self.span.saturating_sub(1).max(0));
        let column = since.saturating_mul(COLUMNS as i128).checked_div(self.span).unwrap_or(0);
        let column = usize::try_from(column).unwrap_or(0);
        if let Some(count) = self.counts.get_mut(column) {
            *count = count.saturating_add(1);
        }
    }

    /// How much came in each piece of the span.
    pub(crate) const fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The bar: a blank where nothing came, else the more the higher. Nothing at all if nothing came.
    pub(crate) fn draw(&self, blocks: Blocks) -> String {
        let most = self.counts.iter().copied().max().unwrap_or(0);
        let levels = blocks.levels();
        let level = |count: u64| {
            // From 1 to 8, rounded up: one of many is still seen.
            let level = u128::from(count).saturating_mul(8).div_ceil(u128::from(most).max(1));
            let at = usize::try_from(level).ok()?.checked_sub(1)?;
            levels.get(at).copied()
        };
        let drawn: String = self.counts.iter().map(|&count| level(count).unwrap_or(' ')).collect();
        drawn.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_when_how_much_came() {
        let mut bar = Bar::over(1000, 1159);
        assert_eq!(bar.draw(Blocks::Unicode), "");
        for time in [1000, 1009, 1010, 1159, 1150, 1151, 1152, 1153, 1154, 1155] {
            bar.add(time);
        }
        assert_eq!(bar.draw(Blocks::Unicode), "▃▂             █");
        assert_eq!(bar.draw(Blocks::Ascii), "-:             @");
    }

    #[test]
    fn times_outside_and_spans_of_nothing_count_at_the_edge() {
        let mut bar = Bar::over(5, 5);
        bar.add(5);
        assert_eq!(bar.draw(Blocks::Unicode), "█");
        let mut bar = Bar::over(100, 50);
        [0, 100, i64::MAX].into_iter().for_each(|time| bar.add(time));
        assert_eq!(bar.draw(Blocks::Ascii), "@");
        let mut bar = Bar::over(i64::MIN, i64::MAX);
        [i64::MIN, 0, i64::MAX].into_iter().for_each(|time| bar.add(time));
        assert_eq!(bar.draw(Blocks::Ascii), "@       @      @");
        Bar::default().add(3);
    }

    #[test]
    fn another_character_set_gets_ascii() {
        for (locale, blocks) in [
            (None, Blocks::Unicode),
            (Some("en_GB.UTF-8"), Blocks::Unicode),
            (Some("C.utf8"), Blocks::Unicode),
            (Some("C"), Blocks::Ascii),
            (Some("de_DE.ISO-8859-1"), Blocks::Ascii),
        ] {
            assert_eq!(Blocks::of(locale), blocks, "{locale:?}");
        }
    }
}
