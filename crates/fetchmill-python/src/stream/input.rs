//! Input of a stream. Items are taken from an iterable only if there is room, and are kept until their replies have
//! been returned.

use fetchmill_engine::{Channel, CustomRequest, InputState, RequestBatch, StreamProgress, StreamWindow};
use fetchmill_model::limits;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyString};
use pyo3::{PyTraverseError, PyVisit};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::request::Request;
use crate::errors;

/// Maximum number of items to take at a time from a fast iterable. A slow iterable is read item by item, so that no
/// request waits for the next item.
const CHUNK_MAX: usize = 64;
/// Chunk size from which an iterable counts as fast. A fast iterable is read before available replies are returned.
const CHUNK_QUICK: usize = 8;

/// An item whose reply is outstanding, and its position in the input.
pub(super) struct PendingRequest {
    pub(super) object: Py<PyAny>,
    pub(super) index: u64,
    /// Position among the items fetched in this run.
    pub(super) turn: u64,
}

/// See the [module documentation](self).
pub(super) struct Feed {
    iterator: Option<Py<PyIterator>>,
    is_ended: bool,
    asked: Vec<Option<PendingRequest>>,
    free: Vec<u32>,
    /// Number of items taken from the input whose replies have not been returned yet.
    outstanding: usize,
    /// Upper limit of `outstanding`.
    window: StreamWindow,
    /// Number of outstanding items that is always allowed, regardless of the window.
    outstanding_least: usize,
    next_index: u64,
    next_turn: u64,
    chunk: usize,
    requests: RequestBatch,
    /// Progress of the program. `None` if it is not saved.
    advance: Option<StreamProgress>,
}

/// Returns the time, accurate to a few milliseconds. This is cheap enough to be called for every item.
fn coarse_now() -> Timespec {
    clock_gettime(ClockId::MonotonicCoarse)
}

impl Feed {
    /// Creates a feed for an iterator. Without an iterator, the caller adds the items.
    pub(super) fn new(
        iterator: Option<Py<PyIterator>>,
        window: StreamWindow,
        advance: Option<StreamProgress>,
    ) -> Self {
        // If an earlier run had a higher limit, more items than usual may be missing. They need extra room.
        let missing = advance.as_ref().map_or(0, StreamProgress::missing_before);
        Feed {
            iterator,
            is_ended: false,
            asked: Vec::new(),
            free: Vec::new(),
            outstanding: 0,
            window,
            outstanding_least: missing + 1,
            next_index: 0,
            next_turn: 0,
            chunk: 1,
            requests: RequestBatch::default(),
            advance,
        }
    }

    /// Returns how many more items can be taken.
    pub(super) fn room(&self) -> usize {
        if self.is_ended {
            return 0;
        }
        // The limit of requests in flight may have decreased in the meantime.
        self.window.most().max(self.outstanding_least).saturating_sub(self.outstanding)
    }

    /// Returns whether more items can be taken from an iterator.
    pub(super) fn can_pull(&self) -> bool {
        self.iterator.is_some() && self.room() > 0
    }

    /// Returns whether to read the iterator before returning the next reply.
    pub(super) fn is_quick(&self) -> bool {
        self.chunk >= CHUNK_QUICK && self.iterator.is_some() && self.room() >= self.chunk
    }

    /// Returns whether the input has ended and all replies have been returned.
    pub(super) fn is_over(&self) -> bool {
        self.is_ended && self.outstanding == 0
    }

    /// Records the end of the input.
    pub(super) fn end(&mut self) -> PyResult<()> {
        self.is_ended = true;
        self.iterator = None;
        self.advance.as_ref().map_or(Ok(()), StreamProgress::end_of_input).map_err(|error| errors::of(&error))
    }

