//! A listing page while it is being received. Nothing in the page is used before it is complete.

use std::fs::File;
use std::io::{BufReader, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;

use super::page_failure::PageFailure;
use crate::attempt::ResumableBody;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::{BodySink, Head, field_values};
use fetchmill_model::limits::{INDEX_BYTES_MAX, PAGE_BYTES_MAX, PAGE_MEMORY_BYTES, READ_BYTES};
use fetchmill_model::name::for_display;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::content_encoding::{ContentEncoding, DecodeError};
use fetchmill_model::verdict::ERROR_BYTES_MAX;
use fetchmill_store::durable::nameless_file;

/// Byte order mark that UTF-8 text can start with.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Body of a page. It uses up to `PAGE_BYTES_MAX` of memory. An index uses up to `PAGE_MEMORY_BYTES`, and the remainder
/// goes to an unnamed file.
#[derive(Debug, Default)]
pub(super) struct PageBody {
    /// Head of the reply, as received.
    pub(super) head: Vec<u8>,
    memory: Vec<u8>,
    /// Folder for that file. `None` keeps the whole page in memory.
    folder: Option<Arc<PathBuf>>,
    file: Option<File>,
    length: u64,
    /// Maximum number of bytes to receive.
    length_max: u64,
    failed: Option<Error>,
    /// Whether to stop receiving if the first byte shows that the body is not a listing.
    ends_if_other: bool,
}

/// A complete page.
pub(crate) struct FetchedPage {
    /// Head of the reply, as received.
    pub(super) head: Vec<u8>,
    /// Final URL after redirects.
    pub(super) url: String,
    pub(super) bytes: Vec<u8>,
    /// Whether the page is complete. An incomplete page exceeds the limit for pages in memory.
    pub(super) is_whole: bool,
}

impl PageBody {
    /// Creates the body of a page that is kept in memory.
    pub(super) fn kept() -> Self {
        PageBody::default()
    }

    /// Creates the body for a URL that can lead to a page or an object. An object is not kept.
    pub(super) fn kept_if_listing() -> Self {
        PageBody { ends_if_other: true, ..PageBody::default() }
    }

    /// Creates the body of an index, which can be large.
    pub(super) fn index(folder: &Arc<PathBuf>) -> Self {
        PageBody { folder: Some(Arc::clone(folder)), ..PageBody::default() }
    }

    /// Returns the encoding of the body.
    fn encoding(&self) -> std::result::Result<Option<ContentEncoding>, PageFailure> {
        let values = field_values(&self.head, "content-encoding");
        ContentEncoding::of_fields(values.iter().map(AsRef::as_ref)).or_else(|name| {
            if !is_other_encoding(&name) {
                // A value such as utf-8 is not an encoding, so the page is not encoded.
                return Ok(None);
            }
            let reason = format!("the Content-Encoding is {}, but none was requested", for_display(&name));
            Err(PageFailure::new(FailureKind::BadEncoding, 200, reason))
        })
    }

    /// Decodes the received bytes, up to the maximum size of a page in memory. `is_whole` means that all bytes were
    /// received.
    pub(super) fn decode(
        mut self,
        url: String,
        is_whole: bool,
    ) -> std::result::Result<FetchedPage, PageFailure> {
        let is_all = match self.encoding()? {
            None => is_whole && self.length <= PAGE_BYTES_MAX as u64,
            Some(encoding) => self.decode_from(encoding, is_whole)?,
        };
        let PageBody { head, memory: bytes, .. } = self;
        Ok(FetchedPage { head, url, bytes, is_whole: is_all })
    }

    fn decode_from(
        &mut self,
        encoding: ContentEncoding,
        is_whole: bool,
    ) -> std::result::Result<bool, PageFailure> {
        let encoded = std::mem::take(&mut self.memory);
        let decoded = encoding.decode(encoded.as_slice(), PAGE_BYTES_MAX as u64, |piece| {
            self.memory.extend_from_slice(piece);
            true
        });
        match decoded {
            Ok(()) => Ok(is_whole),
            Err(DecodeError::TooLong) => Ok(false),
            Err(_) if !is_whole => Ok(false),
            Err(DecodeError::Malformed(problem)) => {
                Err(PageFailure::new(FailureKind::BadEncoding, 200, problem))
            }
            Err(DecodeError::Storage(error)) => {
                Err(PageFailure::new(FailureKind::BadEncoding, 200, error.to_string()))
            }
        }
    }

    /// Returns whether the reply declared its length, which proves that the page is complete. Pages use HTTP/1.1.
    pub(super) fn has_length(&self) -> bool {
        ["content-length", "transfer-encoding"].iter().any(|name| !field_values(&self.head, name).is_empty())
    }

    /// Returns a reader of the decoded page.
    pub(super) fn into_reader(mut self) -> std::result::Result<Box<dyn Read>, PageFailure> {
        let encoding = self.encoding()?;
        let memory = std::io::Cursor::new(std::mem::take(&mut self.memory));
        let plain: Box<dyn Read> = match self.file.take() {
            None => Box::new(memory),
            Some(mut file) => {
                file.rewind().map_err(|error| unread(&error))?;
                Box::new(memory.chain(BufReader::with_capacity(READ_BYTES, file)))
            }
        };
        let Some(encoding) = encoding else { return Ok(plain) };
        let decoder = encoding.reader(BufReader::new(plain)).map_err(|error| unread(&error))?;
        // A page that exceeds the limit ends in the middle of its JSON, or is rejected as HTML.
        Ok(Box::new(BufReader::new(decoder.take(INDEX_BYTES_MAX + 1))))
    }

    /// Takes the error if something failed on this machine.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failed.take()
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(folder) = self
            .folder
            .as_ref()
            .filter(|_| self.file.is_some() || self.memory.len() + bytes.len() > PAGE_MEMORY_BYTES)
        else {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        };
        let fail = |error| Error::storage("write a page of the listing to", folder.as_path(), error);
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(nameless_file(folder).map_err(fail)?),
        };
        file.write_all(bytes).map_err(fail)
    }
}

