//! The counters: each thread has its own, on cache lines of its own, and only adds to them; a reader sums them up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::rules::ACTIONS;

/// A number that one thread writes and any may read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the thread that owns the counter may do so: a load and a store are cheaper than an atomic add.
    pub(crate) fn add(&self, number: u64) {
        self.0.store(self.get().wrapping_add(number), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one thread. 128: processors fetch cache lines in pairs.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
            /// Faults, by action.
            pub(crate) faults: [Counter; ACTIONS.len()],
        }

        /// What a server has done so far.
        #[derive(Debug, Clone, Default, Serialize)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// Names that no page can hold.
            pub unlisted: u64,
            /// Faults, by action; only those that happened.
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
    /// Of these, closed again.
    connections_closed,
    /// Requests of any kind that were well-formed.
    requests,
    /// Requests for `/list`.
    list,
    /// Requests for `/get`.
    get,
    /// Requests for `/stats`.
    stats,
    /// Requests with the method HEAD; they count as their kind too.
    head,
    /// Replies 404.
    not_found,
    /// Replies 400, 405 and 431.
    bad_requests,
    /// Replies 403 and 500, and bodies that could not be read to their end.
    errors,
    /// Requests that had to wait.
    delayed,
    /// Writes that held the replies of more than one request.
    batches,
    /// Requests answered by these.
    batched_requests,
    /// Stray replies that were not sent because it was too late for them.
    strays_skipped,
    /// Stray replies that were sent too late: the thread had to wait for a processor.
    strays_late,
    /// Bytes handed to the kernel.
    bytes_sent,
}
