//! What is served: the trait [`Content`] and the two things it writes to, [`Page`] and [`Body`].
//!
//! Both methods run on a thread that serves connections: they may read local files, they must not wait for
//! anything else. They write straight into the reply's buffer, so that a small object costs no allocation.

use std::io;

use crate::json;
use crate::reply;

/// Something that lists names and gives bodies. Called from all threads of the server at once.
pub trait Content: Send + Sync {
    /// Writes the page that `marker` leads to (`None`: the first one), at most `limit` names, and sets the marker
    /// of the next page unless this is the last. The same marker may come again, or never.
    fn list(&self, marker: Option<&str>, limit: usize, page: &mut Page<'_>) -> Result<(), ContentError>;

    /// Writes the body of `name`, which is percent-decoded once and otherwise as the client sent it: hostile names
    /// are this method's to refuse. On an error what it wrote is dropped.
    fn get(&self, name: &str, body: &mut Body<'_>) -> Result<(), ContentError>;

    /// The `Content-Type` of all bodies.
    fn content_type(&self) -> &'static str {
        "application/octet-stream"
    }

    /// How many names are known that no page can hold, because they are not UTF-8 or could not be read.
    fn unlisted(&self) -> u64 {
        0
    }
}

/// Why there is no page or no body.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// There is no such name: 404.
    #[error("no such object")]
    NotFound,
    /// It may not be read: 403.
    #[error("the object may not be read")]
    Forbidden,
    /// This marker was never given: 400.
    #[error("unknown marker")]
    UnknownMarker,
    /// It could not be read: 500.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
}

/// The rest of a body that is too large for one buffer.
pub trait Stream: Send {
    /// Appends at most `limit` bytes; none means the end.
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

    /// Adds a name of printable ASCII without `"` and `\`, which needs no escaping.
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

    /// Sets how many names all pages have, where that is known.
    pub fn total(&mut self, total: u64) {
        self.total = Some(total);
    }

    /// The marker of the next page as it stands.
    pub(crate) fn next(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// Completes the JSON.
    pub(crate) fn finish(self) {
        if self.count > 0 {
            self.out.pop();
        }
        self.out.push(b']');
        // Without the field on the last page: many clients ask whether it is there, not what it is.
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

/// Where a body goes. Exactly one of [`Body::sized`] and [`Body::stream`] is called.
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
    /// A body behind its head.
    pub(crate) fn with_head(out: &'a mut Vec<u8>, head: reply::GetHead<'a>) -> Self {
        Body { start: out.len(), out, head: Some(head), size: None, stream: None }
    }

    /// The bytes alone, for a caller that writes another head.
    pub(crate) fn alone(out: &'a mut Vec<u8>) -> Self {
        Body { start: out.len(), out, head: None, size: None, stream: None }
    }

    /// Announces a body of `size` bytes; exactly so many are to be appended to the buffer that is returned, in
    /// which other bytes come first.
    pub fn sized(&mut self, size: usize) -> &mut Vec<u8> {
        self.announce(size as u64);
        self.out.reserve(size);
        self.out
    }

    /// Announces a body that is read piece by piece while it is sent.
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

    /// What was written. An error when it is not what was announced.
    pub(crate) fn finish(self) -> Result<WrittenBody, ContentError> {
        let bytes = self.out.len() - self.start;
        match (self.size, self.stream) {
            (Some(size), Some(stream)) if bytes == 0 => {
                Ok(WrittenBody { start: self.start, size, stream: Some(stream) })
            }
            (Some(size), None) if size == bytes as u64 => {
                Ok(WrittenBody { start: self.start, size, stream: None })
            }
            _ => Err(io::Error::other("the body is not as long as announced").into()),
        }
    }
}

/// A finished [`Body`].
pub(crate) struct WrittenBody {
    /// Where the body starts in the buffer.
    pub(crate) start: usize,
    /// Its announced size.
    pub(crate) size: u64,
    /// Its bytes, when they are not in the buffer.
    pub(crate) stream: Option<Box<dyn Stream>>,
}
