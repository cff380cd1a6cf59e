//! Channel to the thread that checks an origin ([`crate::job::health_check`]).

use std::sync::Mutex;

use crossbeam_channel::{Receiver, Sender};

use fetchmill_model::panics::lock;
use fetchmill_model::planner::probing::HealthCheck;

/// Question about an origin that the checking thread answers.
#[derive(Debug)]
pub(crate) enum OriginQuestion {
    /// Does the origin work?
    Health(HealthCheck),
    /// After refusals with this status, does the origin still return a previously fetched object?
    Access(Box<[u8]>, u16),
}

/// Channel to the checking thread. See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct HealthCheckLink {
    sender: Mutex<Option<Sender<OriginQuestion>>>,
}

impl HealthCheckLink {
    /// Opens the channel for a checking thread.
    pub(crate) fn open(&self) -> Receiver<OriginQuestion> {
        let (sender, questions) = crossbeam_channel::unbounded();
        *lock(&self.sender) = Some(sender);
        questions
    }

    /// Sends a question. Returns `false` if no thread can answer. The planner asks one question at a time.
    pub(crate) fn ask(&self, asked: OriginQuestion) -> bool {
        lock(&self.sender).as_ref().is_some_and(|sender| sender.send(asked).is_ok())
    }

    /// Closes the channel.
    pub(crate) fn end(&self) {
        lock(&self.sender).take();
    }
}
