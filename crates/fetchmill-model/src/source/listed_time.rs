//! Parses times in the formats of index pages, sitemaps and JSON pages.

use crate::target::source_metadata::{ListedTime, TimeResolution};
use crate::text::dates::{SECONDS_MAX, month_of_name, number, parse_date_and_time, parse_http_date};

/// Parses a time from an index page: `01-Jan-2026` (nginx, older versions of Apache), `2026-01-01` (Apache) or
/// `2026-Jan-01` (lighttpd), followed by `10:00` or `10:00:00`. Index pages do not state a time zone.
pub(super) fn of_index_page(day: &[u8], time: &[u8]) -> Option<ListedTime> {
    let mut parts = day.split(|byte| *byte == b'-');
    let (first, month, last) = (parts.next()?, parts.next()?, parts.next()?);
    let (year, day) = if first.len() == 4 { (first, last) } else { (last, first) };
    let named = month_of_name(month);
    let month = named.as_ref().map_or(month, |digits| &digits[..]);
    let (seconds, resolution) = on_day(&[year, month, day].join(&b'-'), time)?;
    let is_date = parts.next().is_none();
    is_date.then_some(ListedTime { seconds, has_zone: false, resolution })
}

/// Parses a time from a sitemap in the W3C profile of ISO 8601: `2026-01-01` or `2026-01-01T10:00:00.5+01:00`. A date
/// without a day is ignored.
pub(super) fn of_sitemap(text: &str) -> Option<ListedTime> {
    let text = text.trim().as_bytes();
    let Some((day, rest)) = text.split_at_checked(10).filter(|(_, rest)| !rest.is_empty()) else {
        let seconds = parse_date_and_time(text, b"00:00:00")?;
        return Some(ListedTime { seconds, has_zone: false, resolution: TimeResolution::Day });
    };
    let rest = rest.strip_prefix(b"T")?;
    let zone_at = rest.iter().position(|byte| matches!(byte, b'Z' | b'+' | b'-'))?;
    let (time, zone) = rest.split_at(zone_at);
    let (seconds, resolution) = on_day(day, without_fraction(time)?)?;
    let seconds =
        seconds.checked_add_signed(-zone_offset(zone)?).filter(|seconds| *seconds <= SECONDS_MAX)?;
    Some(ListedTime { seconds, has_zone: true, resolution })
}

/// Parses a time from an API, in the format of sitemaps or of HTTP dates.
pub(super) fn of_api(text: &str) -> Option<ListedTime> {
    let in_utc = |seconds| ListedTime { seconds, has_zone: true, resolution: TimeResolution::Second };
    of_sitemap(text).or_else(|| parse_http_date(text.trim().as_bytes()).map(in_utc))
}

/// Converts a numeric time from an API. The number counts seconds since 1970 UTC. If that would be after the year 9999,
/// the number counts milliseconds instead.
pub(super) fn of_epoch(number: u64) -> Option<ListedTime> {
    let seconds = if number > SECONDS_MAX { number / 1000 } else { number };
    let is_date = seconds <= SECONDS_MAX;
    is_date.then_some(ListedTime { seconds, has_zone: true, resolution: TimeResolution::Second })
}

fn on_day(day: &[u8], time: &[u8]) -> Option<(u64, TimeResolution)> {
    let is_in_shape = time.iter().enumerate().all(|(at, byte)| (*byte == b':') == (at % 3 == 2));
    match time.len() {
        _ if !is_in_shape => None,
        5 => Some((parse_date_and_time(day, &[time, b":00"].concat())?, TimeResolution::Minute)),
        8 => Some((parse_date_and_time(day, time)?, TimeResolution::Second)),
        _ => None,
    }
}

fn without_fraction(time: &[u8]) -> Option<&[u8]> {
    let Some(point) = memchr::memchr(b'.', time) else { return Some(time) };
    let fraction = &time[point + 1..];
    (!fraction.is_empty() && fraction.iter().all(u8::is_ascii_digit)).then_some(&time[..point])
}

