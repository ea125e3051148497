//! Explores schedules of followers: the very code of `src/live` where writer and followers meet, compiled here over locks of which
//! a scheduler decides every step.
//!
//! A run is one schedule, drawn from a seed. A schedule that fails is printed by shuttle, for `shuttle::replay`. Time stands still:
//! a wait never ends by itself here, so a wake that is lost is a deadlock, which shuttle finds.
//!
//! `SESLOG_EXPLORE=N` explores N times as many schedules.

#![allow(dead_code, unused_imports, reason = "the included code is used as far as these tests go")]
#![allow(unreachable_pub, reason = "it is public where it belongs")]

// What the included code imports, from where it imports it.
mod json {
    pub(crate) use seslog::json::*;
}
mod limits {
    pub(crate) use seslog::limits::Limits;
}
mod row {
    pub(crate) use seslog::row::{Check, Event, RowFault};
}
mod stream {
    pub(crate) use seslog::stream::*;
}
mod units {
    pub(crate) use seslog::units::UnixMs;
}

#[path = "../src/live"]
mod live {
    mod baseline;
    mod follower;
    mod frame;
    mod hub;
    mod ring;
    #[path = "../../tests/explore/followers.rs"]
    mod scenarios;
    #[path = "../../tests/explore/live_sync.rs"]
    mod sync;
    mod wire;
}
