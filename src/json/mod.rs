//! Text of one JSON value, read as ECMAScript's `JSON.parse` reads it and written as `JSON.stringify` writes it.
//!
//! [`check`] decides whether bytes are one JSON value. [`Tape`] indexes a value once and hands out [`Node`]s that
//! borrow from the text; there is no tree of owned values, and code that builds JSON appends to a `Vec<u8>` with the
//! `write_*` functions. Nothing here recurses, so nesting costs memory, never stack. Strings may hold unpaired
//! surrogates: [`Str`] keeps them as written, [`Text`] owns them.
//!
//! Spec: RFC 8259 for the grammar, ECMA-262 `JSON.parse` for duplicates and lone surrogates.

mod canonical;
mod check;
mod compact;
mod equal;
mod error;
pub(crate) mod masks;
mod node;
mod number;
mod string;
mod tape;
mod text;
mod write;

pub(crate) use check::plain_len;
pub use check::{check, check_str};
pub use error::{SyntaxError, SyntaxErrorKind};
pub use node::{Items, Kind, Members, Node};
pub use number::{Number, SAFE_INTEGER_MAX};
pub use string::Str;
pub use tape::Tape;
pub(crate) use tape::Values;
pub use text::Text;
pub use write::{write_i64, write_number, write_string, write_text, write_u64};
