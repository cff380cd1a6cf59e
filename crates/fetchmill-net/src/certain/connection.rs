//! A connection that holds replies until it is certain which requests they answer.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::{Connection, Deadlines, IdleState, OriginConnections, Pool, ReceivedReply};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::certainty::{MonotonicMicros, NextStep};
use fetchmill_model::target::TargetList;

/// Replies that are still uncertain, stored in a form that their owner chooses.
pub trait HeldReplies: Default {
    /// Whether the replies outlive the watch of the next attempt. If so, a rest that this watch cuts short continues in
    /// the background.
    const OUTLIVE_WATCH: bool = false;

    /// Returns whether no replies are held.
    fn is_empty(&self) -> bool;
}

/// Holds no replies, because each request uses a connection that is new or has rested.
impl HeldReplies for () {
    fn is_empty(&self) -> bool {
        true
    }
}

/// A connection that carries one request at a time. Each reply is certain on arrival.
pub type RestedConnection = CertainConnection<()>;

/// A connection, and the replies held on it. A closed connection holds no replies.
#[derive(Debug, Default)]
pub struct CertainConnection<H> {
    /// Connection for the requests.
    pub connection: Connection,
    /// Held replies. The owner adds replies here, and takes them out once they have been judged.
    pub held: H,
}

/// Judgement on the replies held on a connection. The owner of the replies acts on it.
#[derive(Debug)]
#[must_use]
pub enum Judged {
    /// The replies are still uncertain.
    Pending,
    /// The replies are certain.
    Certain {
        /// Whether the replies may become doubtful later. This is false for a single reply since the last rest, because
        /// it cannot belong to another request.
        may_be_shifted: bool,
    },
    /// Unsolicited bytes arrived, so any of the replies may belong to another request. The connection is closed.
    Surplus {
        /// Targets of the replies before the last rest. These replies are doubtful as well if the last rest was too
        /// short.
        before: Option<TargetList>,
    },
    /// The replies can never become certain.
    Lost(FailureKind),
}

/// Possible use of a connection after a complete reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterReply {
    /// The connection can take more requests.
    Open,
    /// The connection cannot be reused, because the server is closing it.
    Ends,
    /// The connection cannot be reused, because bytes followed the reply.
    Surplus,
}

impl<H: HeldReplies> CertainConnection<H> {
    /// Returns whether the connection holds replies.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns whether nothing has arrived since the connection was opened or last rested. If so, the next reply to
    /// arrive can only answer the next request.
    pub fn has_rested(&mut self) -> bool {
        self.connection.origin_and_replies().is_none_or(|(_, replies)| replies.replies() == 0)
    }

    /// Records `count` complete replies to requests that were sent together at `sent`. Both times are on the thread's
    /// clock.
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

    /// Returns how the connection can be used after a reply. `seen` is the connection's state after the reply. If
    /// `looks` is set, also checks the socket.
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

    /// Returns how many requests may be sent together. This is at least one.
    pub fn batch_max(&mut self) -> u32 {
        let rules = self.connection.origin_and_replies();
        rules.map_or(1, |(origin, replies)| origin.replies.borrow().batch_max(replies))
    }

    /// Returns whether the connection must rest after its last reply. If the connection has to be closed instead, marks
    /// the next request as the last one, which asks the server to close the connection.
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

    /// Returns whether sending one more request would make the held replies certain sooner than a rest.
    pub fn ends_sooner(&mut self) -> bool {
        self.is_holding()
            && self
                .connection
                .origin_and_replies()
                .is_some_and(|(origin, replies)| origin.replies.borrow().ends_sooner(replies))
    }

    /// Starts a rest and returns how long the connection must stay silent. If the server was asked to close the
    /// connection, its closing also makes the replies certain.
    pub fn begin_rest(&mut self) -> Duration {
        let Some((origin, replies)) = self.connection.origin_and_replies() else { return Duration::ZERO };
        let of_origin = origin.replies.borrow();
        let silence =
            if replies.is_ending() { of_origin.silence_of_end(replies) } else { of_origin.silence(replies) };
        replies.rest_for(silence);
        Duration::from_micros(silence)
    }

    /// Marks the next request as the last one and starts a rest. Returns how long the connection must stay silent.
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

    /// Returns whether the connection is still open and silent although the server was asked to close it. Records in
    /// the origin's statistics whether the server closed it.
    pub(super) fn stays_open(&mut self) -> bool {
        let seen = self.connection.look();
        if let Some(origin) = self.connection.origin() {
            origin.replies.borrow_mut().note_end(seen == IdleState::Closed);
        }
        seen == IdleState::Quiet
    }

    /// Returns how many more connections may rest while `requests` requests are in flight. If connections to the origin
    /// often break, each connection receives few replies before it must rest, so the limit is higher.
    pub fn resting_max(&self, requests: usize) -> usize {
        let breaks_often =
            self.connection.origin().is_some_and(|origin| origin.replies.borrow().breaks_often());
        if breaks_often {
            limits::resting_connections_of_breaks(requests)
        } else {
            limits::resting_connections(requests)
        }
    }

    /// Judges the replies at the end of a rest.
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

    /// Checks the connection while no request is in flight. Closes it if unsolicited bytes arrived. If the server has
    /// closed it, the held replies become certain.
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

    /// Judges the replies on a broken connection. If nothing has arrived since the last request, `silent_since` is the
    /// time when it was sent. If at least the duration of a rest has passed since then, the replies are certain.
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
    /// Switches to a connection that is new or has rested, so that the next reply is certain on arrival. The pool's
    /// clock must have just been set.
    pub fn renew(&mut self, pool: &Pool, origin: &Rc<OriginConnections>) {
        pool.switch_to_rested(&mut self.connection, origin);
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        self.connection.close();
    }

    /// Closes the connection after a reply if bytes followed the reply or the server is closing the connection.
    pub fn keep_after(&mut self, replied: &ReceivedReply) {
        if self.after_reply(replied.surplus, replied.head.keep_alive, false) != AfterReply::Open {
            self.connection.close();
        }
    }
}
