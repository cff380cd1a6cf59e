//! One connection with the replies that it holds.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::{Connection, Deadlines, IdleState, OriginConnections, Pool, ReceivedReply};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::certainty::{MonotonicMicros, NextStep};
use fetchmill_model::target::TargetList;

/// Replies that are not certain yet, in the form in which their owner keeps them.
pub trait HeldReplies: Default {
    /// Whether they outlive the watch of the attempt that came after them: a rest that it cuts short goes on aside.
    const OUTLIVE_WATCH: bool = false;

    /// Returns whether there are none.
    fn is_empty(&self) -> bool;
}

/// Nothing is held: each request goes out on a connection that is new or has rested.
impl HeldReplies for () {
    fn is_empty(&self) -> bool {
        true
    }
}

/// A connection for one request at a time whose reply is certain when it comes.
pub type RestedConnection = CertainConnection<()>;

/// See the module. Without an open connection it holds nothing.
#[derive(Debug, Default)]
pub struct CertainConnection<H> {
    /// Where requests are made.
    pub connection: Connection,
    /// For the owner to add to, and to take from as it is judged.
    pub held: H,
}

/// Certainty of the replies that a connection holds. Their owner acts on it.
#[derive(Debug)]
#[must_use]
pub enum Judged {
    /// Nothing more is known of them than before.
    Pending,
    /// They are certain.
    Certain {
        /// Whether they may be in doubt later: a single reply since the last rest cannot be another request's.
        may_be_shifted: bool,
    },
    /// Bytes came that nobody asked for: each reply may be another request's. The connection is closed.
    Surplus {
        /// The targets of the replies before its last rest, if that rest was too short: these are in doubt, too.
        before: Option<TargetList>,
    },
    /// They will never be certain.
    Lost(FailureKind),
}

/// Use of a connection after a complete reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterReply {
    /// More requests.
    Open,
    /// Nothing: its server ends it.
    Ends,
    /// Nothing: bytes came after the reply.
    Surplus,
}

impl<H: HeldReplies> CertainConnection<H> {
    /// Returns whether it holds replies.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns whether it has brought nothing since it was new or has rested: then nothing can be on its way but the reply to
    /// the next request.
    pub fn has_rested(&mut self) -> bool {
        self.connection.origin_and_replies().is_none_or(|(_, replies)| replies.replies() == 0)
    }

    /// Notes `count` complete replies to requests that were sent together at `sent`; both times are on the thread's clock.
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

    /// Returns what the connection is good for, when `seen` came after a reply. With `looks` its socket is checked, too.
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

    /// Returns how many requests may be sent together; at least one.
    pub fn batch_max(&mut self) -> u32 {
        let rules = self.connection.origin_and_replies();
        rules.map_or(1, |(origin, replies)| origin.replies.borrow().batch_max(replies))
    }

    /// Returns whether the connection has to rest after its last reply. If it has to end instead, its next request says so.
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

    /// Begins a rest, and returns how long the connection must be silent from now on. The end of one that is to end is a
    /// proof, too.
    pub fn begin_rest(&mut self) -> Duration {
        let Some((origin, replies)) = self.connection.origin_and_replies() else { return Duration::ZERO };
        let of_origin = origin.replies.borrow();
        let silence =
            if replies.is_ending() { of_origin.silence_of_end(replies) } else { of_origin.silence(replies) };
        replies.rest_for(silence);
        Duration::from_micros(silence)
    }

    /// Forbids another request, and begins a rest.
    pub(super) fn begin_end(&mut self) -> Duration {
        if let Some((_, replies)) = self.connection.origin_and_replies() {
            replies.end_with_next();
        }
        self.begin_rest()
    }

    /// Waits for `silence`, or until something comes. Returns why the watch has cut that short, if it has.
    pub(super) async fn wait_silent(&mut self, silence: Duration, watch: &Deadlines) -> Option<FailureKind> {
        watch.rest();
        tokio::select! {
            () = tokio::time::sleep(silence) => None,
            () = std::future::poll_fn(|context| self.connection.poll_input(context)) => None,
            kind = watch.expired() => Some(kind),
        }
    }

    /// Judges a rest: it was silent for long enough, or something came, or the server has closed the connection.
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

    /// Checks the connection while no request is out. It stays open only if nothing has come. Its end makes certain what it
    /// holds.
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

    /// Notes that bytes came that nobody asked for.
    pub fn met_surplus(&mut self) -> Judged {
        let mut is_doubted = false;
        if let Some((origin, replies)) = self.connection.origin_and_replies() {
            origin.replies.borrow_mut().note_surplus();
            // A reply that took longer than the rest before it allowed for shows that the rest was too short.
            is_doubted = replies.outlasts_rest();
        }
        let before = self.connection.last_certain().filter(|_| is_doubted).map(RefCell::take);
        self.connection.close();
        Judged::Surplus { before }
    }

    /// Judges a connection that broke. If nothing came since a request was sent at `silent_since`, and that is as long ago as
    /// it would have rested, what it holds is certain.
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
    /// Moves to a connection that is new or has rested, so that the next reply is certain when it comes. The caller has set
    /// the pool's clock just now.
    pub fn renew(&mut self, pool: &Pool, origin: &Rc<OriginConnections>) {
        pool.switch_to_rested(&mut self.connection, origin);
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        self.connection.close();
    }

    /// After a reply: closes the connection if something has come after it, or if its server ends it.
    pub fn keep_after(&mut self, replied: &ReceivedReply) {
        if self.after_reply(replied.surplus, replied.head.keep_alive, false) != AfterReply::Open {
            self.connection.close();
        }
    }
}
