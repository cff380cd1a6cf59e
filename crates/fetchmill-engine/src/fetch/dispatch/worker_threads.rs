//! The threads beside a dispatcher in a worker's own process.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::control::Control;
use crate::control::threads::join;

/// The threads beside a dispatcher in its own process.
pub(super) struct WorkerThreads {
    pub(super) control: Arc<Control>,
    pub(super) writer: JoinHandle<Option<()>>,
    pub(super) link: JoinHandle<Option<()>>,
}

impl WorkerThreads {
    /// Until all is durable, or cannot be.
    pub(super) fn wait(self) {
        join(self.writer);
        self.control.journal.end();
        join(self.link);
    }
}
