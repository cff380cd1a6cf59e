//! Frames of a manifest. Each frame stores a few thousand rows column by column, so that they compress well. Damage is
//! detected frame by frame.
//!
//! A frame starts with a header: magic, rows, stored bytes, raw bytes, and the CRC-32C of the whole frame. Next come
//! the checksums of the bodies. These are effectively random, so compressing them would only cost time and distort the
//! statistics. The other columns form one zstd block: sequence numbers (as deltas), lengths, positions (as deltas),
//! name lengths, names.
//!
//! If any row has an `ETag` or a time, the frame has a different magic. In this case, two numeric columns (times plus
//! one, and ETag lengths) come before the names, and the ETags come after the names. Frames with a third magic may also
//! contain content encodings. An encoding is appended to the ETag after a NUL, which cannot occur in a header field.

use super::{ManifestDamage, ManifestResult, ManifestRow};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::PAGE_BYTES_MAX;

/// Maximum size of a frame's columns before compression. It is small because each lookup reads a whole frame.
const FRAME_BYTES: usize = 128 * 1024;
/// Minimum size of a row: four numbers and a checksum.
const ROW_BYTES_MIN: usize = 4 + 4;
/// Maximum size of a row without its name: six numbers, a checksum, an `ETag` and an encoding.
const ROW_BYTES_MAX: usize = 6 * 10 + 4 + ETAG_BYTES_MAX + 1 + ENCODING_BYTES_MAX;
/// Maximum length of a stored `ETag`. Longer ones, which no server sends, are omitted.
const ETAG_BYTES_MAX: usize = 1024;
/// Maximum length of a stored encoding, which consists of one or a few words. Longer ones are omitted.
const ENCODING_BYTES_MAX: usize = 64;
/// Maximum number of rows per frame. A frame ends with the row that fills it.
const FRAME_ROWS_MAX: usize = FRAME_BYTES / ROW_BYTES_MIN;
/// Maximum size of the decompressed columns. The last name may be as large as a whole page.
const RAW_BYTES_MAX: usize = FRAME_BYTES + ROW_BYTES_MAX + PAGE_BYTES_MAX;
/// Size of the buffers that are kept between frames.
const BUFFER_BYTES: usize = 2 * FRAME_BYTES;

/// Magic of a frame.
const MAGIC: [u8; 4] = *b"fmF1";
/// Magic of a frame with ETags and times.
const MAGIC_WITH_VALIDATORS: [u8; 4] = *b"fmF2";
/// Magic of a frame that also has encodings.
const MAGIC_WITH_ENCODINGS: [u8; 4] = *b"fmF3";
/// Size of a frame's header in bytes.
pub(super) const HEADER_BYTES: usize = 20;
/// Size of the header without its checksum, which comes last.
const HEADER_CHECKED: usize = HEADER_BYTES - 4;

/// Rows of the next frame.
#[derive(Default)]
pub(super) struct FrameColumns {
    count: usize,
    last_sequence: u64,
    last_place: u64,
    sequences: Vec<u8>,
    lengths: Vec<u8>,
    checksums: Vec<u8>,
    places: Vec<u8>,
    name_lengths: Vec<u8>,
    names: Vec<u8>,
    /// Whether any row has an `ETag` or a time. If not, these columns are omitted.
    has_validators: bool,
    /// Whether any row has an encoding. If so, the columns for ETags and times are written as well.
    has_encodings: bool,
    times: Vec<u8>,
    etag_lengths: Vec<u8>,
    etags: Vec<u8>,
    raw: Vec<u8>,
    packed: Vec<u8>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
}

impl FrameColumns {
    /// Adds a row.
    pub(super) fn add(&mut self, row: &ManifestRow<'_>) -> Result<()> {
        if row.name.len() > PAGE_BYTES_MAX {
            return Err(Error::Internal("a name exceeds the maximum size of a page".into()));
        }
        put_number(&mut self.sequences, zigzag(row.sequence.wrapping_sub(self.last_sequence)));
        put_number(&mut self.lengths, row.length);
        self.checksums.extend_from_slice(&row.crc32c.to_le_bytes());
        put_number(&mut self.places, row.place.wrapping_sub(self.last_place));
        put_number(&mut self.name_lengths, row.name.len() as u64);
        self.names.extend_from_slice(row.name);
        let etag = if row.etag.len() <= ETAG_BYTES_MAX { row.etag } else { &[] };
        put_number(&mut self.times, row.last_modified.map_or(0, |seconds| seconds.saturating_add(1)));
        let start = self.etags.len();
        self.etags.extend_from_slice(etag);
        if (1..=ENCODING_BYTES_MAX).contains(&row.content_encoding.len()) {
            self.etags.push(0);
            self.etags.extend_from_slice(row.content_encoding);
            self.has_encodings = true;
        }
        put_number(&mut self.etag_lengths, (self.etags.len() - start) as u64);
        self.has_validators |= row.last_modified.is_some() || self.etags.len() > start;
        self.last_sequence = row.sequence;
        self.last_place = row.place;
        self.count += 1;
        Ok(())
    }

