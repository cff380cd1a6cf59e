//! Errors that prevent a server from starting. Each message is a single line.

use std::io;
use std::path::PathBuf;

/// Reason why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option has an invalid value.
    #[error("{0}")]
    Option(String),
    /// The folder cannot be served.
    #[error("cannot serve {path}: {source}")]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The server cannot listen on the address.
    #[error("cannot listen on {host}:{port}: {source}")]
    Listen {
        /// Host, as given by the user.
        host: String,
        /// Port, as given by the user.
        port: u16,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The certificates of a world could not be created.
    #[error("cannot make certificates: {0}")]
    Certificates(String),
    /// A thread or its runtime could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
