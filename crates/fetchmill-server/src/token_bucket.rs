//! A rate limit that refuses requests. Tokens fill a bucket at a constant rate, and each request takes one.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Size of the bucket, as the number of seconds in which it fills. It always holds at least one token.
const HELD_SECONDS: f64 = 0.1;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct TokenBucket {
    per_second: f64,
    tokens: Mutex<(f64, Instant)>,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub(crate) fn new(per_second: f64, now: Instant) -> Self {
        TokenBucket { per_second, tokens: Mutex::new((Self::most(per_second), now)) }
    }

    fn most(per_second: f64) -> f64 {
        (per_second * HELD_SECONDS).max(1.0)
    }

    /// Takes a token if one is available. Returns whether it took one.
    pub(crate) fn take(&self, now: Instant) -> bool {
        let mut bucket = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let (tokens, filled_at) = &mut *bucket;
        let came = now.saturating_duration_since(*filled_at).as_secs_f64() * self.per_second;
        *tokens = (*tokens + came).min(Self::most(self.per_second));
        *filled_at = now.max(*filled_at);
        let has_one = *tokens >= 1.0;
        *tokens -= f64::from(u8::from(has_one));
        has_one
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_gives_its_rate_and_a_short_burst() {
        let start = Instant::now();
        let bucket = TokenBucket::new(100.0, start);

        assert_eq!((0..50).filter(|_| bucket.take(start)).count(), 10);
        let second = |milli| start + Duration::from_millis(milli);
        // Because of rounding, the last token may be incomplete.
        let given = (1..=1000).filter(|milli| bucket.take(second(*milli))).count();
        assert!((99..=100).contains(&given), "{given}");
    }
}
