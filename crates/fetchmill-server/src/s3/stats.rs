//! What a store has counted: each thread for itself, as in the file server.

use serde::Serialize;

use crate::stats::Counter;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one thread. 128: processors fetch cache lines in pairs.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct StoreCounters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        /// What a store has done so far.
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

            /// What was counted since these.
            pub(crate) fn since(&self, before: &S3Stats) -> Self {
                S3Stats { $($name: self.$name - before.$name,)* }
            }
        }
    };
}

counters! {
    /// Connections accepted.
    connections,
    /// Requests that were well-formed.
    requests,
    /// Requests for an object.
    gets,
    /// Of these, answered with the object or a range of it.
    fetched,
    /// Requests with the method HEAD, for an object or a bucket.
    heads,
    /// Requests for a page of a listing.
    lists,
    /// Requests that put an object in one piece.
    puts,
    /// Requests that put a part.
    parts,
    /// Objects completed of parts.
    completed,
    /// Requests that delete an object.
    deletes,
    /// Replies 503.
    refused,
    /// Replies 403, but not for the time.
    denied,
    /// Replies 403 for the time of the signature.
    skewed,
    /// Replies for credentials that have expired.
    expired,
    /// Replies 404.
    not_found,
    /// Replies that name another region.
    redirected,
    /// Connections reset in the middle of an upload.
    dropped,
    /// Bytes handed to the kernel.
    bytes_sent,
}
