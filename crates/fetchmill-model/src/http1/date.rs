//! The `Retry-After` field: a number of seconds or a date (RFC 9110, 10.2.3).

use crate::text::dates::{number, parse_http_date};

/// Earliest time for the next request, as stated by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// After this number of seconds.
    Seconds(u64),
    /// At a time on the server's clock, in seconds since 1970 UTC.
    Date {
        /// Time on the server's clock.
        at: u64,
        /// Time at which the server sent the reply, on the same clock. `None` if not stated.
        sent: Option<u64>,
    },
}

impl RetryAfter {
    /// Parses a `Retry-After` value. Returns `None` if it is malformed. `date` is the value of the `Date` field.
    pub fn parse(value: &[u8], date: Option<&[u8]>) -> Option<Self> {
        let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        if value.first()?.is_ascii_digit() && value.iter().all(is_number) {
            // Some servers send `4.0`. A fraction of a second counts as one second.
            let (whole, fraction) = value.split_at(memchr::memchr(b'.', value).unwrap_or(value.len()));
            let has_part = fraction.iter().any(|byte| matches!(byte, b'1'..=b'9'));
            number(fraction.strip_prefix(b".").unwrap_or_default())?;
            return Some(RetryAfter::Seconds(number(whole)?.saturating_add(u64::from(has_part))));
        }
        Some(RetryAfter::Date { at: parse_http_date(value)?, sent: date.and_then(parse_http_date) })
    }

    /// Returns how long to wait, in seconds. The two clocks can differ, so `now` (seconds since 1970 UTC) is used only
    /// if the server did not send its own time.
    pub fn wait(self, now: u64) -> u64 {
        match self {
            RetryAfter::Seconds(seconds) => seconds,
            RetryAfter::Date { at, sent } => at.saturating_sub(sent.unwrap_or(now)),
        }
    }
}
