//! A list of URLs: read ahead of the fetching, as far as there is room.

use std::path::{Path, PathBuf};

use super::{hand_over, input};
use crate::engine::control::{Control, Stop};
use crate::engine::options::SourceOptions;
use crate::engine::recorder::ToJournal;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::source::list::{
    Items, ListFormat, ListOptions, ListReader, ListSource, Listed, Sample, decoded, format_of, origin_of,
};

/// The fact of a job that has the length of its list.
const LENGTH: &str = "list_bytes";

/// A list that was opened.
pub(in crate::engine) struct List {
    reader: ListReader,
    /// Bytes of its file.
    length: Option<u64>,
    /// To be read a second time: how many of its targets are taken.
    sampled: Option<(u64, Place)>,
}

/// Where a list is, and how it is read.
struct Place {
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
    let file = input::open(path)?;
    let length = input::length(&file);
    let label = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
    let (named, promised) = path.map_or((None, None), |path| format_of(&path.to_string_lossy()));
    let format = format.or(named).unwrap_or(ListFormat::Text);
    let reader = match (format, length) {
        (ListFormat::Parquet, Some(_)) if promised.is_none() => {
            ListReader::of_parquet(&label, file, options)?
        }
        // It is read at places: what comes as a stream is laid out first.
        (ListFormat::Parquet, _) => {
            let laid_out = input::lay_out(decoded(Box::new(file), promised)).map_err(|error| {
                Error::Listing(format!("the list {label} cannot be laid out as a file: {error}"))
            })?;
            ListReader::of_parquet(&label, laid_out, options)?
        }
        (_, Some(_)) => ListReader::of_stream(&label, Box::new(file), (format, promised), options)?,
        (_, None) => {
            let patient = Box::new(input::Patient(file));
            ListReader::of_stream(&label, patient, (format, promised), options)?
        }
    };
    Ok((reader, length))
}

impl List {
    /// The list of a source; `given` is what a program gives. None for a server.
    pub(in crate::engine) fn open(
        source: &SourceOptions,
        given: Option<Box<dyn Items>>,
    ) -> Result<Option<Self>> {
        match (source, given) {
            (SourceOptions::Server { .. } | SourceOptions::S3 { .. }, _) => Ok(None),
            (SourceOptions::Iterable { options }, Some(items)) => {
                let reader = ListReader::of_items("the iterable", items, options)?;
                Ok(Some(List { reader, length: None, sampled: None }))
            }
            (SourceOptions::Iterable { .. }, None) => Err(Error::Internal("no iterable was given".into())),
            (SourceOptions::List { path, format, options }, _) => {
                let (reader, length) = open(path.as_deref(), *format, options)?;
                let sampled = match (options.sample, path) {
                    (None, _) => None,
                    (Some(count), Some(path)) if length.is_some() => {
                        let place = Place { path: path.clone(), format: *format, options: options.clone() };
                        Some((count, place))
                    }
                    _ => {
                        return Err(Error::Usage(
                            "--sample reads the list twice: store it in a file first".into(),
                        ));
                    }
                };
                Ok(Some(List { reader, length, sampled }))
            }
        }
    }

    /// What the kept columns are called.
    pub(in crate::engine) fn columns(&self) -> Vec<String> {
        self.reader.kept_names()
    }

    /// Refuses a list that has grown or shrunk since the job began, and goes on behind what was read.
    pub(in crate::engine) fn resume(&mut self, journal: &Journal) -> Result<()> {
        if let Some(length) = self.length {
            match journal.get(LENGTH)?.and_then(|known| known.parse::<u64>().ok()) {
                Some(known) if known != length => {
                    return Err(Error::Usage(format!(
                        "{} has changed since the job began: it had {known} bytes and has {length}; restore it, or \
                         choose another destination",
                        self.reader.called()
                    )));
                }
                Some(_) => {}
                None => journal.set(LENGTH, &length.to_string())?,
            }
        }
        if let Some(position) = journal.list_position()? {
            self.reader.resume(position);
        }
        Ok(())
    }

    /// Whether its end is in the journal is no question of the list.
    fn take_sample(&mut self, control: &Control) -> Result<bool> {
        let Some((count, place)) = self.sampled.take() else { return Ok(true) };
        let reader = open_list(Some(&place.path), place.format, &place.options)?;
        let found: Option<Sample> = reader.find_sample(count, || control.stop() == Stop::No)?;
        if let Some(sample) = found {
            self.reader.set_sample(sample);
        }
        Ok(found.is_some())
    }
}

/// Reads to the end of the list, or until the job is to end.
pub(super) fn read(control: &Control, mut list: List) -> Result<()> {
    if !list.take_sample(control)? {
        return Ok(());
    }
    while control.wait_for_room() {
        match list.reader.next_page()? {
            Listed::Page(page) => {
                note_origins(control, page.names.iter());
                hand_over(control, *page);
            }
            // It has waited a moment itself: time to look whether the job is to end.
            Listed::NothingNow => {}
            Listed::End => break,
        }
    }
    if control.stop() == Stop::No {
        control.journal(ToJournal::EndListing);
    }
    Ok(())
}

/// Takes note of whether a list leads to more than one origin.
pub(in crate::engine) fn note_origins<'e>(control: &Control, entries: impl Iterator<Item = &'e [u8]>) {
    if control.has_many_origins() || control.has_server() {
        return;
    }
    let mut first = control.first_origin();
    for entry in entries {
        let Some(origin) = origin_of(Entry::read(entry).url) else { continue };
        match &mut *first {
            Some(first) if first.as_slice() == origin => {}
            Some(_) => return control.find_many_origins(),
            None => *first = Some(origin.to_vec()),
        }
    }
}
