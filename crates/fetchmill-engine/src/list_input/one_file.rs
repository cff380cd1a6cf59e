//! A list in one file, from a pipe, or from standard input.

use std::io::Read;
use std::path::Path;

use super::{files, inventory_files};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::source::list::{
    Compression, FieldCheck, ListFormat, ListOptions, ListReader, decoded, format_of, open_only_member,
};

/// Opens a list and returns the size of its file, or `None` for a pipe. With `checks`, fails if a JSON list lacks a
/// requested column.
pub(super) fn open(
    path: Option<&Path>,
    format: Option<ListFormat>,
    options: &ListOptions,
    checks: bool,
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
        let check = field_check(checks, None)?;
        let reader = of_stream(&label, (member.content, check), (format, promised), options)?;
        return Ok((reader.with_length(Some(member.length)), length));
    }
    let format = format.or(named).unwrap_or(unnamed);
    let reader = match (format, length) {
        (ListFormat::Inventory, _) => {
            if let (Some(path), Some(document)) = (path, &options.inventory) {
                let (inventory, file) = inventory_files::only(path, document, &label)?;
                ListReader::of_inventory(&label, inventory, file, options)?
            } else {
                let (inventory, files) = inventory_files::open(path, file, &label)?;
                ListReader::of_inventory(&label, inventory, files, options)?
            }
        }
        (ListFormat::Parquet, Some(_)) if promised.is_none() => {
            ListReader::of_parquet(&label, file, options)?
        }
        (ListFormat::Parquet, _) | (_, Some(_)) => {
            let check = field_check(checks, path.filter(|_| format == ListFormat::Jsonl))?;
            of_stream(&label, (Box::new(file), check), (format, promised), options)?
        }
        (_, None) => {
            let patient = Box::new(files::PollingInput::new(file, options.is_range));
            let check = field_check(checks, None)?;
            ListReader::of_stream(&label, (patient, check), (format, promised), options)?
        }
    };
    Ok((reader.with_length(length), length))
}

/// Opens and decompresses the file of a list. Its first bytes determine the compression.
pub fn open_decoded(path: &Path) -> Result<Box<dyn Read + Send>> {
    let file = files::open(Some(path))?;
    let is_archive = files::is_zip_file(&file).map_err(|error| Error::storage("read", path, error))?;
    if is_archive {
        let member = open_only_member(&path.display().to_string(), file)?;
        let promised = format_of(&member.name).1;
        return Ok(Box::new(decoded(member.content, promised)));
    }
    let promised = format_of(&path.to_string_lossy()).1;
    Ok(Box::new(decoded(Box::new(file), promised)))
}

/// Returns how the columns of a JSON list are checked. `again` is the path if the file can be opened a second time.
fn field_check(checks: bool, again: Option<&Path>) -> Result<FieldCheck> {
    match again {
        _ if !checks => Ok(FieldCheck::None),
        Some(_) => Ok(FieldCheck::File(Box::new(files::open(again)?))),
        None => Ok(FieldCheck::FirstValues),
    }
}

fn of_stream(
    label: &str,
    (stream, check): (Box<dyn Read + Send>, FieldCheck),
    (format, promised): (ListFormat, Option<Compression>),
    options: &ListOptions,
) -> Result<ListReader> {
    if format != ListFormat::Parquet {
        return ListReader::of_stream(label, (stream, check), (format, promised), options);
    }
    // Parquet requires random access, so a stream is written to a file first.
    let laid_out = files::buffer_to_file(decoded(stream, promised))
        .map_err(|error| Error::Listing(format!("cannot read the list {label} as a file: {error}")))?;
    ListReader::of_parquet(label, laid_out, options)
}
