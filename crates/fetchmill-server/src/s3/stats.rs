//! Counters of a store. Each thread has its own, as in the file server.

use serde::Serialize;

use crate::stats::Counter;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a thread. They are aligned to 128 bytes, because processors fetch cache lines in pairs.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct StoreCounters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        /// Counts of a store so far.
        #[derive(Debug, Clone, Copy, Default, Serialize)]
        pub struct S3Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl S3Stats {
            pub(crate) fn sum<'a>(threads: impl Iterator<Item = &'a StoreCounters>) -> Self {
                let mut stats = S3Stats::default();
                for counters in threads {
                    $(stats.$name += counters.$name.get();)*
                }
                stats
            }

            /// Returns the counts since `before`.
            pub(crate) fn since(&self, before: &S3Stats) -> Self {
                S3Stats { $($name: self.$name - before.$name,)* }
            }
        }
    };
}

counters! {
    /// Connections accepted.
    connections,
    /// Well-formed requests.
    requests,
    /// Requests for an object.
    gets,
    /// Requests for an object that were answered with the object or part of it.
    fetched,
    /// `HEAD` requests for an object or a bucket.
    heads,
    /// Requests for a page of a listing.
    lists,
    /// Requests that put an object in one piece.
    puts,
    /// Requests that upload a part.
    parts,
    /// Objects completed from parts.
    completed,
    /// Requests that delete an object.
    deletes,
    /// Replies with 503.
    refused,
    /// Replies with 403, except those caused by clock skew.
    denied,
    /// Replies with 403 because of clock skew.
    skewed,
    /// Replies that report expired credentials.
    expired,
    /// Replies with 404.
    not_found,
    /// Replies that redirect to another region.
    redirected,
    /// Connections reset in the middle of an upload.
    dropped,
    /// Bytes passed to the kernel.
    bytes_sent,
}
