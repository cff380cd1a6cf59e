//! The way to the thread that asks an origin whether it is well ([`super::health_check`]).

use std::sync::Mutex;

use crossbeam_channel::{Receiver, Sender};

use crate::planner::probing::HealthCheck;
use crate::sync::lock;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HealthCheckLink {
    sender: Mutex<Option<Sender<HealthCheck>>>,
}

impl HealthCheckLink {
    /// From now on there is somebody who asks.
    pub(super) fn open(&self) -> Receiver<HealthCheck> {
        let (sender, questions) = crossbeam_channel::unbounded();
        *lock(&self.sender) = Some(sender);
        questions
    }

    /// Asks; `false` when nobody can. The planner has one question at a time.
    pub(super) fn ask(&self, asked: HealthCheck) -> bool {
        lock(&self.sender).as_ref().is_some_and(|sender| sender.send(asked).is_ok())
    }

    /// Nobody will ask any more.
    pub(super) fn end(&self) {
        lock(&self.sender).take();
    }
}
