//! The sidecar of a shard: a row for each object in it.
//!
//! It is how one name among ten million is found with a few reads, how `ls` lists without reading bodies, how `verify`
//! knows what should be there, and how damaged or lost objects are named and planned again.
//!
//! While its shard is open it is a log of frames (`frame`), and a receipt tells where it ends: what is behind that does
//! not exist. When its shard is sealed, a table of hashes and a directory of the frames are put behind them (`index`):
//!
//! | part | what it is |
//! |---|---|
//! | frames | rows, in columns, compressed |
//! | table | `hash44(name) << 20 \| row`, sorted, in pages of 8 KiB |
//! | directory | where each frame starts and with which row; the first entry of each page |
//! | footer | how much there is of all that |
//!
//! Every part carries a checksum, so that a damaged manifest is told from a name that is not there.

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

/// An object of the shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ManifestRow<'a> {
    /// Which target of the job it was.
    pub sequence: Sequence,
    /// Its name: any bytes.
    pub name: &'a [u8],
    /// Bytes of its body.
    pub length: u64,
    /// CRC-32C of its body.
    pub crc32c: u32,
    /// Where its record is: the offset in the shard, or the row of a Parquet file.
    pub place: u64,
    /// Of an object that is a file: the `ETag` of its reply, as it was sent; empty when nothing is known. Packs have it
    /// in their records.
    pub etag: &'a [u8],
    /// Likewise: its `Last-Modified`.
    pub last_modified: Option<Seconds>,
    /// The `Content-Encoding` in which its body is stored, when nobody asked for one; empty when it has none.
    pub content_encoding: &'a [u8],
}

/// A file that is not what was written; the text says what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ManifestDamage(&'static str);

/// A result whose error is damage of the file that is read.
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

/// Fills a buffer from an offset on.
fn read_at(file: &File, path: &Path, buffer: &mut [u8], offset: u64) -> Result<()> {
    file.read_exact_at(buffer, offset).map_err(|error| {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            ManifestDamage("it ends too early").of(path)
        } else {
            Error::storage("read", path, error)
        }
    })
}