    /// Returns the number of rows that are not written to a frame yet.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns whether the frame is full.
    pub(super) fn is_full(&self) -> bool {
        let columns =
            [&self.sequences, &self.lengths, &self.checksums, &self.places, &self.name_lengths, &self.names];
        let bytes = columns.iter().map(|column| column.len()).sum::<usize>();
        bytes + self.etags.len() >= FRAME_BYTES
    }

    /// Finishes the frame. Appends its header and bytes to `out`, and clears the columns.
    pub(super) fn take_frame(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.pack()?;
        empty(out);
        out.extend_from_slice(match (self.has_encodings, self.has_validators) {
            (true, _) => &MAGIC_WITH_ENCODINGS,
            (false, true) => &MAGIC_WITH_VALIDATORS,
            (false, false) => &MAGIC,
        });
        for number in [self.count, self.checksums.len() + self.packed.len(), self.raw.len()] {
            out.extend_from_slice(&(number as u32).to_le_bytes());
        }
        let checksum = [&self.checksums, &self.packed]
            .iter()
            .fold(crc32c::crc32c(out), |checksum, part| crc32c::crc32c_append(checksum, part));
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&self.checksums);
        out.extend_from_slice(&self.packed);
        self.clear();
        Ok(())
    }

    /// Compresses the columns.
    fn pack(&mut self) -> Result<()> {
        let internal = |error: std::io::Error| Error::Internal(error.to_string());
        self.raw.clear();
        let nothing = Vec::new();
        let optional = |column| if self.has_validators { column } else { &nothing };
        let (times, etag_lengths) = (optional(&self.times), optional(&self.etag_lengths));
        for column in [
            &self.sequences,
            &self.lengths,
            &self.places,
            &self.name_lengths,
            times,
            etag_lengths,
            &self.names,
            optional(&self.etags),
        ] {
            self.raw.extend_from_slice(column);
        }
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            None => self.compressor.insert(zstd::bulk::Compressor::new(1).map_err(internal)?),
        };
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(self.raw.len()));
        compressor.compress_to_buffer(&self.raw, &mut self.packed).map_err(internal)?;
        Ok(())
    }

    fn clear(&mut self) {
        let columns = [
            &mut self.sequences,
            &mut self.lengths,
            &mut self.checksums,
            &mut self.places,
            &mut self.name_lengths,
            &mut self.times,
            &mut self.etag_lengths,
        ];
        columns.into_iter().for_each(Vec::clear);
        [&mut self.names, &mut self.etags, &mut self.raw, &mut self.packed].into_iter().for_each(empty);
        (self.count, self.last_sequence, self.last_place) = (0, 0, 0);
        (self.has_validators, self.has_encodings) = (false, false);
    }
}

/// Header of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameHeader {
    has_validators: bool,
    has_encodings: bool,
    rows: usize,
    stored: usize,
    raw: usize,
}

impl FrameHeader {
    /// Parses the header at the start of `bytes`. Its numbers are within bounds but otherwise unverified.
    pub(super) fn parse(bytes: &[u8]) -> ManifestResult<Self> {
        let (words, _) = bytes.as_chunks::<4>();
        let [magic, rows, stored, raw, _, ..] = words else {
            return Err(ManifestDamage("a frame's header is cut off"));
        };
        let has_encodings = *magic == MAGIC_WITH_ENCODINGS;
        let has_validators = has_encodings || *magic == MAGIC_WITH_VALIDATORS;
        if *magic != MAGIC && !has_validators {
            return Err(ManifestDamage("a frame is missing"));
        }
        let [rows, stored, raw] = [rows, stored, raw].map(|word| u32::from_le_bytes(*word) as usize);
        let stored_max =
            4 * rows.min(FRAME_ROWS_MAX) + zstd::zstd_safe::compress_bound(raw.min(RAW_BYTES_MAX));
        let is_sane = (1..=FRAME_ROWS_MAX).contains(&rows) && raw <= RAW_BYTES_MAX;
        if !is_sane || stored < 4 * rows || stored > stored_max {
            return Err(ManifestDamage("a frame's header has impossible numbers"));
        }
        Ok(FrameHeader { has_validators, has_encodings, rows, stored, raw })
    }

