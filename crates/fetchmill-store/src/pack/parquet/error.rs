//! Errors that occur while reading a shard, and the conversion of the Parquet library's errors.

use ::parquet::errors::ParquetError;
use std::io;

/// Reason why a shard, or one of its rows, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// An error of the operating system.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The contents differ from what was written.
    #[error("damaged Parquet file: {0}")]
    Damage(String),
    /// A Parquet file that fetchmill did not write.
    #[error("not a Parquet file written by fetchmill: {0}")]
    Foreign(String),
}

impl From<ShardError> for io::Error {
    fn from(error: ShardError) -> Self {
        match error {
            ShardError::Io(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        }
    }
}

impl From<ParquetError> for ShardError {
    fn from(error: ParquetError) -> Self {
        match io_error_in(error) {
            Ok(error) => ShardError::Io(error),
            Err(other) => ShardError::Damage(one_line(&other)),
        }
    }
}

/// Extracts the operating system error that the library wrapped. Its error number determines the message to the user.
pub(super) fn io_error_in(error: ParquetError) -> Result<io::Error, ParquetError> {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => Ok(*error),
            Err(inner) => Err(ParquetError::External(inner)),
        },
        other => Err(other),
    }
}

/// Joins the lines of a library message into one.
pub(super) fn one_line(message: &impl ToString) -> String {
    message.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
