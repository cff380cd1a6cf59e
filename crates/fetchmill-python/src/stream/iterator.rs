//! An iterator over the replies of a stream.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use fetchmill_engine::{Channel, ReplyBatch, ReplyBody, StreamProgress, TakenReplies};
use pyo3::exceptions::{PyRuntimeError, PyStopAsyncIteration, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use pyo3::{PyTraverseError, PyVisit};

use super::input::{Feed, PendingRequest};
use super::reply::Reply;
use crate::errors;

/// Maximum delay before a signal is handled.
const STEP: Duration = Duration::from_millis(50);

/// Result of taking the next reply.
enum NextReply {
    Reply(Py<Reply>),
    /// No reply has arrived yet, but more are expected.
    Later,
    /// No replies are left.
    End,
}

/// A reply that arrived before its turn.
struct EarlyReply {
    reply: Py<Reply>,
    /// Size of the body in bytes if it is large, otherwise 0.
    large: usize,
}

/// State of a stream after a batch.
#[derive(PartialEq, Eq)]
pub(super) enum MoreBatches {
    /// Another batch was taken, or more requests are now in flight.
    Some,
    /// The caller must wait for the replies to requests in flight.
    Later,
    /// No batches are left.
    End,
}

/// The replies of one stream. Serves as an iterator for one thread, or as both ends of an asynchronous iterator.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Stream {
    inner: Closable<ReplyStream>,
}

/// A value that one thread uses at a time and any thread can close. If the value is in use, the thread that uses it
/// closes it as soon as possible.
pub(super) struct Closable<T> {
    inner: Mutex<T>,
    is_closing: Arc<AtomicBool>,
}

impl<T: Close> Closable<T> {
    pub(super) fn new(inner: T, is_closing: Arc<AtomicBool>) -> Self {
        Closable { inner: Mutex::new(inner), is_closing }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Uses the value. Fails if another thread is using it, or if this call comes from the stream's own input.
    pub(super) fn using<R>(&self, py: Python<'_>, run: impl FnOnce(&mut T) -> PyResult<R>) -> PyResult<R> {
        let Some(mut inner) = self.try_lock() else {
            let message = "the stream is in use; read its replies in one thread only, and never from within \
                           its own input";
            return Err(PyRuntimeError::new_err(message));
        };
        let result = run(&mut inner);
        drop(inner);
        self.close_if_wanted(py)?;
        result
    }

    /// Closes the value now, or lets the thread that uses it do so.
    pub(super) fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.is_closing.store(true, Ordering::SeqCst);
        self.close_if_wanted(py)
    }

    fn close_if_wanted(&self, py: Python<'_>) -> PyResult<()> {
        match self.try_lock().filter(|_| self.is_closing.load(Ordering::SeqCst)) {
            Some(mut inner) => inner.close(py),
            None => Ok(()),
        }
    }

    /// Visits the value for the garbage collector. A value that is in use is skipped, because it is alive anyway.
    pub(super) fn visit(
        &self,
        visit: impl FnOnce(&T) -> Result<(), PyTraverseError>,
    ) -> Result<(), PyTraverseError> {
        self.try_lock().map_or(Ok(()), |inner| visit(&inner))
    }

    pub(super) fn clear(&self, clear: impl FnOnce(&mut T)) {
        if let Some(mut inner) = self.try_lock() {
            clear(&mut inner);
        }
    }
}

