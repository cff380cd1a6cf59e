//! Errors that stop a job. The failure of a single target is an outcome, never an [`Error`].

use std::path::PathBuf;

/// Reason why a job stopped. Its text is one line: what failed, where, and what to do. The variant determines the exit
/// code (docs/reference/exit-codes.md).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A bug in the program, such as a panic in a thread or a broken invariant. Exit 1.
    #[error("internal error: {0}; this is a bug in fetchmill, but the job can be resumed")]
    Internal(String),
    /// The options are invalid, or the destination belongs to something else. Nothing was changed. Exit 2.
    #[error("{0}")]
    Usage(String),
    /// The listing failed, is incomplete or never ends. Exit 4.
    #[error("{0}")]
    Listing(String),
    /// No request to the origin has succeeded for too long. Exit 5.
    #[error("{0}")]
    Temporary(String),
    /// Continuing would send data where it must not go. Exit 6.
    #[error("{0}")]
    Security(String),
    /// The local storage failed. Exit 7.
    #[error("cannot {action} {path}: {source}{hint}", path = .path.display(), hint = storage_hint(.source))]
    Storage {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The data would not fit, so the job stopped before the local storage failed. Exit 7.
    #[error("{0}")]
    NoRoom(String),
    /// The destination is no longer where it was when the job began. Exit 7.
    #[error("{0}")]
    Moved(String),
    /// The server refuses all requests with 401 or 403. Exit 12.
    #[error("{0}")]
    Refused(String),
    /// Another process is running this job. Exit 9.
    #[error("{0}")]
    Busy(String),
    /// The journal and the output contradict each other. Exit 10.
    #[error("{0}")]
    Journal(String),
}

/// A result whose error stops the job.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an [`Error::Storage`].
    pub fn storage(
        action: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<std::io::Error>,
    ) -> Self {
        Error::Storage { action, path: path.into(), source: source.into() }
    }

    /// Returns the exit code of the command line.
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
        _ => "; fix the cause, then run the same command again to resume",
    }
}
