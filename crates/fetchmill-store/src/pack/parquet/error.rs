//! Why a shard cannot be read, and what the library says of it.

use ::parquet::errors::ParquetError;
use std::io;

/// Why a shard cannot be read, or a row of it.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not what was written.
    #[error("damaged Parquet file: {0}")]
    Damage(String),
    /// It is a Parquet file, and not one of fetchmill's.
    #[error("not a Parquet file of fetchmill: {0}")]
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

/// The error of the operating system that the library wrapped: its number decides what a user is told.
pub(super) fn io_error_in(error: ParquetError) -> Result<io::Error, ParquetError> {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => Ok(*error),
            Err(inner) => Err(ParquetError::External(inner)),
        },
        other => Err(other),
    }
}

/// A message of the library may have several lines; ours have one.
pub(super) fn one_line(message: &impl ToString) -> String {
    message.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
