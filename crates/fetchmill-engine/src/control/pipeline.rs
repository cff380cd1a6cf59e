//! Pipelining (`--pipeline`): the number of requests sent together on a connection, and the results so far. All workers
//! of the job share this state.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Pipelining ends after this many broken batches. A single one might be a coincidence.
const BROKEN_MAX: u32 = 2;

/// Pipelining state of a job. See the [module documentation](self). It is read once per batch, and changes only when a
/// batch breaks.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// Maximum number of requests per batch.
    requests: u32,
    broken: AtomicU32,
    has_large: AtomicBool,
    /// Number of replies after which the server closes a connection, if known.
    replies_max: AtomicU64,
}

impl Pipeline {
    /// Allows batches of up to `requests` requests.
    pub(crate) fn new(requests: u32) -> Self {
        Pipeline {
            requests,
            broken: AtomicU32::new(0),
            has_large: AtomicBool::new(false),
            replies_max: AtomicU64::new(u64::MAX),
        }
    }

    /// Returns how many requests can be sent together on a connection that has received `replies` replies.
    pub(crate) fn batch_max(&self, replies: u64) -> u64 {
        if self.requests <= 1 || self.is_off() {
            return 1;
        }
        let left = self.replies_max.load(Ordering::Relaxed).saturating_sub(replies);
        left.clamp(1, u64::from(self.requests))
    }

    fn is_off(&self) -> bool {
        self.broken.load(Ordering::Relaxed) >= BROKEN_MAX || self.has_large.load(Ordering::Relaxed)
    }

    /// Records a batch that had too many or too few replies, or that broke for another reason.
    pub(crate) fn note_broken(&self) {
        self.broken.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a reply that is too large for a batch.
    pub(crate) fn note_large(&self) {
        self.has_large.store(true, Ordering::Relaxed);
    }

    /// Records that the server closed the connection after this many replies. It will probably do so again.
    pub(crate) fn note_end(&self, replies: u64) {
        self.replies_max.fetch_min(replies, Ordering::Relaxed);
    }

    /// Returns a notice for the user if pipelining was turned off.
    pub(crate) fn notice(&self) -> Option<String> {
        if self.requests <= 1 {
            return None;
        }
        if self.has_large.load(Ordering::Relaxed) {
            return Some(
                "--pipeline was turned off: a reply was larger than 64 KiB; later requests were sent one at \
                 a time"
                    .into(),
            );
        }
        let broken = self.broken.load(Ordering::Relaxed);
        (broken >= BROKEN_MAX).then(|| {
            format!(
                "--pipeline was turned off: the server does not support it well ({broken} batches failed or \
                 had too many or too few replies); later requests were sent one at a time"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_broken_batch_or_a_large_reply_ends_it() {
        let pipeline = Pipeline::new(32);
        pipeline.note_broken();
        assert_eq!((pipeline.batch_max(1), pipeline.notice()), (32, None));
        pipeline.note_broken();
        assert_eq!(pipeline.batch_max(1), 1);
        assert!(pipeline.notice().is_some_and(|text| text.contains("2 batches")));

        let pipeline = Pipeline::new(32);
        pipeline.note_large();
        assert_eq!(pipeline.batch_max(1), 1);
        assert!(pipeline.notice().is_some_and(|text| text.contains("64 KiB")));
    }

    #[test]
    fn no_batch_goes_beyond_the_end_that_a_server_has_told() {
        let pipeline = Pipeline::new(32);
        pipeline.note_end(1000);
        pipeline.note_end(1200);

        assert_eq!(pipeline.batch_max(990), 10);
        assert_eq!(pipeline.batch_max(1000), 1);
        assert_eq!(pipeline.notice(), None);
        assert_eq!(Pipeline::new(1).batch_max(1), 1);
    }
}
