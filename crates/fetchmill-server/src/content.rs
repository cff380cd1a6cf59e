//! The content of a server: the [`Content`] trait, and the [`Page`] and [`Body`] types to which it writes.
//!
//! Both methods run on a thread that serves connections. They can read local files but must not wait for anything else.
//! They write directly to the buffer of the reply, so a small object needs no allocation.

use std::io;

use crate::json;
use crate::reply;

/// Source of names and bodies. All threads of the server call it concurrently.
pub trait Content: Send + Sync {
    /// Writes the page at `marker`, with up to `limit` names. `None` means the first page. Sets the next marker unless
    /// this is the last page. Clients can use a marker several times or never.
    fn list(&self, marker: Option<&str>, limit: usize, page: &mut Page<'_>) -> Result<(), ContentError>;

    /// Writes the body of `name`. The name has been percent-decoded once and is otherwise unchanged, so this method
    /// must reject hostile names. After an error, the bytes written so far are dropped.
    fn get(&self, name: &str, body: &mut Body<'_>) -> Result<(), ContentError>;

    /// Returns the `Content-Type` of all bodies.
    fn content_type(&self) -> &'static str {
        "application/octet-stream"
    }

    /// Returns the number of known names that no page can contain, because they are not UTF-8 or could not be read.
    fn unlisted(&self) -> u64 {
        0
    }
}

/// Reason for a missing page or body.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The name does not exist: 404.
    #[error("no such object")]
    NotFound,
    /// The object may not be read: 403.
    #[error("permission denied")]
    Forbidden,
    /// The server never returned this marker: 400.
    #[error("unknown marker")]
    UnknownMarker,
    /// The object could not be read: 500.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
}

/// The remaining part of a body that is too large for one buffer.
pub trait Stream: Send {
    /// Appends up to `limit` bytes. If no bytes are appended, the body has ended.
    fn read(&mut self, limit: usize, out: &mut Vec<u8>) -> io::Result<usize>;
}

/// A page of names, written as JSON.
#[derive(Debug)]
pub struct Page<'a> {
    out: &'a mut Vec<u8>,
    count: usize,
    next: Option<String>,
    total: Option<u64>,
}

impl<'a> Page<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        out.extend_from_slice(br#"{"FileNames":["#);
        Page { out, count: 0, next: None, total: None }
    }

    /// Adds a name.
    pub fn name(&mut self, name: &str) {
        json::string(name, self.out);
        self.out.push(b',');
        self.count += 1;
    }

    /// Adds a name that needs no escaping: printable ASCII without `"` and `\`.
    pub fn plain_name(&mut self, name: &[u8]) {
        self.out.reserve(name.len() + 3);
        self.out.push(b'"');
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b"\",");
        self.count += 1;
    }

    /// Sets the marker of the next page.
    pub fn next_marker(&mut self, marker: String) {
        self.next = Some(marker);
    }

    /// Sets the total number of names, if known.
    pub fn total(&mut self, total: u64) {
        self.total = Some(total);
    }

    /// Returns the marker of the next page as set so far.
    pub(crate) fn next(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// Completes the JSON.
    pub(crate) fn finish(self) {
        if self.count > 0 {
            self.out.pop();
        }
        self.out.push(b']');
        // On the last page, the field is missing, because many clients only check whether it exists.
        if let Some(marker) = &self.next {
            self.out.extend_from_slice(br#","NextMarker":"#);
            json::string(marker, self.out);
        }
        if let Some(total) = self.total {
            self.out.extend_from_slice(br#","Total":"#);
            reply::number(total, self.out);
        }
        self.out.extend_from_slice(b"}\n");
    }
}

/// Receives a body. Exactly one of [`Body::sized`] and [`Body::stream`] must be called.
pub struct Body<'a> {
    out: &'a mut Vec<u8>,
    head: Option<reply::GetHead<'a>>,
    start: usize,
    size: Option<u64>,
    stream: Option<Box<dyn Stream>>,
}

impl std::fmt::Debug for Body<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Body").field("size", &self.size).finish_non_exhaustive()
    }
}

impl<'a> Body<'a> {
    /// Creates a body that is written after its head.
    pub(crate) fn with_head(out: &'a mut Vec<u8>, head: reply::GetHead<'a>) -> Self {
        Body { start: out.len(), out, head: Some(head), size: None, stream: None }
    }

    /// Creates a body without a head, for callers that write one themselves.
    pub(crate) fn alone(out: &'a mut Vec<u8>) -> Self {
        Body { start: out.len(), out, head: None, size: None, stream: None }
    }

    /// Announces a body of `size` bytes. The caller must append exactly this number of bytes to the returned buffer,
    /// which already contains other bytes.
    pub fn sized(&mut self, size: usize) -> &mut Vec<u8> {
        self.announce(size as u64);
        self.out.reserve(size);
        self.out
    }

    /// Announces a body that is read in pieces while it is sent.
    pub fn stream(&mut self, size: u64, stream: Box<dyn Stream>) {
        self.announce(size);
        self.stream = Some(stream);
    }

    fn announce(&mut self, size: u64) {
        if let Some(head) = &self.head {
            head.write(size, self.out);
        }
        self.start = self.out.len();
        self.size = Some(size);
    }

    /// Returns the written body. Fails if its size differs from the announced one.
    pub(crate) fn finish(self) -> Result<WrittenBody, ContentError> {
        let bytes = self.out.len() - self.start;
        match (self.size, self.stream) {
            (Some(size), Some(stream)) if bytes == 0 => {
                Ok(WrittenBody { start: self.start, size, stream: Some(stream) })
            }
            (Some(size), None) if size == bytes as u64 => {
                Ok(WrittenBody { start: self.start, size, stream: None })
            }
            _ => Err(io::Error::other("the body's length differs from Content-Length").into()),
        }
    }
}

/// A finished [`Body`].
pub(crate) struct WrittenBody {
    /// Position in the buffer at which the body starts.
    pub(crate) start: usize,
    /// Announced size in bytes.
    pub(crate) size: u64,
    /// Stream of the body, if it is not in the buffer.
    pub(crate) stream: Option<Box<dyn Stream>>,
}
