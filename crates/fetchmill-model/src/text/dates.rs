//! Dates as text: ISO 8601 in UTC (for people, the journal and shards), and HTTP dates.
//!
//! A year has four digits. A time after 9999 is written as the end of that year, so that every reader can parse every
//! date.

/// The last second of the year 9999, the highest year with four digits.
pub const SECONDS_MAX: u64 = 253_402_300_799;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Maximum length of an HTTP date in any form. A longer text is not a date.
const LOOSE_DATE_BYTES_MAX: usize = 64;
const DATE_BYTES: usize = 19;

/// Formats seconds since 1970 as `2026-11-20T21:08:00Z`.
pub fn utc(seconds: u64) -> String {
    let date = date(seconds);
    let mut text = String::with_capacity(DATE_BYTES + 1);
    text.extend(date.iter().map(|byte| char::from(*byte)));
    text.push('Z');
    text
}

/// Formats seconds since 1970 as `20261120T210800Z`, the basic form of ISO 8601 that signatures use.
pub(crate) fn basic_date(seconds: u64) -> [u8; 16] {
    let date = date(seconds);
    let mut text = *b"yyyymmddThhmmssZ";
    for (to, from) in
        [(0..4, 0..4), (4..6, 5..7), (6..8, 8..10), (9..11, 11..13), (11..13, 14..16), (13..15, 17..19)]
    {
        text[to].copy_from_slice(&date[from]);
    }
    text
}

/// Appends the result of [`utc`].
pub fn write_utc(seconds: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&date(seconds));
    out.push(b'Z');
}

/// Appends microseconds since 1970 as `2026-11-20T21:08:00.123456Z`.
pub fn write_utc_micros(micros: u64, out: &mut Vec<u8>) {
    let micros = micros.min(SECONDS_MAX * 1_000_000 + 999_999);
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let mut text = *b".000000Z";
    write_digits(fraction, &mut text[1..7]);
    out.extend_from_slice(&date(seconds));
    out.extend_from_slice(&text);
}

/// Parses the output of [`write_utc`]. Returns `None` for text that `write_utc` does not produce.
pub fn parse_utc(text: &[u8]) -> Option<u64> {
    let (date, b"Z") = text.split_at_checked(DATE_BYTES)? else { return None };
    parse_date(date)
}

