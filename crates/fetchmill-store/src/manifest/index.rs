//! The parts that are appended after the frames when a manifest is sealed: the hash table, the directory and the
//! footer.
//!
//! The directory contains the first entry of each page of the table. As a result, a lookup by name reads the table only
//! once, regardless of the hash. If someone makes names collide on purpose, only lookups of those names have to read
//! more rows.

use super::{ManifestDamage, ManifestResult, ManifestRow};
use fetchmill_model::error::{Error, Result};

/// Maximum number of rows in a sealed manifest. An entry has 64 bits: 44 for the hash and 20 for the row.
pub const ROWS_MAX: u64 = fetchmill_model::limits::SHARD_ROWS_MAX;
const ROW_BITS: u32 = ROWS_MAX.ilog2();

/// Size of a table page in bytes: its entries, its CRC-32C and its number.
pub(super) const PAGE_BYTES: usize = 8 * 1024;
/// Number of entries in a full page.
pub(super) const PAGE_ENTRIES: usize = PAGE_BYTES / 8 - 1;
const PAGE_END_BYTES: usize = 8;

/// Magic of the table, at the offset where a frame would have its own magic.
const TABLE_MAGIC: [u8; 4] = *b"fmT1";
/// Number of bytes before the first page: magic, CRC-32C of the header's other fields, number of rows.
pub(super) const TABLE_HEADER_BYTES: usize = 16;

const FOOTER_MAGIC: [u8; 8] = *b"fmSEAL1\n";
/// Size of the footer in bytes: rows, bytes, frames, table offset, CRC-32C of the directory, CRC-32C of the footer,
/// magic.
pub(super) const FOOTER_BYTES: usize = 48;
/// Size of the part of the footer that its checksum covers.
const FOOTER_CHECKED: usize = FOOTER_BYTES - 4 - 8;

/// Returns the upper 44 bits of a name's XXH3-64.
pub fn hash44(name: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(name) >> ROW_BITS
}

/// Returns the table entry of a row.
fn entry(hash: u64, row: u64) -> u64 {
    hash << ROW_BITS | row
}

/// Returns the row of an entry.
pub(super) fn row_of(entry: u64) -> u64 {
    entry & (ROWS_MAX - 1)
}

/// Returns the smallest and largest possible entry for a hash.
pub(super) fn entries_of(hash: u64) -> (u64, u64) {
    (entry(hash, 0), entry(hash, ROWS_MAX - 1))
}

/// A frame in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameEntry {
    /// Offset of the frame in the file.
    pub(super) offset: u64,
    /// First row in the frame.
    pub(super) first_row: u64,
}

/// Index data that is collected while rows are added, and written when the manifest is sealed.
#[derive(Debug)]
pub(super) struct ManifestIndex {
    hash: fn(&[u8]) -> u64,
    entries: Vec<u64>,
    frames: Vec<FrameEntry>,
    bytes: u64,
}

impl ManifestIndex {
    /// Creates an empty index. `hash` is the hash function for names.
    pub(super) fn new(hash: fn(&[u8]) -> u64) -> Self {
        ManifestIndex { hash, entries: Vec::new(), frames: Vec::new(), bytes: 0 }
    }

    /// Adds the next row. Returns `false` if the index is full.
    pub(super) fn add(&mut self, row: &ManifestRow<'_>) -> bool {
        let number = self.entries.len() as u64;
        if number >= ROWS_MAX {
            return false;
        }
        self.entries.push(entry((self.hash)(row.name), number));
        self.bytes = self.bytes.saturating_add(row.length);
        true
    }

    /// Adds a frame.
    pub(super) fn add_frame(&mut self, frame: FrameEntry) {
        self.frames.push(frame);
    }

    /// Passes everything that follows the frames to `append`, in pieces. `offset` is the end of the frames.
    pub(super) fn write(mut self, offset: u64, mut append: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.entries.sort_unstable();
        let rows = self.entries.len() as u64;
        append(&table_header(rows))?;
        let mut page = Vec::with_capacity(PAGE_BYTES);
        for (number, entries) in self.entries.chunks(PAGE_ENTRIES).enumerate() {
            put_page(&mut page, entries, number as u32);
            append(&page)?;
        }
        let directory = self.directory();
        append(&directory)?;
        let footer =
            ManifestFooter { rows, bytes: self.bytes, frames: self.frames.len() as u64, table: offset };
        append(&footer.encode(crc32c::crc32c(&directory)))
    }

    fn directory(&self) -> Vec<u8> {
        let frames = self.frames.iter().flat_map(|frame| [frame.offset, frame.first_row]);
        let pages = self.entries.chunks(PAGE_ENTRIES).filter_map(|page| page.first().copied());
        frames.chain(pages).flat_map(u64::to_le_bytes).collect()
    }
}

fn table_header(rows: u64) -> [u8; TABLE_HEADER_BYTES] {
    let mut header = [0; TABLE_HEADER_BYTES];
    header[..4].copy_from_slice(&TABLE_MAGIC);
    header[4..8].copy_from_slice(&crc32c::crc32c(&rows.to_le_bytes()).to_le_bytes());
    header[8..].copy_from_slice(&rows.to_le_bytes());
    header
}

/// Returns whether the table starts here. A table for a different number of rows is considered damaged.
pub(super) fn is_table(bytes: &[u8], rows: u64) -> ManifestResult<bool> {
    if !bytes.starts_with(&TABLE_MAGIC) {
        return Ok(false);
    }
    if bytes.get(..TABLE_HEADER_BYTES) != Some(&table_header(rows)) {
        return Err(ManifestDamage("the table does not match the rows before it"));
    }
    Ok(true)
}

