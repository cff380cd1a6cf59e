//! Explains `SQLite` errors to the user.

use std::path::Path;

use rustix::process::{Resource, getrlimit};

use fetchmill_model::error::Error;
use fetchmill_model::text::file_name::NotAFileName;

pub(crate) fn error_of(path: &Path, error: &rusqlite::Error) -> Error {
    use rusqlite::ffi;
    if let rusqlite::Error::FromSqlConversionFailure(_, _, source) = error
        && source.is::<NotAFileName>()
    {
        return Error::Security(format!("{}: {source}; nothing was changed", path.display()));
    }
    let Some(code) = error.sqlite_error().map(|error| error.extended_code) else {
        return Error::Journal(format!("cannot read the journal {}: {error}", path.display()));
    };
    // SQLite keeps the error number only for some failures. For example, "cannot open" can mean that the disk has no
    // free inodes, or that the process has no free descriptors.
    let find = || {
        if is_at_size_limit(path) {
            return Some(libc::EFBIG);
        }
        crate::durable::find_trouble(path.parent()?).map(rustix::io::Errno::raw_os_error)
    };
    let number = match code & 0xff {
        ffi::SQLITE_FULL => libc::ENOSPC,
        ffi::SQLITE_IOERR | ffi::SQLITE_CANTOPEN => find().unwrap_or(libc::EIO),
        ffi::SQLITE_READONLY | ffi::SQLITE_PERM => libc::EROFS,
        _ => {
            let path = path.display();
            return Error::Journal(format!(
                "the journal {path} is damaged, or is not a fetchmill journal: {error}"
            ));
        }
    };
    Error::storage("write the journal", path, std::io::Error::from_raw_os_error(number))
}

/// Returns whether a journal file has reached the file size limit (`ulimit -f`).
fn is_at_size_limit(path: &Path) -> bool {
    let Some(limit) = getrlimit(Resource::Fsize).current else { return false };
    ["", "-wal", "-shm"].iter().any(|suffix| {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        std::fs::metadata(file).is_ok_and(|found| found.len() + WRITE_BYTES_MAX > limit)
    })
}

/// Size of the largest single write by `SQLite` to a journal file: one region of the shared memory file.
const WRITE_BYTES_MAX: u64 = 32 * 1024;
