//! The handle that a host gets.

use std::sync::Arc;

use super::super::history::{Page, PageRequest};
use super::super::{Cancel, Events, SessionAccess, SessionHandle};
use super::Shared;
use super::live::Live;
use crate::error::Result;
use crate::row::Header;

/// A handle that writes, with a queue in front of it.
#[derive(Debug)]
pub(super) struct BehindHandle {
    live: Arc<Live>,
    header: Header,
    inherited: u64,
    /// Keeps the threads alive.
    _shared: Arc<Shared>,
}

impl BehindHandle {
    pub(super) fn new(live: Arc<Live>, below: &dyn SessionHandle, shared: Arc<Shared>) -> Self {
        let (header, inherited) = (below.header().clone(), below.inherited_event_count());
        Self { live, header, inherited, _shared: shared }
    }
}

impl SessionHandle for BehindHandle {
    fn header(&self) -> &Header {
        &self.header
    }

    fn inherited_event_count(&self) -> u64 {
        self.inherited
    }

    fn access(&self) -> SessionAccess {
        SessionAccess::Write
    }

    /// The seq behind everything that was accepted, waiting events included.
    fn next_seq(&self) -> Option<u64> {
        self.live.next_seq()
    }

    /// Events that wait are not there yet.
    fn read(&self, offset: u64, length: u64, cancel: &Cancel) -> Result<Events> {
        self.live.read(offset, length, cancel)
    }

    /// Events that wait are not there yet.
    fn page(&self, request: &PageRequest, cancel: &Cancel) -> Result<Page> {
        self.live.page(request, cancel)
    }

    fn append(&self, rows: &[&[u8]], cancel: &Cancel) -> Result<()> {
        self.live.append(rows, cancel)
    }

    fn flush(&self, cancel: &Cancel) -> Result<()> {
        self.live.flush(cancel)
    }

    fn close(&self) -> Result<()> {
        self.live.close()
    }
}

impl Drop for BehindHandle {
    /// Closes the session, unless that was done; what fails is reported.
    fn drop(&mut self) {
        if !self.live.is_closing()
            && let Err(error) = self.live.close()
        {
            self.live.report(&error);
        }
    }
}