/// See [`Closable`].
pub(super) trait Close {
    /// Cancels the requests in flight. A second call does nothing.
    fn close(&mut self, py: Python<'_>) -> PyResult<()>;
}

pub(super) struct ReplyStream {
    /// Set by any thread to ask for the stream to be closed.
    is_closing: Arc<AtomicBool>,
    /// `None` after closing.
    channel: Option<Channel>,
    feed: Feed,
    replies: ReplyBatch,
    position: usize,
    /// Replies that arrived before their turn. The first slot belongs to the next reply.
    early: Option<VecDeque<Option<EarlyReply>>>,
    /// Total size in bytes of the large bodies in `early`.
    kept: usize,
    next_turn: u64,
    /// Index of the reply that the program is using.
    current: Option<u64>,
    raises: bool,
    /// The client, if it was created only for this stream and ends with it.
    owner: Option<Py<PyAny>>,
}

impl Stream {
    pub(super) fn new(inner: ReplyStream) -> Self {
        let is_closing = Arc::clone(&inner.is_closing);
        Stream { inner: Closable::new(inner, is_closing) }
    }
}

impl ReplyStream {
    pub(super) fn new(
        channel: Channel,
        iterator: Option<Py<PyIterator>>,
        advance: Option<StreamProgress>,
        (ordered, raises): (bool, bool),
        owner: Option<Py<PyAny>>,
    ) -> Self {
        ReplyStream {
            is_closing: Arc::default(),
            feed: Feed::new(iterator, channel.window(), advance),
            channel: Some(channel),
            replies: ReplyBatch::default(),
            position: 0,
            early: ordered.then(VecDeque::new),
            kept: 0,
            next_turn: 0,
            current: None,
            raises,
            owner,
        }
    }

    /// Returns the flag that asks the stream to close.
    pub(super) fn is_closing(&self) -> &Arc<AtomicBool> {
        &self.is_closing
    }

    /// Returns the next reply if it is available. Closes the stream after an error or the last reply.
    fn next(&mut self, py: Python<'_>) -> PyResult<NextReply> {
        if self.is_closing.load(Ordering::SeqCst) {
            self.close(py)?;
            return Ok(NextReply::End);
        }
        let next = self.look(py);
        match &next {
            Ok(NextReply::Later) => {}
            Ok(NextReply::Reply(reply)) => {
                let reply = reply.get();
                self.current = Some(reply.index);
                let is_raised = self.raises && reply.has_failed();
                if let Some(error) = if is_raised { reply.error_object(py)? } else { None } {
                    self.close(py)?;
                    return Err(PyErr::from_value(error));
                }
            }
            Ok(NextReply::End) => self.close(py)?,
            // The first error is the one to report.
            Err(_) => drop(self.close(py)),
        }
        next
    }

    fn look(&mut self, py: Python<'_>) -> PyResult<NextReply> {
        if let Some(index) = self.current.take() {
            self.feed.done(index)?;
        }
        loop {
            self.pull_ahead(py)?;
            if let Some(reply) = self.give(py)? {
                self.feed.given();
                return Ok(NextReply::Reply(reply));
            }
            match self.advance(py)? {
                MoreBatches::Some => {}
                MoreBatches::Later => return Ok(NextReply::Later),
                MoreBatches::End => return Ok(NextReply::End),
            }
        }
    }

    /// Takes the next batch, or more items from the input. Called once all replies of a batch have been taken.
    pub(super) fn advance(&mut self, py: Python<'_>) -> PyResult<MoreBatches> {
        let Some(channel) = &self.channel else { return Ok(MoreBatches::End) };
        match channel.take(&mut self.replies, Duration::ZERO) {
            TakenReplies::Some => self.position = 0,
            TakenReplies::Doubtful => return Err(errors::stray_reply(py, channel.take_doubtful())),
            TakenReplies::Ended => {
                return Err(errors::usage("the client is closed; use a client that is still open"));
            }
            TakenReplies::Dead => return Err(dead()),
            TakenReplies::None if self.feed.can_pull() => self.feed.pull(py, channel)?,
            // The last replies may still be uncertain.
            TakenReplies::None if self.feed.is_over() && !channel.is_uncertain() => {
                return Ok(MoreBatches::End);
            }
            TakenReplies::None | TakenReplies::Settling => return Ok(MoreBatches::Later),
        }
        Ok(MoreBatches::Some)
    }

    /// Takes the next reply of the batch. Returns its item, and its position in the batch.
    pub(super) fn take_record(&mut self) -> PyResult<Option<(PendingRequest, usize)>> {
        let Some(record) = self.replies.get(self.position) else { return Ok(None) };
        let asked = self.feed.take(record.slot)?;
        self.position += 1;
        self.feed.given();
        Ok(Some((asked, self.position - 1)))
    }

