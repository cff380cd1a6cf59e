//! The header of a Parquet page, which states the page's sizes. It is a struct in Thrift's compact format.

use std::io::Read;

/// Maximum nesting of structs and lists in a header. The format uses three levels.
const DEPTH_MAX: u32 = 8;
/// Numbers that the format assigns to encodings of values.
const DELTA_LENGTH_BYTE_ARRAY: u64 = 6;
const DELTA_BYTE_ARRAY: u64 = 7;
/// ID of the `is_compressed` field in the header of a version 2 data page.
const IS_COMPRESSED: i64 = 7;
/// Thrift field type IDs.
const FALSE: u8 = 2;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

/// Kind of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    Data,
    Dictionary,
    Other,
}

/// Contents of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub(super) kind: PageKind,
    /// Decompressed size in bytes.
    pub(super) size: u64,
    /// Size in the file, in bytes.
    pub(super) compressed: u64,
    pub(super) values: u64,
    /// Whether the lengths of all values are stored before the values.
    pub(super) has_lengths: bool,
    /// Whether a value can be stored as a suffix that follows a prefix shared with the previous value.
    pub(super) has_prefixes: bool,
    /// Number of bytes at the start of the page that are never compressed: the levels of a version 2 data page.
    pub(super) plain: u64,
    /// Whether the remaining bytes can be compressed.
    pub(super) is_compressed: bool,
}

/// The part of the header that depends on the kind of page.
#[derive(Debug, Clone, Copy)]
struct KindHeader {
    values: u64,
    encoding: u64,
    plain: u64,
    is_compressed: bool,
}

/// The header of a field, which states its ID and its type.
struct HeaderField {
    id: i64,
    kind: u8,
}

struct Thrift<'a, R>(&'a mut R);

impl PageHeader {
    /// Reads a header. Returns `None` if the header is malformed or states negative sizes. If two fields have the same
    /// number, the last one counts, because the library that reads the page does the same.
    pub(super) fn read(input: &mut impl Read) -> Option<Self> {
        let mut thrift = Thrift(input);
        let (mut kind, mut size, mut compressed) = (None, None, None);
        let mut of_kind = KindHeader { values: 0, encoding: 0, plain: 0, is_compressed: true };
        let mut last = 0;
        while let Some(field) = thrift.field(&mut last)? {
            match field.id {
                1 => kind = Some(thrift.number()?),
                2 => size = Some(thrift.size()?),
                3 => compressed = Some(thrift.size()?),
                // The header is for a data page, a dictionary or a version 2 data page. Each of these begins with the
                // number of values.
                5 | 7 if field.kind == STRUCT => of_kind = thrift.kind_header(2, &[])?,
                8 if field.kind == STRUCT => of_kind = thrift.kind_header(4, &[5, 6])?,
                _ => thrift.skip(field.kind, DEPTH_MAX)?,
            }
        }
        let kind = match kind? {
            0 | 3 => PageKind::Data,
            2 => PageKind::Dictionary,
            _ => PageKind::Other,
        };
        let KindHeader { values, encoding, plain, is_compressed } = of_kind;
        let has_prefixes = encoding == DELTA_BYTE_ARRAY;
        let has_lengths = has_prefixes || encoding == DELTA_LENGTH_BYTE_ARRAY;
        Some(PageHeader {
            kind,
            size: size?,
            compressed: compressed?,
            values,
            has_lengths,
            has_prefixes,
            plain,
            is_compressed,
        })
    }
}

