//! Locates the data files of an inventory relative to its `manifest.json`, in the folder structure of the bucket.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::files;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::source::list::{DataFile, DataFiles, Inventory};

/// Folder that contains the data files, next to the folder of the `manifest.json`.
const DATA: &str = "data";

/// Locator of data files. See the [module documentation](self).
pub(super) struct InventoryFiles {
    /// Folder that contains the `manifest.json`.
    folder: PathBuf,
}

/// The only data file, for a range of a shared job.
pub(super) struct OnlyFile {
    path: PathBuf,
}

/// Reads a document that describes the only data file, which is at `path`.
pub(super) fn only(path: &Path, document: &str, label: &str) -> Result<(Inventory, OnlyFile)> {
    Ok((Inventory::read(label, document.as_bytes())?, OnlyFile { path: path.to_owned() }))
}

/// Reads a `manifest.json` and checks that its data files exist.
pub(super) fn open(path: Option<&Path>, file: File, label: &str) -> Result<(Inventory, InventoryFiles)> {
    let Some(path) = path else {
        return Err(Error::Usage(
            "an inventory cannot be read from standard input; give the path of its manifest.json, and keep \
             the data files at the same relative paths as in the bucket"
                .into(),
        ));
    };
    let inventory = Inventory::read(label, file)?;
    let path = path.canonicalize().map_err(|error| files::cannot_open(path, &error))?;
    let files = InventoryFiles { folder: path.parent().unwrap_or(Path::new("/")).to_owned() };
    for file in &inventory.files {
        files.find(file)?;
    }
    Ok((inventory, files))
}

impl InventoryFiles {
    /// Locates a data file. It is expected in `../data`, whichever part of the bucket was downloaded. If it is not
    /// there, it is located by its key, relative to the folder of the `manifest.json` or to a parent of that folder. The root of the
    /// bucket is the last such parent.
    pub(super) fn find(&self, file: &DataFile) -> Result<PathBuf> {
        let path: PathBuf = file.path().collect();
        let beside =
            self.folder.parent().zip(path.file_name()).map(|(above, name)| above.join(DATA).join(name));
        let below = self.folder.ancestors().take(path.components().count()).map(|above| above.join(&path));
        let mut missing = true;
        for candidate in beside.into_iter().chain(below) {
            match candidate.metadata() {
                Ok(metadata) if metadata.is_file() && metadata.len() == file.size => return Ok(candidate),
                Ok(_) => missing = false,
                Err(_) => {}
            }
        }
        let what = if missing { "is missing" } else { "does not have the size in manifest.json" };
        Err(Error::Usage(format!(
            "the data file {} of the inventory in {} {what}; download the inventory's whole folder with aws \
             s3 sync or fetchmill get s3://..., and give its manifest.json",
            file.text(),
            self.folder.display()
        )))
    }
}

impl DataFiles for OnlyFile {
    type File = File;

    fn open(&self, _file: &DataFile) -> Result<(File, String)> {
        let opened = File::open(&self.path).map_err(|error| files::cannot_open(&self.path, &error))?;
        Ok((opened, self.path.display().to_string()))
    }
}

impl DataFiles for InventoryFiles {
    type File = File;

    fn open(&self, file: &DataFile) -> Result<(File, String)> {
        let path = self.find(file)?;
        let opened = File::open(&path).map_err(|error| files::cannot_open(&path, &error))?;
        Ok((opened, path.display().to_string()))
    }
}
