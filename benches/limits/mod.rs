//! What the machine can do at best with the same bytes, and what the simplest programs do with them.

// Each bench compiles this file for itself and uses only a part of it.
#![allow(dead_code, reason = "no single bench uses every limit")]

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use zstd_safe::{CCtx, CParameter, DCtx};

/// Where benches put their files: a folder of the build, on a disk and not in memory.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build folder can be written")
}

/// The data frames of a compressed log, skippable frames left out.
pub(crate) fn frames(log: &[u8]) -> Vec<Range<usize>> {
    let mut frames = Vec::new();
    let mut at = 0;
    while at < log.len() {
        let mut source = log;
        match seslog::container::walk_frame(&mut source, at as u64) {
            Ok(frame) => {
                frames.push(at..frame.end as usize);
                at = frame.end as usize;
            }
            Err(_) => {
                at += 8 + u32::from_le_bytes(log[at + 4..at + 8].try_into().expect("four bytes")) as usize
            }
        }
    }
    frames
}

/// Bare decompression: one context, one buffer, nothing looked at.
pub(crate) struct Unzip {
    context: DCtx<'static>,
    content: Vec<u8>,
}

impl Unzip {
    pub(crate) fn new() -> Self {
        Self { context: DCtx::create(), content: Vec::with_capacity(64 << 20) }
    }

    /// Decompresses `frames` of `log`, each over the one before, and returns their length in all.
    pub(crate) fn frames(&mut self, log: &[u8], frames: &[Range<usize>]) -> usize {
        let mut total = 0;
        for frame in frames {
            self.content.clear();
            total += self.context.decompress(&mut self.content, &log[frame.clone()]).expect("a sound frame");
        }
        total
    }

    /// The content of the frame that was decompressed last.
    pub(crate) fn content(&self) -> &[u8] {
        &self.content
    }
}

/// Bare compression, as the writers of the store are set.
pub(crate) struct Zip {
    context: CCtx<'static>,
    pub(crate) stored: Vec<u8>,
}

impl Zip {
    pub(crate) fn new() -> Self {
        let mut context = CCtx::create();
        context
            .set_parameter(CParameter::CompressionLevel(seslog::container::LEVEL_DEFAULT))
            .expect("a level");
        context.set_parameter(CParameter::ChecksumFlag(true)).expect("a flag");
        Self { context, stored: Vec::new() }
    }

    pub(crate) fn frame(&mut self, content: &[u8]) -> &[u8] {
        self.stored.clear();
        self.stored.reserve(zstd_safe::compress_bound(content.len()));
        self.context.compress2(&mut self.stored, content).expect("there is room");
        &self.stored
    }
}

/// A file that grows: one write and one `fdatasync`, nothing else.
pub(crate) struct Growing {
    file: File,
}

impl Growing {
    pub(crate) fn create(path: &Path) -> Self {
        let file = File::options().create_new(true).append(true).open(path).expect("the folder takes a file");
        Self { file }
    }

    pub(crate) fn append(&mut self, bytes: &[u8], sync: bool) {
        std::io::Write::write_all(&mut self.file, bytes).expect("the disk takes it");
        if sync {
            self.file.sync_data().expect("the disk takes it");
        }
    }
}

/// Opens a file, reads 4 KiB at its head and at its tail, closes it: the least that tells what a log holds.
pub(crate) fn open_and_two_reads(path: &Path) -> u64 {
    let file = File::open(path).expect("it is there");
    let len = file.metadata().expect("it is open").len();
    let mut page = [0; 4096];
    let head = file.read_at(&mut page, 0).expect("it can be read");
    let tail = file.read_at(&mut page, len.saturating_sub(4096)).expect("it can be read");
    assert!(head > 0 && tail > 0);
    len
}

/// Newlines of a text, as fast as they can be found.
pub(crate) fn newlines(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}

/// All session logs below a root: two levels of folders, the files of the third.
pub(crate) fn logs_below(root: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
    };
    let sessions = entries(root).into_iter().flat_map(|project| entries(&project));
    let files = sessions.flat_map(|session| entries(&session));
    files
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".jsonl")))
        .collect()
}