impl<R: Read> Thrift<'_, R> {
    fn byte(&mut self) -> Option<u8> {
        let mut byte = [0];
        self.0.read_exact(&mut byte).ok()?;
        Some(byte[0])
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn number(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a non-negative number.
    fn size(&mut self) -> Option<u64> {
        u64::try_from(self.number()?).ok()
    }

    /// Reads the next field of a struct. The inner value is `None` at the end of the struct, and the outer value is
    /// `None` if the field cannot be read. `last` is the number of the previous field.
    #[expect(clippy::option_option, reason = "the outer `None` means that the field cannot be read")]
    fn field(&mut self, last: &mut i64) -> Option<Option<HeaderField>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        let id = match byte >> 4 {
            0 => self.number()?,
            step => last.checked_add(i64::from(step))?,
        };
        *last = id;
        Some(Some(HeaderField { id, kind: byte & 0x0f }))
    }

    /// Reads the part of the header that is specific to a kind of page: the number of values, the encoding, and the
    /// lengths of the levels before the values.
    fn kind_header(&mut self, encoding: i64, levels: &[i64]) -> Option<KindHeader> {
        let mut found = KindHeader { values: 0, encoding: 0, plain: 0, is_compressed: true };
        let mut last = 0;
        while let Some(field) = self.field(&mut last)? {
            match field.id {
                1 => found.values = self.size()?,
                id if id == encoding => found.encoding = self.size()?,
                id if levels.contains(&id) => found.plain = found.plain.saturating_add(self.size()?),
                IS_COMPRESSED if !levels.is_empty() => {
                    found.is_compressed = field.kind != FALSE;
                    self.skip(field.kind, DEPTH_MAX)?;
                }
                _ => self.skip(field.kind, DEPTH_MAX)?,
            }
        }
        Some(found)
    }

    fn skip_bytes(&mut self, count: u64) -> Option<()> {
        let skipped = std::io::copy(&mut self.0.by_ref().take(count), &mut std::io::sink()).ok()?;
        (skipped == count).then_some(())
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            // The value of a boolean field is part of its type.
            1 | 2 => Some(()),
            3 => self.byte().map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.skip_bytes(8),
            BINARY => {
                let length = self.varint()?;
                self.skip_bytes(length)
            }
            LIST | SET => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                // Each element takes at least one byte.
                let kind = if matches!(head & 0x0f, 1 | 2) { 3 } else { head & 0x0f };
                (0..count).try_for_each(|_| self.skip(kind, depth))
            }
            STRUCT => {
                let mut last = 0;
                while let Some(field) = self.field(&mut last)? {
                    self.skip(field.kind, depth)?;
                }
                Some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a number as Thrift does.
    fn number(value: i64) -> Vec<u8> {
        let mut rest = ((value << 1) ^ (value >> 63)) as u64;
        let mut bytes = Vec::new();
        while rest > 0x7f {
            bytes.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        bytes
    }

    fn header(kind: i64, sizes: [i64; 2], rest: &[u8]) -> Vec<u8> {
        let numbers = [kind, sizes[0], sizes[1]].map(|value| [&[0x15][..], &number(value)].concat());
        [&numbers.concat(), rest, &[0]].concat()
    }

    #[test]
    fn sizes_and_encodings_are_read() {
        // A data page with 7 values in `DELTA_BYTE_ARRAY`, and with two strings as statistics.
        let values =
            [&[0x2c, 0x15][..], &number(7), &[0x15], &number(7), &[0x3c, 0x18, 1, b'z', 0x18, 1, b'a', 0, 0]];
        let data = PageHeader::read(&mut &header(0, [900_000_000, 20], &values.concat())[..]).unwrap();
        let PageHeader { kind, size, compressed, values, has_lengths, has_prefixes, .. } = data;
        assert_eq!((kind, size, compressed, values), (PageKind::Data, 900_000_000, 20, 7));
        assert!(has_lengths && has_prefixes);

        let dictionary = [&[0x4c, 0x15][..], &number(3), &[0x15, 0, 0]].concat();
        let dictionary = PageHeader::read(&mut &header(2, [10, 8], &dictionary)[..]).unwrap();
        assert_eq!(
            (dictionary.kind, dictionary.values, dictionary.has_lengths),
            (PageKind::Dictionary, 3, false)
        );
    }

    #[test]
    fn a_page_of_the_second_kind_says_what_is_compressed() {
        // 3 values, no nulls, 3 rows, PLAIN, 5 and 2 bytes of levels, and a flag that states whether the page is
        // compressed.
        let levels = [&[0x5c, 0x15][..], &number(3), &[0x15, 0, 0x15], &number(3), &[0x15, 0, 0x15]].concat();
        let levels = [&levels[..], &number(5), &[0x15], &number(2)].concat();
        for (is_compressed, field) in [(true, &[0x11][..]), (false, &[0x12]), (true, &[])] {
            let bytes = header(3, [100, 20], &[&levels[..], field, &[0]].concat());
            let read = PageHeader::read(&mut &bytes[..]).unwrap();
            let PageHeader { kind, values, plain, is_compressed: found, .. } = read;
            assert_eq!((kind, values, plain, found), (PageKind::Data, 3, 7, is_compressed));
        }
    }

    #[test]
    fn what_makes_no_sense_gives_nothing() {
        let deep = [0x5c; 100];
        let texts: [Vec<u8>; 5] = [
            Vec::new(),
            header(0, [-1, 5], &[]),
            header(0, [1, 5], &[])[..4].to_vec(),
            header(0, [1, 5], &[0x18, 0xff, 0xff, 0xff, 0x7f]),
            header(0, [1, 5], &deep),
        ];
        for bytes in texts {
            assert_eq!(PageHeader::read(&mut &bytes[..]), None, "{bytes:x?}");
        }
    }
}
