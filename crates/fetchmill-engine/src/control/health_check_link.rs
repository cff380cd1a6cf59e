//! The way to the thread that asks an origin whether it is well ([`crate::job::health_check`]).

use std::sync::Mutex;

use crossbeam_channel::{Receiver, Sender};

use fetchmill_model::panics::lock;
use fetchmill_model::planner::probing::HealthCheck;

/// What is asked.
#[derive(Debug)]
pub(crate) enum OriginQuestion {
    /// Whether the origin is well.
    Health(HealthCheck),
    /// Whether it still gives an object that was fetched, after refusals with this status.
    Access(Box<[u8]>, u16),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct HealthCheckLink {
    sender: Mutex<Option<Sender<OriginQuestion>>>,
}

impl HealthCheckLink {
    /// From now on there is somebody who asks.
    pub(crate) fn open(&self) -> Receiver<OriginQuestion> {
        let (sender, questions) = crossbeam_channel::unbounded();
        *lock(&self.sender) = Some(sender);
        questions
    }

    /// Asks; `false` when nobody can. The planner has one question at a time.
    pub(crate) fn ask(&self, asked: OriginQuestion) -> bool {
        lock(&self.sender).as_ref().is_some_and(|sender| sender.send(asked).is_ok())
    }

    /// Nobody will ask any more.
    pub(crate) fn end(&self) {
        lock(&self.sender).take();
    }
}
