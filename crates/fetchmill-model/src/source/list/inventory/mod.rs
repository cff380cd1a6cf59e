//! S3 Inventory as a list: a `manifest.json`, and the data files that it names.
//!
//! A data file is believed when its MD5 is that of the `manifest.json`. One is open at a time, and the caller opens it:
//! [`DataFiles`]. A row is a target, or is left out: of another version than the latest, of what was deleted, of a folder
//! marker.

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
