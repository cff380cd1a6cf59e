//! A list in several files: either the files of a folder, or the files that match a glob.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use fetchmill_model::error::{Error, Result};
use fetchmill_model::source::list::{Filters, ListFormat, ListOptions, ListParts, ListRecords, format_of};

use super::{files, one_file};

/// Maximum number of files. Their names are kept in memory.
const FILES_MAX: usize = 100_000;
/// Files that Spark and other writers put next to the parts of a list. Hidden files are ignored as well.
const NOT_PARTS: [&str; 3] = ["_SUCCESS", "_metadata", "_common_metadata"];

/// The files of a list, sorted by name.
#[derive(Debug, Clone)]
pub(super) struct PartFiles {
    label: String,
    files: Vec<PathBuf>,
    /// Size of each file in bytes.
    lengths: Vec<u64>,
    format: Option<ListFormat>,
    options: ListOptions,
}

impl PartFiles {
    /// Finds the files in a folder, or the files that match a glob. Returns `None` if the path is a file, even if the
    /// path looks like a glob.
    pub(super) fn find(
        path: &Path,
        format: Option<ListFormat>,
        options: &ListOptions,
    ) -> Result<Option<Self>> {
        let found = if path.is_dir() {
            in_folder(path)?
        } else if is_glob(path) && !path.exists() {
            matching(path)?
        } else {
            return Ok(None);
        };
        let parts = PartFiles {
            label: path.display().to_string(),
            lengths: found.iter().map(|path| length_of(path)).collect::<Result<_>>()?,
            files: found,
            format,
            options: options.clone(),
        };
        parts.check_kinds()?;
        Ok(Some(parts))
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    pub(super) fn into_paths(self) -> Vec<PathBuf> {
        self.files
    }

    /// Returns the total size of all files.
    pub(super) fn all_bytes(&self) -> u64 {
        self.lengths.iter().sum()
    }

    /// Returns the names of all files for the digest.
    pub(super) fn names(&self) -> Vec<u8> {
        let names = self.files.iter().filter_map(|path| path.file_name());
        names.flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect()
    }

    /// Fails if the files have different formats.
    fn check_kinds(&self) -> Result<()> {
        let kind = |path: &Path| self.format.or(format_of(&path.to_string_lossy()).0);
        let Some((first, others)) = self.files.split_first() else {
            return Err(Error::Usage(format!(
                "the list {}: no file found; give a folder or a glob with list files in it",
                self.label
            )));
        };
        if let Some(other) = others.iter().find(|other| kind(other) != kind(first)) {
            return Err(Error::Usage(format!(
                "the list {}: its files have different formats ({} and {}); give a glob for one format, or \
                 set --list-format",
                self.label,
                name_of(first),
                name_of(other)
            )));
        }
        if kind(first) == Some(ListFormat::Inventory) {
            return Err(Error::Usage(format!(
                "the list {}: contains the {} of an inventory; give the path of that file",
                self.label,
                name_of(first)
            )));
        }
        Ok(())
    }
}

impl ListParts for PartFiles {
    fn count(&self) -> usize {
        self.files.len()
    }

    fn name(&self, part: usize) -> String {
        self.files.get(part).map(|path| name_of(path)).unwrap_or_default()
    }

    fn length(&self, part: usize) -> u64 {
        self.lengths.get(part).copied().unwrap_or(0)
    }

