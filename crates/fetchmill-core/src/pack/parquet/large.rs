//! A large body as a column of its row group: one page with one value. The library would hold it four times at once.

use super::schema::{ZSTD_LEVEL, zstd};
use bytes::Bytes;
use bytes::buf::{Buf, Reader};
use parquet::basic::Encoding;
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, OffsetIndexBuilder};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::io::{self, Chain, Read, Write};

/// In a column that may be null each value has a level; here is that of the only one, as a run of one behind its length.
const LEVELS: [u8; 6] = [2, 0, 0, 0, 1 << 1, 1];

/// A page's header is some dozen bytes.
const HEADER_BYTES_MAX: usize = 1024;

/// A body, compressed.
#[derive(Debug)]
pub(super) struct LargeBody {
    /// Bytes of the page before compression.
    page_len: usize,
    /// Bytes of the body.
    len: usize,
    header: Bytes,
    compressed: Bytes,
}

impl LargeBody {
    /// Compresses it where it is: a page is the levels, when bodies may be null, the value's length and the value.
    pub(super) fn compress(body: &[u8], is_nullable: bool) -> io::Result<Self> {
        let levels = if is_nullable { &LEVELS[..] } else { &[] };
        let before = levels.len() + size_of::<u32>();
        let page_len = body.len().checked_add(before).filter(|len| i32::try_from(*len).is_ok());
        let page_len = page_len.ok_or_else(|| {
            io::Error::new(io::ErrorKind::FileTooLarge, "Parquet has no place for an object of 2 GiB")
        })?;
        let out = Vec::with_capacity(zstd::zstd_safe::compress_bound(page_len));
        let mut encoder = zstd::stream::write::Encoder::new(out, ZSTD_LEVEL)?;
        encoder.set_pledged_src_size(Some(page_len as u64))?;
        encoder.write_all(levels)?;
        encoder.write_all(&(body.len() as u32).to_le_bytes())?;
        encoder.write_all(body)?;
        let compressed = Bytes::from(encoder.finish()?);
        let header = header(&compressed, page_len).map_err(io::Error::other)?;
        Ok(LargeBody { page_len, len: body.len(), header, compressed })
    }

    /// What the footer says about it.
    pub(super) fn describe(&self, column: ColumnDescPtr) -> Result<ColumnCloseResult> {
        let stored = self.header.len() + self.compressed.len();
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

/// The page's header. The library writes it only together with its page: the page falls through.
fn header(compressed: &Bytes, page_len: usize) -> Result<Bytes> {
    let page = Page::DataPage {
        buf: compressed.clone(),
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
    header.truncate(written.compressed_size.saturating_sub(compressed.len()));
    Ok(header.into())
}

/// Keeps what is written first.
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
        (self.header.len() + self.compressed.len()) as u64
    }
}

/// How the library takes columns that are ready: from their start to their end.
impl ChunkReader for LargeBody {
    type T = Chain<Reader<Bytes>, Reader<Bytes>>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        if start != 0 {
            return Err(ParquetError::General("a large body is read from its start".into()));
        }
        Ok(self.header.clone().reader().chain(self.compressed.clone().reader()))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut bytes = Vec::new();
        self.get_read(start)?.take(length as u64).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }
}
