//! Input of lists: a file, a pipe, standard input, or the items of a program. A job opens it before anything else, and its
//! listing's thread reads it.

mod files;
mod inventory_files;

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::request::source_options::SourceOptions;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::extra_columns::ColumnType;
use fetchmill_model::source::list::{
    Compression, Items, ListFormat, ListOptions, ListReader, ListSample, ListSource, ListStep, decoded,
    format_of, open_only_member,
};
use fetchmill_store::journal::Journal;

/// The fact of a job that has the length of its list.
const LENGTH: &str = "list_bytes";

/// A list that was opened.
pub(crate) struct OpenedList {
    reader: ListReader,
    /// Bytes of its file.
    length: Option<u64>,
    /// To be read a second time: how many of its targets are taken.
    sampled: Option<(u64, ListInput)>,
}

/// Where a list is, and how it is read.
struct ListInput {
    path: PathBuf,
    format: Option<ListFormat>,
    options: ListOptions,
}

/// Opens a list in a file, or on standard input when there is no path. Its sample is not taken.
pub fn open_list(
    path: Option<&Path>,
    format: Option<ListFormat>,
    options: &ListOptions,
) -> Result<ListReader> {
    open(path, format, options).map(|(reader, _)| reader)
}

fn open(
    path: Option<&Path>,
    format: Option<ListFormat>,
    options: &ListOptions,
) -> Result<(ListReader, Option<u64>)> {
    let file = files::open(path)?;
    let length = files::length(&file);
    let label = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
    let (named, promised) = path.map_or((None, None), |path| format_of(&path.to_string_lossy()));
    let has_fields = options.delimiter.is_some() || options.quote.is_some();
    let unnamed = if has_fields { ListFormat::Csv } else { ListFormat::Text };
    let is_archive = length.is_some()
        && files::is_zip_file(&file).map_err(|error| Error::storage("read", Path::new(&label), error))?;
    if is_archive {
        let member = open_only_member(&label, file)?;
        let (of_member, promised) = format_of(&member.name);
        let format = format.or(of_member).or(named).unwrap_or(unnamed);
        return Ok((of_stream(&label, member.content, (format, promised), options)?, length));
    }
    let format = format.or(named).unwrap_or(unnamed);
    let reader = match (format, length) {
        (ListFormat::Inventory, _) => {
            let (inventory, files) = inventory_files::open(path, file, &label)?;
            ListReader::of_inventory(&label, inventory, files, options)?
        }
        (ListFormat::Parquet, Some(_)) if promised.is_none() => {
            ListReader::of_parquet(&label, file, options)?
        }
        (ListFormat::Parquet, _) | (_, Some(_)) => {
            of_stream(&label, Box::new(file), (format, promised), options)?
        }
        (_, None) => {
            let patient = Box::new(files::PollingInput(file));
            ListReader::of_stream(&label, patient, (format, promised), options)?
        }
    };
    Ok((reader, length))
}

fn of_stream(
    label: &str,
    stream: Box<dyn Read + Send>,
    (format, promised): (ListFormat, Option<Compression>),
    options: &ListOptions,
) -> Result<ListReader> {
    if format != ListFormat::Parquet {
        return ListReader::of_stream(label, stream, (format, promised), options);
    }
    // It is read at places: what comes as a stream is laid out first.
    let laid_out = files::buffer_to_file(decoded(stream, promised))
        .map_err(|error| Error::Listing(format!("the list {label} cannot be laid out as a file: {error}")))?;
    ListReader::of_parquet(label, laid_out, options)
}

impl OpenedList {
    /// The list of a source; `given` is what a program gives. None for a server.
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
                Ok(Some(OpenedList { reader, length: None, sampled: None }))
            }
            (SourceOptions::Iterable, None) => Err(Error::Internal("no iterable was given".into())),
            (SourceOptions::List(path), _) => {
                let (reader, length) = open(path.as_deref(), format, list)?;
                let sampled = match (list.sample, path) {
                    (None, _) => None,
                    (Some(count), Some(path)) if length.is_some() => {
                        let place = ListInput { path: path.clone(), format, options: list.clone() };
                        Some((count, place))
                    }
                    _ => {
                        return Err(Error::Usage(
                            "--sample reads the list twice: store it in a file first".into(),
                        ));
                    }
                };
                Ok(Some(OpenedList { reader, length, sampled }))
            }
        }
    }

    /// What the kept columns are called, and what their values are.
    pub(crate) fn columns(&self) -> Vec<(String, ColumnType)> {
        self.reader.kept_columns()
    }

    /// Refuses a list that has grown or shrunk since it was read to its end, and continues after what was read.
    ///
    /// Before that end its length may change, since a list that was cut off has another one when it is whole. The digest
    /// of what was read shows whether it is the same list. A sample depends on the whole list, so its length must stay.
    pub(crate) fn resume(&mut self, journal: &Journal) -> Result<()> {
        if let Some(length) = self.length {
            let is_read = journal.is_listed()?;
            match journal.get(LENGTH)?.and_then(|known| known.parse::<u64>().ok()) {
                Some(known) if known != length && (is_read || self.sampled.is_some()) => {
                    return Err(Error::Usage(format!(
                        "{} has changed since the job began: it had {known} bytes and has {length}; restore it, or \
                         choose another destination",
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

    /// Whether the sample is taken: not when it is interrupted. Whether the list's end is in the journal does not matter.
    pub(crate) fn take_sample(&mut self, goes_on: impl Fn() -> bool) -> Result<bool> {
        let Some((count, place)) = self.sampled.take() else { return Ok(true) };
        let reader = open_list(Some(&place.path), place.format, &place.options)?;
        let found: Option<ListSample> = reader.find_sample(count, goes_on)?;
        if let Some(sample) = found {
            self.reader.set_sample(sample);
        }
        Ok(found.is_some())
    }

    /// The next page, or that there is none now.
    pub(crate) fn next_page(&mut self) -> Result<ListStep> {
        self.reader.next_page()
    }

    /// What a user should know of the list at its end.
    pub(crate) fn notice(&self) -> Option<String> {
        self.reader.notice()
    }
}
