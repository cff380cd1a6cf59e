//! Replies that nobody asked for, as a job counts and tells them.

use std::sync::atomic::{AtomicU64, Ordering};

/// See the module. Nothing here is touched for a reply that is as it should be.
#[derive(Debug, Default)]
pub(crate) struct StrayReplies {
    surplus: AtomicU64,
    again: AtomicU64,
}

impl StrayReplies {
    /// One came; so many targets are fetched again.
    pub(crate) fn note(&self, again: usize) {
        self.surplus.fetch_add(1, Ordering::Relaxed);
        self.again.fetch_add(again as u64, Ordering::Relaxed);
    }

    /// What a user should know of it at the end; none when there was nothing.
    pub(crate) fn notice(&self) -> Option<String> {
        let surplus = self.surplus.load(Ordering::Relaxed);
        let again = self.again.load(Ordering::Relaxed);
        let times = if surplus == 1 { "once".into() } else { format!("{surplus} times") };
        (surplus > 0).then(|| {
            format!(
                "the server sent bytes {times} that nobody asked for; objects fetched again for that: {again}"
            )
        })
    }
}
