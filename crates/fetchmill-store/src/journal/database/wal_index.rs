//! Makes sure that there is space for the index of the write-ahead log, which `SQLite` maps into memory.
//!
//! `SQLite` writes one byte to each page of this file before mapping it. If blocks are smaller than pages, as on a
//! small ext4 file system, this leaves holes. If the disk is full, writing to a hole ends the process with `SIGBUS`.
//!
//! Only `SQLite` may open the file, because closing it anywhere else would release `SQLite`'s locks on it (POSIX,
//! `fcntl`). For this reason, the disk must have space for the whole file from the start. The first transaction fills
//! most of the holes and must be small.

use std::path::Path;

use rustix::io::Errno;

use crate::durable;
use fetchmill_model::error::{Error, Result};

/// The index of a log with 4,062 pages takes 32 KiB. Require twice as much, to include the first page of the log.
const ROOM_BYTES: u64 = 64 * 1024;

/// Minimum size of a memory page. `SQLite` writes one byte to each page.
const PAGE_BYTES: u64 = 4096;

/// Fails with the error of a full disk if blocks are small and a new index would not fit.
pub(in crate::journal) fn check_room(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // If the free space is unknown, the first write shows whether it is sufficient.
    let Ok(room) = durable::free_room(folder) else { return Ok(()) };
    let may_have_holes = room.blocks > 0 && room.block < PAGE_BYTES;
    if may_have_holes && room.free_blocks.saturating_mul(room.block) < ROOM_BYTES {
        let full = std::io::Error::from(Errno::NOSPC);
        return Err(Error::storage("write the journal", path, full));
    }
    Ok(())
}