    pub(super) fn replies(&self) -> &ReplyBatch {
        &self.replies
    }

    /// Takes items from a fast input before the available replies are used.
    pub(super) fn pull_ahead(&mut self, py: Python<'_>) -> PyResult<()> {
        match &self.channel {
            Some(channel) if self.feed.is_quick() => self.feed.pull(py, channel),
            _ => Ok(()),
        }
    }

    /// Visits the objects for the garbage collector.
    pub(super) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.feed.visit(visit)?;
        visit.call(&self.owner)
    }

    pub(super) fn clear_objects(&mut self) {
        self.feed.clear();
    }

    /// Returns the next reply if it has arrived.
    fn give(&mut self, py: Python<'_>) -> PyResult<Option<Py<Reply>>> {
        let Some(early) = &mut self.early else {
            let is_there = self.replies.get(self.position).is_some();
            return is_there.then(|| Ok(self.make(py)?.0)).transpose();
        };
        if let Some(Some(_)) = early.front() {
            self.next_turn += 1;
            let first = early.pop_front().flatten();
            return Ok(first.map(|first| self.let_go(first)));
        }
        while self.replies.get(self.position).is_some() {
            let large = self.large_bytes();
            let (reply, turn) = self.make(py)?;
            let place = (turn - self.next_turn) as usize;
            let Some(early) = &mut self.early else { break };
            if place == 0 {
                early.pop_front();
                self.next_turn += 1;
                return Ok(Some(reply));
            }
            // The number of slots never exceeds the number of outstanding items. While the first reply is missing and
            // the window is full, the input is not read.
            while early.len() <= place {
                early.push_back(None);
            }
            early[place] = Some(EarlyReply { reply, large });
            self.kept += large;
            if let Some(channel) = self.channel.as_ref().filter(|_| large > 0) {
                channel.keep(large);
            }
        }
        Ok(None)
    }

    /// Returns the size in bytes of the next reply's body if the body is large, otherwise 0.
    fn large_bytes(&self) -> usize {
        match self.replies.get(self.position).map(|record| &record.body) {
            Some(ReplyBody::Large(bytes)) => bytes.len(),
            _ => 0,
        }
    }

    fn let_go(&mut self, early: EarlyReply) -> Py<Reply> {
        self.kept -= early.large;
        if let Some(channel) = self.channel.as_ref().filter(|_| early.large > 0) {
            channel.taken(early.large);
        }
        early.reply
    }

    /// Reports which item all kept replies are waiting for. The reply to this item must be fetched, no matter how many
    /// bytes are kept.
    fn want(&self) {
        if let Some(channel) = self.channel.as_ref().filter(|_| self.early.is_some()) {
            channel.want(if self.kept > 0 { self.feed.slot_of(self.next_turn) } else { None });
        }
    }

    /// Creates the next reply of the batch. Returns the reply and its turn.
    fn make(&mut self, py: Python<'_>) -> PyResult<(Py<Reply>, u64)> {
        let position = self.position;
        self.position += 1;
        let slot = self.replies.get(position).map_or(u32::MAX, |record| record.slot);
        let asked = self.feed.take(slot)?;
        let made = Reply::of(py, &mut self.replies, position, asked.object, asked.index)?;
        let made = made.ok_or_else(|| errors::exception("InternalError", "the batch lacks the reply"))?;
        Ok((Py::new(py, made)?, asked.turn))
    }

    /// Waits for up to [`STEP`] without the GIL. Closes the stream if a signal handler raises an exception.
    pub(super) fn wait(&mut self, py: Python<'_>) -> PyResult<()> {
        self.want();
        let (channel, replies) = (&self.channel, &mut self.replies);
        let taken = py.detach(|| channel.as_ref().map(|channel| channel.take(replies, STEP)));
        match taken {
            Some(TakenReplies::Some) => self.position = 0,
            Some(TakenReplies::Dead) => return Err(dead()),
            _ => {}
        }
        py.check_signals().inspect_err(|_| drop(self.close(py)))
    }
}