/// Parses a date in the same way as [`parse_utc`], but also accepts fractional seconds, which it ignores.
pub fn parse_utc_to_the_second(text: &[u8]) -> Option<u64> {
    let (date, rest) = text.split_at_checked(DATE_BYTES)?;
    let is_end = match rest {
        b"Z" => true,
        [b'.', fraction @ .., b'Z'] => fraction.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    parse_date(date).filter(|_| is_end)
}

/// Parses the output of [`write_utc_micros`]. Returns `None` for text that `write_utc_micros` does not produce.
pub fn parse_utc_micros(text: &[u8]) -> Option<u64> {
    let (date, &[b'.', ref fraction @ .., b'Z']) = text.split_at_checked(DATE_BYTES)? else { return None };
    if fraction.len() != 6 {
        return None;
    }
    Some(parse_date(date)? * 1_000_000 + number(fraction)?)
}

/// Formats seconds since 1970 as an HTTP date, which [`parse_http_date`] can parse.
pub fn http_date(seconds: u64) -> String {
    let seconds = seconds.min(SECONDS_MAX);
    let text = utc(seconds);
    // 1 January 1970 was a Thursday.
    let day = DAYS[((seconds / 86_400 + 3) % 7) as usize];
    let month =
        text[5..7].parse::<usize>().ok().and_then(|month| MONTHS.get(month - 1)).unwrap_or(&MONTHS[0]);
    format!("{day}, {} {month} {} {} GMT", &text[8..10], &text[..4], &text[11..19])
}

/// Parses an HTTP date as seconds since 1970, in any form that a recipient must accept (RFC 9110, 5.6.7). Other forms
/// that servers send are also accepted: a day with one digit, `UTC` or `+0000` for `GMT`, or a missing zone. As in
/// curl, two-digit years from 70 to 99 belong to the 20th century. The name of the day is not compared with the date.
pub fn parse_http_date(value: &[u8]) -> Option<u64> {
    parse_fixed_date(value).or_else(|| LooseDate::parse(std::str::from_utf8(value).ok()?)?.seconds())
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`, the form that nearly all servers send.
fn parse_fixed_date(value: &[u8]) -> Option<u64> {
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
    let (day, year) = (number(&value[5..7])?, number(&value[12..16])?);
    seconds_of(year, month, day, &value[17..25])
}

/// The parts of a date, which can come in any order.
#[derive(Default)]
struct LooseDate<'t> {
    year: Option<u64>,
    month: Option<u64>,
    day: Option<u64>,
    /// Time of day, such as `08:49:37`.
    time: Option<&'t str>,
    /// Offset of the zone, in seconds east of UTC.
    zone: Option<i64>,
}

impl<'t> LooseDate<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let mut date = LooseDate::default();
        if text.len() > LOOSE_DATE_BYTES_MAX {
            return None;
        }
        for (position, word) in text.split([' ', ',', '\t']).filter(|word| !word.is_empty()).enumerate() {
            let is_weekday = position == 0 && is_day_name(word);
            if !is_weekday {
                date.take(word)?;
            }
        }
        Some(date)
    }

    /// Adds a word. Returns `None` if the word is not part of a date, or if the date already has such a part.
    fn take(&mut self, word: &'t str) -> Option<()> {
        if word.contains(':') {
            return set(&mut self.time, word);
        }
        if let Some(zone) = zone_of(word).filter(|_| self.time.is_some()) {
            return set(&mut self.zone, zone);
        }
        // A date in a single word, such as `06-Nov-94`.
        let is_joined = word.starts_with(|first: char| first.is_ascii_digit());
        for part in word.split('-').filter(|part| is_joined || *part == word) {
            self.take_part(part)?;
        }
        is_joined.then_some(()).or_else(|| self.month.map(drop))
    }

    fn take_part(&mut self, part: &str) -> Option<()> {
        if let Some(month) = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(part)) {
            return set(&mut self.month, month as u64 + 1);
        }
        let value = number(part.as_bytes()).filter(|_| !part.is_empty())?;
        match part.len() {
            1 | 2 if self.day.is_none() => set(&mut self.day, value),
            2 => set(&mut self.year, if value < 70 { 2000 + value } else { 1900 + value }),
            4 => set(&mut self.year, value),
            _ => None,
        }
    }

    fn seconds(&self) -> Option<u64> {
        let time = self.time?;
        // An hour with one digit gets a leading zero.
        let time = if time.len() == 7 { format!("0{time}") } else { time.to_owned() };
        let is_time = time.as_bytes().get(2) == Some(&b':') && time.as_bytes().get(5) == Some(&b':');
        let local = seconds_of(self.year?, self.month?, self.day?, time.as_bytes()).filter(|_| is_time)?;
        local.checked_add_signed(-self.zone.unwrap_or_default())
    }
}

fn set<T>(part: &mut Option<T>, value: T) -> Option<()> {
    if part.is_some() {
        return None;
    }
    *part = Some(value);
    Some(())
}

/// Returns whether a word is the name of a day, such as `Sun` or `Sunday`.
fn is_day_name(word: &str) -> bool {
    let short = word.get(..3).unwrap_or_default();
    let is_known = DAYS.iter().any(|day| day.eq_ignore_ascii_case(short));
    is_known && (word.len() == 3 || word.to_ascii_lowercase().ends_with("day"))
}

/// Returns the offset of `GMT`, `UTC`, `Z` or `+0100`, in seconds east of UTC.
fn zone_of(word: &str) -> Option<i64> {
    if ["GMT", "UTC", "UT", "Z"].iter().any(|zone| zone.eq_ignore_ascii_case(word)) {
        return Some(0);
    }
    let sign = if word.starts_with('+') { 1 } else { -1 };
    let digits = word.strip_prefix(['+', '-'])?.as_bytes();
    let (hours, minutes) = digits.split_at_checked(2).filter(|(_, minutes)| minutes.len() == 2)?;
    let seconds = (number(hours)? * 60 + number(minutes)?) * 60;
    Some(sign * seconds as i64)
}

/// Returns the seconds since 1970 for a date and a time such as `2026-11-20` and `21:08:00`, in the zone of the input.
/// Returns `None` if the month does not have this day.
pub(crate) fn parse_date_and_time(day: &[u8], time: &[u8]) -> Option<u64> {
    parse_date(&[day, b"T", time].concat())
}

/// Returns the two digits of a month from its short name, such as `Nov`.
pub(crate) fn month_of_name(name: &[u8]) -> Option<[u8; 2]> {
    let month = MONTHS.iter().position(|month| month.as_bytes().eq_ignore_ascii_case(name))? as u8 + 1;
    Some([b'0' + month / 10, b'0' + month % 10])
}

/// Parses any number of digits. A number that is too large becomes the largest `u64`.
pub fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, byte| {
        byte.is_ascii_digit().then(|| number.saturating_mul(10).saturating_add(u64::from(byte - b'0')))
    })
}

/// Parses `2026-11-20T21:08:00`. Returns `None` if the month does not have this day.
fn parse_date(text: &[u8]) -> Option<u64> {
    let (year, month, day) = (text.get(..4)?, text.get(5..7)?, text.get(8..10)?);
    let seconds = seconds_of(number(year)?, number(month)?, number(day)?, text.get(11..)?)?;
    (date(seconds) == text).then_some(seconds)
}

/// Returns the seconds since 1970 for a date and a time of day such as `08:49:37`. The colons are not checked.
fn seconds_of(year: u64, month: u64, day: u64, time: &[u8]) -> Option<u64> {
    let &[h, hh, _, m, mm, _, s, ss] = time else { return None };
    let (hour, minute, second) = (number(&[h, hh])?, number(&[m, mm])?, number(&[s, ss])?);
    let in_day = hour < 24 && minute < 60 && second <= 60;
    let valid =
        (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day) && in_day;
    let days = valid.then(|| days_since_1970(year, month, day))?;
    // Not every month has 31 days.
    let has_day = number(&date(days * 86_400)[8..10]) == Some(day);
    has_day.then(|| ((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Returns the number of days since 1970 in the Gregorian calendar. The year must be 1970 or later.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    // The year is made to start in March, so that a leap day is its last day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// Formats a date without its zone, using Hinnant's civil date algorithm.
fn date(seconds: u64) -> [u8; DATE_BYTES] {
    let seconds = seconds.min(SECONDS_MAX);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let mut text = *b"0000-00-00T00:00:00";
    write_digits(year, &mut text[..4]);
    write_digits(month, &mut text[5..7]);
    write_digits(day, &mut text[8..10]);
    write_digits(second / 3600, &mut text[11..13]);
    write_digits(second / 60 % 60, &mut text[14..16]);
    write_digits(second % 60, &mut text[17..]);
    text
}

/// Writes a number with leading zeros.
fn write_digits(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn utc_micros(micros: u64) -> String {
        let mut out = Vec::new();
        write_utc_micros(micros, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_are_right() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_208_880, "2026-11-20T21:08:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (SECONDS_MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(utc(seconds), text);
            assert_eq!(parse_utc(text.as_bytes()), Some(seconds));
        }
    }

    #[test]
    fn the_basic_form_has_no_marks() {
        assert_eq!(&basic_date(1_795_209_059), b"20261120T211059Z");
    }

    #[test]
    fn a_year_has_four_digits() {
        assert_eq!(utc(u64::MAX), "9999-12-31T23:59:59Z");
        assert_eq!(utc_micros(u64::MAX), "9999-12-31T23:59:59.999999Z");
    }

    #[test]
    fn only_dates_are_read() {
        for text in [
            "",
            "2026-11-20T21:08:00",
            "2026-11-20T21:08:00+00:00",
            "2026-11-20 21:08:00Z",
            "2026-11-20T21-08-00Z",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-11-20T21:08:60Z",
            "1969-12-31T23:59:59Z",
            "+026-11-20T21:08:00Z",
            "2026-11-20T21:08:00ZZ",
            "2026-11-20T21:08:0\u{e9}",
        ] {
            assert_eq!(parse_utc(text.as_bytes()), None, "{text}");
            let micros = text.replace('Z', ".000000Z");
            assert_eq!(parse_utc_micros(micros.as_bytes()), None, "{micros}");
        }
        for text in ["2026-11-20T21:08:00Z", "2026-11-20T21:08:00.5Z", "2026-11-20T21:08:00.+00000Z"] {
            assert_eq!(parse_utc_micros(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_fraction_of_a_second_is_left_out() {
        for text in ["2026-11-20T21:08:00Z", "2026-11-20T21:08:00.000Z", "2026-11-20T21:08:00.999999999Z"] {
            assert_eq!(parse_utc_to_the_second(text.as_bytes()), Some(1_795_208_880), "{text}");
        }
        for text in [
            "",
            "2026-11-20T21:08:00",
            "2026-11-20T21:08:00.5",
            "2026-11-20T21:08:00.x5Z",
            "2026-11-20T21:08:00+00:00",
        ] {
            assert_eq!(parse_utc_to_the_second(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn dates_of_http_are_read() {
        assert_eq!(parse_http_date(b"Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(parse_http_date(b"Fri, 31 Dec 9999 23:59:59 GMT"), Some(SECONDS_MAX));
        for text in [
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 1994 09:49:37 +0100",
            "Sun, 06 Nov 1994 03:19:37 -0530",
            "Sun, 6 Nov 1994 8:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "06 Nov 1994 08:49:37 gmt",
        ] {
            assert_eq!(parse_http_date(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(parse_http_date(b"Wednesday, 01-Jan-70 00:00:00 GMT"), Some(0));
        assert_eq!(parse_http_date(b"Thu, 01 Jan 1970 00:00:00 +0100"), None);
        for text in [
            "",
            "0",
            "-1",
            "Sun, 31 Feb 2027 08:49:37 GMT",
            "Mon, 30 Feb 2028 08:49:37 GMT",
            "Sun, 06 Nov 1994 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1994 08:49:37 GMT GMT",
            "Sun, 06 Nov 1994 08:49:37 08:49:37",
            "Sun, 06 Nov 19940 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Nov Nov 6 08:49:37 1994",
            "2026-11-20 08:49:37",
        ] {
            assert_eq!(parse_http_date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn dates_of_http_are_written() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(http_date(seconds), text);
        }
    }

    proptest! {
        #[test]
        fn any_date_comes_back(micros in 0..=SECONDS_MAX * 1_000_000 + 999_999) {
            prop_assert_eq!(parse_utc_micros(utc_micros(micros).as_bytes()), Some(micros));
            prop_assert_eq!(parse_http_date(http_date(micros / 1_000_000).as_bytes()), Some(micros / 1_000_000));
            prop_assert_eq!(parse_utc(utc(micros / 1_000_000).as_bytes()), Some(micros / 1_000_000));
        }
    }
}
