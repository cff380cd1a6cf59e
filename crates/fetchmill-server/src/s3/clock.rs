//! Times in the formats that S3 uses in listings, headers and signatures. All times are in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_A_DAY: i64 = 86_400;
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the time on the machine's clock plus `offset` seconds, in milliseconds since 1970.
pub(crate) fn now(offset: f64) -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64 + (offset * 1000.0) as i64
}

/// The parts of a time: year, month, day, hour, minute and second.
struct CalendarTime {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    weekday: usize,
}

impl CalendarTime {
    /// Returns the parts of a time. Days are counted in eras of 400 years. A year starts in March here, so that a leap
    /// day is its last day.
    fn of(seconds: i64) -> CalendarTime {
        let days = seconds.div_euclid(SECONDS_A_DAY);
        let rest = seconds.rem_euclid(SECONDS_A_DAY);
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        CalendarTime {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            weekday: days.rem_euclid(7) as usize,
        }
    }
}

/// Formats milliseconds as in `2013-05-24T00:00:00.000Z`.
pub(crate) fn iso(milliseconds: i64) -> String {
    let CalendarTime { year, month, day, hour, minute, second, .. } =
        CalendarTime::of(milliseconds.div_euclid(1000));
    let rest = milliseconds.rem_euclid(1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{rest:03}Z")
}

/// Formats milliseconds as in `Fri, 24 May 2013 00:00:00 GMT`.
pub(crate) fn http(milliseconds: i64) -> String {
    let parts = CalendarTime::of(milliseconds.div_euclid(1000));
    let CalendarTime { year, day, hour, minute, second, .. } = parts;
    let (weekday, month) = (DAYS[parts.weekday], MONTHS[parts.month as usize - 1]);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Parses a time as in `20130524T000000Z`. Returns milliseconds.
pub(crate) fn parse_basic(text: &[u8]) -> Option<i64> {
    if text.len() != 16 || text[8] != b'T' || text[15] != b'Z' {
        return None;
    }
    let number = |from: usize, to: usize| {
        text[from..to].iter().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    Some((days * SECONDS_A_DAY + hour * 3600 + minute * 60 + second) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_every_way() {
        let time = 1_369_353_600_123;

        assert_eq!(iso(time), "2013-05-24T00:00:00.123Z");
        assert_eq!(http(time), "Fri, 24 May 2013 00:00:00 GMT");
    }

    #[test]
    fn what_is_written_is_read_again() {
        for seconds in [0, 951_782_399, 951_782_400, 1_709_164_800, 1_369_353_600, 4_107_542_400] {
            let text = iso(seconds * 1000).replace(['-', ':'], "").replace(".000", "");
            assert_eq!(parse_basic(text.as_bytes()), Some(seconds * 1000), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_time() {
        for text in
            ["", "20130524", "20130524T000000", "2013-05-24T00:00Z", "20131324T000000Z", "2013052xT000000Z"]
        {
            assert_eq!(parse_basic(text.as_bytes()), None, "{text}");
        }
    }
}
