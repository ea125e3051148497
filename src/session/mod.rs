//! The logical log above its rows: what a turn left open, and what the model sees.
//!
//! Knows events and their payloads, not files or encodings.

mod checkpoint;
mod closers;
mod fingerprint;
mod fold;
mod fork;
mod intake;
mod kind;
mod log;
mod message;
mod messages;
mod observers;
mod pairing;
mod profile;
mod projection;
mod registry;
mod request;
mod seed;
mod seqs;
#[expect(clippy::module_inception, reason = "the session, beside what makes it up")]
mod session;
mod settings;
mod surface;
mod surface_rules;
mod trace;

pub use checkpoint::{CheckpointKey, StateMark};
pub use closers::OpenTurn;
pub(crate) use fingerprint::{Fingerprint, Fingerprints};
pub use fold::{FoldFault, Replacement, SurfaceFold, derive_messages, fold_surface};
pub use fork::{ForkFault, child_header, fork_prefix};
pub use intake::EventFault;
pub use kind::Kind;
pub use log::Log;
pub use message::MessageFault;
pub(crate) use message::{is_prompt, texts};
pub use messages::Messages;
pub use observers::{CallFailure, HostError, Subscription};
pub use pairing::{Pairing, PairingFault};
pub use profile::{CutForm, MessageSources, Profile, ToolResults};
pub(crate) use projection::KEY_BYTES_MAX;
pub use projection::{
    Counts, LastMessages, LastSaid, ModelTokens, ModelUse, Models, ModelsUsed, Occurrence, OutOfOrder,
    Overview, Preview, Projected, Projection, Projections, Said, SessionTitle, Title, TitleSource, TokenSums,
    TokenTotals, Tokens, TurnCounts, WallClock, WallTimes,
};
pub use registry::{Attachment, ForkSource, LiveFault, Sessions};
pub use request::{RequestFault, RequestHeader, request_context};
pub use seed::CreateFault;
pub(crate) use seqs::{SeqList, SourceRules};
pub use session::{AppendFault, Intent, Session};
pub use settings::{Admission, Settings};
pub use surface::SurfaceFault;
pub(crate) use surface::{Surface, SurfaceOp};
pub(crate) use surface_rules::{check_sources, kept};
pub use trace::{Trace, TraceFault};