/// Returns the offset of `Z`, `+01:00` or `-08:00` in seconds.
fn zone_offset(zone: &[u8]) -> Option<i64> {
    let &[sign @ (b'+' | b'-'), h, hh, b':', m, mm] = zone else { return (zone == b"Z").then_some(0) };
    let seconds = (number(&[h, hh])? * 60 + number(&[m, mm])?) as i64 * 60;
    Some(if sign == b'-' { -seconds } else { seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_TEN: u64 = 1_767_261_600;

    #[test]
    fn index_pages_name_no_zone() {
        for (day, time, seconds, resolution) in [
            ("01-Jan-2026", "10:00", AT_TEN, TimeResolution::Minute),
            ("2026-01-01", "10:00", AT_TEN, TimeResolution::Minute),
            ("2026-Jan-01", "10:00:07", AT_TEN + 7, TimeResolution::Second),
        ] {
            let told = of_index_page(day.as_bytes(), time.as_bytes());
            assert_eq!(told, Some(ListedTime { seconds, has_zone: false, resolution }), "{day} {time}");
        }
        for (day, time) in [
            ("", ""),
            ("-", "-"),
            ("01-Jan-2026", ""),
            ("01-Jan-2026", "1.2K"),
            ("01-Jan-2026", "10:0"),
            ("01-Jan-2026", "10:60"),
            ("01-Jan-2026", "10-00"),
            ("01-Jan-2026-", "10:00"),
            ("31-Feb-2026", "10:00"),
            ("2026-13-01", "10:00"),
            ("01-01-26", "10:00"),
        ] {
            assert_eq!(of_index_page(day.as_bytes(), time.as_bytes()), None, "{day} {time}");
        }
    }

    #[test]
    fn sitemaps_may_name_one() {
        let in_utc = |seconds, resolution| Some(ListedTime { seconds, has_zone: true, resolution });
        for (text, told) in [
            ("2026-01-01T10:00:00Z", in_utc(AT_TEN, TimeResolution::Second)),
            (" 2026-01-01T10:00:00.25+00:00\n", in_utc(AT_TEN, TimeResolution::Second)),
            ("2026-01-01T12:30+02:30", in_utc(AT_TEN, TimeResolution::Minute)),
            ("2025-12-31T22:00:00-12:00", in_utc(AT_TEN, TimeResolution::Second)),
            (
                "2026-01-01",
                Some(ListedTime {
                    seconds: AT_TEN - 36_000,
                    has_zone: false,
                    resolution: TimeResolution::Day,
                }),
            ),
        ] {
            assert_eq!(of_sitemap(text), told, "{text}");
        }
        for text in [
            "",
            "2026",
            "2026-01",
            "2026-02-30",
            "2026-01-01T10:00:00",
            "2026-01-01 10:00:00Z",
            "2026-01-01T10:00:00.Z",
            "2026-01-01T10:00:00+1:00",
            "1970-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-01:00",
            "1 January 2026",
            "\u{660}026-01-01",
        ] {
            assert_eq!(of_sitemap(text), None, "{text}");
        }
    }

    #[test]
    fn apis_write_dates_and_numbers() {
        let in_utc =
            |seconds| Some(ListedTime { seconds, has_zone: true, resolution: TimeResolution::Second });
        for text in ["2026-01-01T10:00:00Z", "2026-01-01T10:00:00.123Z", "Thu, 01 Jan 2026 10:00:00 GMT"] {
            assert_eq!(of_api(text), in_utc(AT_TEN), "{text}");
        }
        for text in ["", "now", "2026-01-01 10:00:00", "1767261600.5"] {
            assert_eq!(of_api(text), None, "{text}");
        }
        for number in [AT_TEN, AT_TEN * 1000 + 999] {
            assert_eq!(of_epoch(number), in_utc(AT_TEN), "{number}");
        }
        assert_eq!(of_epoch(u64::MAX), None);
    }
}
