use std::sync::LazyLock;

use super::counts::{Counts, TurnCounts};
use super::last_messages::{LastMessages, LastSaid};
use super::models::{Models, ModelsUsed};
use super::projected::Projected;
use super::set::Projections;
use super::title::{SessionTitle, Title};
use super::token_usage::{TokenTotals, Tokens};
use super::wall_times::{WallClock, WallTimes};

/// What a list shows of a session besides its header: the states of the built-in projections.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overview {
    /// Its title, if it has one.
    pub title: Option<SessionTitle>,
    /// The last words of either side.
    pub last_messages: LastSaid,
    /// How much happened.
    pub counts: TurnCounts,
    /// When.
    pub times: WallClock,
    /// Who answered.
    pub models: ModelsUsed,
    /// At what price.
    pub tokens: TokenTotals,
    /// Events that all this is of.
    pub events: u64,
}

impl Overview {
    /// The overview that `projected` holds; `None` if not all built-in projections are in it.
    #[must_use]
    pub fn of(projected: &Projected) -> Option<Self> {
        Some(Self {
            title: projected.get::<Title>()?.clone(),
            last_messages: projected.get::<LastMessages>()?.clone(),
            counts: *projected.get::<Counts>()?,
            times: *projected.get::<WallTimes>()?,
            models: projected.get::<Models>()?.clone(),
            tokens: projected.get::<Tokens>()?.clone(),
            events: projected.folded(),
        })
    }

    /// Whether no turn was ever started: nothing worth a line.
    #[must_use]
    pub const fn is_blank(&self) -> bool {
        self.counts.turns == 0
    }
}

static BUILT_IN: LazyLock<Projections> = LazyLock::new(|| {
    let set = Projections::new().with::<Title>().with::<LastMessages>().with::<Counts>();
    set.with::<WallTimes>().with::<Models>().with::<Tokens>()
});

impl Projections {
    /// The built-in ones, which an [`Overview`] is made of: [`Title`], [`LastMessages`], [`Counts`], [`WallTimes`], [`Models`]
    /// and [`Tokens`]. Their states are bounded, whatever the log: some hundred bytes mostly, as JSON 64 KiB at
    /// most.
    #[must_use]
    pub fn built_in() -> Self {
        BUILT_IN.clone()
    }
}
