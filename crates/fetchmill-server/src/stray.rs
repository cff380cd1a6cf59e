//! A stray reply: an unsolicited reply that is sent some time after a real one, whether or not requests are in flight
//! by then.
//!
//! It looks like the answer to the next request, so all later replies on the connection are off by one. The seed and
//! the number of the connection determine whether a stray reply is sent, which reply it follows, and its delay.

use std::time::{Duration, Instant};

/// Plan for the stray reply of a connection. It is derived from the seed.
#[derive(Debug)]
pub(crate) struct StrayPlan {
    /// Index of the rule.
    pub(crate) rule: usize,
    /// Number of matching requests that are left, up to and including the one that is hit.
    pub(crate) left: u32,
    /// Time from the real reply to the stray one.
    pub(crate) after: Duration,
    /// Maximum delay of the stray reply.
    pub(crate) at_most: Duration,
    /// Random word that selects a stray page.
    pub(crate) random: u64,
}

/// The stray reply of a connection.
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
    /// Time at which the last piece of the real reply was passed to the kernel.
    written: Instant,
    /// Whether the entire reply was passed to the kernel.
    whole: bool,
}

impl Stray {
    pub(crate) fn new(plan: Option<StrayPlan>) -> Self {
        Stray { plan, armed: None }
    }

    pub(crate) fn plan(&mut self) -> Option<&mut StrayPlan> {
        self.plan.as_mut()
    }

    /// Schedules `reply` as the stray reply that follows the reply to the current request.
    pub(crate) fn arm(&mut self, reply: Vec<u8>) {
        if let Some(StrayPlan { after, at_most, .. }) = self.plan.take() {
            self.armed = Some(ArmedStray { reply, after, at_most, written: Instant::now(), whole: false });
        }
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Records that bytes are about to be written. Must be called before the write, so that the measured delay is never
    /// too short.
    pub(crate) fn writing(&mut self) {
        if let Some(armed) = &mut self.armed
            && !armed.whole
        {
            armed.written = Instant::now();
        }
    }

    /// Records that the replies of a turn were written.
    pub(crate) fn turn_written(&mut self) {
        if let Some(armed) = &mut self.armed {
            armed.whole = true;
        }
    }

    /// Returns the time at which to send the stray reply. `None` until the real reply has been sent.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.armed.as_ref().filter(|armed| armed.whole).map(|armed| armed.written + armed.after)
    }

    /// Takes the stray reply, and the time by which it must be sent.
    pub(crate) fn take(&mut self) -> Option<(Vec<u8>, Instant)> {
        self.armed.take().map(|armed| (armed.reply, armed.written + armed.at_most))
    }
}
