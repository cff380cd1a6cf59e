//! A stray reply: one that nobody asked for, sent a while after a real one whatever requests are out by then.
//!
//! It reads as the answer to the next request, so that all later replies of its connection shift by one. Which
//! connections have one, after which of their replies, and how late it comes follows from the seed and the
//! connection's number.

use std::time::{Duration, Instant};

/// What the seed says of a connection.
#[derive(Debug)]
pub(crate) struct StrayPlan {
    /// Position of the rule.
    pub(crate) rule: usize,
    /// Requests that the rule is for until the one that is hit, that one included.
    pub(crate) left: u32,
    /// From the real reply to the stray one.
    pub(crate) after: Duration,
    /// Later than this it is not sent at all.
    pub(crate) at_most: Duration,
    /// Picks among stray pages.
    pub(crate) random: u64,
}

/// A connection's stray reply.
#[derive(Debug, Default)]
pub(crate) struct Stray {
    plan: Option<StrayPlan>,
    armed: Option<ArmedStray>,
}

#[derive(Debug)]
struct ArmedStray {
    reply: Vec<u8>,
    after: Duration,
    at_most: Duration,
    /// When the last piece of the real reply was handed to the kernel.
    written: Instant,
    /// The whole real reply was.
    whole: bool,
}

impl Stray {
    pub(crate) fn new(plan: Option<StrayPlan>) -> Self {
        Stray { plan, armed: None }
    }

    pub(crate) fn plan(&mut self) -> Option<&mut StrayPlan> {
        self.plan.as_mut()
    }

    /// The request that is being answered is the one: `reply` will follow its reply.
    pub(crate) fn arm(&mut self, reply: Vec<u8>) {
        if let Some(StrayPlan { after, at_most, .. }) = self.plan.take() {
            self.armed = Some(ArmedStray { reply, after, at_most, written: Instant::now(), whole: false });
        }
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Bytes are about to be written: before the call, so that lateness is never measured too short.
    pub(crate) fn writing(&mut self) {
        if let Some(armed) = &mut self.armed
            && !armed.whole
        {
            armed.written = Instant::now();
        }
    }

    /// The replies of a turn were written.
    pub(crate) fn turn_written(&mut self) {
        if let Some(armed) = &mut self.armed {
            armed.whole = true;
        }
    }

    /// When it is to be sent, once the real reply was.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.armed.as_ref().filter(|armed| armed.whole).map(|armed| armed.written + armed.after)
    }

    /// What to send now, and when that is too late.
    pub(crate) fn take(&mut self) -> Option<(Vec<u8>, Instant)> {
        self.armed.take().map(|armed| (armed.reply, armed.written + armed.at_most))
    }
}
