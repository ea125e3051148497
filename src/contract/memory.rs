//! The store in memory, as a backend with every hook.

use std::io;
use std::sync::Arc;

use super::backend::{Backend, Crash, NotOffered, Offered, Settings, Step, Storage, Tear};
use crate::json::Text;
use crate::store::SessionPersistence;
use crate::store::memory::{MemoryOptions, MemoryStorage, MemoryStore, RawLog};

/// [`MemoryStore`] over a [`MemoryStorage`].
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it has nothing to be set")]
pub struct InMemory;

impl Backend for InMemory {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn storage(&self) -> Box<dyn Storage> {
        Box::new(MemoryStorage::new())
    }
}

impl Storage for MemoryStorage {
    fn instance(&self) -> Arc<dyn SessionPersistence> {
        Arc::new(MemoryStore::new(self))
    }

    fn instance_with(&self, settings: Settings) -> Offered<Arc<dyn SessionPersistence>> {
        let Settings { durability, admission } = settings;
        let options = MemoryOptions { durability, admission, ..MemoryOptions::default() };
        Ok(Arc::new(MemoryStore::with_options(self, options)))
    }

    fn after(&self, crash: Crash) -> Offered<Box<dyn Storage>> {
        Ok(Box::new(match crash {
            Crash::Killed => self.kill_image(),
            Crash::PowerLoss { seed } => self.crash_image(seed),
        }))
    }

    fn artifact(&self, id: &Text) -> Offered<Option<Vec<u8>>> {
        Ok(self.raw(id).map(|raw| {
            let mut text = [&*raw.header, b"\n"].concat();
            for row in &raw.rows {
                text.extend_from_slice(row);
                text.push(b'\n');
            }
            text.extend_from_slice(&raw.fragment);
            text
        }))
    }

    /// What is kept reads as one file of text: see [`Storage::artifact`] above.
    fn replace(&self, id: &Text, bytes: &[u8]) -> Offered<()> {
        let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
        let fragment = lines.pop().unwrap_or_default();
        let (header, rows) = lines.split_first().ok_or_else(|| NotOffered::because("no header line"))?;
        let mut raw = RawLog::new(header, rows);
        raw.fragment = fragment.to_vec();
        Self::plant(self, id, &raw);
        Ok(())
    }

    fn plant(&self, id: &Text, header: &[u8], rows: &[&[u8]]) -> Offered<()> {
        Self::plant(self, id, &RawLog::new(header, rows));
        Ok(())
    }

    fn tear(&self, id: &Text, tear: Tear) -> Offered<()> {
        let raw = self.raw(id).ok_or_else(|| NotOffered::because("nothing is stored"))?;
        let last_len = raw.rows.last().map_or(0, Vec::len).max(1);
        let is_torn = self.tear_if(id, |of_append| match tear {
            Tear::LastRecord(place) => {
                let bytes = usize::try_from(place).unwrap_or(0).checked_rem(last_len).unwrap_or(0);
                Some((of_append.checked_sub(1)?, bytes.saturating_add(1)))
            }
            Tear::Between => (of_append > 1).then(|| (of_append.div_euclid(2), 30)),
        });
        if is_torn { Ok(()) } else { Err(NotOffered::because("the last append has one row")) }
    }

    fn remove(&self, id: &Text) -> Offered<()> {
        Self::remove(self, id);
        Ok(())
    }

    fn fail_next(&self, step: Step) -> Offered<()> {
        Self::fail_next(self, step, io::Error::other("a test made it fail"));
        Ok(())
    }

    fn before_next(&self, step: Step, action: Box<dyn FnOnce() + Send>) -> Offered<()> {
        Self::before_next(self, step, action);
        Ok(())
    }

    fn reads(&self) -> Offered<u64> {
        Ok(self.log_reads())
    }

    fn parses(&self) -> Offered<u64> {
        Ok(self.full_log_reads())
    }
}
