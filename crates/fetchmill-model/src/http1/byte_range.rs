//! Byte ranges: the part of an object that is requested, and the part that a reply claims to contain.

use std::fmt;
use std::ops::Range;

/// Maximum position of the last byte. Servers use 63-bit numbers.
const LAST_MAX: u64 = i64::MAX as u64;

/// A range of at least one byte of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    first: u64,
    last: u64,
}

impl ByteRange {
    /// Creates a range of `length` bytes that starts at `offset`. The error says why the range is invalid.
    pub fn new(offset: u64, length: u64) -> Result<Self, &'static str> {
        let before_last = length.checked_sub(1).ok_or("its length is 0")?;
        let last = offset.checked_add(before_last).filter(|last| *last <= LAST_MAX);
        Ok(ByteRange { first: offset, last: last.ok_or("its range ends beyond 2^63")? })
    }

    /// Returns the number of bytes.
    pub fn length(self) -> u64 {
        self.last - self.first + 1
    }

    /// Returns the smallest range that contains both ranges, if the gap between them is at most `gap_max` bytes.
    pub fn join(self, other: Self, gap_max: u64) -> Option<Self> {
        let behind = self.first.max(other.first);
        let gap = behind.saturating_sub(self.last.min(other.last).saturating_add(1));
        let joined = ByteRange { first: self.first.min(other.first), last: self.last.max(other.last) };
        (gap <= gap_max).then_some(joined)
    }

    /// Returns the position of this range within the bytes of `whole`, or `None` if `whole` does not contain it.
    pub fn position_in(self, whole: Self) -> Option<Range<usize>> {
        if self.first < whole.first || self.last > whole.last {
            return None;
        }
        let start = usize::try_from(self.first - whole.first).ok()?;
        Some(start..start.checked_add(usize::try_from(self.length()).ok()?)?)
    }

    /// Parses the value of a `Range` field. Returns `None` for anything but a single range with both ends.
    pub fn parse(text: &[u8]) -> Option<Self> {
        Self::of_ends(text.strip_prefix(b"bytes=")?)
    }

    fn of_ends(text: &[u8]) -> Option<Self> {
        let dash = memchr::memchr(b'-', text)?;
        let (first, last) = (number(&text[..dash])?, number(&text[dash + 1..])?);
        (first <= last && last <= LAST_MAX).then_some(ByteRange { first, last })
    }

    /// Returns whether a `Content-Range` value states exactly this range. The object's length can be unknown.
    pub fn is_content_range(self, value: &[u8]) -> bool {
        let Some((unit, rest)) = value.split_at_checked(b"bytes ".len()) else { return false };
        let Some(slash) = memchr::memchr(b'/', rest) else { return false };
        let total = &rest[slash + 1..];
        unit.eq_ignore_ascii_case(b"bytes ")
            && Self::of_ends(&rest[..slash]) == Some(self)
            && (total == b"*" || number(total).is_some_and(|total| total > self.last))
    }

    /// Returns the object's length if a `Content-Range` value states that the reply contains the whole object.
    pub fn whole_of_content_range(value: &[u8]) -> Option<u64> {
        let slash = memchr::memrchr(b'/', value)?;
        let length = number(&value[slash + 1..])?;
        let whole = ByteRange::new(0, length).ok()?;
        whole.is_content_range_of(value, length).then_some(length)
    }

    /// Returns whether a `Content-Range` value states exactly this range of an object of this length.
    pub fn is_content_range_of(self, value: &[u8], length: u64) -> bool {
        let said = memchr::memrchr(b'/', value).and_then(|slash| number(&value[slash + 1..]));
        self.is_content_range(value) && said == Some(length)
    }
}

/// Formats the range as the value of a `Range` field.
impl fmt::Display for ByteRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "bytes={}-{}", self.first, self.last)
    }
}

