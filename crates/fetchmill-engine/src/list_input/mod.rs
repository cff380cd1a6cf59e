//! The input of a list: a file, a pipe, standard input, or items from a program. A job opens its list before anything
//! else, and the listing's thread reads it.

mod divisible;
mod files;
mod inventory_files;
mod one_file;
mod part_files;
mod split;

use std::path::{Path, PathBuf};

use crate::request::source_options::SourceOptions;
pub use divisible::{ListFile, check_list, list_files};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::source::list::{
    Items, ListFormat, ListOptions, ListParts as _, ListReader, ListSample, ListSource, ListStep,
};
use fetchmill_model::target::extra_columns::ColumnType;
use fetchmill_store::journal::Journal;
pub use one_file::open_decoded;
use part_files::PartFiles;
pub use split::split_parquet;
use xxhash_rust::xxh3::xxh3_64;

/// Name of the journal entry that contains the length of the list.
const LENGTH: &str = "list_bytes";
/// Name of the journal entry that contains the number of the list's files and a digest of their names.
const PARTS: &str = "list_files";

/// List that is ready to be read.
pub(crate) struct OpenedList {
    reader: ListReader,
    /// Total size of the list's files in bytes.
    length: Option<u64>,
    /// Files of the list, if there are several.
    parts: Option<PartFiles>,
    /// Sample size, and input for the second reading of the list, if `--sample` is used.
    sampled: Option<(u64, ListInput)>,
}

/// Location of a list, and the options for reading it.
struct ListInput {
    path: PathBuf,
    format: Option<ListFormat>,
    options: ListOptions,
}

/// Opens a list from a file, or from standard input if there is no path. Does not take a sample.
pub fn open_list(
    path: Option<&Path>,
    format: Option<ListFormat>,
    options: &ListOptions,
) -> Result<ListReader> {
    OpenedList::of_path(path, format, options).map(|list| list.reader)
}

impl OpenedList {
    /// Opens the list of a source. `given` is a list from a program. Returns `None` if the source is a server.
    pub(crate) fn open(
        source: &SourceOptions,
        format: Option<ListFormat>,
        list: &ListOptions,
        given: Option<Box<dyn Items>>,
    ) -> Result<Option<Self>> {
        match (source, given) {
            (SourceOptions::Server(_) | SourceOptions::S3 { .. }, _) => Ok(None),
            (SourceOptions::Iterable, Some(items)) => {
                let reader = ListReader::of_items("the iterable", items, list)?;
                Ok(Some(OpenedList { reader, length: None, parts: None, sampled: None }))
            }
            (SourceOptions::Iterable, None) => Err(Error::Internal("the iterable is missing".into())),
            (SourceOptions::List(path), _) => {
                let opened = Self::of_path(path.as_deref(), format, list)?;
                let sampled = match (list.sample, path) {
                    (None, _) => None,
                    (Some(count), Some(path)) if opened.length.is_some() => {
                        let place = ListInput { path: path.clone(), format, options: list.clone() };
                        Some((count, place))
                    }
                    _ => {
                        return Err(Error::Usage(
                            "--sample reads the list twice; save the list to a file first".into(),
                        ));
                    }
                };
                Ok(Some(OpenedList { sampled, ..opened }))
            }
        }
    }

    /// Opens the list at a path, which can be a file, a folder or a glob. Without a path, opens standard input.
    fn of_path(path: Option<&Path>, format: Option<ListFormat>, options: &ListOptions) -> Result<Self> {
        let parts = path.map(|path| PartFiles::find(path, format, options)).transpose()?.flatten();
        let Some(parts) = parts else {
            let (reader, length) = one_file::open(path, format, options, !options.is_range)?;
            return Ok(OpenedList { reader, length, parts: None, sampled: None });
        };
        let length = Some(parts.all_bytes());
        let reader = ListReader::of_parts(parts.label(), parts.clone(), options)?;
        Ok(OpenedList { reader, length, parts: Some(parts), sampled: None })
    }

    /// Fails if the list no longer has the files that it had when the job started.
    fn check_parts(&self, journal: &Journal) -> Result<()> {
        let Some(parts) = &self.parts else { return Ok(()) };
        let text = format!("{} {:016x}", parts.count(), xxh3_64(&parts.names()));
        match journal.get(PARTS)? {
            None => journal.set(PARTS, &text),
            Some(known) if known == text => Ok(()),
            Some(known) => {
                let had = known.split(' ').next().unwrap_or_default().to_owned();
                Err(Error::Usage(format!(
                    "{}: files changed since the job started ({had} files then, {} now, or with different \
                     names); restore the original files or use a new destination",
                    self.reader.called(),
                    parts.count()
                )))
            }
        }
    }

    /// Returns the names and types of the kept columns.
    pub(crate) fn columns(&self) -> Vec<(String, ColumnType)> {
        self.reader.kept_columns()
    }

    /// Returns whether the list can be read more than once.
    pub(crate) fn is_stored(&self) -> bool {
        self.length.is_some()
    }

    /// Reads the start of the list. Fails if the list cannot be read or lacks a requested column.
    pub(crate) fn try_out(mut self) -> Result<()> {
        self.reader.next_page().map(drop)
    }

    /// Continues after the part that was already read. Fails if the list was read to its end and its length has changed
    /// since.
    ///
    /// Until the list has been read to its end, its length can change, because a truncated list might have been
    /// completed. In the meantime, the digest of the part already read shows whether the list is the same. A sample
    /// depends on the whole list, so its length must never change.
    pub(crate) fn resume(&mut self, journal: &Journal) -> Result<()> {
        self.check_parts(journal)?;
        if let Some(length) = self.length {
            let is_read = journal.is_listed()?;
            match journal.get(LENGTH)?.and_then(|known| known.parse::<u64>().ok()) {
                Some(known) if known != length && (is_read || self.sampled.is_some()) => {
                    return Err(Error::Usage(format!(
                        "{} has changed since the job started ({known} bytes then, {length} bytes now); \
                         restore the original file or use a new destination",
                        self.reader.called()
                    )));
                }
                Some(known) if known == length => {}
                _ => journal.set(LENGTH, &length.to_string())?,
            }
        }
        if let Some(position) = journal.list_position()? {
            self.reader.resume(position);
        }
        Ok(())
    }

    /// Takes the sample. Returns `false` if interrupted. The journal does not have to contain the end of the list.
    pub(crate) fn take_sample(&mut self, goes_on: impl Fn() -> bool) -> Result<bool> {
        let Some((count, place)) = self.sampled.take() else { return Ok(true) };
        let reader = open_list(Some(&place.path), place.format, &place.options)?;
        let found: Option<ListSample> = reader.find_sample(count, goes_on)?;
        if let Some(sample) = found {
            self.reader.set_sample(sample);
        }
        Ok(found.is_some())
    }

    /// Reads the next page, or reports that none is available yet.
    pub(crate) fn next_page(&mut self) -> Result<ListStep> {
        self.reader.next_page()
    }

    /// Returns the fraction of the list read so far, from 0 to 1, or `None` if it is unknown.
    pub(crate) fn share_read(&self) -> Option<f64> {
        self.reader.share_read()
    }

    /// Returns a notice for the user at the end of the list.
    pub(crate) fn notice(&self) -> Option<String> {
        self.reader.notice()
    }
}
