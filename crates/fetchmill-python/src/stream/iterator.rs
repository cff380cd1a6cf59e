//! The replies of one stream, one after the other.

use std::collections::VecDeque;
use std::time::Duration;

use fetchmill_core::engine::{Advance, Body, Channel, Replies, Taken};
use pyo3::exceptions::{PyStopAsyncIteration, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use pyo3::{PyTraverseError, PyVisit};

use super::client::Fetcher;
use super::feed::{Asked, Feed};
use super::reply::Reply;
use crate::errors;

/// A signal is answered within this.
const STEP: Duration = Duration::from_millis(50);

/// What a look for the next reply gives.
enum Next {
    Reply(Py<Reply>),
    /// None now: some are on their way.
    Later,
    /// There are no more.
    End,
}

/// A reply that came before its turn.
struct Early {
    reply: Py<Reply>,
    /// Bytes of its body, if they are many.
    large: usize,
}

/// What comes behind a batch.
#[derive(PartialEq, Eq)]
pub(super) enum More {
    /// Another batch, or more requests are on their way.
    Some,
    /// What is on its way must be waited for.
    Later,
    /// Nothing.
    End,
}

#[pyclass(module = "fetchmill._native")]
pub(crate) struct Stream {
    /// None once it is closed.
    channel: Option<Channel>,
    feed: Feed,
    replies: Replies,
    position: usize,
    /// Replies that came before their turn; the first place is the next one's.
    early: Option<VecDeque<Option<Early>>>,
    /// Bytes of their large bodies.
    kept: usize,
    next_turn: u64,
    /// The reply that the program has.
    current: Option<u64>,
    raises: bool,
    /// The client that was made for this stream alone: it ends with it.
    owner: Option<Py<Fetcher>>,
}

impl Stream {
    pub(super) fn new(
        channel: Channel,
        iterator: Option<Py<PyIterator>>,
        outstanding_max: usize,
        advance: Option<Advance>,
        (ordered, raises): (bool, bool),
        owner: Option<Py<Fetcher>>,
    ) -> Self {
        Stream {
            channel: Some(channel),
            feed: Feed::new(iterator, outstanding_max, advance),
            replies: Replies::default(),
            position: 0,
            early: ordered.then(VecDeque::new),
            kept: 0,
            next_turn: 0,
            current: None,
            raises,
            owner,
        }
    }

    /// The next reply, if there is one now. After an error, or the last one, the stream is closed.
    fn next(&mut self, py: Python<'_>) -> PyResult<Next> {
        let next = self.look(py);
        match &next {
            Ok(Next::Later) => {}
            Ok(Next::Reply(reply)) => {
                let reply = reply.get();
                self.current = Some(reply.index);
                if let Some(error) = if self.raises { reply.error_object(py)? } else { None } {
                    self.close(py)?;
                    return Err(PyErr::from_value(error));
                }
            }
            Ok(Next::End) => self.close(py)?,
            // What went wrong first is told.
            Err(_) => drop(self.close(py)),
        }
        next
    }

    fn look(&mut self, py: Python<'_>) -> PyResult<Next> {
        if let Some(index) = self.current.take() {
            self.feed.done(index)?;
        }
        loop {
            self.pull_ahead(py)?;
            if let Some(reply) = self.give(py)? {
                self.feed.given();
                return Ok(Next::Reply(reply));
            }
            match self.advance(py)? {
                More::Some => {}
                More::Later => return Ok(Next::Later),
                More::End => return Ok(Next::End),
            }
        }
    }

    /// Behind the last reply of a batch: takes the next batch, or more items from the input.
    pub(super) fn advance(&mut self, py: Python<'_>) -> PyResult<More> {
        let Some(channel) = &self.channel else { return Ok(More::End) };
        match channel.take(&mut self.replies, Duration::ZERO) {
            Taken::Some => self.position = 0,
            Taken::Ended => {
                return Err(errors::usage("the client is closed; open the stream on one that is not"));
            }
            Taken::Dead => return Err(dead()),
            Taken::None if self.feed.can_pull() => self.feed.pull(py, channel)?,
            Taken::None if self.feed.is_over() => return Ok(More::End),
            Taken::None => return Ok(More::Later),
        }
        Ok(More::Some)
    }

    /// The next one of the batch, as it is: what it belongs to, and where it is in the batch.
    pub(super) fn take_record(&mut self) -> PyResult<Option<(Asked, usize)>> {
        let Some(record) = self.replies.get(self.position) else { return Ok(None) };
        let asked = self.feed.take(record.slot)?;
        self.position += 1;
        self.feed.given();
        Ok(Some((asked, self.position - 1)))
    }

    pub(super) fn replies(&self) -> &Replies {
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
            early[place] = Some(Early { reply, large });
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
            Some(Body::Large(bytes)) => bytes.len(),
            _ => 0,
        }
    }

    fn let_go(&mut self, early: Early) -> Py<Reply> {
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
            Some(Taken::Some) => self.position = 0,
            Some(Taken::Dead) => return Err(dead()),
            _ => {}
        }
        py.check_signals().inspect_err(|_| drop(self.close(py)))
    }
}

