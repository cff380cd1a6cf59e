//! A robots.txt while it is being received, up to the size that must be processed.

use std::sync::Arc;

use crate::attempt::ResumableBody;
use crate::control::body_memory::BodyMemory;
use fetchmill_model::http1::{BodySink, Head};
use fetchmill_model::limits::{ROBOTS_BYTES_MAX, ROBOTS_FREE_BYTES};
use fetchmill_model::reply::content_encoding::{ContentEncoding, NamedEncoding};
use fetchmill_model::verdict::{field_in, fields_in};

/// Receiver of a robots.txt. See the [module documentation](self). Memory use: [`ROBOTS_FREE_BYTES`], plus up to
/// [`ROBOTS_BYTES_MAX`] from the memory budget for bodies.
#[derive(Debug)]
pub(super) struct RobotsBody {
    bytes: Vec<u8>,
    encoding: NamedEncoding,
    location: Option<Vec<u8>>,
    budget: Arc<BodyMemory>,
    /// Bytes reserved in the memory budget.
    reserved: usize,
    has_no_room: bool,
}

impl RobotsBody {
    pub(super) fn new(budget: &Arc<BodyMemory>) -> Self {
        RobotsBody {
            bytes: Vec::new(),
            encoding: Ok(None),
            location: None,
            budget: Arc::clone(budget),
            reserved: 0,
            has_no_room: false,
        }
    }

    /// Returns the destination of a redirect.
    pub(super) fn location(&self) -> Option<&[u8]> {
        self.location.as_deref()
    }

    /// Returns whether memory ran out while the file was received.
    pub(super) fn has_no_room(&self) -> bool {
        self.has_no_room
    }

    /// Returns the decoded content. If decoding fails, returns the content decoded before the error.
    pub(super) fn text(&self) -> Vec<u8> {
        // If the encoding is unknown or missing, the content is left unchanged.
        let Ok(Some(encoding)) = &self.encoding else { return self.bytes.clone() };
        let mut text = Vec::new();
        let _ = encoding.decode(self.bytes.as_slice(), u64::MAX, |piece| {
            text.extend_from_slice(piece);
            text.len() < ROBOTS_BYTES_MAX
        });
        text
    }
}

impl BodySink for RobotsBody {
    fn head(&mut self, _head: &Head, bytes: &[u8]) {
        self.forget();
        self.location = field_in(bytes, b"location:").map(<[u8]>::to_vec);
        self.encoding = ContentEncoding::of_fields(fields_in(bytes, b"content-encoding:"));
    }

    fn piece(&mut self, bytes: &[u8]) {
        let wanted = &bytes[..bytes.len().min(ROBOTS_BYTES_MAX - self.bytes.len())];
        if self.bytes.len() + wanted.len() > ROBOTS_FREE_BYTES {
            if !self.budget.has_room(wanted.len()) {
                self.has_no_room = true;
                return;
            }
            self.budget.reserve(wanted.len());
            self.reserved += wanted.len();
        }
        self.bytes.extend_from_slice(wanted);
    }

    fn wants_more(&self) -> bool {
        !self.has_no_room && self.bytes.len() < ROBOTS_BYTES_MAX
    }
}

impl ResumableBody for RobotsBody {
    fn forget(&mut self) {
        self.bytes = Vec::new();
        (self.encoding, self.location, self.has_no_room) = (Ok(None), None, false);
        self.budget.release(std::mem::take(&mut self.reserved));
    }

    fn start_again(&mut self) {
        self.forget();
    }
}

impl Drop for RobotsBody {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_kept_as_must_be_read_and_there_is_memory_for() {
        let memory = BodyMemory::of_workers(1);
        let mut body = RobotsBody::new(&memory);
        while body.wants_more() {
            body.piece(&vec![b'#'; 60_000]);
        }
        assert_eq!((body.text().len(), body.has_no_room()), (ROBOTS_BYTES_MAX, false));
        body.forget();

        memory.reserve(1 << 30);
        body.piece(&[b'#'; ROBOTS_FREE_BYTES]);
        assert!(body.wants_more());
        body.piece(b"#");
        assert!(!body.wants_more() && body.has_no_room());
    }
}
