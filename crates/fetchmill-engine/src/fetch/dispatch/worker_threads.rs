//! The writer thread and the link thread of a dispatcher in a worker process.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::control::Control;
use crate::control::threads::join;

/// Writer and link threads of a dispatcher.
pub(super) struct WorkerThreads {
    pub(super) control: Arc<Control>,
    pub(super) writer: JoinHandle<Option<()>>,
    pub(super) link: JoinHandle<Option<()>>,
}

impl WorkerThreads {
    /// Waits until everything is durable, or can no longer become durable.
    pub(super) fn wait(self) {
        join(self.writer);
        self.control.journal.end();
        join(self.link);
    }
}
