//! What trailers say of the disk: at no moment more than is true.

use seslog::container::TRAILER_LEN;
use seslog::container::disk::fault::FaultDisk;
use seslog::container::spec::TRAILER_HEADER;

/// Checks every trailer of every file, drafts too: the bytes that it says had been synced when it was written are durable.
///
/// Spec: `format-spec/03-trailer.md`, "The durable boundary".
pub(crate) fn trailers_vouch_for_durable_bytes(disk: &FaultDisk) {
    for path in disk.paths() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.contains(".jsonl.zst") || name.contains(".jsonl.zstd") || name.contains(".torn-") {
            continue;
        }
        let (Some(live), Some(durable)) = (disk.content(&path), disk.durable_content(&path)) else {
            continue;
        };
        for at in memchr::memmem::find_iter(&live, &TRAILER_HEADER) {
            let Some(trailer) = live.get(at..at + TRAILER_LEN) else { continue };
            let word = |offset: usize| {
                let bytes = &trailer[8 + offset..12 + offset];
                u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize
            };
            let (body_len, unsynced) = (word(32), word(36));
            let Some(vouched) = at.checked_sub(body_len).map(|start| start.saturating_sub(unsynced)) else {
                continue;
            };
            assert!(
                durable.get(..vouched) == live.get(..vouched),
                "{name}: the trailer at {at} says that {vouched} bytes had been synced, and they are not"
            );
        }
    }
}
