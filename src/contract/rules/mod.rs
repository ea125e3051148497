//! The rules, in the order of the contract's chapters. Each is a function that panics where the backend breaks it.
//!
//! Where one of seslog's own choices beats the contract as it was observed, a comment at the rule says which.

pub(super) mod cancellation;
pub(super) mod consumers;
pub(super) mod damage;
pub(super) mod handles;
pub(super) mod metadata;
pub(super) mod ownership;
pub(super) mod visibility;
pub(super) mod write_behind;
