//! Formats that put many objects into one file. They convert objects to records, and records back to objects. The sinks
//! take care of files, syncs and commit records.

mod file_body;
mod item_lines;
pub mod jsonl;
mod member_name;
mod number;
pub mod parquet;
mod sidecar;
pub mod tar;
pub mod warc;

pub use file_body::FileBody;
pub use item_lines::{ItemEncoder, item_of};
pub use jsonl::{JsonlDecoder, JsonlEncoder};
pub use member_name::SampleKeys;
pub use sidecar::Sidecars;
pub use tar::{TarDecoder, TarEncoder};
pub use warc::{WarcDecoder, WarcEncoder, WarcOrigin};

use std::io::{self, Write};

use fetchmill_model::object::{Object, StoredObject};

/// Writes records that can be appended to one another. Each open shard has one encoder.
pub trait Encoder: Send + std::fmt::Debug {
    /// Appends the bytes before the first record of a shard.
    fn start(&mut self, out: &mut Vec<u8>);

    /// Appends an object's record.
    fn encode(&mut self, object: &Object<'_>, out: &mut Vec<u8>);

    /// Appends the record of an object whose body is in a file. `object.body` is empty, and the checksum is that of the
    /// file.
    fn encode_file(&mut self, object: &Object<'_>, body: &FileBody, out: &mut dyn Write) -> io::Result<()>;

    /// Appends the bytes after the last record of a shard.
    fn finish(&mut self, out: &mut Vec<u8>);
}

/// Damage to a record, whose contents differ from what was written. The text describes the problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(pub &'static str);

/// Reads records back.
pub trait Decoder: Send + Sync + std::fmt::Debug {
    /// Reads a complete record, as written by [`Encoder::encode`].
    fn decode(&self, record: &[u8]) -> Result<StoredObject, Damage>;
}