    fn open(&self, part: usize) -> Result<ListRecords> {
        let path = self.files.get(part).ok_or_else(|| Error::Internal(format!("no part {part}")))?;
        // A rare column might be absent from the other files.
        let opened = one_file::open(Some(path), self.format, &self.options, part == 0);
        opened.map(|(reader, _)| reader.into_records())
    }
}

fn length_of(path: &Path) -> Result<u64> {
    let metadata = path.metadata().map_err(|error| files::cannot_open(path, &error))?;
    Ok(metadata.len())
}

fn name_of(path: &Path) -> String {
    fetchmill_model::name::for_display(path.file_name().unwrap_or(path.as_os_str()).as_bytes())
}

/// Returns whether a file with this name is a part. Hidden files are not, and neither are marker files of the program
/// that wrote the parts.
fn is_part(name: &OsStr) -> bool {
    !name.as_bytes().starts_with(b".") && !NOT_PARTS.iter().any(|other| name == *other)
}

fn is_glob(path: &Path) -> bool {
    path.as_os_str().as_bytes().iter().any(|byte| b"*?[{".contains(byte))
}

/// Returns the sorted names of a folder's entries.
fn names_in(folder: &Path) -> Result<Vec<std::ffi::OsString>> {
    let read = || -> io::Result<Vec<_>> {
        folder.read_dir()?.take(FILES_MAX + 1).map(|entry| Ok(entry?.file_name())).collect()
    };
    let mut names = read().map_err(|error| files::cannot_open(folder, &error))?;
    if names.len() > FILES_MAX {
        return Err(Error::Usage(format!(
            "the list {}: too many files in one folder (more than {FILES_MAX}); put them into fewer files",
            folder.display()
        )));
    }
    names.sort_unstable();
    Ok(names)
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let names = names_in(folder)?.into_iter().filter(|name| is_part(name));
    let found: Vec<PathBuf> = names.map(|name| folder.join(name)).collect();
    match found.iter().find(|path| !path.is_file()) {
        Some(other) => Err(Error::Usage(format!(
            "the list {}: only files can be parts of a list ({} is not a file); give a glob that matches \
             files only",
            folder.display(),
            name_of(other)
        ))),
        None => Ok(found),
    }
}

/// Returns the files that match a glob. `*`, `?`, `[ab]` and `{a,b}` also work in folder names, but never match a
/// slash.
fn matching(glob: &Path) -> Result<Vec<PathBuf>> {
    let start = if glob.is_absolute() { PathBuf::from("/") } else { PathBuf::new() };
    let mut found = vec![start];
    for component in glob.components().filter(|part| !matches!(part, std::path::Component::RootDir)) {
        let component = component.as_os_str();
        if !is_glob(Path::new(component)) {
            for folder in &mut found {
                folder.push(component);
            }
            continue;
        }
        let filters = Filters::new(&[component.to_string_lossy().into_owned()], &[])?;
        let mut next = Vec::new();
        for folder in found.iter().filter(|folder| folder.as_os_str().is_empty() || folder.is_dir()) {
            let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let names = names_in(here)?.into_iter();
            let names = names.filter(|name| is_part(name) && filters.allows(name.as_bytes()));
            next.extend(names.map(|name| folder.join(name)));
        }
        if next.len() > FILES_MAX {
            return Err(Error::Usage(format!(
                "the list {}: too many files (more than {FILES_MAX}); put them into fewer files",
                glob.display()
            )));
        }
        found = next;
    }
    found.retain(|path| path.is_file());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_or_a_glob_gives_sorted_parts() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b/part-1.csv", "b/part-0.csv", "b/_SUCCESS", "b/.part-0.csv.crc", "a/x.csv", "a/y.txt"]
        {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "http://a.test/\n").unwrap();
        }
        let names = |glob: &str| {
            let found = PartFiles::find(&folder.path().join(glob), None, &ListOptions::default());
            found.map(|parts| parts.map(|parts| (0..parts.count()).map(|part| parts.name(part)).collect()))
        };

        let both = vec!["part-0.csv".to_owned(), "part-1.csv".to_owned()];
        assert_eq!(names("b").unwrap(), Some(both.clone()));
        assert_eq!(names("b/part-?.csv").unwrap(), Some(both));
        assert_eq!(names("?/*.csv").unwrap().unwrap().len(), 3);
        assert_eq!(names("a/x.csv").unwrap(), None::<Vec<String>>);
        for (glob, message) in [("a", "x.csv and y.txt"), ("*.csv", "no file found"), ("", "a is not a file")]
        {
            let error = names(glob).unwrap_err();
            assert!(error.to_string().contains(message) && error.exit_code() == 2, "{error}");
        }
    }
}
