//! MCAP: one file a session, a channel a type, the seq as log time, a Zstandard chunk a durable batch.
//!
//! A chunk index has the range of its log times, so that a seq is found by it. What a listing shows stands in a metadata
//! record, which the summary of a finished file points to.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use mcap::records::{MessageHeader, Metadata, Record};
use mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader};
use mcap::{Summary, WriteOptions};

use super::disk::{files, map};
use super::record::Head;
use super::{Each, Listed, Peer, Reader, Row, Sync, Writer};
use crate::Result;
use crate::set::{Event, Session};

#[derive(Debug)]
pub struct Mcap;

fn path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.mcap"))
}

/// Visits the messages of a whole file: time, seq, type, payload.
fn visit(file: &[u8], each: Each<'_>) -> Result<()> {
    const STEP: usize = 1 << 20;
    let mut reader = LinearReader::new();
    let mut channels: HashMap<u16, String> = HashMap::new();
    let mut at = 0;
    while let Some(event) = reader.next_event() {
        match event? {
            LinearReadEvent::ReadRequest(wanted) => {
                let piece = &file[at..file.len().min(at + wanted.max(STEP))];
                reader.insert(piece.len()).copy_from_slice(piece);
                reader.notify_read(piece.len());
                at += piece.len();
            }
            LinearReadEvent::Record { data, opcode } => match mcap::parse_record(opcode, data)? {
                Record::Channel(channel) => {
                    channels.insert(channel.id, channel.topic);
                }
                Record::Message { header, data } => {
                    let kind = channels.get(&header.channel_id).ok_or("an unknown channel")?;
                    each(&Row {
                        seq: header.log_time,
                        time: header.publish_time.cast_signed(),
                        kind: kind.as_bytes(),
                        payload: &data,
                    });
                }
                _ => {}
            },
        }
    }
    Ok(())
}

impl Peer for Mcap {
    fn writer(&self, folder: &Path, sync: Sync) -> Result<Box<dyn Writer>> {
        let folder = folder.to_path_buf();
        Ok(Box::new(McapWriter { folder, sync, open: None, head: Head::default(), channels: HashMap::new() }))
    }

    fn list(&self, folder: &Path) -> Result<Vec<Listed>> {
        let listed = files(folder)?.into_iter().map(|path| {
            let file = map(&path)?;
            let summary = Summary::read(&file)?.ok_or("no summary")?;
            let index = summary.metadata_indexes.first().ok_or("no metadata")?;
            let mut metadata = mcap::read::metadata(&file, index)?.metadata;
            let mut take = |name: &str| metadata.remove(name).ok_or_else(|| format!("no {name}"));
            Ok(Listed {
                id: take("id")?,
                cwd: take("cwd")?,
                created_at: take("createdAt")?.parse()?,
                last_time: take("lastTime")?.parse()?,
                events: summary.stats.as_ref().ok_or("no statistics")?.message_count,
                stored: file.len() as u64,
            })
        });
        listed.collect()
    }

    fn scan(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        visit(&map(&path(folder, id))?, each)
    }

    /// Payloads are copied into one arena: the reader's memory holds one chunk at a time.
    fn load(&self, folder: &Path, id: &str, each: Each<'_>) -> Result<()> {
        let (mut arena, mut rows) = (Vec::new(), Vec::new());
        visit(&map(&path(folder, id))?, &mut |row| {
            let start = arena.len();
            arena.extend_from_slice(row.kind);
            arena.extend_from_slice(row.payload);
            rows.push((row.seq, row.time, start, start + row.kind.len(), arena.len()));
        })?;
        for (seq, time, start, middle, end) in rows {
            each(&Row { seq, time, kind: &arena[start..middle], payload: &arena[middle..end] });
        }
        Ok(())
    }

    fn reader(&self, folder: &Path, id: &str) -> Result<Box<dyn Reader>> {
        let file = map(&path(folder, id))?;
        let summary = Summary::read(&file)?.ok_or("no summary")?;
        let events = summary.stats.as_ref().ok_or("no statistics")?.message_count;
        Ok(Box::new(McapReader { file, summary, events }))
    }
}

struct McapWriter {
    folder: PathBuf,
    sync: Sync,
    open: Option<(mcap::Writer<BufWriter<File>>, File)>,
    head: Head,
    channels: HashMap<String, u16>,
}

impl Writer for McapWriter {
    fn begin(&mut self, session: &Session<'_>) -> Result<()> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path(&self.folder, &session.id()))?;
        let again = file.try_clone()?;
        let writer = WriteOptions::new()
            .compression_level(super::jsonl_zstd::LEVEL.cast_unsigned())
            .create(BufWriter::with_capacity(64 << 10, file))?;
        self.open = Some((writer, again));
        self.head = Head::of(session);
        self.channels.clear();
        if self.sync == Sync::Batch { self.sync() } else { Ok(()) }
    }

    fn append(&mut self, events: &[Event<'_>]) -> Result<()> {
        let (writer, _) = self.open.as_mut().ok_or("no session")?;
        for event in events {
            let channel_id = match self.channels.get(event.kind) {
                Some(&id) => id,
                None => {
                    let id = writer.add_channel(0, event.kind, "json", &BTreeMap::new())?;
                    self.channels.insert(event.kind.to_owned(), id);
                    id
                }
            };
            let header = MessageHeader {
                channel_id,
                sequence: u32::try_from(event.seq)?,
                log_time: event.seq,
                publish_time: event.time.cast_unsigned(),
            };
            writer.write_to_known_channel(&header, event.payload.as_bytes())?;
        }
        self.head.add(events);
        if self.sync == Sync::Batch { self.sync() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<()> {
        let Some((mut writer, file)) = self.open.take() else { return Ok(()) };
        let metadata = [
            ("id", self.head.id.clone()),
            ("cwd", self.head.cwd.clone()),
            ("createdAt", self.head.created_at.to_string()),
            ("lastTime", self.head.last_time.to_string()),
        ];
        let metadata = metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        writer.write_metadata(&Metadata { name: "session".to_owned(), metadata })?;
        writer.finish()?;
        writer.into_inner().into_inner().map_err(|error| error.into_error())?;
        if self.sync == Sync::Batch {
            file.sync_data()?;
        }
        Ok(())
    }

    /// Ends the chunk: what is in an open one is in memory only.
    fn sync(&mut self) -> Result<()> {
        let Some((writer, file)) = &mut self.open else { return Ok(()) };
        writer.flush()?;
        Ok(file.sync_data()?)
    }
}

struct McapReader {
    file: memmap2::Mmap,
    summary: Summary,
    events: u64,
}

impl Reader for McapReader {
    fn last(&mut self, count: u64, each: Each<'_>) -> Result<()> {
        self.range(self.events - count, count, each)
    }

    fn range(&mut self, seq: u64, count: u64, each: Each<'_>) -> Result<()> {
        let chunks = &self.summary.chunk_indexes;
        let first = chunks.partition_point(|chunk| chunk.message_end_time < seq);
        for chunk in chunks[first..].iter().take_while(|chunk| chunk.message_start_time < seq + count) {
            for message in self.summary.stream_chunk(&self.file, chunk)? {
                let message = message?;
                if (seq..seq + count).contains(&message.log_time) {
                    each(&Row {
                        seq: message.log_time,
                        time: message.publish_time.cast_signed(),
                        kind: message.channel.topic.as_bytes(),
                        payload: &message.data,
                    });
                }
            }
        }
        Ok(())
    }
}
