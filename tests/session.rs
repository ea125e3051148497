//! The numbered rules of session logic, each by a test of its number.
//!
//! Not here, and why:
//!
//! | rule | why |
//! |---|---|
//! | 2 | a payload comes as text and is copied once; there are no accessors that a second look could call |
//! | 28 | from generation 3 on; no profile here has `system/message` |
//!
//! Of rule 1, undefined, NaN, big integers, cycles and sparse arrays have no JSON text. Of rule 25, a seq that is no integer
//! has no place in a list of integers; in a row it is refused. Rules 23 to 27 and 29 are also compared with the original's
//! package, in `session_oracle.rs`.

#[path = "session_rules/admission.rs"]
mod admission;
#[path = "session_rules/append.rs"]
mod append;
#[path = "session_rules/closers.rs"]
mod closers;
mod common;
#[path = "session_rules/live.rs"]
mod live;
#[path = "session_rules/messages.rs"]
mod messages;
#[path = "session_rules/requests.rs"]
mod requests;
#[path = "session_rules/seeds.rs"]
mod seeds;
mod sessions;
#[path = "session_rules/surface.rs"]
mod surface;
