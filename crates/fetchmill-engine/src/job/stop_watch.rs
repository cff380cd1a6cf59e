//! The thread that checks whether a rule stops the run. It exists only if the run has such rules. Like a progress
//! display, it only reads counters, so it costs nothing per target.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::job_state::JobState;
use crate::control::stop::Stop;
use crate::control::threads::{join, spawn};
use fetchmill_model::error::Result;
use fetchmill_model::limits;

/// Handle of the thread. See the [module documentation](self). Dropping it ends the thread.
pub(crate) struct StopWatch {
    running: Option<(Sender<()>, JoinHandle<Option<()>>)>,
}

impl StopWatch {
    pub(crate) fn start(shared: &Arc<JobState>) -> Result<Self> {
        if shared.rules.are_none() {
            return Ok(StopWatch { running: None });
        }
        let (end, ended) = crossbeam_channel::bounded(0);
        let watched = Arc::clone(shared);
        let thread = spawn("fetchmill-rules", &shared.control.stop, move || {
            watch(&watched, &ended);
            Ok(())
        })?;
        Ok(StopWatch { running: Some((end, thread)) })
    }
}

impl Drop for StopWatch {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.running.take() {
            drop(end);
            join(thread);
        }
    }
}

/// Watches until a rule applies or the run ends for another reason.
fn watch(shared: &JobState, ended: &Receiver<()>) {
    let stop = &shared.control.stop;
    while stop.get() == Stop::No && ended.recv_timeout(limits::TICK) == Err(RecvTimeoutError::Timeout) {
        if let Some(reason) = shared.rules.broken(&shared.standing()) {
            return stop.ask_because(reason);
        }
    }
}
