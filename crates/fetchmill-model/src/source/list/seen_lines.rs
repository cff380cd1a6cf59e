//! Detects repeated lines of a list, in memory that does not grow with the list.
//!
//! Lines are compared by their 128-bit hashes, with a new seed in each run. It is therefore impossible to construct a
//! list in which different lines have the same hash.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher, RandomState};

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use crate::limits::LIST_REMEMBERED_LINES;
use crate::target::entry::ListEntry;
use crate::target::request::TargetRequest;

/// The first distinct lines of a list, up to [`LIST_REMEMBERED_LINES`].
pub(super) struct SeenLines {
    hashes: HashSet<u128, BuildHasherDefault<OwnHash>>,
    seed: u64,
    max: usize,
}

impl SeenLines {
    pub(super) fn new() -> Self {
        Self::up_to(LIST_REMEMBERED_LINES)
    }

    /// Treats all lines as new.
    pub(super) fn off() -> Self {
        Self::up_to(0)
    }

    fn up_to(max: usize) -> Self {
        SeenLines { hashes: HashSet::default(), seed: RandomState::new().hash_one(0), max }
    }

    /// Returns whether the set is full. If so, later lines are compared with the set but not added to it.
    pub(super) fn is_full(&self) -> bool {
        self.hashes.len() >= self.max
    }

    /// Returns whether an earlier line had the same text and the same entry. Lines that differ only in unused columns
    /// count as different, because the difference may be intended. A request that must not be sent twice never counts
    /// as repeated. If it is listed twice, both requests are intended.
    pub(super) fn is_repeated(&mut self, line: &[u8], entry: &[u8]) -> bool {
        if self.max == 0 || !may_be_repeated(entry) {
            return false;
        }
        let hash = xxh3_128_with_seed(entry, xxh3_64_with_seed(line, self.seed));
        if self.is_full() { self.hashes.contains(&hash) } else { !self.hashes.insert(hash) }
    }
}

fn may_be_repeated(entry: &[u8]) -> bool {
    let Some(request) = ListEntry::read(entry).own_request() else { return true };
    TargetRequest::read(request).is_some_and(|request| {
        let has_safe_method = matches!(request.method, None | Some("GET" | "HEAD"));
        has_safe_method && request.body.is_none() || request.is_idempotent
    })
}

/// A hasher that returns hashes unchanged.
#[derive(Default)]
struct OwnHash(u64);

impl Hasher for OwnHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(url: &str, request: Option<&TargetRequest<'_>>) -> Vec<u8> {
        let (mut out, mut bytes) = (Vec::new(), Vec::new());
        if let Some(request) = request {
            request.write(&mut bytes);
        }
        let request = request.map(|_| bytes.as_slice());
        ListEntry { url: url.as_bytes(), request, ..ListEntry::default() }.write(&mut out);
        out
    }

    #[test]
    fn the_first_lines_are_remembered() {
        let mut seen = SeenLines::up_to(2);

        let found: Vec<_> =
            "a b a c c b".split(' ').map(|url| seen.is_repeated(b"", &entry(url, None))).collect();

        assert_eq!(found, [false, false, true, false, false, true]);
        assert!(seen.is_full());
    }

    #[test]
    fn lines_that_differ_in_what_is_not_asked_for_are_not_repeated() {
        let mut seen = SeenLines::new();

        let found = [&b"a,1"[..], b"a,2", b"a,1"].map(|line| seen.is_repeated(line, b"http://a/"));

        assert_eq!(found, [false, false, true]);
    }

    #[test]
    fn a_request_that_must_not_be_made_twice_is_not_repeated() {
        let post = TargetRequest { method: Some("POST"), body: Some(b"x"), ..TargetRequest::default() };
        let idempotent = TargetRequest { is_idempotent: true, ..post.clone() };
        let headers = TargetRequest { fields: vec![("X-Id", "7")], ..TargetRequest::default() };
        for (request, is_repeated) in [(&post, false), (&idempotent, true), (&headers, true)] {
            let (mut seen, entry) = (SeenLines::new(), entry("http://a/", Some(request)));
            assert!(!seen.is_repeated(b"", &entry));
            assert_eq!(seen.is_repeated(b"", &entry), is_repeated, "{request:?}");
        }
    }

    #[test]
    fn nothing_is_remembered_where_it_is_off() {
        let mut seen = SeenLines::off();
        assert_eq!(
            [seen.is_repeated(b"", b"a"), seen.is_repeated(b"", b"a"), seen.is_full()],
            [false, false, true]
        );
    }
}
