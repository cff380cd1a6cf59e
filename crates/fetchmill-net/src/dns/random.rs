//! Unpredictable random bytes, fetched in bulk with one system call.

use std::hash::{BuildHasher, RandomState};

use rustix::rand::{GetRandomFlags, getrandom};

use fetchmill_model::limits;

/// A buffer of random bytes for queries.
#[derive(Debug)]
pub(super) struct QueryRandom {
    bytes: Box<[u8]>,
    used: usize,
}

impl Default for QueryRandom {
    fn default() -> Self {
        QueryRandom { bytes: vec![0; limits::DNS_RANDOM_BYTES].into(), used: limits::DNS_RANDOM_BYTES }
    }
}

impl QueryRandom {
    /// Fills a small array.
    pub(super) fn fill(&mut self, out: &mut [u8]) {
        if self.bytes.len() - self.used < out.len() {
            self.fetch();
        }
        let end = self.used + out.len();
        out.copy_from_slice(&self.bytes[self.used..end]);
        // Erase used bytes, so that they cannot be read from memory later.
        self.bytes[self.used..end].fill(0);
        self.used = end;
    }

    /// Returns an unpredictable random number.
    pub(super) fn number(&mut self) -> u16 {
        let mut bytes = [0; 2];
        self.fill(&mut bytes);
        u16::from_ne_bytes(bytes)
    }

    fn fetch(&mut self) {
        let mut filled = 0;
        while filled < self.bytes.len() {
            match getrandom(&mut self.bytes[filled..], GetRandomFlags::empty()) {
                Ok(count) if count > 0 => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                // If the kernel rejects the call, fall back to the standard library's random hash keys.
                _ => {
                    let number = RandomState::new().hash_one(filled).to_ne_bytes();
                    let count = number.len().min(self.bytes.len() - filled);
                    self.bytes[filled..filled + count].copy_from_slice(&number[..count]);
                    filled += count;
                }
            }
        }
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_do_not_repeat_when_the_bytes_are_used_up() {
        let mut random = QueryRandom::default();
        let mut seen = HashSet::new();

        for _ in 0..3 * limits::DNS_RANDOM_BYTES / 16 {
            let mut bytes = [0; 16];
            random.fill(&mut bytes);
            assert!(seen.insert(bytes));
        }
    }
}
