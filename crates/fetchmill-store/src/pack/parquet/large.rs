//! Writes a large body as a column of a row group, with a single page that contains a single value. The Parquet library
//! would keep four copies of the body in memory.
//!
//! A page starts with its compressed length. For this reason, the body is first compressed into a file. It is never in
//! memory as a whole.

use super::schema::{ZSTD_LEVEL, zstd};
use super::source::{ShardBytes, ShardCursor};
use crate::pack::FileBody;
use bytes::Bytes;
use bytes::buf::{Buf, Reader};
use fetchmill_model::limits::MIB;
use parquet::basic::Encoding;
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, OffsetIndexBuilder};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::fs::File;
use std::io::{self, BufReader, Chain, Read, Write};

/// Levels of a nullable column with a single value: their length, and a run of one level.
const LEVELS: [u8; 6] = [2, 0, 0, 0, 1 << 1, 1];

/// Maximum size of a page header. Real ones take about a dozen bytes.
const HEADER_BYTES_MAX: usize = 1024;

/// Source of a large body: memory if the body was read from a shard, or a file in all other cases.
#[derive(Debug, Clone, Copy)]
pub(super) enum LargeSource<'b> {
    Bytes(&'b [u8]),
    File(&'b FileBody),
}

impl LargeSource<'_> {
    fn length(&self) -> u64 {
        match self {
            LargeSource::Bytes(bytes) => bytes.len() as u64,
            LargeSource::File(body) => body.length(),
        }
    }

    fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        match self {
            LargeSource::Bytes(bytes) => to.write_all(bytes),
            LargeSource::File(body) => body.for_each(|piece| to.write_all(piece)),
        }
    }
}

/// A compressed body.
#[derive(Debug)]
pub(super) struct LargeBody {
    /// Size of the uncompressed page in bytes.
    page_len: usize,
    /// Size of the body in bytes.
    len: usize,
    header: Bytes,
    compressed: ShardBytes,
}

impl LargeBody {
    /// Compresses a body into a file. If bodies are nullable, the page starts with the levels. The length and the bytes
    /// of the value follow.
    pub(super) fn compress(body: LargeSource<'_>, is_nullable: bool, scratch: File) -> io::Result<Self> {
        let levels = if is_nullable { &LEVELS[..] } else { &[] };
        let before = (levels.len() + size_of::<u32>()) as u64;
        let page_len = body.length().checked_add(before).filter(|len| i32::try_from(*len).is_ok());
        let page_len = page_len.ok_or_else(|| {
            io::Error::new(io::ErrorKind::FileTooLarge, "Parquet cannot store an object of 2 GiB or more")
        })?;
        let mut encoder = zstd::stream::write::Encoder::new(&scratch, ZSTD_LEVEL)?;
        encoder.set_pledged_src_size(Some(page_len))?;
        encoder.write_all(levels)?;
        encoder.write_all(&(body.length() as u32).to_le_bytes())?;
        body.write(&mut encoder)?;
        encoder.finish()?;
        let compressed = ShardBytes::new(scratch)?;
        let page_len = page_len as usize;
        let header = header(compressed.len() as usize, page_len).map_err(io::Error::other)?;
        Ok(LargeBody { page_len, len: body.length() as usize, header, compressed })
    }

    /// Returns the description of the column for the footer.
    pub(super) fn describe(&self, column: ColumnDescPtr) -> Result<ColumnCloseResult> {
        let stored = Length::len(self) as usize;
        let plain = self.header.len() + self.page_len;
        let metadata = ColumnChunkMetaData::builder(column)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE])
            .set_compression(zstd()?)
            .set_num_values(1)
            .set_total_compressed_size(stored as i64)
            .set_total_uncompressed_size(plain as i64)
            .set_data_page_offset(0)
            .set_unencoded_byte_array_data_bytes(Some(self.len as i64))
            .build()?;
        let mut pages = OffsetIndexBuilder::new();
        pages.append_row_count(1);
        pages.append_offset_and_size(0, i32::try_from(stored)?);
        pages.append_unencoded_byte_array_data_bytes(Some(self.len as i64));
        Ok(ColumnCloseResult {
            bytes_written: stored as u64,
            rows_written: 1,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: Some(pages.build()),
        })
    }
}

/// Returns the page header. The Parquet library writes a header only together with a page of that length, so it gets a
/// page of zeros, which are discarded. The zeros take no memory, because they are never read.
fn header(compressed_len: usize, page_len: usize) -> Result<Bytes> {
    let page = Page::DataPage {
        buf: Bytes::from(vec![0; compressed_len]),
        num_values: 1,
        encoding: Encoding::PLAIN,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    let mut out = TrackedWrite::new(FirstBytes(Vec::new()));
    let written = SerializedPageWriter::new(&mut out).write_page(CompressedPage::new(page, page_len))?;
    out.flush()?;
    let mut header = out.into_inner()?.0;
    header.truncate(written.compressed_size.saturating_sub(compressed_len));
    Ok(header.into())
}

/// Keeps the first bytes that are written, and discards the others.
struct FirstBytes(Vec<u8>);

impl Write for FirstBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let kept = bytes.len().min(HEADER_BYTES_MAX.saturating_sub(self.0.len()));
        self.0.extend(bytes.iter().take(kept));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Length for LargeBody {
    fn len(&self) -> u64 {
        self.header.len() as u64 + self.compressed.len()
    }
}

/// The library reads finished columns sequentially through this trait.
impl ChunkReader for LargeBody {
    type T = Chain<Reader<Bytes>, BufReader<ShardCursor>>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        if start != 0 {
            return Err(ParquetError::General("a large body must be read from its start".into()));
        }
        let compressed = BufReader::with_capacity(MIB, self.compressed.cursor(0));
        Ok(self.header.clone().reader().chain(compressed))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut bytes = Vec::new();
        self.get_read(start)?.take(length as u64).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }
}
