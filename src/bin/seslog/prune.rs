//! `prune`: deletes sessions by age and by size.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::{Span, ZonedDateTime};
use parse_size::parse_size;
use seslog::store::{Snapshot, State};

use crate::failure::{Done, Failure, Outcome};
use crate::ls::project_names;
use crate::out::{counted, talk};
use crate::rm::{Deletion, Family, folder_of};
use crate::root::Root;

/// Deletes the sessions that were not used for a while, or the oldest ones of too many bytes.
///
/// Says what it would delete with --dry-run, and deletes with --yes; without either it does nothing. A session and the
/// sub-sessions that it started go together, by the activity of the youngest. Sessions that are not in order, or that somebody
/// writes, are never pruned.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: seslog prune --older-than 90d --keep 20 --dry-run",
    group(clap::ArgGroup::new("what").required(true).multiple(true).args(["older_than", "max_size", "all"])),
    group(clap::ArgGroup::new("consent").required(true).args(["dry_run", "yes"]))
)]
pub(crate) struct Args {
    /// Sessions without any event for so long: 90d, 12h, 6 months
    #[arg(long, value_name = "AGE")]
    older_than: Option<Span>,
    /// The sessions used longest ago, until those that stay take no more bytes than this: 500MB, 2GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// All sessions, but for what --keep keeps
    #[arg(long, requires = "keep")]
    all: bool,
    /// Keep the N sessions that were used last, whatever else holds
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Only sessions of this working directory, or of the project folder of this name
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    project: Option<String>,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Delete
    #[arg(long)]
    yes: bool,
    /// One JSON object a session
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

/// A session and the sub-sessions that it started.
#[derive(Debug, Default)]
struct Group {
    folders: Vec<PathBuf>,
    bytes: u64,
    /// Unix milliseconds of the youngest event in it.
    last_time: i64,
    is_in_order: bool,
}

/// Prunes the sessions of `root`.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    let cutoff = args.older_than.map(cutoff).transpose()?;
    let mut sessions = root.store().list()?;
    if let Some(project) = &args.project {
        let names = project_names(project);
        sessions.retain(|session| {
            session.project.as_ref().is_some_and(|name| names.iter().any(|one| **one == **name))
        });
    }
    let groups = groups(&sessions);
    let bad = groups.iter().filter(|group| !group.is_in_order).count();
    let chosen = choose(groups, cutoff, args);
    let mut deletion = Deletion::new(root, args.dry_run, args.json);
    for group in &chosen {
        group.folders.iter().try_for_each(|folder| deletion.delete(folder))?;
    }
    if bad > 0 {
        let groups =
            counted(bad as u64, "session that is not in order was", "sessions that are not in order were");
        talk::note(&format!("{groups} left alone; `seslog ls` names them, `seslog rm` deletes them"));
    }
    if chosen.is_empty() {
        talk::note("nothing to prune");
        return Ok(Outcome::Clean);
    }
    deletion.sum_up()
}

/// Unix milliseconds before which the last event must lie.
fn cutoff(age: Span) -> Result<i64, Failure> {
    let usage = |error: jiff::Error| Failure::Usage(format!("--older-than: {error}"));
    if !age.is_positive() {
        return Err(Failure::Usage("--older-than: the age must be more than nothing".to_owned()));
    }
    Ok(ZonedDateTime::now().checked_sub(age).map_err(usage)?.timestamp().as_millisecond())
}

/// Sessions with their sub-sessions, the youngest first.
fn groups(sessions: &[Snapshot]) -> Vec<Group> {
    let family = Family::of(sessions);
    let mut by_top: BTreeMap<PathBuf, Group> = BTreeMap::new();
    for session in sessions {
        let folder = folder_of(session);
        let fresh = || Group { last_time: i64::MIN, is_in_order: true, ..Group::default() };
        let group = by_top.entry(family.top(&folder)).or_insert_with(fresh);
        let created = session.header.as_ref().map(seslog::row::Header::created_at);
        let used = session.last_time.or(created).map_or(i64::MIN, seslog::units::UnixMs::get);
        group.bytes = group.bytes.saturating_add(session.size_bytes.unwrap_or(0));
        group.last_time = group.last_time.max(used);
        group.is_in_order &= matches!(session.state, State::Ok | State::Torn);
        group.folders.push(folder);
    }
    let mut groups: Vec<Group> = by_top.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.last_time));
    groups
}

/// What goes, the oldest first.
fn choose(groups: Vec<Group>, cutoff: Option<i64>, args: &Args) -> Vec<Group> {
    let mut kept_bytes = 0_u64;
    let mut chosen: Vec<Group> = Vec::new();
    for (at, group) in groups.into_iter().enumerate() {
        let is_old = cutoff.is_some_and(|cutoff| group.last_time < cutoff);
        let with_it = kept_bytes.saturating_add(group.bytes);
        let is_too_much = args.max_size.is_some_and(|most| with_it > most);
        let must_stay = !group.is_in_order || args.keep.is_some_and(|keep| at < keep);
        if !must_stay && (is_old || is_too_much || args.all) {
            chosen.push(group);
        } else {
            kept_bytes = with_it;
        }
    }
    chosen.reverse();
    chosen
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &str) -> Args {
        Line::try_parse_from(format!("prune {line}").split(' ')).unwrap().args
    }

    fn chosen(line: &str, cutoff: Option<i64>) -> Vec<i64> {
        let group =
            |(last_time, bytes, is_in_order)| Group { folders: Vec::new(), bytes, last_time, is_in_order };
        let groups = [(50, 10, true), (40, 20, true), (30, 30, false), (20, 40, true), (10, 5, true)];
        let groups = groups.into_iter().map(group).collect();
        choose(groups, cutoff, &args(line)).into_iter().map(|group| group.last_time).collect()
    }

    #[test]
    fn what_goes_is_old_or_too_much_and_neither_kept_nor_out_of_order() {
        assert_eq!(chosen("--older-than 1d --yes", Some(35)), [10, 20]);
        assert_eq!(chosen("--older-than 1d --keep 4 --yes", Some(35)), [10]);
        assert_eq!(chosen("--max-size 60 --yes", None), [10, 20]);
        assert_eq!(chosen("--max-size 66 --yes", None), [20], "a small one that fits stays");
        assert_eq!(chosen("--max-size 0 --keep 1 --yes", None), [10, 20, 40]);
        assert_eq!(chosen("--all --keep 2 --dry-run", None), [10, 20]);
    }

    #[test]
    fn without_a_choice_and_consent_nothing_is_pruned() {
        for line in [
            "",
            "--yes",
            "--older-than 1d",
            "--all --yes",
            "--older-than 1d --yes --dry-run",
            "--max-size x --yes",
        ] {
            assert!(Line::try_parse_from(format!("prune {line}").split_whitespace()).is_err(), "{line}");
        }
        assert!(
            cutoff("90d".parse().unwrap()).unwrap()
                < ZonedDateTime::now().timestamp().as_millisecond() - 7_700_000_000
        );
        assert!(cutoff("-1d".parse().unwrap()).is_err());
    }
}
