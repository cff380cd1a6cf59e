//! Objects that are computed from their index, so that a billion objects take no space.
//!
//! **Name**: `file-` and the index in twelve decimal digits, starting with `file-000000000000`.
//!
//! **Body**: computed only from the name and the size, so that a client can verify it ([`synthetic_body`]). It is ASCII
//! text: the name and a newline, followed by lines of 82 bytes, cut off at the size. A line consists of 48 hexadecimal
//! digits, a space, 32 constant characters, and a newline. The digits depend on the name and on the number of the line.
//!
//! The 48 digits contain 24 bytes of entropy. Therefore, an object of 100 bytes (the name and one full line) cannot be
//! compressed below 24 bytes. A long object cannot be compressed below 29 % of its size. The name comes first, so that
//! it is easy to notice if the body belongs to another object.
//!
//! **Marker**: the index of the first name of the page. It is mixed, so that no client is tempted to compute markers.
//!
//! A body of 100 bytes takes about 30 ns, and a name in a page takes 10 ns. Neither requires an allocation.

use std::io;
use std::ops::Range;

use crate::content::{Body, Content, ContentError, Page, Stream};
use crate::hash::{self, GOLDEN};

/// Maximum number of objects. It is limited because names have twelve digits.
pub const SYNTHETIC_COUNT_MAX: u64 = 1_000_000_000_000;

/// Maximum size in bytes of a body that is computed in one piece.
const BUFFERED_MAX: usize = 256 * 1024;
const PREFIX: &[u8; 5] = b"file-";
const DIGITS: usize = 12;
const NAME_LENGTH: usize = PREFIX.len() + DIGITS;
const HEX_DIGITS: usize = 48;
const FIXED: &[u8; 34] = b" are random; the rest is the same\n";
const LINE_LENGTH: usize = HEX_DIGITS + FIXED.len();
/// Factor for mixing markers. It is odd, so that the multiplication can be undone.
const MARKER_FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

/// `count` objects of `size` bytes.
#[derive(Debug, Clone, Copy)]
pub struct Synthetic {
    /// Number of objects.
    pub count: u64,
    /// Size of each body in bytes.
    pub size: usize,
}

impl Content for Synthetic {
    fn list(&self, marker: Option<&str>, limit: usize, page: &mut Page<'_>) -> Result<(), ContentError> {
        let first = match marker {
            None => 0,
            Some(marker) => {
                from_marker(marker).filter(|index| *index < self.count).ok_or(ContentError::UnknownMarker)?
            }
        };
        page.total(self.count);
        let end = self.count.min(first.saturating_add(limit as u64));
        let mut name = synthetic_name(first);
        for _ in first..end {
            page.plain_name(&name);
            increment(&mut name);
        }
        if end < self.count {
            page.next_marker(to_marker(end));
        }
        Ok(())
    }

    fn get(&self, name: &str, body: &mut Body<'_>) -> Result<(), ContentError> {
        match index_of(name) {
            Some(index) if index < self.count => {}
            _ => return Err(ContentError::NotFound),
        }
        let size = self.size as u64;
        if self.size > BUFFERED_MAX {
            body.stream(size, Box::new(SyntheticStream { name: name.to_owned(), left: 0..size }));
        } else {
            append_body(name, 0..size, body.sized(self.size));
        }
        Ok(())
    }

    fn content_type(&self) -> &'static str {
        "text/plain"
    }
}

/// Returns the body of a synthetic object. `name` may be any string, although the server serves only names that contain
/// an index.
pub fn synthetic_body(name: &str, size: usize) -> Vec<u8> {
    let mut body = Vec::with_capacity(size);
    append_body(name, 0..size as u64, &mut body);
    body
}

