//! Detects a folder that cannot hold more names although its file system has free space. A full folder and a full file
//! system cause the same error, `ENOSPC`.
//!
//! ext4 indexes a folder with a two-level tree. With 4 KiB blocks and names of 30 bytes, a folder is full at about ten
//! million names, unless the feature `large_dir` is enabled.

use std::path::Path;

use rustix::io::Errno;

use crate::durable::{FreeRoom, free_room};
use fetchmill_model::error::Error;

/// Free space below which a file system counts as full. It is not 0, because other programs keep allocating and freeing
/// space.
const BYTES_MIN: u64 = 1 << 20;
const INODES_MIN: u64 = 100;
const PART_MIN: u64 = 100;

/// Returns why no file could be created at `path`.
pub(crate) fn cannot_put(path: &Path, error: Errno) -> Error {
    let room = path.parent().filter(|_| error == Errno::NOSPC).and_then(|folder| free_room(folder).ok());
    match room.filter(has_room) {
        Some(room) => Error::NoRoom(full(path, &room)),
        None => Error::storage("move a finished file to", path, error),
    }
}

fn has_room(room: &FreeRoom) -> bool {
    let has_inodes = room.inodes == 0 || room.free_inodes >= INODES_MIN.max(room.inodes / PART_MIN);
    has_inodes && room.free_blocks * room.block >= BYTES_MIN.max(room.blocks / PART_MIN * room.block)
}

fn full(path: &Path, room: &FreeRoom) -> String {
    let mebibytes = room.free_blocks * room.block / BYTES_MIN;
    let inodes = if room.inodes == 0 { String::new() } else { format!(" and {} inodes", room.free_inodes) };
    format!(
        "cannot move a finished file to {}: the folder cannot hold more names, although {mebibytes} \
         MiB{inodes} are free (No space left on device: the index of an ext4 folder is full); enlarge the \
         index (tune2fs -O large_dir DEVICE) and run the same command again to resume, or fetch into another \
         destination with --format parquet or tar",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: FreeRoom = FreeRoom {
        inodes: 1_000_000,
        free_inodes: 900_000,
        blocks: 100_000,
        free_blocks: 50_000,
        block: 4096,
    };

    #[test]
    fn a_file_system_with_room_means_a_full_folder() {
        assert!(has_room(&ROOM));
        assert!(
            has_room(&FreeRoom { inodes: 0, free_inodes: 0, ..ROOM }),
            "inodes are made as they are needed"
        );
        assert!(!has_room(&FreeRoom { free_inodes: 0, ..ROOM }));
        assert!(!has_room(&FreeRoom { free_inodes: 9_000, ..ROOM }));
        assert!(!has_room(&FreeRoom { free_blocks: 900, ..ROOM }));
        assert!(!has_room(&FreeRoom { blocks: 200, free_blocks: 200, ..ROOM }), "less than 1 MiB");

        let text = full(Path::new("out/a"), &ROOM);
        assert!(text.starts_with(
            "cannot move a finished file to out/a: the folder cannot hold more names, although 195 MiB and"
        ));
    }

    #[test]
    fn another_error_is_reported_as_it_is() {
        let error = cannot_put(Path::new("/nowhere/a"), Errno::IO);

        assert!(matches!(error, Error::Storage { .. }), "{error}");
        assert!(matches!(cannot_put(Path::new("/nowhere/a"), Errno::NOSPC), Error::Storage { .. }));
    }
}
