//! History pages: do they tile the log whatever their bounds, know a log that is not theirs, and read what they hold and no more?
//!
//! `PROPTEST_CASES` (default 24) is the number of logs for each kind of handle.

mod common;
#[path = "history/cost.rs"]
mod cost;
#[path = "history/damage.rs"]
mod damage;
#[path = "history/model.rs"]
mod model;
#[path = "history/stale.rs"]
mod stale;
#[path = "history/tiling.rs"]
mod tiling;
#[path = "history/turns.rs"]
mod turns;