/// Returns whether a body that starts with these bytes can be an index or JSON.
pub(super) fn may_be_listing(start: &[u8]) -> bool {
    let start = start.strip_prefix(BOM).unwrap_or(start).trim_ascii_start();
    start.first().is_none_or(|byte| b"<[".contains(byte))
}

/// Returns whether the value is an unsupported encoding, or a list of encodings.
fn is_other_encoding(name: &[u8]) -> bool {
    let known = [&b"deflate"[..], b"compress", b"x-compress"];
    name.contains(&b',') || known.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn unread(error: &std::io::Error) -> PageFailure {
    PageFailure::new(FailureKind::BadEncoding, 200, error.to_string())
}

impl ResumableBody for PageBody {
    fn forget(&mut self) {
        (self.length, self.file) = (0, None);
        self.memory.clear();
        self.head.clear();
    }

    fn start_again(&mut self) {
        self.forget();
    }

    fn has_failed(&self) -> bool {
        self.failed.is_some()
    }
}

impl BodySink for PageBody {
    fn head(&mut self, head: &Head, bytes: &[u8]) {
        self.head.clear();
        self.head.extend_from_slice(bytes);
        self.length_max = match (head.status, &self.folder) {
            (200..=299, None) => PAGE_BYTES_MAX as u64 + 1,
            (200..=299, Some(_)) => INDEX_BYTES_MAX + 1,
            // The body is not read.
            _ => ERROR_BYTES_MAX as u64,
        };
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if self.failed.is_none()
            && let Err(error) = self.keep(bytes)
        {
            self.failed = Some(error);
        }
        if self.ends_if_other && !may_be_listing(&self.memory) && matches!(self.encoding(), Ok(None)) {
            self.length_max = self.length;
        }
    }

    fn wants_more(&self) -> bool {
        self.length < self.length_max && self.failed.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(pieces: &[&[u8]], length_max: u64) -> PageBody {
        let folder = Arc::new(std::env::temp_dir());
        let mut body = PageBody { length_max, ..PageBody::index(&folder) };
        for piece in pieces {
            body.piece(piece);
        }
        body
    }

    #[test]
    fn a_large_index_is_read_back_from_its_file() {
        let pieces = [vec![b'a'; PAGE_MEMORY_BYTES - 1], vec![b'b'; 3], vec![b'c'; 2]];
        let body = index(&pieces.each_ref().map(Vec::as_slice), u64::MAX);
        assert_eq!((body.memory.len(), body.file.is_some()), (PAGE_MEMORY_BYTES - 1, true));

        let mut read = Vec::new();
        body.into_reader().unwrap().read_to_end(&mut read).unwrap();

        assert!(read == pieces.concat(), "{} bytes", read.len());
    }

    #[test]
    fn no_more_is_received_of_what_is_no_listing() {
        for (start, wants_more) in [
            (&b" <html"[..], true),
            (b"\xef\xbb\xbf[", true),
            (b"\n", true),
            (b"\x89PNG", false),
            (b"{\"a\"", false),
        ] {
            let mut body = PageBody { length_max: 1000, ..PageBody::kept_if_listing() };
            body.piece(start);
            assert_eq!(body.wants_more(), wants_more, "{start:?}");
        }
    }

    #[test]
    fn no_more_is_received_than_a_page_may_have() {
        assert!(index(&[b"abc"], 4).wants_more());
        assert!(!index(&[b"abcd"], 4).wants_more());
    }
}
