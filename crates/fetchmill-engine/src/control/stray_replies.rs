//! Counts unsolicited replies and reports them to the user.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of unsolicited replies. See the [module documentation](self). Normal replies do not change it.
#[derive(Debug, Default)]
pub(crate) struct StrayReplies {
    surplus: AtomicU64,
    again: AtomicU64,
}

impl StrayReplies {
    /// Records an unsolicited reply. As a result, `again` targets are fetched again.
    pub(crate) fn note(&self, again: usize) {
        self.surplus.fetch_add(1, Ordering::Relaxed);
        self.again.fetch_add(again as u64, Ordering::Relaxed);
    }

    /// Returns a notice for the end of the job, or `None` if there were no unsolicited replies.
    pub(crate) fn notice(&self) -> Option<String> {
        let surplus = self.surplus.load(Ordering::Relaxed);
        let again = self.again.load(Ordering::Relaxed);
        let times = if surplus == 1 { "once".into() } else { format!("{surplus} times") };
        (surplus > 0).then(|| {
            format!(
                "the server sent unsolicited bytes {times}; objects fetched again because of this: {again}"
            )
        })
    }
}