/// Parses a number that consists only of digits.
pub fn number(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_is_from_its_first_byte_to_its_last() {
        let range = ByteRange::new(10, 5).unwrap();

        assert_eq!((range.to_string().as_str(), range.length()), ("bytes=10-14", 5));
        assert_eq!(ByteRange::new(LAST_MAX, 1).unwrap().to_string(), format!("bytes={LAST_MAX}-{LAST_MAX}"));
        for (offset, length) in [(0, 0), (u64::MAX, 1), (u64::MAX, u64::MAX), (LAST_MAX, 2), (0, u64::MAX)] {
            assert!(ByteRange::new(offset, length).is_err(), "{offset} {length}");
        }
    }

    #[test]
    fn ranges_are_joined_over_a_gap_and_found_again() {
        let range = |offset, length| ByteRange::new(offset, length).unwrap();
        for (one, other, gap_max, joined) in [
            (range(10, 5), range(15, 5), 0, Some(range(10, 10))),
            (range(10, 5), range(16, 5), 0, None),
            (range(10, 5), range(16, 5), 1, Some(range(10, 11))),
            (range(10, 5), range(12, 1), 0, Some(range(10, 5))),
            (range(10, 5), range(0, 10), 0, Some(range(0, 15))),
            (range(10, 5), range(0, 9), 0, None),
            (
                range(LAST_MAX, 1),
                range(0, 1),
                u64::MAX,
                Some(range(0, LAST_MAX).join(range(LAST_MAX, 1), 0).unwrap()),
            ),
        ] {
            assert_eq!(
                (one.join(other, gap_max), other.join(one, gap_max)),
                (joined, joined),
                "{one} {other}"
            );
        }
        assert_eq!(range(12, 2).position_in(range(10, 5)), Some(2..4));
        assert_eq!(range(10, 5).position_in(range(10, 5)), Some(0..5));
        assert_eq!(range(9, 2).position_in(range(10, 5)), None);
        assert_eq!(range(14, 2).position_in(range(10, 5)), None);
    }

    #[test]
    fn only_the_same_part_is_what_was_asked_for() {
        let range = ByteRange::new(10, 5).unwrap();

        for same in ["bytes 10-14/15", "bytes 10-14/*", "BYTES 10-14/99999999999"] {
            assert!(range.is_content_range(same.as_bytes()), "{same}");
        }
        for other in [
            "",
            "bytes",
            "bytes ",
            "bytes */15",
            "bytes 10-14",
            "bytes 10-14/",
            "bytes 10-14/14",
            "bytes 10-14/x",
            "bytes 10-14/15 ",
            "bytes 10-14/15, bytes 0-1/15",
            "bytes  10-14/15",
            "bytes=10-14/15",
            "bytes 9-13/15",
            "bytes 10-13/15",
            "bytes 14-10/15",
            "bytes +10-14/15",
            "bytes 10-14/99999999999999999999999",
            "items 10-14/15",
        ] {
            assert!(!range.is_content_range(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn the_length_of_the_object_is_exactly_that() {
        let range = ByteRange::new(10, 5).unwrap();

        for (value, is_same) in [
            ("bytes 10-14/15", true),
            ("bytes 10-14/16", false),
            ("bytes 10-14/*", false),
            ("bytes 10-13/15", false),
            ("bytes 10-14/15/15", false),
            ("bytes 10-14", false),
        ] {
            assert_eq!(range.is_content_range_of(value.as_bytes(), 15), is_same, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_range_comes_back(offset in any::<u64>(), length in any::<u64>()) {
            if let Ok(range) = ByteRange::new(offset, length) {
                prop_assert_eq!(ByteRange::parse(range.to_string().as_bytes()), Some(range));
                prop_assert_eq!((range.first, range.length()), (offset, length));
            }
        }

        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(prop_oneof![Just(b'-'), Just(b'9'), any::<u8>()], 0..40)) {
            ByteRange::parse(&bytes);
            let _ = ByteRange::new(0, 1).unwrap().is_content_range(&bytes);
        }
    }
}
