//! S3 Inventory as a list: a `manifest.json`, and the data files that it names.
//!
//! The MD5 of a data file must match the `manifest.json`. Only one file is open at a time, and the caller opens it
//! ([`DataFiles`]). Each row is a target unless it describes an old version, a deleted object or a folder marker.

mod description;
mod records;
mod row;

use std::io::{Read, Seek};

use ::parquet::file::reader::ChunkReader;

use crate::error::Result;

pub use description::{DataFile, Inventory};
pub(super) use records::InventoryRecords;

/// Access to the data files of an inventory.
pub trait DataFiles: Send {
    /// Type of an open file.
    type File: Read + Seek + ChunkReader + 'static;

    /// Opens a data file. Returns the file and the name to show in messages.
    fn open(&self, file: &DataFile) -> Result<(Self::File, String)>;
}
