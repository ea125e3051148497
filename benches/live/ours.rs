//! seslog: write-behind over the file store.

use std::path::Path;
use std::sync::Arc;

use seslog::json::Text;
use seslog::row::Header;
use seslog::store::{
    BehindOptions, Cancel, FileStore, Routed, SessionAccess, SessionHandle, SessionPersistence, StoreOptions,
    WriteBehind,
};
use seslog::units::{Generation, UnixMs};

use super::{Contender, Load};

/// Sessions in a root folder, in the default encoding. An explicit append is on disk when it returns.
pub(crate) struct Ours {
    behind: WriteBehind,
    handles: Vec<Arc<dyn SessionHandle>>,
    ids: Vec<Text>,
    again: FileStore,
}

impl Ours {
    pub(crate) fn new(root: &Path, load: Load, options: BehindOptions) -> Self {
        let store = FileStore::with_options(root, StoreOptions::default());
        let behind = WriteBehind::with_options(Arc::new(store), options);
        let ids: Vec<Text> = load.ids().iter().map(|id| Text::from(id.as_str())).collect();
        let create = |id: &Text| {
            let header =
                Header::new(Generation::V2, id.clone(), UnixMs::new(1_767_225_600_000)).expect("a header");
            behind.create(header, None, &Cancel::never()).expect("the id is new")
        };
        let handles = ids.iter().map(create).collect();
        behind.flush().expect("the disk takes it");
        Self { behind, handles, ids, again: FileStore::new(root) }
    }

    /// Flushes all sessions.
    pub(crate) fn flush(&self) {
        self.behind.flush().expect("the disk takes it");
    }
}

impl Contender for Ours {
    fn name(&self) -> String {
        "seslog, write-behind over indexed logs".to_owned()
    }

    fn route(&self, session: usize, _seq: u64, row: &[u8]) {
        let routed = self.behind.route(&self.ids[session], row, &Cancel::never()).expect("the next event");
        assert_eq!(routed, Routed::Queued);
    }

    fn append(&self, session: usize, _seq: u64, row: &[u8]) {
        self.handles[session].append(&[row], &Cancel::never()).expect("the next event");
    }

    fn finish(&self) {
        self.behind.close().expect("the disk takes it");
    }

    fn read(&self, session: usize) -> Vec<Vec<u8>> {
        let handle = self.again.open(&self.ids[session], SessionAccess::Read).expect("it is stored");
        handle.read(0, u64::MAX).expect("it is sound").rows().map(<[u8]>::to_vec).collect()
    }
}
