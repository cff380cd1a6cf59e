//! The queue of sealed shards that will be uploaded to a bucket. For each shard, the sink reports whether it is final,
//! or small and waiting for a merge. The uploader takes final shards in order. To limit disk usage, a sink starts
//! another shard only while fewer than two of its shards are queued.
//!
//! The lock is taken once for each shard.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use fetchmill_model::limits;
use fetchmill_model::outcome::ShardNumber;

/// A shard in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QueuedShard {
    worker: u32,
    is_final: bool,
}

#[derive(Debug, Default)]
struct UploadQueueState {
    shards: BTreeMap<ShardNumber, QueuedShard>,
    /// Whether no more shards will be added. If so, small shards stay small.
    is_complete: bool,
    /// Whether the uploader has stopped. If so, sinks no longer wait.
    is_closed: bool,
}

/// Next shard to upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextShard {
    /// Upload this shard.
    Shard(ShardNumber),
    /// No shard is final yet.
    Later,
    /// All shards are uploaded.
    Done,
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub struct UploadQueue {
    known: Mutex<UploadQueueState>,
    changed: Condvar,
}

impl UploadQueue {
    /// Creates a queue with the shards that earlier runs left. Each flag says whether the shard is final. Assigns the
    /// shards to the workers in turn.
    pub fn new(left: impl IntoIterator<Item = (ShardNumber, bool)>, workers: usize) -> Self {
        let left = left.into_iter().zip((0..workers.max(1) as u32).cycle());
        let shards =
            left.map(|((number, is_final), worker)| (number, QueuedShard { worker, is_final })).collect();
        UploadQueue {
            known: Mutex::new(UploadQueueState { shards, ..UploadQueueState::default() }),
            changed: Condvar::new(),
        }
    }

    fn known(&self) -> MutexGuard<'_, UploadQueueState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a shard that a worker has sealed.
    pub fn add(&self, number: ShardNumber, worker: u32, is_final: bool) {
        self.known().shards.insert(number, QueuedShard { worker, is_final });
        self.changed.notify_all();
    }

    /// Removes shards that a merged shard has replaced.
    pub fn forget(&self, replaced: &[ShardNumber]) {
        let mut known = self.known();
        for number in replaced {
            known.shards.remove(number);
        }
    }

    /// Waits until a worker may start another shard. Returns immediately if the queue is closed, so that data in memory
    /// can still be stored.
    pub fn wait_for_room(&self, worker: u32) {
        let is_full = |known: &mut UploadQueueState| {
            let own = known.shards.values().filter(|shard| shard.is_final && shard.worker == worker);
            !known.is_closed && own.count() >= limits::SHARDS_WAITING_MAX
        };
        drop(self.changed.wait_while(self.known(), is_full).unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the next shard to upload. Waits for up to one tick.
    pub fn next(&self) -> NextShard {
        let find = |known: &UploadQueueState| {
            let found = known.shards.iter().find(|(_, shard)| shard.is_final || known.is_complete);
            match found {
                Some((number, _)) => NextShard::Shard(*number),
                None if known.is_complete => NextShard::Done,
                None => NextShard::Later,
            }
        };
        let is_later = |known: &mut UploadQueueState| find(known) == NextShard::Later;
        let waited = self.changed.wait_timeout_while(self.known(), limits::TICK, is_later);
        find(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Removes a shard after it was uploaded and its file was removed.
    pub fn uploaded(&self, number: ShardNumber) {
        self.known().shards.remove(&number);
        self.changed.notify_all();
    }

    /// Records that no more shards will be added.
    pub fn complete(&self) {
        self.known().is_complete = true;
        self.changed.notify_all();
    }

    /// Records that the uploader has stopped. From then on, no sink waits.
    pub fn close(&self) {
        self.known().is_closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use super::*;

    #[test]
    fn small_shards_are_taken_only_when_no_more_will_come() {
        let upload_queue = UploadQueue::new([(3, false), (4, true)], 1);
        upload_queue.add(5, 0, true);

        assert_eq!(upload_queue.next(), NextShard::Shard(4));
        upload_queue.uploaded(4);
        upload_queue.uploaded(5);
        assert_eq!(upload_queue.next(), NextShard::Later);
        upload_queue.forget(&[3]);
        upload_queue.add(6, 0, false);
        upload_queue.complete();
        assert_eq!(upload_queue.next(), NextShard::Shard(6));
        upload_queue.uploaded(6);
        assert_eq!(upload_queue.next(), NextShard::Done);
    }

    #[test]
    fn a_worker_waits_for_its_own_shards_only() {
        let upload_queue = Arc::new(UploadQueue::new([(0, true), (1, true), (2, true)], 2));
        upload_queue.wait_for_room(1);
        let (sender, waited) = channel();
        let waiter = {
            let upload_queue = Arc::clone(&upload_queue);
            std::thread::spawn(move || {
                upload_queue.wait_for_room(0);
                sender.send(()).unwrap();
            })
        };

        assert_eq!(waited.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
        upload_queue.uploaded(0);
        waited.recv_timeout(Duration::from_secs(10)).unwrap();
        waiter.join().unwrap();

        upload_queue.add(7, 0, true);
        upload_queue.close();
        upload_queue.wait_for_room(0);
    }
}
