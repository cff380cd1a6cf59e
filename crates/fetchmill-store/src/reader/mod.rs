//! Reads the stored data of a job in place: an object by name, all names, or all objects. Sealed data can be read even
//! while the job runs.
//!
//! Packs are never unpacked. A lookup searches the manifests of all shards, a listing reads only manifests, and a scan
//! reads shards from start to end. If a name is stored several times, all three use the object with the lowest sequence
//! number.

mod arrow;
mod bits;
mod cached_frames;
mod cached_lookups;
mod cached_rows;
mod copy;
mod data;
mod entries;
mod found_object;
mod frames;
mod hidden;
mod known_names;
mod object_error;
mod objects;
mod origin;
mod position;
mod raw_records;
mod sample_reader;
mod scan;
mod shard;
mod shards;
mod stored;
mod tree;
pub mod verify;

#[cfg(test)]
mod tests;

use std::path::Path;

pub use arrow::ArrowBatches;
pub(crate) use bits::Bits;
pub use cached_lookups::{CachedLookups, LookupCounts};
pub(crate) use copy::{CopiedRows, copy_shard};
pub use entries::{are_of_list, are_stripped, request_of};
pub use found_object::{FoundObject, ListedName, NamesPage};
pub use known_names::KnownNames;
pub use object_error::ObjectError;
pub use objects::Objects;
pub use origin::{EXPORT_OF, ObjectOrigin, warc_origin};
pub use position::Position;
pub use sample_reader::SampleReader;
pub use scan::{LostObject, Scan, ScannedObject};
pub use shard::ShardReader;
pub use stored::latest_names;
pub use stored::{EachObject, for_each_object};

use found_object::PAGE_NAME_BYTES;
use shards::SealedShards;
use tree::FileTree;

use crate::journal::{
    JobLocation, has_synced_shards, must_be_here, must_have_objects, read_sealed_shards, read_status,
};
use crate::sink::{Format, ShardFolder};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::object::StoredObject;
use fetchmill_model::target::extra_columns::ExtraColumns;

/// The stored data of a job. It can be shared between threads.
#[derive(Debug)]
pub struct Destination {
    format: Format,
    columns: ExtraColumns,
    stored: Storage,
}

#[derive(Debug)]
enum Storage {
    Shards(SealedShards),
    Tree(FileTree),
}

impl Destination {
    /// Opens a job's destination in its current state. Data that is sealed later is not visible.
    pub fn open(dest: &Path, state: Option<&Path>) -> Result<Self> {
        let place = JobLocation::find(dest, state)?;
        let status = read_status(&place)?;
        must_have_objects(&status.identity, dest)?;
        must_be_here(&status.identity, &place)?;
        let name = status.identity.get("format").map_or("", String::as_str);
        let shown = dest.display();
        let format = Format::from_name(name).ok_or_else(|| {
            Error::Journal(format!(
                "the journal of {shown} names an unknown format (`{name}`); upgrade fetchmill"
            ))
        })?;
        let stored = match format.extension() {
            Some(extension) => {
                // Only read from this folder.
                let shard_folder = ShardFolder::new(dest, extension, false);
                let may_vanish =
                    status.is_running && (format == Format::Parquet || has_synced_shards(&place)?);
                Storage::Shards(SealedShards::open(
                    &shard_folder,
                    format,
                    &|| read_sealed_shards(&place),
                    may_vanish,
                )?)
            }
            None if format == Format::Files => Storage::Tree(FileTree::open(dest)?),
            None => {
                let text = format!("{shown} holds no objects: the format {name} only counts objects");
                return Err(Error::Usage(text));
            }
        };
        let columns = ExtraColumns::of_identity(&status.identity).without_outcomes().with_encodings(true);
        Ok(Destination { format, columns, stored })
    }

    /// Returns the format of the stored objects.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the columns that objects have besides the standard ones.
    pub fn columns(&self) -> &ExtraColumns {
        &self.columns
    }

    /// Returns the object with this name after verifying it.
    pub fn find(&self, name: &[u8]) -> Result<Option<FoundObject>> {
        match &self.stored {
            Storage::Shards(shards) => shards.find(name),
            Storage::Tree(tree) => Ok(tree.find(name)?.map(of_file)),
        }
    }

    /// Returns the size of the object with this name without reading the object.
    pub fn length_of(&self, name: &[u8]) -> Result<Option<u64>> {
        match &self.stored {
            Storage::Shards(shards) => Ok(shards.find_row(name)?.map(|(_, row)| row.length)),
            Storage::Tree(tree) => tree.length(name),
        }
    }

    /// Returns up to `max` distinct names in storage order, starting at a position. For `files`, this is the order of
    /// paths. If `with_lengths` is set, also determines the size of each file.
    pub fn names(&self, from: Option<&Position>, max: usize, with_lengths: bool) -> Result<NamesPage> {
        match &self.stored {
            Storage::Shards(shards) => shards.names(from, max),
            Storage::Tree(tree) => names_of_files(tree, from, max, with_lengths),
        }
    }

    /// Returns the number of names. Reads the tables of the manifests for packs, and all folders for `files`.
    pub fn count(&self) -> Result<u64> {
        match &self.stored {
            Storage::Shards(shards) => shards.count(),
            Storage::Tree(tree) => {
                let mut count = 0;
                tree.names(None, |_| {
                    count += 1;
                    Ok(false)
                })?;
                Ok(count)
            }
        }
    }
}

/// Converts an object stored as a file.
fn of_file(object: StoredObject) -> FoundObject {
    FoundObject { sequence: None, crc32c: crc32c::crc32c(&object.body), object }
}

fn names_of_files(
    tree: &FileTree,
    from: Option<&Position>,
    max: usize,
    with_lengths: bool,
) -> Result<NamesPage> {
    let behind = match from {
        Some(Position::Behind(path)) => Some(path.as_slice()),
        _ => None,
    };
    let (mut names, mut bytes) = (Vec::new(), 0);
    let next = tree.names(behind, |name| {
        bytes += name.len();
        let length = if with_lengths { tree.length(&name)? } else { None };
        names.push(ListedName { name, length, sequence: None });
        Ok(names.len() >= max || bytes >= PAGE_NAME_BYTES)
    })?;
    Ok(NamesPage { names, next: next.map(Position::Behind) })
}