    /// Returns the number of bytes after the header.
    pub(super) fn stored(self) -> usize {
        self.stored
    }
}

/// Returns the maximum frame size that is accepted.
pub(super) fn frame_bytes_max() -> u64 {
    (HEADER_BYTES + 4 * FRAME_ROWS_MAX + zstd::zstd_safe::compress_bound(RAW_BYTES_MAX)) as u64
}

/// The values of a row except its name, and where the name ends.
#[derive(Debug, Default, Clone, Copy)]
struct FrameCells {
    sequence: u64,
    length: u64,
    place: u64,
    crc32c: u32,
    name_end: u32,
    /// Modification time plus one. 0 means unknown.
    time: u64,
    etag_end: u32,
}

/// Rows that were written together.
#[derive(Debug, Default)]
pub struct Frame {
    first_row: u64,
    cells: Vec<FrameCells>,
    raw: Vec<u8>,
    /// Start of the names in `raw`.
    names: usize,
    /// Start of the ETags in `raw`.
    etags: usize,
    has_encodings: bool,
}

impl Frame {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns whether the frame has no rows. A frame that was read from a file always has at least one.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns the position of the frame's first row in the manifest.
    pub fn first_row(&self) -> u64 {
        self.first_row
    }

    /// Returns a row. Panics if `position` is not below [`Frame::len`].
    pub fn row(&self, position: usize) -> ManifestRow<'_> {
        let cells = self.cells[position];
        let before = position.checked_sub(1).map_or_else(FrameCells::default, |before| self.cells[before]);
        let (start, etag_start) = (before.name_end, before.etag_end);
        let etag = &self.raw[self.etags + etag_start as usize..self.etags + cells.etag_end as usize];
        let (etag, content_encoding) = match memchr::memchr(0, etag).filter(|_| self.has_encodings) {
            Some(end) => (&etag[..end], &etag[end + 1..]),
            None => (etag, &b""[..]),
        };
        ManifestRow {
            sequence: cells.sequence,
            name: &self.raw[self.names + start as usize..self.names + cells.name_end as usize],
            length: cells.length,
            crc32c: cells.crc32c,
            place: cells.place,
            etag,
            last_modified: cells.time.checked_sub(1),
            content_encoding,
        }
    }

    /// Iterates over the rows in file order.
    pub fn iter(&self) -> impl Iterator<Item = ManifestRow<'_>> {
        (0..self.len()).map(|position| self.row(position))
    }

    /// Replaces the rows with those of the stored frame that starts with `header`. If the stored frame is damaged,
    /// leaves this frame empty.
    pub(super) fn read(
        &mut self,
        first_row: u64,
        frame: &[u8],
        unpacker: &mut zstd::bulk::Decompressor<'_>,
    ) -> ManifestResult<()> {
        self.first_row = first_row;
        self.cells.clear();
        let header = FrameHeader::parse(frame)?;
        let (checked, rest) =
            frame.split_at_checked(HEADER_CHECKED).ok_or(ManifestDamage("a frame's header is cut off"))?;
        let (checksum, stored) =
            rest.split_first_chunk::<4>().ok_or(ManifestDamage("a frame's header is cut off"))?;
        let found = crc32c::crc32c_append(crc32c::crc32c(checked), stored);
        if stored.len() != header.stored || found != u32::from_le_bytes(*checksum) {
            return Err(ManifestDamage("a frame's checksum is wrong"));
        }
        let (checksums, packed) = stored
            .split_at_checked(4 * header.rows)
            .ok_or(ManifestDamage("a frame has too few checksums"))?;
        self.unpack(packed, header.raw, unpacker)?;
        self.has_encodings = header.has_encodings;
        let read = self.read_columns(checksums, header.has_validators);
        if read.is_err() {
            self.cells.clear();
        }
        read
    }

    fn unpack(
        &mut self,
        packed: &[u8],
        length: usize,
        unpacker: &mut zstd::bulk::Decompressor<'_>,
    ) -> ManifestResult<()> {
        empty(&mut self.raw);
        self.raw.reserve(length);
        match unpacker.decompress_to_buffer(packed, &mut self.raw) {
            Ok(found) if found == length => Ok(()),
            _ => Err(ManifestDamage("a frame cannot be decompressed")),
        }
    }

    fn read_columns(&mut self, checksums: &[u8], has_validators: bool) -> ManifestResult<()> {
        let (checksums, _) = checksums.as_chunks::<4>();
        self.cells.extend(
            checksums
                .iter()
                .map(|word| FrameCells { crc32c: u32::from_le_bytes(*word), ..FrameCells::default() }),
        );
        let mut rest = self.raw.as_slice();
        let (mut sequence, mut place, mut name_end) = (0_u64, 0_u64, 0_u64);
        for cells in &mut self.cells {
            sequence = sequence.wrapping_add(unzigzag(take_number(&mut rest)?));
            cells.sequence = sequence;
        }
        for cells in &mut self.cells {
            cells.length = take_number(&mut rest)?;
        }
        for cells in &mut self.cells {
            place = place.wrapping_add(take_number(&mut rest)?);
            cells.place = place;
        }
        for cells in &mut self.cells {
            name_end = name_end.saturating_add(take_number(&mut rest)?);
            // An offset that does not fit is beyond all names, which is checked below.
            cells.name_end = u32::try_from(name_end).unwrap_or(u32::MAX);
        }
        let etags_end = if has_validators { read_validators(&mut self.cells, &mut rest)? } else { 0 };
        if name_end.saturating_add(etags_end) != rest.len() as u64 {
            return Err(ManifestDamage("a frame's names do not have the recorded length"));
        }
        self.names = self.raw.len() - rest.len();
        self.etags = self.raw.len() - etags_end as usize;
        Ok(())
    }
}

