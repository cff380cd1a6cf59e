//! A reader that limits the size of a document from a server, and the size of each part of the document.

use std::cell::Cell;
use std::io::{Error, Read};
use std::rc::Rc;

use super::BadPage;
use super::folder::FolderReadError;
use crate::limits::{INDEX_BYTES_MAX, INDEX_TAG_BYTES_MAX};

/// A reader that fails if a document is too large, or if the parser consumes too much input without producing a result.
/// The error contains a [`BadPage`].
pub(super) struct BoundedReader<R> {
    reader: R,
    all: u64,
    /// Number of bytes read since the parser's last result. The code that receives a result resets it to 0.
    silent: Rc<Cell<usize>>,
}

impl<R> BoundedReader<R> {
    pub(super) fn new(reader: R, silent: Rc<Cell<usize>>) -> Self {
        BoundedReader { reader, all: 0, silent }
    }
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bad = |why: String| Err(Error::other(BadPage(why)));
        if self.silent.get() > INDEX_TAG_BYTES_MAX {
            return bad(format!("it has a tag of more than {INDEX_TAG_BYTES_MAX} bytes"));
        }
        if self.all > INDEX_BYTES_MAX {
            return bad(format!("it has more than {} MiB", INDEX_BYTES_MAX >> 20));
        }
        let count = self.reader.read(buffer)?;
        self.all += count as u64;
        self.silent.set(self.silent.get() + count);
        Ok(count)
    }
}

/// Converts an error from a [`BoundedReader`].
pub(super) fn read_error(error: Error) -> FolderReadError {
    match error.downcast::<BadPage>() {
        Ok(bad) => FolderReadError::Page(bad),
        Err(error) => FolderReadError::Io(error),
    }
}
