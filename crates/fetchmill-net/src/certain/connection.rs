//! A connection that holds replies until they are certain.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::{Connection, Deadlines, IdleState, OriginConnections, Pool, ReceivedReply};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::certainty::{MonotonicMicros, NextStep};
use fetchmill_model::target::TargetList;

/// Uncertain replies, in the form stored by their owner.
pub trait HeldReplies: Default {
    /// Whether the replies outlive the watch of the next attempt. If so, a rest cut short by that watch continues in
    /// the background.
    const OUTLIVE_WATCH: bool = false;

    /// Returns whether there are no replies.
    fn is_empty(&self) -> bool;
}

/// Holds no replies, because each request uses a connection that is new or has rested.
impl HeldReplies for () {
    fn is_empty(&self) -> bool {
        true
    }
}

/// A connection for one request at a time, whose reply is certain on arrival.
pub type RestedConnection = CertainConnection<()>;

/// A connection with the replies held on it. If it is not open, it holds none.
#[derive(Debug, Default)]
pub struct CertainConnection<H> {
    /// Connection for the requests.
    pub connection: Connection,
    /// Held replies. The owner adds replies, and takes them when they are judged.
    pub held: H,
}

/// Judgement on the replies held on a connection. Their owner acts on it.
#[derive(Debug)]
#[must_use]
pub enum Judged {
    /// The replies are still uncertain.
    Pending,
    /// The replies are certain.
    Certain {
        /// Whether the replies may become doubtful later. A single reply since the last rest cannot belong to another
        /// request.
        may_be_shifted: bool,
    },
    /// Unsolicited bytes arrived, so each reply may belong to another request. The connection is closed.
    Surplus {
        /// Targets of the replies before the last rest, if it was too short. These replies are doubtful too.
        before: Option<TargetList>,
    },
    /// The replies can never become certain.
    Lost(FailureKind),
}

/// Use of a connection after a complete reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterReply {
    /// The connection can take more requests.
    Open,
    /// The connection cannot be reused, because the server closes it.
    Ends,
    /// The connection cannot be reused, because bytes followed the reply.
    Surplus,
}

impl<H: HeldReplies> CertainConnection<H> {
    /// Returns whether the connection holds replies.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns whether nothing was received since the connection was opened or last rested. In that case, only the
    /// reply to the next request can arrive.
    pub fn has_rested(&mut self) -> bool {
        self.connection.origin_and_replies().is_none_or(|(_, replies)| replies.replies() == 0)
    }

    /// Records `count` complete replies to requests sent together at `sent`. Both times are on the thread's clock.
    pub fn note_replies(&mut self, count: u32, sent: MonotonicMicros, now: MonotonicMicros) {
        let took = now.saturating_sub(sent);
        if let Some(origin) = self.connection.origin() {
            origin.replies.borrow_mut().note_batch(count, took, now);
            origin.patience.borrow_mut().note_replies(count, took);
        }
        if let Some((_, replies)) = self.connection.origin_and_replies() {
            replies.start(sent);
            replies.note_batch(count, took);
        }
    }

    /// Returns how the connection can be used after a reply. `seen` is its state after the reply, and `looks` checks
    /// the socket too.
    pub fn after_reply(&self, seen: IdleState, is_kept: bool, looks: bool) -> AfterReply {
        let seen = if looks && seen == IdleState::Quiet { self.connection.look() } else { seen };
        if seen.is_surplus() {
            AfterReply::Surplus
        } else if seen == IdleState::Closed || !is_kept || self.connection.is_ending() {
            AfterReply::Ends
        } else {
            AfterReply::Open
        }
    }

    /// Returns the maximum number of requests to send together, at least one.
    pub fn batch_max(&mut self) -> u32 {
        let rules = self.connection.origin_and_replies();
        rules.map_or(1, |(origin, replies)| origin.replies.borrow().batch_max(replies))
    }

    /// Returns whether the connection must rest after its last reply. If the connection must end instead, its next
    /// request asks the server to close it.
    pub fn must_rest(&mut self, is_full: bool, now: MonotonicMicros) -> bool {
        let Some((origin, replies)) = self.connection.origin_and_replies() else { return false };
        match origin.replies.borrow().next_step(replies, is_full, now) {
            NextStep::GoOn => false,
            NextStep::LastRequest => {
                replies.end_with_next();
                false
            }
            NextStep::Rest(_) => true,
        }
    }

    /// Returns whether one more request makes the held replies certain sooner than a rest.
    pub fn ends_sooner(&mut self) -> bool {
        self.is_holding()
            && self
                .connection
                .origin_and_replies()
                .is_some_and(|(origin, replies)| origin.replies.borrow().ends_sooner(replies))
    }

