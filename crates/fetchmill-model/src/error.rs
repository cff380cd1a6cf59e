//! What stops a job. What becomes of one target is never an [`Error`]: that is an outcome.

use std::path::PathBuf;

/// What stopped a job, in one line that says what failed, where and what to do. The variant decides the exit code
/// (docs/reference/exit-codes.md).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A mistake in the program: a panic in a thread, a broken invariant. Exit 1.
    #[error("internal error: {0}; this is a bug in fetchmill, the job can be resumed")]
    Internal(String),
    /// The options cannot be used, or the destination belongs to something else; nothing was touched. Exit 2.
    #[error("{0}")]
    Usage(String),
    /// The listing failed, is incomplete or never ends. Exit 4.
    #[error("{0}")]
    Listing(String),
    /// The origin gave no success for too long. Exit 5.
    #[error("{0}")]
    Temporary(String),
    /// Going on would carry something where it must not go. Exit 6.
    #[error("{0}")]
    Security(String),
    /// The local storage failed. Exit 7.
    #[error("cannot {action} {path}: {source}{hint}", path = .path.display(), hint = storage_hint(.source))]
    Storage {
        /// What was tried, as a verb.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// What is to be stored would not fit: stopped before the local storage fails. Exit 7.
    #[error("{0}")]
    NoRoom(String),
    /// The destination is not where it was when the job began. Exit 7.
    #[error("{0}")]
    Moved(String),
    /// The server refuses everything: 401 or 403. Exit 12.
    #[error("{0}")]
    Refused(String),
    /// Another process runs this job. Exit 9.
    #[error("{0}")]
    Busy(String),
    /// The journal or the output contradict each other. Exit 10.
    #[error("{0}")]
    Journal(String),
}

/// A result whose error stops the job.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A [`Error::Storage`].
    pub fn storage(
        action: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<std::io::Error>,
    ) -> Self {
        Error::Storage { action, path: path.into(), source: source.into() }
    }

    /// The exit code of the command line.
    pub fn exit_code(&self) -> i32 {
        match self {
            Error::Internal(_) => 1,
            Error::Usage(_) => 2,
            Error::Listing(_) => 4,
            Error::Temporary(_) => 5,
            Error::Security(_) => 6,
            Error::Storage { .. } | Error::NoRoom(_) | Error::Moved(_) => 7,
            Error::Refused(_) => 12,
            Error::Busy(_) => 9,
            Error::Journal(_) => 10,
        }
    }
}

fn storage_hint(source: &std::io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            "; free some space or inodes (df -h, df -i), then run the same command again to resume"
        }
        Some(libc::EMFILE | libc::ENFILE) => {
            "; raise the limit of open files (ulimit -n) or lower --concurrency, then run the same command again to resume"
        }
        Some(libc::EROFS | libc::EACCES | libc::EPERM) => {
            "; make it writable, then run the same command again to resume"
        }
        _ => "; when the cause is gone, run the same command again to resume",
    }
}
