//! The two ends of a followed session: who makes its messages, and who takes them in.

use super::baseline::Baseline;
use super::follower::{Delivery, LiveEvent};
use super::frame::Frame;
use super::wire::{Snapshot, WireFault, WireMessage};

/// Makes the messages behind a snapshot of what a follower gets, in the same order.
///
/// What the snapshot covers is left out: events before its end, and frames up to the revision of its baseline.
#[derive(Clone, Debug)]
pub struct FollowFeed {
    next_seq: u64,
    /// Revision of the last frame; `None` if no frames were asked for.
    revision: Option<u64>,
}

/// Why no more messages come: the follower has to ask anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeedEnd {
    /// The follower was too slow.
    #[error("the follower was too slow, and what it missed is gone")]
    Gap,
    /// The session is closed.
    #[error("the session is closed")]
    Closed,
    /// Events are missing: a fault of the host.
    #[error("event {found} came where {expected} was to come")]
    Jump {
        /// The seq that should have come.
        expected: u64,
        /// The one that came.
        found: u64,
    },
}

impl FollowFeed {
    /// Behind `snapshot`. Frames come if it has a baseline.
    #[must_use]
    pub fn behind(snapshot: &Snapshot) -> Self {
        let revision = snapshot.assistant_stream.as_ref().map(|baseline| baseline.revision);
        Self { next_seq: snapshot.next_seq, revision }
    }

    /// Appends the message that says `delivery` to `out`, if the client is to get one.
    ///
    /// # Errors
    /// [`FeedEnd`], after which there is no use in going on.
    pub fn deliver(&mut self, delivery: &Delivery, out: &mut Vec<u8>) -> Result<bool, FeedEnd> {
        match delivery {
            Delivery::Event(event) => self.event(event, out),
            Delivery::Frame(frame) => {
                let is_new = self.revision.is_some_and(|revision| frame.revision > revision);
                if is_new {
                    WireMessage::Frame(frame.clone()).write_json(out);
                }
                Ok(is_new)
            }
            Delivery::Gap => Err(FeedEnd::Gap),
            Delivery::Closed => Err(FeedEnd::Closed),
        }
    }

    fn event(&mut self, event: &LiveEvent, out: &mut Vec<u8>) -> Result<bool, FeedEnd> {
        if event.seq > self.next_seq {
            return Err(FeedEnd::Jump { expected: self.next_seq, found: event.seq });
        }
        let is_new = event.seq == self.next_seq;
        if is_new {
            self.next_seq = event.seq.saturating_add(1);
            event.write_json(out);
        }
        Ok(is_new)
    }
}

/// Takes in the messages of one answer, and sees to it that none is missing.
#[derive(Clone, Debug)]
pub struct FollowClient {
    asked_for_frames: bool,
    has_begun: bool,
    /// Revision of the last frame.
    revision: u64,
}

/// Why an answer cannot be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportFault {
    /// A message is none.
    #[error(transparent)]
    Wire(#[from] WireFault),
    /// The answer does not begin with its snapshot, or has a second one.
    #[error("a snapshot is missing, or comes twice")]
    Snapshot,
    /// Frames were asked for, and the snapshot has no baseline for them.
    #[error("the snapshot has no baseline for the frames that were asked for")]
    NoBaseline,
    /// Frames are missing, or the agent began anew: follow again.
    #[error("frame {found} came where {expected} was to come")]
    CarrierLost {
        /// The revision that should have come.
        expected: u64,
        /// The one that came.
        found: u64,
    },
}

impl TransportFault {
    /// Whether following anew helps: the new snapshot has all that is missing. Everything else is a fault of the host.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::CarrierLost { .. })
    }
}

impl FollowClient {
    /// Before the first message of an answer to a request that asked for frames or not.
    #[must_use]
    pub const fn new(asked_for_frames: bool) -> Self {
        Self { asked_for_frames, has_begun: false, revision: 0 }
    }

    /// Reads the next message. A [`View`](super::View) begins anew with a snapshot's records and baseline, and takes in the rest.
    ///
    /// # Errors
    /// [`TransportFault`], after which the answer is to be left.
    pub fn receive(&mut self, json: &[u8]) -> Result<WireMessage, TransportFault> {
        let message = WireMessage::read_json(json)?;
        match &message {
            WireMessage::Snapshot(snapshot) => self.begin(snapshot.assistant_stream.as_ref())?,
            _ if !self.has_begun => return Err(TransportFault::Snapshot),
            WireMessage::Frame(frame) => self.frame(frame)?,
            WireMessage::Event(_) => {}
        }
        Ok(message)
    }

    fn begin(&mut self, baseline: Option<&Baseline>) -> Result<(), TransportFault> {
        if self.has_begun {
            return Err(TransportFault::Snapshot);
        }
        if self.asked_for_frames {
            self.revision = baseline.ok_or(TransportFault::NoBaseline)?.revision;
        }
        self.has_begun = true;
        Ok(())
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), TransportFault> {
        let expected = self.revision.saturating_add(1);
        if frame.revision != expected {
            return Err(TransportFault::CarrierLost { expected, found: frame.revision });
        }
        self.revision = expected;
        Ok(())
    }
}
