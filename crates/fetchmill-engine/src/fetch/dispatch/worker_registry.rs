//! The registry of a Python engine's workers. An engine in this process takes the job's dispatcher from the registry.
//! An engine's worker processes register here.

use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{AttachedProcess, Dispatcher};

/// Registry of workers. See the [module documentation](self).
#[derive(Default)]
pub(crate) struct WorkerRegistry {
    dispatcher: Mutex<Option<Dispatcher>>,
    is_open: Condvar,
    /// Receivers that no supervisor has taken yet.
    attachments: Mutex<Vec<crossbeam_channel::Receiver<AttachedProcess>>>,
    process_senders: Vec<crossbeam_channel::Sender<AttachedProcess>>,
}

impl std::fmt::Debug for WorkerRegistry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("WorkerRegistry")
            .field("doors", &self.process_senders.len())
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WorkerRegistry {
    /// Creates a registry with one channel for each of the engine's processes.
    pub(crate) fn new(processes: usize) -> Self {
        let (process_senders, attachments) = (0..processes).map(|_| crossbeam_channel::unbounded()).unzip();
        WorkerRegistry { attachments: Mutex::new(attachments), process_senders, ..WorkerRegistry::default() }
    }

    pub(crate) fn open(&self, dispatcher: Dispatcher) {
        *lock(&self.dispatcher) = Some(dispatcher);
        self.is_open.notify_all();
    }

    /// Takes the dispatcher, after waiting up to `patience` until it exists. Succeeds only once.
    pub(crate) fn take_dispatcher(&self, patience: Duration) -> Option<Dispatcher> {
        let waited = self
            .is_open
            .wait_timeout_while(lock(&self.dispatcher), patience, |dispatcher| dispatcher.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }

    pub(crate) fn take_attachments(&self) -> Vec<crossbeam_channel::Receiver<AttachedProcess>> {
        std::mem::take(&mut *lock(&self.attachments))
    }

    /// Registers a worker process with the job's ends of its sockets. If there is no supervisor, the sockets are
    /// closed, and the process then ends.
    pub(crate) fn attach(&self, worker: usize, pid: u32, turns: OwnedFd, receipts: OwnedFd) {
        if let Some(sender) = self.process_senders.get(worker) {
            let _ = sender.send(AttachedProcess { pid, turns: turns.into(), receipts: receipts.into() });
        }
    }
}
