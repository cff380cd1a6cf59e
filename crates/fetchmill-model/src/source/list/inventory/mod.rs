//! S3 Inventory as a list: a `manifest.json`, and the data files that it names.
//!
//! The MD5 of a data file must be the one in the `manifest.json`. Only one file is open at a time, and the caller opens
//! it: [`DataFiles`]. A row is a target, unless it is an old version, a deleted object or a folder marker.

mod description;
mod records;
mod row;

use std::io::{Read, Seek};

use ::parquet::file::reader::ChunkReader;

use crate::error::Result;

pub use description::{DataFile, Inventory};
pub(super) use records::InventoryRecords;

/// Where the data files of an inventory are.
pub trait DataFiles: Send {
    /// One that was opened.
    type File: Read + Seek + ChunkReader + 'static;

    /// Opens a data file; and what messages call it.
    fn open(&self, file: &DataFile) -> Result<(Self::File, String)>;
}
