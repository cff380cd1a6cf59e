//! The files of a list, and whether they can be split at line endings. Shared jobs plan their ranges based on this.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use fetchmill_model::error::{Error, Result};
use fetchmill_model::source::list::{
    DataFile, ListFormat, ListOptions, ListSource as _, ListStep, compression_of, format_of, parquet_rows,
};

use super::part_files::PartFiles;
use super::{OpenedList, files, inventory_files};

/// Number of bytes read to detect a JSON array. An array that follows more whitespace than this is not detected.
const HEAD_BYTES: usize = 4096;

/// One file of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Format of the file.
    pub format: ListFormat,
    /// Whether any range of its lines is a valid list.
    pub has_lines: bool,
    /// Number of rows, for a Parquet file.
    pub rows: Option<u64>,
    /// For a data file of an inventory, the `manifest.json` without its data files, and the MD5 of the data file in
    /// hexadecimal digits.
    pub inventory: Option<(String, String)>,
}

/// Returns the files of the list at a path, sorted by name. The path can be a file, a folder or a glob.
///
/// # Errors
/// Fails if a file cannot be opened, is a pipe, or has a different format from the others.
pub fn list_files(path: &Path, format: Option<ListFormat>, options: &ListOptions) -> Result<Vec<ListFile>> {
    let found = PartFiles::find(path, format, options)?;
    let paths = found.map_or_else(|| vec![path.to_owned()], PartFiles::into_paths);
    let has_fields = options.delimiter.is_some() || options.quote.is_some();
    let unnamed = if has_fields { ListFormat::Csv } else { ListFormat::Text };
    let is_inventory =
        |path: &Path| format.or(format_of(&path.to_string_lossy()).0) == Some(ListFormat::Inventory);
    if let [path] = &paths[..]
        && is_inventory(path)
    {
        return data_files(path);
    }
    paths.into_iter().map(|path| describe(path, format, unnamed)).collect()
}

/// Returns the data files of an inventory.
fn data_files(path: &Path) -> Result<Vec<ListFile>> {
    let manifest = open_regular(path)?;
    let (inventory, files) = inventory_files::open(Some(path), manifest, &path.display().to_string())?;
    let head = inventory.head();
    let describe = |file: &DataFile| -> Result<ListFile> {
        let path = files.find(file)?;
        let opened = open_regular(&path)?;
        let rows =
            inventory.has_rows().then(|| parquet_rows(&path.display().to_string(), &opened)).transpose()?;
        Ok(ListFile {
            path,
            format: ListFormat::Inventory,
            has_lines: false,
            rows,
            inventory: Some((head.clone(), file.md5_text())),
        })
    };
    inventory.files.iter().map(describe).collect()
}

/// Checks that a list is readable and contains the requested columns.
///
/// # Errors
/// Fails if the list is not readable or lacks a requested column.
pub fn check_list(path: &Path, format: Option<ListFormat>, options: &ListOptions) -> Result<()> {
    // Only the first page shows whether the columns are valid.
    let mut opened = OpenedList::of_path(Some(path), format, options)?;
    while matches!(opened.reader.next_page()?, ListStep::NothingNow) {}
    Ok(())
}

fn open_regular(path: &Path) -> Result<File> {
    let file = files::open(Some(path))?;
    if files::length(&file).is_none() {
        return Err(Error::Usage(format!(
            "the list {} is not a regular file, so other processes cannot read it again; save the list to a \
             file",
            path.display()
        )));
    }
    Ok(file)
}

fn describe(path: PathBuf, format: Option<ListFormat>, unnamed: ListFormat) -> Result<ListFile> {
    let file = open_regular(&path)?;
    let (named, promised) = format_of(&path.to_string_lossy());
    let format = format.or(named).unwrap_or(unnamed);
    let head = read_head(&file).map_err(|error| Error::storage("read", &path, error))?;
    let is_compressed = promised.is_some() || compression_of(&head).is_some();
    let has_lines = match format {
        _ if is_compressed => false,
        ListFormat::Parquet | ListFormat::Inventory => false,
        ListFormat::Jsonl => !begins_an_array(&head),
        ListFormat::Text | ListFormat::Csv | ListFormat::Tsv => true,
    };
    let rows = match format {
        ListFormat::Parquet if !is_compressed => Some(parquet_rows(&path.display().to_string(), &file)?),
        _ => None,
    };
    Ok(ListFile { path, format, has_lines, rows, inventory: None })
}

fn read_head(file: &File) -> std::io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let count = file.read_at(&mut head, 0)?;
    head.truncate(count);
    Ok(head)
}

fn begins_an_array(head: &[u8]) -> bool {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start().first() == Some(&b'[')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_divisible_and_what_is_read_as_a_whole_is_not() {
        let folder = std::env::temp_dir().join(format!("divisible-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, content, format, has_lines) in [
            ("a.txt", &b"http://a/"[..], ListFormat::Text, true),
            ("b.jsonl", b"{}\n", ListFormat::Jsonl, true),
            ("c.json", b" \n[1, 2]", ListFormat::Jsonl, false),
            ("d.txt", b"\x1f\x8b\x08", ListFormat::Text, false),
            ("e.csv.gz", b"", ListFormat::Csv, false),
        ] {
            let path = folder.join(name);
            std::fs::write(&path, content).unwrap();
            let found = list_files(&path, None, &ListOptions::default()).unwrap();

            let expected = ListFile { path, format, has_lines, rows: None, inventory: None };
            assert_eq!(found, [expected], "{name}");
        }
        assert!(list_files(Path::new("/dev/null"), None, &ListOptions::default()).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
