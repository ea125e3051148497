//! What is known of a session from the two ends of its log: the answer to `stat` and to `list`.

use super::claims::Pending;
use super::judge::{Judged, Verdict, check_identity, decode, last_row, stored_header};
use super::log::{View, session_path};
use super::storage::MemoryStorage;
use crate::error::{Error, Result, Unsupported};
use crate::limits::Limits;
use crate::row::Header;
use crate::store::snapshot::{Revision, Snapshot, State};
use crate::units::Generation;

impl MemoryStorage {
    /// Looks at the header and the last row of a log; at all of it only where its end is torn or no row.
    pub(super) fn look(&self, view: &View, limits: &Limits) -> Snapshot {
        self.count_read();
        let path = view.path();
        let mut snapshot = Snapshot::at(&path);
        snapshot.generation = Some(view.log.generation);
        snapshot.size_bytes = Some(view.log.size_bytes());
        snapshot.revision = Some(view.revision());
        snapshot.older = view.older_paths();
        if let Err(error) = self.look_into(view, limits, &mut snapshot) {
            let is_empty = view.log.header.is_empty() && view.log.lines == 0 && view.log.fragment.is_empty();
            snapshot.state = match error {
                Error::FormatUnsupported { .. } => State::Unsupported,
                Error::IdentityMismatch { .. } => State::Refused,
                _ if is_empty => State::Empty,
                _ => State::Corrupt,
            };
            snapshot.error = Some(Box::new(error));
        }
        snapshot
    }

    /// A session that is created and not stored: visible to its own instance, without counts.
    pub(super) fn look_at_pending(&self, pending: Pending) -> Snapshot {
        let path = session_path(self.number(), pending.header.id());
        let revision = Revision::counted(self.number(), pending.change);
        Snapshot { revision: Some(revision), ..Snapshot::pending(&path, pending.header) }
    }

    fn look_into(&self, view: &View, limits: &Limits, snapshot: &mut Snapshot) -> Result<()> {
        let header = stored_header(view, limits).inspect_err(|error| {
            if let Error::FormatUnsupported { reason: Unsupported::Newer { stored, .. }, .. } = error {
                snapshot.generation = Some(*stored);
            }
        })?;
        let generation = header.generation();
        snapshot.generation = Some(generation);
        snapshot.header = Some(header.clone());
        check_identity(view, &header)?;
        snapshot.state = State::Ok;
        if view.log.has_an_end() {
            if view.log.lines == 0 {
                snapshot.event_count = Some(0);
                return Ok(());
            }
            if let Some((events, time)) = last_row(view, generation, limits) {
                (snapshot.event_count, snapshot.last_time) = (Some(events), Some(time));
                return Ok(());
            }
        }
        self.walk(view, header, limits, snapshot)
    }

    /// The end is not clear from behind: all rows decide.
    fn walk(&self, view: &View, header: Header, limits: &Limits, snapshot: &mut Snapshot) -> Result<()> {
        let path = view.path();
        // Counts are of the log as it is stored, so an older one is not converted for them.
        let (ours, shared);
        let judged: &Judged = if header.generation() == Generation::CURRENT {
            shared = self.judged(view, limits)?;
            &shared
        } else {
            ours = decode(view, header, limits);
            &ours
        };
        snapshot.event_count = Some(judged.events);
        snapshot.last_time = judged.last_time;
        match judged.verdict {
            Verdict::Torn => {
                snapshot.state = State::Torn;
                snapshot.error = Some(Box::new(Error::TornTail {
                    path,
                    offset: view.log.rows_end(),
                    torn: view.log.fragment.len() as u64,
                    intact: judged.events,
                }));
                Ok(())
            }
            Verdict::DamagedTail(bad) => Err(judged.damaged_tail(&path, bad)),
            _ => judged.require_sound(&path),
        }
    }
}
