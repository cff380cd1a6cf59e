//! Owns `Retry-After`: seconds, or a date in the one form that servers must send (RFC 9110, 5.6.7).

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// When the server wants to be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// After so many seconds.
    Seconds(u64),
    /// At a time of the server's clock, seconds since 1970 UTC.
    Date {
        /// That time.
        at: u64,
        /// When the server sent this, on the same clock; `None` when it did not say.
        sent: Option<u64>,
    },
}

impl RetryAfter {
    /// `None` for anything else. `date` is the value of the field `Date`.
    pub(super) fn parse(value: &[u8], date: Option<&[u8]>) -> Option<Self> {
        if value.first()?.is_ascii_digit() {
            return seconds(value).map(RetryAfter::Seconds);
        }
        Some(RetryAfter::Date { at: imf_fixdate(value)?, sent: date.and_then(imf_fixdate) })
    }

    /// How long to wait, in seconds. `now` (seconds since 1970 UTC) counts only when the server did not send its
    /// own time: the two clocks may differ.
    pub fn wait(self, now: u64) -> u64 {
        match self {
            RetryAfter::Seconds(seconds) => seconds,
            RetryAfter::Date { at, sent } => at.saturating_sub(sent.unwrap_or(now)),
        }
    }
}

/// Digits only, as many as there are.
fn seconds(value: &[u8]) -> Option<u64> {
    value.iter().try_fold(0_u64, |seconds, byte| {
        byte.is_ascii_digit().then(|| seconds.saturating_mul(10).saturating_add(u64::from(byte - b'0')))
    })
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` as seconds since 1970; the name of the day is not compared with the date.
fn imf_fixdate(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let &[_, _, _, b',', b' ', _, _, b' ', _, _, _, b' ', _, _, _, _, b' ', _, _, b':', _, _, b':', _, _, ..] =
        value
    else {
        return None;
    };
    if value.len() != 29 || !text.is_ascii() || !text.ends_with(" GMT") {
        return None;
    }
    if !DAYS.contains(&&text[..3]) {
        return None;
    }
    let month = MONTHS.iter().position(|month| *month == &text[8..11])? as u64 + 1;
    let (day, year) = (seconds(&value[5..7])?, seconds(&value[12..16])?);
    let (hour, minute, second) =
        (seconds(&value[17..19])?, seconds(&value[20..22])?, seconds(&value[23..25])?);
    let valid = (1..=31).contains(&day) && year >= 1970 && hour < 24 && minute < 60 && second <= 60;
    valid.then(|| ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// Of the Gregorian calendar, for years from 1970.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    // The year starts in March here, so that the leap day is its last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}
