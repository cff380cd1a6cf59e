//! Counters. Each thread updates its own counters, on separate cache lines. Readers sum them up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::rules::ACTIONS;

/// A number that one thread writes and all threads can read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds a number. Must be called only by the thread that owns the counter. It uses a load and a store, which are
    /// cheaper than an atomic add but would lose additions by other threads.
    pub(crate) fn add(&self, number: u64) {
        self.0.store(self.get().wrapping_add(number), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a thread. They are aligned to 128 bytes, because processors fetch cache lines in pairs.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
            /// Number of faults by action.
            pub(crate) faults: [Counter; ACTIONS.len()],
        }

        /// Counts of a server so far.
        #[derive(Debug, Clone, Default, Serialize)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// Number of names that no page can contain.
            pub unlisted: u64,
            /// Number of faults by action, without actions that did not happen.
            pub faults: BTreeMap<&'static str, u64>,
        }

        impl Stats {
            pub(crate) fn sum<'a>(threads: impl Iterator<Item = &'a Counters>, unlisted: u64) -> Self {
                let mut stats = Stats { unlisted, ..Stats::default() };
                for counters in threads {
                    $(stats.$name += counters.$name.get();)*
                    for ((name, _), counter) in ACTIONS.iter().zip(&counters.faults) {
                        if counter.get() > 0 {
                            *stats.faults.entry(name).or_default() += counter.get();
                        }
                    }
                }
                stats
            }
        }
    };
}

counters! {
    /// Connections accepted.
    connections,
    /// Connections closed.
    connections_closed,
    /// Well-formed requests of any kind.
    requests,
    /// Requests for `/list`.
    list,
    /// Requests for `/get`.
    get,
    /// Requests for `/stats`.
    stats,
    /// `HEAD` requests. They are also counted by kind.
    head,
    /// Replies with 404.
    not_found,
    /// Replies with 4xx, except 403 and 404.
    bad_requests,
    /// Replies with 403 and 500, and bodies that could not be read to the end.
    errors,
    /// Requests that had to wait.
    delayed,
    /// Writes that contain the replies to more than one request.
    batches,
    /// Requests that were answered by such writes.
    batched_requests,
    /// Stray replies that were not sent because it was too late.
    strays_skipped,
    /// Stray replies that were sent too late because the thread had to wait for a processor.
    strays_late,
    /// Bytes passed to the kernel.
    bytes_sent,
}
