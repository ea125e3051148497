//! The logical log above its rows: what a turn left open, and what the model sees.
//!
//! Knows events and their payloads, not files or encodings.

mod closers;

pub use closers::OpenTurn;
