//! Room for the index of the write-ahead log, which `SQLite` maps into memory.
//!
//! `SQLite` writes one byte to each page of the file before it maps it. Where blocks are smaller than pages, as on
//! a small ext4, that leaves holes, and a write to a hole on a full disk ends the process with `SIGBUS`. Nothing but
//! `SQLite` may open the file: closing it would release `SQLite`'s locks on it (POSIX, `fcntl`). So there must be room for
//! it, and the first transaction, which fills most holes, is a small one.

use std::path::Path;

use rustix::io::Errno;

use crate::durable;
use fetchmill_model::error::{Error, Result};

/// The index of a log of 4,062 pages has 32 KiB; twice that, with the first page of the log.
const ROOM_BYTES: u64 = 64 * 1024;

/// What `SQLite` writes a byte to: a page of memory, at least.
const PAGE_BYTES: u64 = 4096;

/// Fails as a full disk does unless a new index fits, where blocks are small.
pub(in crate::journal) fn check_room(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Where this cannot be asked, writing shows it.
    let Ok(room) = durable::free_room(folder) else { return Ok(()) };
    let may_have_holes = room.blocks > 0 && room.block < PAGE_BYTES;
    if may_have_holes && room.free_blocks.saturating_mul(room.block) < ROOM_BYTES {
        let full = std::io::Error::from(Errno::NOSPC);
        return Err(Error::storage("write the journal", path, full));
    }
    Ok(())
}
