//! Converts UTF-16 text to UTF-8. The first two bytes of the text determine the byte order.

use std::io::{BufRead, Read, Result};

/// A reader of UTF-16 text. Invalid units become U+FFFD.
pub(super) struct Utf16Reader<R> {
    reader: R,
    is_big_endian: bool,
    /// First half of a surrogate pair whose second half has not been read yet.
    high: Option<u16>,
    /// Bytes that did not fit into the caller's buffer. They encode at most two characters.
    left: Vec<u8>,
}

/// Returns whether a text that begins with `start` is big-endian, or `None` if it is not UTF-16.
pub(super) fn byte_order(start: &[u8]) -> Option<bool> {
    match start {
        [0xfe, 0xff, ..] => Some(true),
        [0xff, 0xfe, ..] => Some(false),
        _ => None,
    }
}

impl<R: BufRead> Utf16Reader<R> {
    /// Creates a reader of text whose byte order mark is still in `reader`.
    pub(super) fn new(reader: R, is_big_endian: bool) -> Self {
        Utf16Reader { reader, is_big_endian, high: None, left: Vec::new() }
    }

    /// Reads the next two bytes. Returns `None` at the end. A single last byte is dropped.
    fn unit(&mut self) -> Result<Option<u16>> {
        let mut bytes = [0; 2];
        for byte in &mut bytes {
            let Some(next) = self.reader.fill_buf()?.first().copied() else { return Ok(None) };
            self.reader.consume(1);
            *byte = next;
        }
        Ok(Some(if self.is_big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }))
    }

    fn push(&mut self, units: &[u16]) {
        for character in char::decode_utf16(units.iter().copied()) {
            let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
            // A byte order mark is not part of the text.
            if character != '\u{feff}' {
                self.left.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }

    /// Decodes the next unit. Returns `false` at the end.
    fn advance(&mut self) -> Result<bool> {
        let Some(unit) = self.unit()? else {
            let high = self.high.take();
            high.inspect(|high| self.push(&[*high]));
            return Ok(high.is_some());
        };
        match (self.high.take(), unit) {
            (None, 0xd800..=0xdbff) => self.high = Some(unit),
            (None, _) => self.push(&[unit]),
            (Some(high), _) => self.push(&[high, unit]),
        }
        Ok(true)
    }
}

impl<R: BufRead> Read for Utf16Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while self.left.len() < buffer.len() {
            if !self.advance()? {
                break;
            }
        }
        let count = buffer.len().min(self.left.len());
        buffer[..count].copy_from_slice(&self.left[..count]);
        self.left.drain(..count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf16_is_read_in_both_orders() {
        let text = "<a>\u{e9}\u{1f600}</a>";
        for is_big_endian in [true, false] {
            let units = std::iter::once(0xfeff).chain(text.encode_utf16());
            let order = |unit: u16| if is_big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() };
            let bytes: Vec<u8> = units.flat_map(order).collect();
            assert_eq!(byte_order(&bytes), Some(is_big_endian));

            let mut read = String::new();
            Utf16Reader::new(bytes.as_slice(), is_big_endian).read_to_string(&mut read).unwrap();

            assert_eq!(read, text);
        }
    }

    #[test]
    fn halves_of_characters_are_replaced() {
        let bytes: Vec<u8> = [0xd83d_u16, 0x61, 0xd83d].iter().flat_map(|unit| unit.to_be_bytes()).collect();
        let mut read = String::new();
        Utf16Reader::new(bytes.as_slice(), true).read_to_string(&mut read).unwrap();
        assert_eq!(read, "\u{fffd}a\u{fffd}");
        assert_eq!(byte_order(b"<a"), None);
    }
}
