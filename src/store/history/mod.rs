//! History for a screen: a log in pages, forward and backward from anywhere, and the turns in it.
//!
//! ```
//! # use seslog::{json::Text, row::Header, units::{Generation, UnixMs}};
//! # use seslog::store::{Cancel, MemoryStorage, MemoryStore, SessionHandle as _};
//! use seslog::store::history::{PageLimits, PageRequest};
//! # let store = MemoryStore::new(&MemoryStorage::new());
//! # let header = Header::new(Generation::CURRENT, Text::from("s"), UnixMs::new(5)).unwrap();
//! # let never = Cancel::never();
//! # let handle = store.create(header, None)?;
//! # handle.append(&[br#"{"type":"turn/start","seq":0,"time":6,"data":{"turn":1}}"#])?;
//!
//! // What a screen shows first: the last turns, but no more than a mebibyte.
//! let limits = PageLimits::default().with_turns(5);
//! let last = handle.page(&PageRequest::last(limits), &never)?;
//! // It scrolls up: the page before.
//! if let Some(before) = last.before {
//!     let earlier = handle.page(&PageRequest::before(before, limits), &never)?;
//!     assert_eq!(earlier.next_seq(), last.first_seq);
//! }
//! // Later: what was appended meanwhile. The cursor is text if it has to be, and knows its log.
//! let after = last.after.to_string().parse().expect("it is one");
//! let news = handle.page(&PageRequest::after(after, limits), &never)?;
//! assert!(news.events.is_empty() && !news.has_more());
//! # Ok::<(), seslog::Error>(())
//! ```
//!
//! What a page of a file costs, besides the page itself: the head of the file (a page of the disk), and
//! - from the end, or from a cursor: nothing that grows with the log. A zstd frame is read whole, and DSH's migration writes a log
//!   as one. Of appends to an indexed log that were never synced, all bytes are checked on the way (a CRC-32, no decompression).
//! - from a seq: O(log n) trailers of an indexed log, O(log n) pages of a plain one, the headers of all frames of a zstd one.
//! - while the end is torn: nothing but a walk from the head tells what is torn off. All bytes of an indexed log are checked (not
//!   decompressed, unless the page begins with a seq), the headers of all frames of a zstd log hopped over. The next append
//!   repairs it.
//! - in a log of an older generation: the conversion of all of it. Migrate such logs before they are paged through.
//!
//! The end of a log is found from behind as `stat` finds it: in a zstd log by frames with checksums that lead to the end of the file,
//! in an indexed one by its last trailer. Whoever could forge these inside a row, checksum and all, could show a page that is none.
//!
//! Damage is met where it stands and nowhere else: pages on both sides of it are served, end there ([`PageEnd::Fault`]), and the page
//! that would begin with it fails.

mod cursor;
mod handle_pages;
mod intake;
mod log_pages;
mod meter;
mod page;
mod preview;
mod request;
mod rows;
mod turns;

pub use cursor::{Cursor, CursorSyntaxError};
pub(super) use handle_pages::page_of_handle;
pub(super) use log_pages::{Paged, page_of_log};
pub use page::{Page, PageEnd};
pub use request::{Direction, PageLimits, PageRequest, PageStart};
pub use turns::{Turn, TurnIndex};