    /// Starts a rest and returns how long the connection must stay silent. If the server was asked to close it, the
    /// close makes its replies certain too.
    pub fn begin_rest(&mut self) -> Duration {
        let Some((origin, replies)) = self.connection.origin_and_replies() else { return Duration::ZERO };
        let of_origin = origin.replies.borrow();
        let silence =
            if replies.is_ending() { of_origin.silence_of_end(replies) } else { of_origin.silence(replies) };
        replies.rest_for(silence);
        Duration::from_micros(silence)
    }

    /// Makes the next request the last one, and starts a rest. Returns how long the connection must stay silent.
    pub fn begin_end(&mut self) -> Duration {
        if let Some((_, replies)) = self.connection.origin_and_replies() {
            replies.end_with_next();
        }
        self.begin_rest()
    }

    /// Waits for `silence` or until bytes arrive. Returns the reason if the watch ends the wait.
    pub(super) async fn wait_silent(&mut self, silence: Duration, watch: &Deadlines) -> Option<FailureKind> {
        watch.rest();
        tokio::select! {
            () = tokio::time::sleep(silence) => None,
            () = std::future::poll_fn(|context| self.connection.poll_input(context)) => None,
            kind = watch.expired() => Some(kind),
        }
    }

    /// Returns whether the server has neither closed the connection nor sent anything, although asked to close it.
    /// Records for the origin whether the server closed it.
    pub(super) fn stays_open(&mut self) -> bool {
        let seen = self.connection.look();
        if let Some(origin) = self.connection.origin() {
            origin.replies.borrow_mut().note_end(seen == IdleState::Closed);
        }
        seen == IdleState::Quiet
    }

    /// Returns how many connections may rest in addition to those that make this many requests. If connections to the
    /// origin break often, each receives few replies before it rests, so more may rest.
    pub fn resting_max(&self, requests: usize) -> usize {
        let breaks_often =
            self.connection.origin().is_some_and(|origin| origin.replies.borrow().breaks_often());
        if breaks_often {
            limits::resting_connections_of_breaks(requests)
        } else {
            limits::resting_connections(requests)
        }
    }

    /// Judges a rest: the connection stayed silent, received bytes, or was closed by the server.
    pub fn end_rest(&mut self) -> Judged {
        let seen = self.connection.look();
        if seen.is_surplus() {
            return self.met_surplus();
        }
        let Some((_, replies)) = self.connection.origin_and_replies() else {
            return Judged::Certain { may_be_shifted: false };
        };
        let may_be_shifted = replies.replies() > 1;
        replies.rested();
        if seen == IdleState::Closed || replies.is_ending() {
            self.connection.close();
        }
        Judged::Certain { may_be_shifted }
    }

    /// Checks the connection while no request is in flight. It stays open only if nothing arrived. If the server closed
    /// it, its replies become certain.
    pub fn check_unused(&mut self) -> Judged {
        let seen = self.connection.look();
        if seen.is_surplus() {
            return self.met_surplus();
        }
        if seen == IdleState::Closed {
            if self.is_holding() {
                return self.end_rest();
            }
            self.connection.close();
        }
        Judged::Pending
    }

    /// Handles unsolicited bytes on the connection.
    pub fn met_surplus(&mut self) -> Judged {
        let mut is_doubted = false;
        if let Some((origin, replies)) = self.connection.origin_and_replies() {
            origin.replies.borrow_mut().note_surplus();
            // If a reply took longer than the last rest accounted for, that rest was too short.
            is_doubted = replies.outlasts_rest();
        }
        let before = self.connection.last_certain().filter(|_| is_doubted).map(RefCell::take);
        self.connection.close();
        Judged::Surplus { before }
    }

    /// Judges a broken connection. Its replies are certain if nothing has arrived since a request was sent at
    /// `silent_since`, and if at least the duration of a rest has passed since then.
    pub fn met_break(&mut self, silent_since: Option<MonotonicMicros>, now: MonotonicMicros) -> Judged {
        let Some((origin, replies)) = self.connection.origin_and_replies() else { return Judged::Pending };
        let count = replies.replies();
        if count == 0 {
            return Judged::Pending;
        }
        origin.replies.borrow_mut().note_break();
        let silence = self.begin_rest().as_micros() as MonotonicMicros;
        match silent_since {
            Some(since) if now.saturating_sub(since) >= silence => {
                Judged::Certain { may_be_shifted: count > 1 }
            }
            _ => Judged::Lost(FailureKind::Reset),
        }
    }
}

impl RestedConnection {
    /// Moves to a connection that is new or has rested, so that the next reply is certain on arrival. The pool's clock
    /// must have just been set.
    pub fn renew(&mut self, pool: &Pool, origin: &Rc<OriginConnections>) {
        pool.switch_to_rested(&mut self.connection, origin);
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        self.connection.close();
    }

    /// Closes the connection after a reply if bytes followed it or the server closes it.
    pub fn keep_after(&mut self, replied: &ReceivedReply) {
        if self.after_reply(replied.surplus, replied.head.keep_alive, false) != AfterReply::Open {
            self.connection.close();
        }
    }
}
