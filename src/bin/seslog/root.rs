//! Which folder holds the sessions.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcetera::BaseStrategy as _;
use seslog::container::Encoding;
use seslog::container::disk::{Disk, OsDisk};
use seslog::limits::Limits;
use seslog::store::{Catalog, FileStore, StoreOptions};

use crate::failure::Failure;

/// The root folder, and the file system it lies on.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Root {
    /// The root by the order of the contract: `flag`, `$SESLOG_ROOT`, `$DSH_HOME/sessions`, `~/.dsh/sessions` where it
    /// exists, the data folder. An empty variable is none.
    ///
    /// # Errors
    /// [`Failure`] if none of them is known.
    pub(crate) fn resolve(flag: Option<&Path>) -> Result<Self, Failure> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let found = choose(flag, set("SESLOG_ROOT"), set("DSH_HOME"), etcetera::home_dir().ok(), || {
            etcetera::choose_base_strategy().ok().map(|strategy| strategy.data_dir())
        });
        found.map(Self::at).ok_or_else(|| {
            Failure::new(
                "no root: there is no home folder to put it in",
                "name one with --root, or set SESLOG_ROOT",
            )
        })
    }

    /// The root at `path`.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, disk: Arc::new(OsDisk::new()) }
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file system.
    pub(crate) const fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Its store, with the default options.
    pub(crate) fn store(&self) -> FileStore {
        self.store_with(StoreOptions::default())
    }

    /// Its store.
    pub(crate) fn store_with(&self, options: StoreOptions) -> FileStore {
        FileStore::on_disk(Arc::clone(&self.disk), &self.path, options)
    }

    /// Its store, with what earlier listings found: in `$SESLOG_CACHE`, else in the platform's cache folder.
    pub(crate) fn listed(&self) -> FileStore {
        let set = env::var_os("SESLOG_CACHE").filter(|value| !value.is_empty()).map(PathBuf::from);
        let platform =
            || etcetera::choose_base_strategy().ok().map(|strategy| strategy.cache_dir().join("seslog"));
        match set.or_else(platform) {
            Some(folder) => self.store().with_catalog(Catalog::in_folder(folder)),
            None => self.store(),
        }
    }

    /// The root in which the session's folder `folder` stands.
    pub(crate) fn around(&self, folder: &Path) -> Self {
        let root = std::path::absolute(folder)
            .ok()
            .and_then(|folder| Some(folder.parent()?.parent()?.to_path_buf()));
        Self::at(root.unwrap_or_else(|| self.path.clone()))
    }

    /// Drops what listings and folds kept of the sessions that stood in `folders`, in whatever root.
    pub(crate) fn forget(&self, folders: &[PathBuf]) {
        let mut by_root: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
        for folder in folders.iter().filter_map(|folder| std::path::absolute(folder).ok()) {
            if let Some(root) = folder.parent().and_then(Path::parent) {
                by_root.entry(root.to_path_buf()).or_default().push(folder);
            }
        }
        for (root, folders) in by_root {
            Self::at(root).listed().forget(&folders);
        }
    }

    /// Encoding of a new session: what was asked for, else one that DSH opens where DSH's logs stand, else our own.
    ///
    /// DSH refuses a whole root of mixed encodings, so a root that has nothing but plain logs gets another plain one.
    ///
    /// # Errors
    /// [`Failure`] if the root cannot be listed.
    pub(crate) fn encoding(&self, asked: Option<Encoding>) -> Result<Encoding, Failure> {
        if let Some(encoding) = asked {
            return Ok(encoding);
        }
        let folders = self.store().folders()?;
        let has =
            |encoding| folders.iter().flat_map(|folder| &folder.logs).any(|log| log.encoding == encoding);
        Ok(match (has(Encoding::Zstd), has(Encoding::Plain), has(Encoding::Indexed)) {
            (true, _, _) => Encoding::Zstd,
            (false, true, false) => Encoding::Plain,
            _ => Encoding::Indexed,
        })
    }
}

/// Bounds on what the program reads.
pub(crate) const LIMITS: Limits = Limits::DEFAULT;

fn choose(
    flag: Option<&Path>,
    seslog_root: Option<OsString>,
    dsh_home: Option<OsString>,
    home: Option<PathBuf>,
    data: impl FnOnce() -> Option<PathBuf>,
) -> Option<PathBuf> {
    if let Some(flag) = flag {
        return Some(flag.to_path_buf());
    }
    if let Some(root) = seslog_root {
        return Some(root.into());
    }
    if let Some(home) = dsh_home {
        return Some(Path::new(&home).join("sessions"));
    }
    let dsh = home.map(|home| home.join(".dsh").join("sessions")).filter(|dsh| dsh.is_dir());
    dsh.or_else(|| data().map(|data| data.join("seslog")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_contract() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_path_buf();
        let data = || Some(PathBuf::from("/data"));
        let from = |flag: Option<&str>, root: Option<&str>, dsh: Option<&str>| {
            choose(flag.map(Path::new), root.map(Into::into), dsh.map(Into::into), Some(home.clone()), data)
                .unwrap()
        };
        assert_eq!(from(Some("/flag"), Some("/root"), Some("/dsh")), Path::new("/flag"));
        assert_eq!(from(None, Some("/root"), Some("/dsh")), Path::new("/root"));
        assert_eq!(from(None, None, Some("/dsh")), Path::new("/dsh/sessions"));
        assert_eq!(from(None, None, None), Path::new("/data/seslog"));
        std::fs::create_dir_all(home.join(".dsh/sessions")).unwrap();
        assert_eq!(from(None, None, None), home.join(".dsh/sessions"));
        assert_eq!(choose(None, None, None, None, || None), None);
    }
}