/// Returns the name of the object with this index. The index must be below [`SYNTHETIC_COUNT_MAX`].
pub(crate) fn synthetic_name(index: u64) -> [u8; NAME_LENGTH] {
    let mut name = [b'0'; NAME_LENGTH];
    name[..PREFIX.len()].copy_from_slice(PREFIX);
    let mut rest = index;
    for digit in name[PREFIX.len()..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

/// Changes a name to the next one. The digits wrap around after the last name, but this result is never used.
fn increment(name: &mut [u8; NAME_LENGTH]) {
    for digit in name[PREFIX.len()..].iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
}

/// Returns the index in a name.
pub(crate) fn index_of(name: &str) -> Option<u64> {
    let digits: &[u8; DIGITS] = name.as_bytes().strip_prefix(PREFIX)?.try_into().ok()?;
    let mut index = 0;
    let mut all_digits = true;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        all_digits &= digit < 10;
        index = index * 10 + u64::from(digit);
    }
    all_digits.then_some(index)
}

/// Appends part of the endless text that belongs to a name. Every body of the name is a prefix of this text.
pub(crate) fn append_body(name: &str, part: Range<u64>, out: &mut Vec<u8>) {
    let name = name.as_bytes();
    let seed = hash::of_bytes(0, name);
    let first_line = name.len() as u64 + 1;
    let mut at = part.start;
    while at < part.end {
        let line;
        let text = if let Some(number) = at.checked_sub(first_line) {
            line = self::line(seed, number / LINE_LENGTH as u64);
            &line[(number % LINE_LENGTH as u64) as usize..]
        } else if at + 1 < first_line {
            &name[at as usize..]
        } else {
            b"\n"
        };
        let length = (part.end - at).min(text.len() as u64);
        out.extend_from_slice(&text[..length as usize]);
        at += length;
    }
}

/// A body that is too large for one buffer.
struct SyntheticStream {
    name: String,
    left: Range<u64>,
}

impl Stream for SyntheticStream {
    fn read(&mut self, limit: usize, out: &mut Vec<u8>) -> io::Result<usize> {
        let end = self.left.end.min(self.left.start + limit as u64);
        append_body(&self.name, self.left.start..end, out);
        Ok((end - std::mem::replace(&mut self.left.start, end)) as usize)
    }
}

fn line(seed: u64, number: u64) -> [u8; LINE_LENGTH] {
    let mut line = [0; LINE_LENGTH];
    let (digits, fixed) = line.split_at_mut(HEX_DIGITS);
    for (word, digits) in (3 * number + 1..).zip(digits.as_chunks_mut::<16>().0) {
        *digits = hex(hash::mix(seed.wrapping_add(word.wrapping_mul(GOLDEN))));
    }
    fixed.copy_from_slice(FIXED);
    line
}

/// Returns a word as sixteen hexadecimal digits, highest first. Computes eight digits at a time in a register.
fn hex(word: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    digits[..8].copy_from_slice(&hex_half(word >> 32).to_be_bytes());
    digits[8..].copy_from_slice(&hex_half(word & 0xffff_ffff).to_be_bytes());
    digits
}

fn hex_half(half: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let pairs = (half | half << 16) & 0x0000_ffff_0000_ffff;
    let bytes = (pairs | pairs << 8) & 0x00ff_00ff_00ff_00ff;
    let nibbles = (bytes | bytes << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // Adding 6 to a nibble above 9 makes it carry. Such nibbles become letters, whose codes are 39 higher than those of
    // digits would be.
    let letters = ((nibbles + ONES * 6) >> 4) & ONES;
    nibbles + ONES * u64::from(b'0') + letters * 39
}

fn to_marker(index: u64) -> String {
    format!("{:016x}", index.wrapping_mul(MARKER_FACTOR))
}

fn from_marker(marker: &str) -> Option<u64> {
    if marker.len() != 16 || !marker.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mixed = u64::from_str_radix(marker, 16).ok()?;
    Some(mixed.wrapping_mul(inverse(MARKER_FACTOR)))
}

/// Returns the inverse of `factor` modulo 2^64. Each step of Newton's method doubles the number of correct bits.
const fn inverse(factor: u64) -> u64 {
    let mut inverse = factor;
    let mut round = 0;
    while round < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(index: u64) -> String {
        String::from_utf8(synthetic_name(index).to_vec()).expect("names are ASCII")
    }

    #[test]
    fn the_index_is_in_the_name() {
        for index in [0, 1, 9, 10, 123, 999_999_999, SYNTHETIC_COUNT_MAX - 1] {
            assert_eq!(index_of(&name(index)), Some(index));
        }
        assert_eq!(name(123), "file-000000000123");
    }

    #[test]
    fn other_names_have_no_index() {
        for other in [
            "",
            "file-",
            "file-1",
            "file-00000000012x",
            "file-0000000001234",
            "File-000000000123",
            "file-+00000000123",
        ] {
            assert_eq!(index_of(other), None, "{other}");
        }
    }

    #[test]
    fn counting_in_digits_is_counting() {
        let mut counted = synthetic_name(8);
        for index in 9..1200 {
            increment(&mut counted);
            assert_eq!(counted, synthetic_name(index));
        }
    }

    #[test]
    fn hex_is_hex() {
        for word in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX, GOLDEN] {
            assert_eq!(hex(word).as_slice(), format!("{word:016x}").as_bytes());
        }
    }

    #[test]
    fn a_body_has_its_size_and_starts_with_its_name() {
        for size in [0, 1, 17, 18, 19, 99, 100, 101, 1000, 100_000] {
            let body = synthetic_body("file-000000000007", size);

            assert_eq!(body.len(), size);
            let start = size.min(18);
            assert_eq!(&body[..start], &b"file-000000000007\n"[..start]);
            assert!(body.is_ascii());
        }
    }

    #[test]
    fn a_hundred_bytes_are_the_name_and_one_line() {
        let body = String::from_utf8(synthetic_body("file-000000000007", 100)).expect("text");
        let lines: Vec<&str> = body.lines().collect();

        assert_eq!(lines.len(), 2);
        assert!(lines[1].as_bytes()[..48].iter().all(u8::is_ascii_hexdigit));
        assert!(body.ends_with("the same\n"));
    }

    #[test]
    fn pieces_make_up_the_body() {
        let name = "file-000000000007";
        for limit in [1, 17, 18, 82, 100, 999] {
            let mut pieces = SyntheticStream { name: name.to_owned(), left: 0..1000 };
            let mut out = Vec::new();

            while pieces.read(limit, &mut out).expect("no error") > 0 {}

            assert_eq!(out, synthetic_body(name, 1000), "limit {limit}");
        }
    }

    #[test]
    fn bodies_differ() {
        let first = synthetic_body(&name(1), 1000);
        let second = synthetic_body(&name(2), 1000);

        assert_ne!(first[18..], second[18..]);
        assert_ne!(first[18..66], first[100..148], "the lines of one body differ as well");
    }

    #[test]
    fn markers_lead_back() {
        for index in [0, 1, 1000, SYNTHETIC_COUNT_MAX] {
            assert_eq!(from_marker(&to_marker(index)), Some(index));
        }
        for other in ["", "1000", "zzzzzzzzzzzzzzzz", "+123456789abcdef", "ABCDEFABCDEFABCD"] {
            assert_eq!(from_marker(other), None, "{other}");
        }
    }
}
