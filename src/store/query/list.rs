//! Live and stored sessions as one list.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::super::layout::printable;
use super::super::snapshot::{Snapshot, State};
use super::fault::QueryFault;
use crate::json::Text;
use crate::row::{Header, Seeding};
use crate::session::Session;
use crate::units::UnixMs;

/// A session that is live, stored, or both.
#[derive(Debug)]
#[non_exhaustive]
pub struct Listed {
    /// The live session, if it is live: what it says goes before what is stored.
    pub live: Option<Arc<Session>>,
    /// What the store says, if it is stored. A damaged one, or one that is refused, is here with its state and error.
    pub stored: Option<Snapshot>,
}

impl Listed {
    /// The header; none of a stored log whose own cannot be read.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        match &self.live {
            Some(live) => Some(live.header()),
            None => self.stored.as_ref()?.header.as_ref(),
        }
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> Option<&Text> {
        self.header().map(Header::id)
    }

    /// When the session was created.
    #[must_use]
    pub fn created_at(&self) -> Option<UnixMs> {
        self.header().map(Header::created_at)
    }

    fn path(&self) -> &Path {
        self.stored.as_ref().map_or(Path::new(""), |stored| &stored.path)
    }

    /// The order among those of one time: by id, and those without a header by path behind all others.
    pub(super) fn order(&self) -> impl Ord + '_ {
        let id = self.id();
        (id.is_none(), id, self.path())
    }
}

/// Merges what a store listed with the sessions that were live behind that. The newest first, then by id.
///
/// # Errors
/// [`QueryFault::SourceConflict`].
pub(super) fn merge(stored: Vec<Snapshot>, live: Vec<Arc<Session>>) -> Result<Vec<Listed>, QueryFault> {
    let mut by_id: HashMap<Text, usize> = HashMap::with_capacity(live.len());
    let mut list: Vec<Listed> = Vec::with_capacity(live.len().saturating_add(stored.len()));
    for session in live {
        by_id.insert(session.id().clone(), list.len());
        list.push(Listed { live: Some(session), stored: None });
    }
    for snapshot in stored {
        let place = snapshot.header.as_ref().and_then(|header| by_id.get(header.id()));
        let row = place.and_then(|&at| list.get_mut(at)).filter(|row| {
            // One of two logs of one id, or a log that claims to be another's, is shown as what it is.
            snapshot.state != State::Refused && row.stored.is_none()
        });
        match row {
            Some(row) => {
                if let (Some(live), Some(header)) = (&row.live, &snapshot.header) {
                    agree(live.header(), header)?;
                }
                row.stored = Some(snapshot);
            }
            None => list.push(Listed { live: None, stored: Some(snapshot) }),
        }
    }
    list.sort_by(|a, b| (Reverse(a.created_at()), a.order()).cmp(&(Reverse(b.created_at()), b.order())));
    Ok(list)
}

/// Holds that both are headers of one session: what never changes is the same in both.
///
/// A stored log of an older generation reads as one of the live session's: it may have been listed just before its session was
/// resumed, and converted for that.
fn agree(live: &Header, stored: &Header) -> Result<(), QueryFault> {
    let is_seeded = |header: &Header| header.seeding() != Seeding::Unseeded;
    let members = [
        ("version", stored.generation() <= live.generation()),
        ("id", live.id() == stored.id()),
        ("createdAt", live.created_at() == stored.created_at()),
        ("cwd", live.cwd() == stored.cwd()),
        ("parentSession", live.parent_session() == stored.parent_session()),
        ("isSeeded", is_seeded(live) == is_seeded(stored)),
        ("delegationDepth", live.delegation_depth() == stored.delegation_depth()),
    ];
    let fields: Vec<&'static str> =
        members.into_iter().filter(|(_, is_same)| !is_same).map(|(name, _)| name).collect();
    if fields.is_empty() {
        Ok(())
    } else {
        Err(QueryFault::SourceConflict { id: printable(live.id()), fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Generation;

    fn header(created_at: i64) -> Header {
        Header::new(Generation::CURRENT, Text::from("s"), UnixMs::new(created_at)).unwrap()
    }

    fn conflict(live: &Header, stored: &Header) -> Vec<&'static str> {
        match agree(live, stored) {
            Ok(()) => Vec::new(),
            Err(QueryFault::SourceConflict { fields, .. }) => fields,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn every_member_that_never_changes_is_compared_and_no_other() {
        let live = header(5);
        let older = live.clone().with_seeding(Generation::V1, Seeding::Unseeded).unwrap();
        let cwd = |path: &str| header(5).with_cwd(Text::from(path)).unwrap();
        let table: Vec<(Header, Header, &[&str])> = vec![
            (live.clone(), live.clone(), &[]),
            (live.clone(), older.clone(), &[]),
            (older, live.clone(), &["version"]),
            (live.clone(), header(6), &["createdAt"]),
            (live.clone(), cwd("/a"), &["cwd"]),
            (cwd("/a"), cwd("/b"), &["cwd"]),
            (live.clone(), header(5).with_parent_session(Text::from("p")), &["parentSession"]),
            (
                live.clone(),
                header(5).with_seeding(Generation::CURRENT, Seeding::Marked).unwrap(),
                &["isSeeded"],
            ),
            (live.clone(), header(5).with_delegation_depth(1).unwrap(), &["delegationDepth"]),
            (live.clone(), header(5).with_origin_subagent().with_agent_preset(Text::from("x")), &[]),
            (live, header(7).with_delegation_depth(2).unwrap(), &["createdAt", "delegationDepth"]),
        ];
        for (live, stored, fields) in table {
            assert_eq!(conflict(&live, &stored), fields, "{stored:?}");
        }
    }

    #[test]
    fn a_fork_of_an_older_generation_is_the_same_fork() {
        let live = header(5).with_seeding(Generation::CURRENT, Seeding::Marked).unwrap();
        let stored = header(5).with_seeding(Generation::V1, Seeding::Counted(3)).unwrap();
        assert_eq!(conflict(&live, &stored), [""; 0]);
    }
}