/// Reads the times and the lengths of the ETags. Returns the total length of the ETags.
fn read_validators(cells: &mut [FrameCells], rest: &mut &[u8]) -> ManifestResult<u64> {
    for cells in &mut *cells {
        cells.time = take_number(rest)?;
    }
    let mut end = 0_u64;
    for cells in cells {
        end = end.saturating_add(take_number(rest)?);
        cells.etag_end = u32::try_from(end).unwrap_or(u32::MAX);
    }
    Ok(end)
}

/// Empties a buffer for frames. Frees its memory if it is large, because a single name may be as large as a page of
/// names.
pub(super) fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(BUFFER_BYTES);
}

/// Maps small positive and negative numbers to small unsigned numbers.
fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64) >> 63) as u64
}

fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// Writes a number in groups of seven bits, lowest first. The high bit of a byte is clear only in the last one.
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> ManifestResult<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(ManifestDamage("a frame's columns are cut off"))?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            break;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(ManifestDamage("a number in a frame is too large"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a frame with arbitrary content and a valid checksum.
    fn stored(rows: usize, checksums: &[u8], raw: &[u8], raw_length: usize) -> Vec<u8> {
        stored_as(MAGIC, rows, checksums, raw, raw_length)
    }

    fn stored_as(magic: [u8; 4], rows: usize, checksums: &[u8], raw: &[u8], raw_length: usize) -> Vec<u8> {
        let packed = zstd::bulk::compress(raw, 1).unwrap();
        let mut frame = magic.to_vec();
        for number in [rows, checksums.len() + packed.len(), raw_length] {
            frame.extend_from_slice(&(number as u32).to_le_bytes());
        }
        let body = [checksums, &packed].concat();
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&frame), &body);
        frame.extend_from_slice(&checksum.to_le_bytes());
        frame.extend_from_slice(&body);
        frame
    }

    fn read(bytes: &[u8]) -> ManifestResult<Frame> {
        let mut frame = Frame::default();
        let read = frame.read(0, bytes, &mut zstd::bulk::Decompressor::new().unwrap());
        assert!(read.is_ok() || frame.is_empty());
        read.map(|()| frame)
    }

    proptest! {
        #[test]
        fn columns_of_anything_are_refused_or_are_rows(
            rows in 0..6_usize,
            raw in prop::collection::vec(prop_oneof![9 => 0..2_u8, 1 => any::<u8>()], 0..40),
        ) {
            let frame = read(&stored(rows, &vec![7; 4 * rows], &raw, raw.len()));

            for magic in [MAGIC_WITH_VALIDATORS, MAGIC_WITH_ENCODINGS] {
                if let Ok(frame) = read(&stored_as(magic, rows, &vec![7; 4 * rows], &raw, raw.len())) {
                    let texts = |row: ManifestRow<'_>| row.name.len() + row.etag.len() + row.content_encoding.len();
                    prop_assert!(frame.iter().all(|row| texts(row) < 40));
                }
            }
            if let Ok(frame) = frame {
                prop_assert_eq!(frame.len(), rows);
                prop_assert!(frame.iter().all(|row| row.crc32c == 0x0707_0707 && row.name.len() < 40));
            }
        }
    }

    #[test]
    fn etags_and_times_come_back_and_cost_nothing_where_there_are_none() {
        let long = [b'x'; ETAG_BYTES_MAX + 1];
        let row =
            |name, etag, last_modified| ManifestRow { name, etag, last_modified, ..ManifestRow::default() };
        for (rows, magic) in [
            (vec![row(&b"a"[..], &b""[..], None), row(b"b", b"", None)], MAGIC),
            (
                vec![row(b"a", b"\"1\"", Some(0)), row(b"", b"", None), row(b"c", b"W/x", None)],
                MAGIC_WITH_VALIDATORS,
            ),
            (vec![row(b"a", b"", Some(7))], MAGIC_WITH_VALIDATORS),
            (
                vec![
                    ManifestRow { content_encoding: b"gzip", ..row(b"a", b"\"1\"", None) },
                    row(b"b", b"\"2\"", Some(7)),
                    ManifestRow { content_encoding: b"br", ..row(b"", b"", Some(0)) },
                ],
                MAGIC_WITH_ENCODINGS,
            ),
        ] {
            let (mut columns, mut bytes) = (FrameColumns::default(), Vec::new());
            // When the second frame is read, no values of the first frame may remain.
            for _ in 0..2 {
                for row in &rows {
                    columns.add(row).unwrap();
                }
                columns.take_frame(&mut bytes).unwrap();
            }

            assert_eq!(bytes[..4], magic);
            assert_eq!(read(&bytes).unwrap().iter().collect::<Vec<_>>(), rows);
        }
        let (mut columns, mut bytes) = (FrameColumns::default(), Vec::new());
        columns.add(&ManifestRow { content_encoding: &long, ..row(b"a", &long, None) }).unwrap();
        columns.take_frame(&mut bytes).unwrap();
        assert_eq!(read(&bytes).unwrap().row(0), row(b"a", b"", None));
    }

    #[test]
    fn a_frame_that_contradicts_itself_is_damage() {
        let raw = [2, 3, 4, 1, b'n'];
        assert_eq!(read(&stored(1, &[0; 4], &raw, 5)).unwrap().row(0).name, b"n");

        assert!(read(&stored(1, &[0; 4], &raw, 4)).is_err());
        assert!(read(&stored(1, &[0; 4], &raw, 6)).is_err());
        assert!(read(&stored(1, &[0; 8], &raw, 5)).is_err());
        assert!(read(&stored(2, &[0; 8], &raw, 5)).is_err());
        assert!(read(&stored(1, &[0; 4], &[2, 3, 4, 0, b'n'], 5)).is_err());
        assert!(read(&stored(1, &[0; 4], &[2, 3, 4, 2, b'n'], 5)).is_err());
        assert!(read(&stored(0, &[], &[], 0)).is_err());
    }

    #[test]
    fn a_header_is_bounded_before_anything_is_made_for_it() {
        for numbers in
            [[1, 5, RAW_BYTES_MAX + 1], [1, 64 * 1024 * 1024, 10], [FRAME_ROWS_MAX + 1, 1 << 20, 10]]
        {
            let words = numbers.map(|number| (number as u32).to_le_bytes());
            let header = [MAGIC.as_slice(), words.as_flattened(), &[0; 4]].concat();

            assert!(FrameHeader::parse(&header).is_err());
        }
    }

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);

            assert_eq!(take_number(&mut bytes.as_slice()), Ok(number));
            assert_eq!(unzigzag(zigzag(number)), number);
        }
    }

    #[test]
    fn numbers_that_are_too_large_or_cut_off_are_damage() {
        assert!(take_number(&mut [0xff; 10].as_slice()).is_err());
        assert!(take_number(&mut [0x80; 9].as_slice()).is_err());
        assert!(take_number(&mut [[0xff; 9].as_slice(), &[2]].concat().as_slice()).is_err());
    }
}
