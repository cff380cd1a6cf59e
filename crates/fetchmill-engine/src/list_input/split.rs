//! Distributes the rows of Parquet lists across several files. A shared job divides its list by host in this way.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use fetchmill_model::error::{Error, Result};
use fetchmill_model::source::list::ParquetSplit;

use super::files;

/// Writes each row of the lists to one of the parts. Returns the number of rows in each part.
///
/// `lists` contains pairs of a Parquet file and a file with one byte per row. The row is written to part `byte %
/// parts`.
///
/// # Errors
/// Fails if a list cannot be read or has different columns from the first one, or if a part cannot be written.
pub fn split_parquet(lists: &[(PathBuf, PathBuf)], parts: &[PathBuf]) -> Result<Vec<u64>> {
    let create = |path: &PathBuf| File::create(path).map_err(|error| Error::storage("create", path, error));
    let outputs = parts.iter().map(create).collect::<Result<_>>()?;
    let folder = parts.first().and_then(|path| path.parent()).unwrap_or(Path::new("."));
    let mut split = ParquetSplit::new(folder.to_owned(), outputs);
    for (path, groups) in lists {
        let list = files::open(Some(path))?;
        let groups = File::open(groups).map_err(|error| Error::storage("open", groups, error))?;
        split.add(&path.display().to_string(), list, &mut BufReader::new(groups))?;
    }
    split.finish()
}