fn put_page(page: &mut Vec<u8>, entries: &[u64], number: u32) {
    page.clear();
    page.extend(entries.iter().flat_map(|entry| entry.to_le_bytes()));
    page.extend_from_slice(&number.to_le_bytes());
    page.extend_from_slice(&crc32c::crc32c(page).to_le_bytes());
}

/// Reads the entries of a page, and checks its number and first entry.
pub(super) fn read_page(
    page: &[u8],
    number: usize,
    first: u64,
    entries: &mut Vec<u64>,
) -> ManifestResult<()> {
    entries.clear();
    let (words, _) = page.as_chunks::<8>();
    let Some((_, words)) = words.split_last() else {
        return Err(ManifestDamage("a page of the table is cut off"));
    };
    entries.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
    let mut expected = Vec::with_capacity(PAGE_BYTES);
    put_page(&mut expected, entries, number as u32);
    if expected != page || entries.first() != Some(&first) || !entries.is_sorted() {
        entries.clear();
        return Err(ManifestDamage("the checksum of a page of the table is wrong"));
    }
    Ok(())
}

/// Sizes of all parts of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ManifestFooter {
    /// Number of rows in the frames. The table has the same number of entries.
    pub(super) rows: u64,
    /// Total bytes of all bodies.
    pub(super) bytes: u64,
    /// Number of frames.
    pub(super) frames: u64,
    /// Offset of the table, which follows the last frame.
    pub(super) table: u64,
}

impl ManifestFooter {
    fn encode(&self, directory_crc32c: u32) -> Vec<u8> {
        let mut bytes: Vec<u8> = [self.rows, self.bytes, self.frames, self.table]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        bytes.extend_from_slice(&directory_crc32c.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes.extend_from_slice(&FOOTER_MAGIC);
        bytes
    }

    /// Parses a footer, and checks its numbers against the length of the file. Also returns the CRC-32C of the
    /// directory.
    pub(super) fn parse(bytes: &[u8; FOOTER_BYTES], file_length: u64) -> ManifestResult<(Self, u32)> {
        let (words, _) = bytes.as_chunks::<8>();
        let [rows, length, frames, table, checksums, magic] = words else {
            return Err(ManifestDamage("its footer is cut off"));
        };
        if *magic != FOOTER_MAGIC {
            return Err(ManifestDamage("it has no footer, so it was cut off or never sealed"));
        }
        let [d0, d1, d2, d3, c0, c1, c2, c3] = *checksums;
        if crc32c::crc32c(&bytes[..FOOTER_CHECKED]) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(ManifestDamage("its footer's checksum is wrong"));
        }
        let [rows, length, frames, table] =
            [rows, length, frames, table].map(|word| u64::from_le_bytes(*word));
        let footer = ManifestFooter { rows, bytes: length, frames, table };
        if rows > ROWS_MAX || frames > rows || footer.file_length() != Some(file_length) {
            return Err(ManifestDamage("its footer's numbers do not match the file"));
        }
        Ok((footer, u32::from_le_bytes([d0, d1, d2, d3])))
    }

    /// Returns the expected length of the file.
    fn file_length(&self) -> Option<u64> {
        self.directory().checked_add(self.directory_bytes())?.checked_add(FOOTER_BYTES as u64)
    }

    /// Returns the number of table pages.
    pub(super) fn pages(&self) -> usize {
        self.rows.div_ceil(PAGE_ENTRIES as u64) as usize
    }

    /// Returns the offset and length of a table page.
    pub(super) fn page(&self, number: usize) -> (u64, usize) {
        let before = (number * PAGE_ENTRIES) as u64;
        let entries = self.rows.saturating_sub(before).min(PAGE_ENTRIES as u64) as usize;
        let pages = self.table.saturating_add(TABLE_HEADER_BYTES as u64);
        (pages.saturating_add((number * PAGE_BYTES) as u64), entries * 8 + PAGE_END_BYTES)
    }

    /// Returns the directory's offset.
    pub(super) fn directory(&self) -> u64 {
        let pages = self.rows * 8 + (self.pages() * PAGE_END_BYTES) as u64;
        self.table.saturating_add(TABLE_HEADER_BYTES as u64).saturating_add(pages)
    }

    /// Returns the directory's size in bytes.
    pub(super) fn directory_bytes(&self) -> u64 {
        self.frames * 16 + self.pages() as u64 * 8
    }
}

/// Reads the frames, and the first entry of each page, from the directory.
pub(super) fn read_directory(
    bytes: &[u8],
    footer: &ManifestFooter,
) -> ManifestResult<(Vec<FrameEntry>, Vec<u64>)> {
    let (words, _) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<_>>();
    let (frames, firsts) = words
        .split_at_checked(footer.frames as usize * 2)
        .ok_or(ManifestDamage("its directory is cut off"))?;
    let (pairs, _) = frames.as_chunks::<2>();
    let frames: Vec<_> = pairs
        .iter()
        .map(|[offset, first_row]| FrameEntry { offset: *offset, first_row: *first_row })
        .collect();
    let end = FrameEntry { offset: footer.table, first_row: footer.rows };
    let ends = frames.iter().skip(1).chain([&end]);
    let ascends = frames
        .iter()
        .zip(ends)
        .all(|(frame, next)| frame.offset < next.offset && frame.first_row < next.first_row);
    let starts = *frames.first().unwrap_or(&end) == FrameEntry { offset: 0, first_row: 0 };
    if !ascends || !starts || !firsts.is_sorted() {
        return Err(ManifestDamage("its directory has inconsistent numbers"));
    }
    Ok((frames, firsts.to_vec()))
}

/// Returns the error for too many rows.
pub(super) fn too_many_rows() -> Error {
    Error::Internal(format!("a manifest has more than {ROWS_MAX} rows"))
}
