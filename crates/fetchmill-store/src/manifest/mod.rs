//! The manifest of a shard: a file next to the shard with one row per object.
//!
//! With a manifest, a few reads find a name among ten million, and `ls` lists objects without reading bodies. From a
//! manifest, `verify` learns which objects should exist. A manifest also contains the names of damaged or lost objects,
//! so that these can be planned again.
//!
//! While its shard is open, the manifest is a log of frames (`frame`). The commit record contains its length, and
//! anything after that is ignored. On sealing, a hash table and a directory of the frames are appended (`index`):
//!
//! | part | contents |
//! |---|---|
//! | frames | rows, in columns, compressed |
//! | table | `hash44(name) << 20 \| row`, sorted, in pages of 8 KiB |
//! | directory | start and first row of each frame; first entry of each page |
//! | footer | sizes of all these parts |
//!
//! Every part has a checksum, so a damaged manifest can be told apart from a missing name.

mod frame;
mod index;
mod lookup;
mod rows;
mod writer;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

pub use self::frame::Frame;
pub use self::index::{ROWS_MAX, hash44};
pub use self::lookup::{FoundRow, HashChunks, Manifest};
pub use self::rows::ManifestRows;
pub use self::writer::{ManifestWriter, seal_open};

use fetchmill_model::error::{Error, Result};
use fetchmill_model::object::Seconds;
use fetchmill_model::target::Sequence;

/// An object in the shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ManifestRow<'a> {
    /// Sequence number of the target in the job.
    pub sequence: Sequence,
    /// Name of the object, which may contain any bytes.
    pub name: &'a [u8],
    /// Size of the body in bytes.
    pub length: u64,
    /// CRC-32C of the body.
    pub crc32c: u32,
    /// Position of the record: the offset in the shard, or the row in a Parquet file.
    pub place: u64,
    /// `ETag` of the reply as sent, for an object stored as a file. Empty if unknown. Packs keep it in their records.
    pub etag: &'a [u8],
    /// `Last-Modified` of the reply, for an object stored as a file.
    pub last_modified: Option<Seconds>,
    /// `Content-Encoding` of the stored body, if the server applied one that was not requested, or else empty.
    pub content_encoding: &'a [u8],
}

/// Damage to a file, whose contents differ from what was written. The string describes the problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ManifestDamage(&'static str);

/// A result whose error is damage to the file.
type ManifestResult<T> = std::result::Result<T, ManifestDamage>;

impl ManifestDamage {
    fn of(self, path: &Path) -> Error {
        Error::Journal(format!(
            "{} is damaged: {}; run `fetchmill verify` to see what is lost",
            path.display(),
            self.0
        ))
    }
}

/// Fills a buffer from an offset.
fn read_at(file: &File, path: &Path, buffer: &mut [u8], offset: u64) -> Result<()> {
    file.read_exact_at(buffer, offset).map_err(|error| {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            ManifestDamage("it ends too early").of(path)
        } else {
            Error::storage("read", path, error)
        }
    })
}
