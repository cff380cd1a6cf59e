//! Locates the state folder of a job and checks its contents.
//!
//! The state folder is below the destination, next to an output file, or at `--state`. A destination may come from
//! someone else. For this reason, a state folder that is named by a file in it is used only if it contains the same
//! token. Nothing in the state folder is accessed through links.

use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::durable;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::STATE_FOLDER;

/// Files below the destination that contain the path of a state folder and its token.
const POINTER: (&str, &str) = ("state", "state-token");
/// File in a state folder with the token of its destination.
const TOKEN: &str = "token";
/// Entries that a state folder may contain besides databases.
const ENTRIES: [&str; 13] = [
    "lock",
    "token",
    "state",
    "state-token",
    "open",
    "index",
    "failures",
    "manifests",
    "stage",
    "shards",
    "fetched",
    "sync",
    STATE_FOLDER,
];
/// Folders that may contain many objects. These objects are opened without following links.
const STAGES: [&str; 2] = ["stage", "fetched"];

/// Returns the state folder of a destination, which does not have to exist yet. `state` is a folder that the user
/// named.
pub(in crate::journal) fn find(dest: &Path, state: Option<&Path>) -> Result<PathBuf> {
    let hidden = dest.join(STATE_FOLDER);
    refuse_links(&hidden)?;
    refuse_closed(dest, state.unwrap_or(&hidden))?;
    let state = match state {
        Some(state) => state.to_owned(),
        None => match named_by(&hidden)? {
            Some(state) => state,
            None if !hidden.exists() && beside(dest).join("job.sqlite").exists() => beside(dest),
            None => return Ok(hidden),
        },
    };
    refuse_links_below(&state)?;
    Ok(state)
}

/// Fails if this user has no permission to enter the state folder. Without this check, the destination would seem to
/// have no job.
fn refuse_closed(dest: &Path, state: &Path) -> Result<()> {
    match std::fs::metadata(state.join("job.sqlite")) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Error::Usage(format!(
            "{} holds a job of another user (no permission to enter {}); run this as that user, or choose \
             another destination",
            dest.display(),
            state.display()
        ))),
        _ => Ok(()),
    }
}

/// Returns the state folder of a job that writes one file.
pub(in crate::journal) fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(STATE_FOLDER);
    file.with_file_name(name)
}

/// Returns the state folder that a destination names, if it has the same token.
fn named_by(hidden: &Path) -> Result<Option<PathBuf>> {
    let pointer = hidden.join(POINTER.0);
    let state = match std::fs::read(&pointer) {
        Ok(path) if !path.is_empty() => PathBuf::from(std::ffi::OsString::from_vec(path)),
        _ => return Ok(None),
    };
    if state.is_absolute() && have_common_token(hidden, &state) {
        return Ok(Some(state));
    }
    Err(Error::Security(format!(
        "{} names the state folder {}, which is not marked as the state of this destination; if the folder \
         does belong to this destination, add --state {}",
        pointer.display(),
        state.display(),
        state.display()
    )))
}

fn have_common_token(hidden: &Path, state: &Path) -> bool {
    let token = |path: PathBuf| std::fs::read(path).ok().filter(|token| !token.is_empty());
    let expected = token(hidden.join(POINTER.1));
    expected.is_some() && expected == token(state.join(TOKEN))
}

/// Returns whether a state folder belongs to the destination with this hidden folder.
pub(in crate::journal) fn is_of(hidden: &Path, state: &Path) -> bool {
    let is_hidden =
        || state.canonicalize().is_ok_and(|state| hidden.canonicalize().is_ok_and(|own| own == state));
    have_common_token(hidden, state) || is_hidden()
}

/// Makes a destination and its state folder refer to each other with a common token.
pub(in crate::journal) fn claim(hidden: &Path, state: &Path) -> Result<()> {
    let absolute = std::path::absolute(state).map_err(|error| Error::storage("find", state, error))?;
    let path = state.join(TOKEN);
    let token = match std::fs::read(&path) {
        Ok(token) if !token.is_empty() => token,
        _ => new_token()?,
    };
    for (path, bytes) in [
        (path, &*token),
        (hidden.join(POINTER.1), &*token),
        (hidden.join(POINTER.0), absolute.as_os_str().as_encoded_bytes()),
    ] {
        let write = || {
            durable::keep_private(&path)?;
            std::fs::write(&path, bytes)
        };
        write().map_err(|error| Error::storage("write", &path, error))?;
    }
    Ok(())
}

fn new_token() -> Result<Vec<u8>> {
    let mut bytes = [0; 16];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(16) => Ok(format!("{:032x}", u128::from_ne_bytes(bytes)).into_bytes()),
        _ => Err(Error::Internal("the kernel does not provide random numbers".into())),
    }
}

/// Fails if a state folder contains anything other than the state of a job, because a job removes unknown files.
pub(in crate::journal) fn refuse_others(state: &Path) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(state) else { return Ok(()) };
    if state.join("job.sqlite").exists() {
        return Ok(());
    }
    match entries.flatten().find(|entry| !is_known(&entry.file_name())) {
        None => Ok(()),
        Some(other) => Err(Error::Usage(format!(
            "{} is not empty and does not hold the state of a job (it contains {}); choose a new folder for \
             --state",
            state.display(),
            other.file_name().display()
        ))),
    }
}

fn is_known(name: &std::ffi::OsStr) -> bool {
    let name = name.as_encoded_bytes();
    ENTRIES.iter().any(|entry| entry.as_bytes() == name)
        || ["job.sqlite", "stream.sqlite"].iter().any(|database| name.starts_with(database.as_bytes()))
}

/// Fails if a job's folder is a link, or contains anything other than files and folders. Through a link, unrelated
/// files would be truncated and removed. Opening a pipe would block forever.
pub(in crate::journal) fn refuse_links(folder: &Path) -> Result<()> {
    if std::fs::symlink_metadata(folder).is_ok_and(|found| found.is_symlink()) {
        return Err(Error::Security(format!(
            "{} is a link, but a job's folder must not be a link; if you created the link, replace it with \
             the folder itself, and use --state to put the state on another disk",
            folder.display()
        )));
    }
    refuse_links_below(folder)
}

/// Checks a job's folders below a folder that the user named. The path to the named folder may contain links.
pub(in crate::journal) fn refuse_links_below(folder: &Path) -> Result<()> {
    walk(folder, &is_known)
}

fn walk(folder: &Path, is_meant: &dyn Fn(&std::ffi::OsStr) -> bool) -> Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error)
            if matches!(
                error.kind(),
                // A user who may not list the folder cannot open anything below it.
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(());
        }
        entries => entries.map_err(|error| Error::storage("read", folder, error))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| Error::storage("read", folder, error))?;
        let name = entry.file_name();
        // A run may have removed the entry in the meantime.
        let Some(kind) = entry.file_type().ok().filter(|_| is_meant(&name)) else { continue };
        if !kind.is_dir() && !kind.is_file() {
            return Err(is_a_link(&entry.path()));
        }
        if kind.is_dir() && !STAGES.iter().any(|stage| name == *stage) {
            walk(&entry.path(), &|_| true)?;
        }
    }
    Ok(())
}

fn is_a_link(path: &Path) -> Error {
    Error::Security(format!(
        "{} is a link or a special file, which fetchmill never creates there; remove it, or use another \
         destination",
        path.display()
    ))
}
