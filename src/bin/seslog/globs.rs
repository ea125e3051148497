//! `--type GLOB`: which types of events a verb looks at.

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::failure::Failure;

/// The set of `globs`; `None` if there are none, which means every type.
///
/// # Errors
/// [`Failure::Usage`] for one that is no pattern.
pub(crate) fn glob_set(globs: &[String]) -> Result<Option<GlobSet>, Failure> {
    if globs.is_empty() {
        return Ok(None);
    }
    let usage = |error: globset::Error| Failure::Usage(format!("--type: {error}"));
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(Glob::new(glob).map_err(usage)?);
    }
    Ok(Some(set.build().map_err(usage)?))
}
