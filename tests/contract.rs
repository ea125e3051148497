//! The numbered rules of the seam's contract, as far as the store reaches them, once per encoding.
//!
//! A rule is a function over a [`seam::Seam`]: a disk that can lose power, lose its processes and refuse calls, and the store
//! on it. Where a rule of the contract is beaten by one of seslog's own choices, a comment beside the test says by which.
//!
//! Not reached, and why:
//!
//! | rule | |
//! |---|---|
//! | 60, first half | a lock file replaced while it is taken is a matter of the real disk: `container::disk::lock` tests it |
//! | 63 | offsets and lengths are unsigned integers here |
//! | 80, admission | no append judges types yet: the rule runs as with admission opted out |
//! | 91 | no memo of parsed logs exists yet |
//! | 107 | core messages are validated by the restore path of the session layer, which no handle runs yet |
//! | 111 to 122 | the tests of write-behind have them: `tests/behind` |
//! | 134 to 140 | cancellation, and consumers above the store |

mod common;

#[path = "contract/damage.rs"]
mod damage;
#[path = "contract/handles.rs"]
mod handles;
#[path = "contract/metadata.rs"]
mod metadata;
#[path = "contract/ownership.rs"]
mod ownership;
#[path = "contract/seam.rs"]
mod seam;
#[path = "contract/visibility.rs"]
mod visibility;
