//! The replies of one stream, one after the other.

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

/// A signal is answered within this.
const STEP: Duration = Duration::from_millis(50);

/// What a look for the next reply gives.
enum NextReply {
    Reply(Py<Reply>),
    /// None now: some are on their way.
    Later,
    /// There are no more.
    End,
}

/// A reply that came before its turn.
struct EarlyReply {
    reply: Py<Reply>,
    /// Bytes of its body, if they are many.
    large: usize,
}

/// What comes behind a batch.
#[derive(PartialEq, Eq)]
pub(super) enum MoreBatches {
    /// Another batch, or more requests are on their way.
    Some,
    /// What is on its way must be waited for.
    Later,
    /// Nothing.
    End,
}

/// The replies of one stream: an iterator for one thread, or the two ends of an asynchronous one.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Stream {
    inner: Closable<ReplyStream>,
}

/// What one thread uses at a time, and any thread may close meanwhile: then its user does that as soon as it can.
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

    /// Uses it. No other thread, and nothing that its own input does, may be using it.
    pub(super) fn using<R>(&self, py: Python<'_>, run: impl FnOnce(&mut T) -> PyResult<R>) -> PyResult<R> {
        let Some(mut inner) = self.try_lock() else {
            let message = "the stream is in use; take its replies in only one thread, and never in its own \
                           input";
            return Err(PyRuntimeError::new_err(message));
        };
        let result = run(&mut inner);
        drop(inner);
        self.close_if_wanted(py)?;
        result
    }

    /// Closes it, now or as soon as who uses it can.
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

    /// For the garbage collector, which may come while it is in use: then it is alive.
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
    /// Gives up what is in flight. A second call does nothing.
    fn close(&mut self, py: Python<'_>) -> PyResult<()>;
}

pub(super) struct ReplyStream {
    /// Another thread has closed it.
    is_closing: Arc<AtomicBool>,
    /// None once it is closed.
    channel: Option<Channel>,
    feed: Feed,
    replies: ReplyBatch,
    position: usize,
    /// Replies that came before their turn; the first place is the next one's.
    early: Option<VecDeque<Option<EarlyReply>>>,
    /// Bytes of their large bodies.
    kept: usize,
    next_turn: u64,
    /// The reply that the program has.
    current: Option<u64>,
    raises: bool,
    /// The client that was made for this stream alone: it ends with it.
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

    /// What tells it to close.
    pub(super) fn is_closing(&self) -> &Arc<AtomicBool> {
        &self.is_closing
    }

    /// The next reply, if there is one now. After an error, or the last one, the stream is closed.
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
            // What went wrong first is told.
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

    /// Behind the last reply of a batch: takes the next batch, or more items from the input.
    pub(super) fn advance(&mut self, py: Python<'_>) -> PyResult<MoreBatches> {
        let Some(channel) = &self.channel else { return Ok(MoreBatches::End) };
        match channel.take(&mut self.replies, Duration::ZERO) {
            TakenReplies::Some => self.position = 0,
            TakenReplies::Doubtful => return Err(errors::stray_reply(py, channel.take_doubtful())),
            TakenReplies::Ended => {
                return Err(errors::usage("the client is closed; open the stream with an open client"));
            }
            TakenReplies::Dead => return Err(dead()),
            TakenReplies::None if self.feed.can_pull() => self.feed.pull(py, channel)?,
            // The last replies may be in doubt yet.
            TakenReplies::None if self.feed.is_over() && !channel.is_uncertain() => {
                return Ok(MoreBatches::End);
            }
            TakenReplies::None | TakenReplies::Settling => return Ok(MoreBatches::Later),
        }
        Ok(MoreBatches::Some)
    }

    /// The next one of the batch, as it is: what it belongs to, and where it is in the batch.
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

    /// Takes items from a quick input before what is there is used.
    pub(super) fn pull_ahead(&mut self, py: Python<'_>) -> PyResult<()> {
        match &self.channel {
            Some(channel) if self.feed.is_quick() => self.feed.pull(py, channel),
            _ => Ok(()),
        }
    }

