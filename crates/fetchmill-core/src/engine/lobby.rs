//! Where the workers of an engine outside come in: the one desk of an engine in this process is taken here, and a
//! process of an engine says here that it is there.

use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::desk::{Attached, Desk};

/// See the module.
#[derive(Default)]
pub(super) struct Lobby {
    desk: Mutex<Option<Desk>>,
    is_open: Condvar,
    /// The stewards' ends, until they are there.
    attachments: Mutex<Vec<crossbeam_channel::Receiver<Attached>>>,
    doors: Vec<crossbeam_channel::Sender<Attached>>,
}

impl std::fmt::Debug for Lobby {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Lobby").field("doors", &self.doors.len()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lobby {
    /// With a door for each process of the engine.
    pub(super) fn new(processes: usize) -> Self {
        let (doors, attachments) = (0..processes).map(|_| crossbeam_channel::unbounded()).unzip();
        Lobby { attachments: Mutex::new(attachments), doors, ..Lobby::default() }
    }

    pub(super) fn open(&self, desk: Desk) {
        *lock(&self.desk) = Some(desk);
        self.is_open.notify_all();
    }

    /// The desk, once it is there; waits at most this long. It can be taken once.
    pub(super) fn take_desk(&self, patience: Duration) -> Option<Desk> {
        let waited = self.is_open.wait_timeout_while(lock(&self.desk), patience, |desk| desk.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }

    pub(super) fn take_attachments(&self) -> Vec<crossbeam_channel::Receiver<Attached>> {
        std::mem::take(&mut *lock(&self.attachments))
    }

    /// A worker's process has come up, and these are the ends of its sockets. When its steward has gone they are closed,
    /// which ends the process.
    pub(super) fn attach(&self, worker: usize, pid: u32, turns: OwnedFd, receipts: OwnedFd) {
        if let Some(door) = self.doors.get(worker) {
            let _ = door.send(Attached { pid, turns: turns.into(), receipts: receipts.into() });
        }
    }
}