fn dead() -> PyErr {
    let message = "the thread that fetches is not there; after a fork a client must be made anew";
    errors::exception("InternalError", message)
}

#[pymethods]
impl Stream {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.visit(&visit)
    }

    fn __clear__(&mut self) {
        self.clear_objects();
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<Reply>>> {
        loop {
            match self.next(py)? {
                Next::Reply(reply) => return Ok(Some(reply)),
                Next::End => return Ok(None),
                Next::Later => self.wait(py)?,
            }
        }
    }

    /// The next reply if it is there, None if it must be waited for.
    fn ready(&mut self, py: Python<'_>) -> PyResult<Option<Py<Reply>>> {
        match self.next(py)? {
            Next::Reply(reply) => Ok(Some(reply)),
            Next::Later => Ok(None),
            Next::End => Err(PyStopAsyncIteration::new_err(())),
        }
    }

    /// How many items can be added.
    fn room(&self) -> usize {
        if self.channel.is_some() { self.feed.room() } else { 0 }
    }

    /// Adds items; no more than there is room for.
    #[expect(clippy::needless_pass_by_value, reason = "Python gives values")]
    fn add(&mut self, items: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let Some(channel) = &self.channel else { return Ok(()) };
        for item in &items {
            self.feed.add(item)?;
        }
        self.feed.submit(channel);
        Ok(())
    }

    /// Nothing more is added.
    fn end(&mut self) -> PyResult<()> {
        self.feed.end()
    }

    /// A descriptor that is readable once there are replies, after `arm`.
    fn fileno(&self) -> PyResult<i32> {
        let Some(channel) = &self.channel else { return Err(PyStopIteration::new_err(())) };
        channel.use_event().map_err(|error| errors::of(&error))
    }

    /// Whether it is neither at its end nor closed.
    fn is_open(&self) -> bool {
        self.channel.is_some()
    }

    /// Makes the descriptor unreadable again.
    fn clear(&self) {
        if let Some(channel) = &self.channel {
            channel.clear_event();
        }
    }

    /// Asks for the event. False when there is something to be had at once.
    fn arm(&self) -> bool {
        self.want();
        self.channel.as_ref().is_some_and(Channel::arm)
    }

    /// Gives up what is in flight.
    pub(super) fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        let (channel, owner) = (self.channel.take(), self.owner.take());
        // What has come and was not given is given up as well.
        (self.replies, self.position) = (Replies::default(), 0);
        self.early = self.early.as_ref().map(|_| VecDeque::new());
        if let Some(channel) = channel {
            channel.taken(std::mem::take(&mut self.kept));
        }
        if let Some(owner) = &owner {
            owner.get().close(py);
        }
        self.feed.close(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &mut self,
        py: Python<'_>,
        _class: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py)
    }
}
