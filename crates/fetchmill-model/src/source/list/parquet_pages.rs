//! Limits the memory for the pages of a Parquet file. Page sizes are read from the page headers before decompression,
//! because a file of a few kilobytes can contain a page that decompresses to gigabytes.

use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use ::parquet::arrow::ProjectionMask;
use ::parquet::basic::Compression;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::ParquetMetaData;
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;

use super::page_codec;
use super::page_header::{PageHeader, PageKind};
use crate::limits::{LIST_PARQUET_BYTES_MAX, LIST_PARQUET_HEADER_BYTES_MAX, MIB};
use crate::panics::lock;

/// Size of a view. A view is kept for each value of a dictionary.
const VIEW_BYTES: u64 = 16;
/// Size of a decoded length. While a page that stores lengths separately is read, it needs one such length for each
/// value.
const LENGTH_BYTES: u64 = 8;

/// A file whose pages are checked before they are read. It must be passed to a reader that already has the metadata.
pub(super) struct BoundedPages<F> {
    file: F,
    memory: PageMemory,
    /// Number of rows in a batch.
    rows: u64,
}

/// Memory that the pages of all columns occupy.
#[derive(Clone)]
pub(super) struct PageMemory(Arc<Mutex<HeldPages>>);

struct HeldPages {
    /// The wanted columns of all row groups, ordered by their position in the file.
    chunks: Vec<Chunk>,
    /// The page whose header was read last.
    announced: Option<AnnouncedPage>,
    columns: Vec<HeldColumn>,
    /// Size of the earlier pages and dictionaries that the current batch may still reference.
    earlier: u64,
    /// The refused page, if any. It is kept here because the library returns the error only as text.
    refused: Option<PageTooLarge>,
}

/// A wanted column in a row group.
struct Chunk {
    bytes: Range<u64>,
    column: usize,
    codec: Compression,
}

/// A page that is about to be read.
struct AnnouncedPage {
    /// Position of the page's bytes, which follow its header.
    start: u64,
    header: PageHeader,
    codec: Compression,
}

impl AnnouncedPage {
    /// Returns whether the bytes of the page decode to more bytes than its header states.
    fn is_longer(&self, bytes: &[u8]) -> bool {
        let PageHeader { size, plain, is_compressed, .. } = self.header;
        let Some(compressed) = usize::try_from(plain).ok().and_then(|plain| bytes.get(plain..)) else {
            return false;
        };
        is_compressed && page_codec::is_longer(self.codec, compressed, size.saturating_sub(plain))
    }
}

#[derive(Clone, Default)]
struct HeldColumn {
    chunk: usize,
    dictionary: u64,
    page: u64,
}

/// A page needs more memory than allowed.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error(
    "its values or pages need {} MiB of memory at a time (the limit is {}); rewrite the file with 1 MiB \
     pages (pyarrow: data_page_size) or shorter values",
    .0.div_ceil(MIB as u64), LIST_PARQUET_BYTES_MAX / MIB as u64
)]
pub(super) struct PageTooLarge(u64);

impl<F: ChunkReader> BoundedPages<F> {
    /// Wraps a file whose wanted columns are read in batches of `rows` rows.
    pub(super) fn new(
        file: F,
        metadata: &ParquetMetaData,
        mask: &ProjectionMask,
        rows: usize,
    ) -> Result<(Self, PageMemory)> {
        let mut chunks = Vec::new();
        for group in metadata.row_groups() {
            for (leaf, column) in
                group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf))
            {
                let (start, length) = column.byte_range();
                let bytes = start..start.saturating_add(length);
                chunks.push(Chunk { bytes, column: leaf, codec: column.compression() });
            }
        }
        chunks.retain(|chunk| !chunk.bytes.is_empty());
        chunks.sort_unstable_by_key(|chunk| chunk.bytes.start);
        if chunks.is_sorted_by(|one, next| one.bytes.end <= next.bytes.start) {
            let columns = vec![HeldColumn::default(); metadata.file_metadata().schema_descr().num_columns()];
            let held = HeldPages { chunks, announced: None, columns, earlier: 0, refused: None };
            let memory = PageMemory(Arc::new(Mutex::new(held)));
            return Ok((BoundedPages { file, memory: memory.clone(), rows: rows as u64 }, memory));
        }
        Err(ParquetError::General("its columns overlap".into()))
    }
}

impl PageMemory {
    /// Begins a batch. The values of the previous batch must already have been dropped.
    pub(super) fn begin_batch(&self) {
        lock(&self.0).earlier = 0;
    }

    /// Returns the error if a page was refused.
    pub(super) fn refused(&self) -> Option<PageTooLarge> {
        lock(&self.0).refused
    }

    /// Counts a page that is about to be read. `start` is the position of its header, and `data` is the position of its
    /// bytes.
    fn count(
        &self,
        (start, data): (u64, u64),
        header: &PageHeader,
        rows: u64,
    ) -> std::result::Result<(), PageTooLarge> {
        let held = &mut *lock(&self.0);
        let chunk = held.chunks.partition_point(|chunk| chunk.bytes.start <= start).saturating_sub(1);
        let Some(Chunk { column, codec, .. }) = held.chunks.get(chunk) else {
            return Err(PageTooLarge(u64::MAX));
        };
        held.announced = Some(AnnouncedPage { start: data, header: *header, codec: *codec });
        let column = &mut held.columns[*column];
        let mut replaced = std::mem::replace(&mut column.page, 0);
        if column.chunk != chunk {
            replaced = replaced.saturating_add(std::mem::take(&mut column.dictionary));
            column.chunk = chunk;
        }
        held.earlier = held.earlier.saturating_add(replaced);
        let values = header.values;
        let mut passing = header.compressed;
        match header.kind {
            PageKind::Dictionary => {
                column.dictionary = header.size.saturating_add(VIEW_BYTES.saturating_mul(values));
            }
            PageKind::Data => column.page = header.size,
            PageKind::Other => {}
        }
        if header.has_lengths {
            passing = passing.saturating_add(LENGTH_BYTES.saturating_mul(values));
        }
        if header.has_prefixes {
            passing = passing.saturating_add(rows.saturating_mul(header.size));
        }
        let kept = held.columns.iter().map(|column| column.dictionary.saturating_add(column.page));
        let all = kept.chain([held.earlier, passing]).fold(0, u64::saturating_add);
        if all > LIST_PARQUET_BYTES_MAX { Err(PageTooLarge(all)) } else { Ok(()) }
    }
}

impl<F: ChunkReader> Length for BoundedPages<F> {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl<F: ChunkReader> ChunkReader for BoundedPages<F> {
    type T = F::T;

    /// Reads from `start`. The page reader calls this method only at the start of each page.
    fn get_read(&self, start: u64) -> Result<F::T> {
        let mut head = self.file.get_read(start)?.take(LIST_PARQUET_HEADER_BYTES_MAX);
        let header = PageHeader::read(&mut head)
            .ok_or_else(|| ParquetError::General("a page header is not valid".into()))?;
        let data = start.saturating_add(LIST_PARQUET_HEADER_BYTES_MAX - head.limit());
        self.memory.count((start, data), &header, self.rows).map_err(|error| {
            lock(&self.memory.0).refused = Some(error);
            ParquetError::General(error.to_string())
        })?;
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes = self.file.get_bytes(start, length)?;
        let announced = lock(&self.memory.0).announced.take_if(|page| page.start == start);
        match announced {
            Some(page) if page.is_longer(&bytes) => {
                Err(ParquetError::General("a page is larger than its header says".into()))
            }
            _ => Ok(bytes),
        }
    }
}