    /// Stops reading the input, even if it has not ended. Makes the progress durable.
    pub(super) fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        self.is_ended = true;
        self.iterator = None;
        let Some(mut advance) = self.advance.take() else { return Ok(()) };
        py.detach(|| advance.end()).map_err(|error| errors::of(&error))
    }

    /// Records that the program is done with the reply to this item.
    pub(super) fn done(&mut self, index: u64) -> PyResult<()> {
        let Some(advance) = &mut self.advance else { return Ok(()) };
        advance.done(index);
        advance.tell().map_err(|error| errors::of(&error))
    }

    /// Visits the objects for the garbage collector. This matters because a generator can refer to the stream that it
    /// feeds.
    pub(super) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.iterator)?;
        self.asked.iter().flatten().try_for_each(|asked| visit.call(&asked.object))
    }

    pub(super) fn clear(&mut self) {
        self.iterator = None;
        self.asked.clear();
        self.free.clear();
    }

    /// Takes items from the iterator and submits them.
    pub(super) fn pull(&mut self, py: Python<'_>, channel: &Channel) -> PyResult<()> {
        // Check for signals here. An iterator implemented without Python code would otherwise block them while items
        // are skipped.
        py.check_signals()?;
        let started = coarse_now();
        let wanted = self.room().min(self.chunk);
        let mut taken = 0;
        let mut is_slow = false;
        while taken < wanted && !is_slow {
            let Some(iterator) = &self.iterator else { break };
            match iterator.bind(py).clone().next() {
                Some(item) => self.add(&item?)?,
                None => self.end()?,
            }
            taken += 1;
            is_slow = coarse_now() != started;
        }
        self.chunk = if is_slow { (taken / 2).max(1) } else { (self.chunk * 2).min(CHUNK_MAX) };
        self.submit(channel);
        Ok(())
    }

    /// Adds an item, unless the program finished with it in an earlier run.
    pub(super) fn add(&mut self, item: &Bound<'_, PyAny>) -> PyResult<()> {
        let request = item.cast::<Request>().ok().map(Bound::get);
        let url = match (item.cast::<PyString>(), request) {
            (Ok(url), _) => url_text(url),
            (_, Some(request)) => url_text(request.url(item.py())),
            _ => {
                let class = item.get_type().name()?;
                return Err(errors::usage(&format!(
                    "the input must yield URLs (str) or fetchmill.Request, not {class}"
                )));
            }
        };
        let call = request.and_then(|request| request.call.as_ref());
        let index = self.next_index;
        self.next_index += 1;
        if self.know(url, call.map(AsRef::as_ref))? == InputState::Done {
            return Ok(());
        }
        let asked = Some(PendingRequest { object: item.clone().unbind(), index, turn: self.next_turn });
        self.next_turn += 1;
        let slot = if let Some(slot) = self.free.pop() {
            self.asked[slot as usize] = asked;
            slot
        } else {
            self.asked.push(asked);
            self.asked.len() as u32 - 1
        };
        self.requests.push((slot, index), url, call.cloned());
        self.outstanding += 1;
        Ok(())
    }

    fn know(&mut self, url: &str, call: Option<&CustomRequest>) -> PyResult<InputState> {
        let Some(advance) = &mut self.advance else { return Ok(InputState::New) };
        advance.pull(url, call).map_err(|error| errors::of(&error))
    }

    /// Submits the items that were added.
    pub(super) fn submit(&mut self, channel: &Channel) {
        // Fetch nothing until the input is known to be the same as in the earlier run.
        let is_behind = self.advance.as_ref().is_some_and(StreamProgress::is_behind);
        if !self.requests.is_empty() && !is_behind {
            channel.submit(&mut self.requests);
        }
    }

    /// Takes out the item that a reply answers.
    pub(super) fn take(&mut self, slot: u32) -> PyResult<PendingRequest> {
        let asked = self.asked.get_mut(slot as usize).and_then(Option::take);
        self.free.push(slot);
        asked.ok_or_else(|| errors::exception("InternalError", "a reply to an unknown request"))
    }

    /// Returns the slot of an item that has no reply yet. This search runs only before a wait.
    pub(super) fn slot_of(&self, turn: u64) -> Option<u32> {
        let is_it = |asked: &Option<PendingRequest>| asked.as_ref().is_some_and(|asked| asked.turn == turn);
        self.asked.iter().position(is_it).map(|slot| slot as u32)
    }

    /// Records that a reply was returned, which makes room for another item.
    pub(super) fn given(&mut self) {
        self.outstanding -= 1;
    }
}

/// Returns the text of a URL without copying it. The text is empty if the URL contains a lone surrogate or is too long
/// for any server.
pub(super) fn url_text<'a>(url: &'a Bound<'_, PyString>) -> &'a str {
    url.to_str().ok().filter(|text| text.len() <= limits::URL_BYTES_MAX).unwrap_or_default()
}
