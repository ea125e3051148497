use std::collections::{BTreeMap, HashSet};

use crate::json::Text;
use crate::row::Header;
use crate::store::Snapshot;

/// The sub-sessions of session `id` among those of a listing, and theirs, each once.
///
/// In order of lineage: a session stands before those that it started, and brothers stand by their creation, then by id. The
/// order depends on the headers alone. Sessions whose header cannot be read have no known parent and are not among them; forks
/// are sessions of their own. Time O(n log n).
#[must_use]
pub fn descendants<'s>(sessions: &'s [Snapshot], id: &Text) -> Vec<&'s Snapshot> {
    let mut children: BTreeMap<&Text, Vec<(&Header, &Snapshot)>> = BTreeMap::new();
    for session in sessions {
        let Some(header) = session.header.as_ref().filter(|header| header.is_origin_subagent()) else {
            continue;
        };
        if let Some(parent) = header.parent_session() {
            children.entry(parent).or_default().push((header, session));
        }
    }
    for brothers in children.values_mut() {
        // Last first: the next one is taken from the end.
        brothers.sort_by(|(a, _), (b, _)| (b.created_at(), b.id()).cmp(&(a.created_at(), a.id())));
    }
    let mut seen = HashSet::from([id]);
    let mut waiting = children.remove(id).unwrap_or_default();
    let mut found = Vec::new();
    while let Some((header, session)) = waiting.pop() {
        if seen.insert(header.id()) {
            found.push(session);
            waiting.extend(children.remove(header.id()).unwrap_or_default());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Generation, UnixMs};

    fn session(id: &str, parent: Option<&str>, created_at: i64) -> Snapshot {
        let header = Header::new(Generation::CURRENT, Text::from(id), UnixMs::new(created_at)).unwrap();
        let header = match parent {
            Some(parent) => header.with_parent_session(Text::from(parent)).with_origin_subagent(),
            None => header,
        };
        Snapshot::of_header(header)
    }

    #[test]
    fn lineage_is_depth_first_by_creation_and_ends_in_a_circle() {
        let sessions = [
            session("late", Some("root"), 9),
            session("deep", Some("b"), 3),
            session("b", Some("root"), 5),
            session("a", Some("root"), 5),
            session("elsewhere", Some("other"), 1),
            session("root", Some("deep"), 2),
        ];
        let ids = |id: &str| -> Vec<String> {
            descendants(&sessions, &Text::from(id))
                .iter()
                .map(|one| one.header.as_ref().unwrap().id().to_string_lossy().into_owned())
                .collect()
        };
        assert_eq!(ids("root"), ["a", "b", "deep", "late"]);
        assert_eq!(ids("b"), ["deep", "root", "a", "late"]);
        assert_eq!(ids("late"), [""; 0]);
    }
}
