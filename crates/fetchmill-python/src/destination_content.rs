//! Serves a destination as the content of a server, so that a mirror can itself be mirrored.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fetchmill_model::error::Error;
use fetchmill_server::{Body, Content, ContentError, Page, Stream};
use fetchmill_store::reader::{CachedLookups, Destination, FoundObject, Position};

/// Maximum size of a body that is copied into the reply's buffer in one piece.
const BUFFERED_MAX: usize = 256 * 1024;

thread_local! {
    /// Cache for the destination that this thread serves. Each thread has its own, so that threads never wait for each
    /// other.
    static LOOKUPS: RefCell<Option<CachedLookups>> = const { RefCell::new(None) };
}

/// Objects of a job, by name. Names that are not UTF-8 cannot be listed.
#[derive(Debug)]
pub(crate) struct DestinationContent {
    destination: Arc<Destination>,
    /// Number of unlisted names in the last complete listing, and in the current one so far.
    unlisted: AtomicU64,
}

impl DestinationContent {
    pub(crate) fn new(destination: Destination) -> Self {
        DestinationContent { destination: Arc::new(destination), unlisted: AtomicU64::new(0) }
    }

    fn find(&self, name: &str) -> Result<Option<FoundObject>, Error> {
        LOOKUPS.with_borrow_mut(|kept| {
            let lookups = kept.take().filter(|lookups| lookups.are_of(&self.destination));
            kept.insert(lookups.unwrap_or_else(|| CachedLookups::new(Arc::clone(&self.destination))))
                .find(name.as_bytes())
        })
    }
}

/// Parses a page marker. It contains the number of unlisted names before the page, and the position where the page
/// starts.
fn from_marker(marker: &str) -> Option<(u64, Position)> {
    let (unlisted, position) = marker.split_once('.')?;
    Some((unlisted.parse().ok()?, Position::from_text(position)?))
}

impl Content for DestinationContent {
    fn list(&self, marker: Option<&str>, limit: usize, page: &mut Page<'_>) -> Result<(), ContentError> {
        let from = marker.map(|marker| from_marker(marker).ok_or(ContentError::UnknownMarker)).transpose()?;
        let (mut unlisted, position) = from.map_or((0, None), |(unlisted, at)| (unlisted, Some(at)));
        let found = self.destination.names(position.as_ref(), limit, false).map_err(content_error)?;
        for listed in &found.names {
            match str::from_utf8(&listed.name) {
                Ok(name) => page.name(name),
                Err(_) => unlisted += 1,
            }
        }
        self.unlisted.fetch_max(unlisted, Ordering::Relaxed);
        if let Some(next) = found.next {
            page.next_marker(format!("{unlisted}.{}", next.to_text()));
        }
        Ok(())
    }

    fn get(&self, name: &str, body: &mut Body<'_>) -> Result<(), ContentError> {
        let found = self.find(name).map_err(content_error)?;
        let bytes = found.ok_or(ContentError::NotFound)?.object.body;
        if bytes.len() > BUFFERED_MAX {
            body.stream(bytes.len() as u64, Box::new(ObjectStream { bytes, at: 0 }));
        } else {
            body.sized(bytes.len()).extend_from_slice(&bytes);
        }
        Ok(())
    }

    fn unlisted(&self) -> u64 {
        self.unlisted.load(Ordering::Relaxed)
    }
}

/// A large body, which is sent in pieces.
struct ObjectStream {
    bytes: Vec<u8>,
    at: usize,
}

impl Stream for ObjectStream {
    fn read(&mut self, limit: usize, out: &mut Vec<u8>) -> io::Result<usize> {
        let piece = self.bytes.get(self.at..).unwrap_or_default();
        let piece = piece.get(..limit).unwrap_or(piece);
        out.extend_from_slice(piece);
        self.at += piece.len();
        Ok(piece.len())
    }
}

fn content_error(error: Error) -> ContentError {
    ContentError::Io(io::Error::other(error))
}