fn dead() -> PyErr {
    let message = "the fetching thread does not exist in this process; after a fork, create a new client";
    errors::exception("InternalError", message)
}

impl Close for ReplyStream {
    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        let (channel, owner) = (self.channel.take(), self.owner.take());
        // Also drops replies that arrived but were not returned.
        (self.replies, self.position) = (ReplyBatch::default(), 0);
        self.early = self.early.as_ref().map(|_| VecDeque::new());
        if let Some(channel) = channel {
            channel.taken(std::mem::take(&mut self.kept));
        }
        if let Some(owner) = &owner {
            owner.call_method0(py, "close")?;
        }
        self.feed.close(py)
    }
}

#[pymethods]
impl Stream {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.inner.visit(|stream| stream.visit(&visit))
    }

    fn __clear__(&self) {
        self.inner.clear(ReplyStream::clear_objects);
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<Reply>>> {
        self.inner.using(py, |stream| {
            loop {
                match stream.next(py)? {
                    NextReply::Reply(reply) => return Ok(Some(reply)),
                    NextReply::End => return Ok(None),
                    NextReply::Later => stream.wait(py)?,
                }
            }
        })
    }

    /// Return the next reply if it is available.
    ///
    /// Return None if the caller must wait for it.
    ///
    /// Raises:
    ///     StopAsyncIteration: no replies are left.
    fn ready(&self, py: Python<'_>) -> PyResult<Option<Py<Reply>>> {
        self.inner.using(py, |stream| match stream.next(py)? {
            NextReply::Reply(reply) => Ok(Some(reply)),
            NextReply::Later => Ok(None),
            NextReply::End => Err(PyStopAsyncIteration::new_err(())),
        })
    }

    /// Return how many more items can be added.
    fn room(&self, py: Python<'_>) -> PyResult<usize> {
        self.inner.using(py, |stream| Ok(if stream.channel.is_some() { stream.feed.room() } else { 0 }))
    }

    /// Add items. The stream must have room for all of them.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
    fn add(&self, py: Python<'_>, items: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        self.inner.using(py, |stream| {
            let Some(channel) = &stream.channel else { return Ok(()) };
            for item in &items {
                stream.feed.add(item)?;
            }
            stream.feed.submit(channel);
            Ok(())
        })
    }

    /// End the input. After this, no more items can be added.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.inner.using(py, |stream| stream.feed.end())
    }

    /// Return a descriptor, which becomes readable when replies are available after a call to `arm`.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.inner.using(py, |stream| {
            let Some(channel) = &stream.channel else { return Err(PyStopIteration::new_err(())) };
            channel.use_event().map_err(|error| errors::of(&error))
        })
    }

    /// Return whether the stream is neither at its end nor closed.
    fn is_open(&self, py: Python<'_>) -> PyResult<bool> {
        self.inner.using(py, |stream| Ok(stream.channel.is_some()))
    }

    /// Make the descriptor unreadable again.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.inner.using(py, |stream| {
            if let Some(channel) = &stream.channel {
                channel.clear_event();
            }
            Ok(())
        })
    }

    /// Request a signal on the descriptor. Return False if something is already available.
    fn arm(&self, py: Python<'_>) -> PyResult<bool> {
        self.inner.using(py, |stream| {
            stream.want();
            let Some(channel) = &stream.channel else { return Ok(false) };
            // The order of the two calls matters: it ensures that a change between them is either seen or signalled.
            Ok(channel.arm() && (!stream.feed.is_over() || channel.is_uncertain()))
        })
    }

    /// Abandon the requests in flight. With a state folder, make the progress so far durable.
    ///
    /// Any thread can call this. A loop over the replies ends as a result.
    ///
    /// Raises:
    ///     StorageError: the progress could not be made durable.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.inner.close(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _class: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.inner.close(py)
    }
}