    /// For the garbage collector.
    pub(super) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.feed.visit(visit)?;
        visit.call(&self.owner)
    }

    pub(super) fn clear_objects(&mut self) {
        self.feed.clear();
    }

    /// The next reply of those that have come.
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
            // Never more places than are outstanding: nothing is taken from the input while the first one is missing
            // and the window is full.
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

    /// Bytes of the next reply's body, if they are many.
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

    /// Tells what everything that is kept waits for: it must come however much that is.
    fn want(&self) {
        if let Some(channel) = self.channel.as_ref().filter(|_| self.early.is_some()) {
            channel.want(if self.kept > 0 { self.feed.slot_of(self.next_turn) } else { None });
        }
    }

    /// The next reply of the batch, and its turn.
    fn make(&mut self, py: Python<'_>) -> PyResult<(Py<Reply>, u64)> {
        let position = self.position;
        self.position += 1;
        let slot = self.replies.get(position).map_or(u32::MAX, |record| record.slot);
        let asked = self.feed.take(slot)?;
        let made = Reply::of(py, &mut self.replies, position, asked.object, asked.index)?;
        let made = made.ok_or_else(|| errors::exception("InternalError", "a batch without the reply"))?;
        Ok((Py::new(py, made)?, asked.turn))
    }

    /// Waits for a while, without the GIL. A signal closes the stream.
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
    let message = "the fetching thread does not exist; create a new client after a fork";
    errors::exception("InternalError", message)
}

impl Close for ReplyStream {
    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        let (channel, owner) = (self.channel.take(), self.owner.take());
        // What has come and was not given is given up as well.
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

    /// The next reply if it is there, None if it must be waited for.
    ///
    /// Raises:
    ///     StopAsyncIteration: there are no more.
    fn ready(&self, py: Python<'_>) -> PyResult<Option<Py<Reply>>> {
        self.inner.using(py, |stream| match stream.next(py)? {
            NextReply::Reply(reply) => Ok(Some(reply)),
            NextReply::Later => Ok(None),
            NextReply::End => Err(PyStopAsyncIteration::new_err(())),
        })
    }

    /// How many items can be added.
    fn room(&self, py: Python<'_>) -> PyResult<usize> {
        self.inner.using(py, |stream| Ok(if stream.channel.is_some() { stream.feed.room() } else { 0 }))
    }

    /// Adds items; no more than there is room for.
    #[expect(clippy::needless_pass_by_value, reason = "Python gives values")]
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

    /// Nothing more is added.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.inner.using(py, |stream| stream.feed.end())
    }

    /// A descriptor that is readable once there are replies, after `arm`.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.inner.using(py, |stream| {
            let Some(channel) = &stream.channel else { return Err(PyStopIteration::new_err(())) };
            channel.use_event().map_err(|error| errors::of(&error))
        })
    }

    /// Whether it is neither at its end nor closed.
    fn is_open(&self, py: Python<'_>) -> PyResult<bool> {
        self.inner.using(py, |stream| Ok(stream.channel.is_some()))
    }

    /// Makes the descriptor unreadable again.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.inner.using(py, |stream| {
            if let Some(channel) = &stream.channel {
                channel.clear_event();
            }
            Ok(())
        })
    }

    /// Asks for the event. False when there is something to be had at once.
    fn arm(&self, py: Python<'_>) -> PyResult<bool> {
        self.inner.using(py, |stream| {
            stream.want();
            let Some(channel) = &stream.channel else { return Ok(false) };
            // In this order: what is decided between the two is seen, or signalled.
            Ok(channel.arm() && (!stream.feed.is_over() || channel.is_uncertain()))
        })
    }

    /// Gives up what is in flight. What was done with is durable then, when there is a state folder.
    ///
    /// Any thread may do that: a loop over the replies ends.
    ///
    /// Raises:
    ///     StorageError: it could not be made durable.
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
