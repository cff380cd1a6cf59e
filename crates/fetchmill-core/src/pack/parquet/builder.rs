//! Objects on their way into columns.

use super::schema::schema;
use crate::extra_columns::{ExtraColumns, extra_values};
use crate::object::{Micros, Object, Seconds};
use arrow_array::builder::{
    BinaryBuilder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder, UInt16Builder, UInt32Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use std::io;
use std::sync::Arc;

/// All columns of one batch, and so each of them: columns are addressed by `i32`.
const COLUMN_BYTES_MAX: usize = i32::MAX as usize;
/// U+FFFD has three bytes and may stand for one.
const TEXT_GROWTH_MAX: usize = 3;

/// Builds record batches out of objects: the columns of [`schema()`].
#[derive(Debug)]
pub struct BatchBuilder {
    schema: SchemaRef,
    sequence: Int64Builder,
    name: StringBuilder,
    name_raw: BinaryBuilder,
    status: UInt16Builder,
    content_type: StringBuilder,
    etag: StringBuilder,
    last_modified: TimestampMicrosecondBuilder,
    fetched_at: TimestampMicrosecondBuilder,
    crc32c: UInt32Builder,
    body: BinaryBuilder,
    url: Option<StringBuilder>,
    kept: Vec<StringBuilder>,
    /// Of names, bodies, URLs and kept values.
    bytes: usize,
    /// What no column has more than.
    column_bytes: usize,
    overflow: bool,
}

impl BatchBuilder {
    /// One without rows, for objects that have these columns.
    pub fn new(columns: &ExtraColumns) -> Self {
        BatchBuilder {
            schema: schema(columns),
            sequence: Int64Builder::new(),
            name: StringBuilder::new(),
            name_raw: BinaryBuilder::new(),
            status: UInt16Builder::new(),
            content_type: StringBuilder::new(),
            etag: StringBuilder::new(),
            last_modified: TimestampMicrosecondBuilder::new().with_timezone("UTC"),
            fetched_at: TimestampMicrosecondBuilder::new().with_timezone("UTC"),
            crc32c: UInt32Builder::new(),
            body: BinaryBuilder::new(),
            url: columns.has_url().then(StringBuilder::new),
            kept: columns.kept().iter().map(|_| StringBuilder::new()).collect(),
            bytes: 0,
            column_bytes: 0,
            overflow: false,
        }
    }

    /// Appends a row. What does not fit into a batch, 2 GiB of bytes, makes [`BatchBuilder::finish`] an error.
    pub fn push(&mut self, object: &Object<'_>) {
        let facts = &object.facts;
        let length = |text: Option<&[u8]>| text.map_or(0, <[u8]>::len);
        let fields = length(facts.content_type) + length(facts.etag);
        let rest = length(facts.url) + length(facts.kept);
        let text = (object.name.len() + fields + rest).saturating_mul(TEXT_GROWTH_MAX);
        let column_bytes = self.column_bytes.saturating_add(text).saturating_add(object.body.len());
        if column_bytes > COLUMN_BYTES_MAX {
            self.overflow = true;
            return;
        }
        self.column_bytes = column_bytes;
        self.bytes += object.name.len() + object.body.len() + rest;
        self.sequence.append_value(object.sequence as i64);
        self.push_name(object.name);
        self.status.append_option((facts.status != 0).then_some(facts.status));
        push_text(&mut self.content_type, facts.content_type);
        push_text(&mut self.etag, facts.etag);
        self.last_modified.append_option(facts.last_modified.and_then(from_seconds));
        self.fetched_at.append_option(from_micros(facts.fetched_at));
        self.crc32c.append_value(object.crc32c);
        self.body.append_value(object.body);
        if let Some(url) = &mut self.url {
            push_text(url, facts.url);
        }
        let mut values = extra_values(facts.kept.unwrap_or_default());
        for column in &mut self.kept {
            push_text(column, values.next().flatten());
        }
    }

    fn push_name(&mut self, name: &[u8]) {
        if let Ok(name) = str::from_utf8(name) {
            self.name.append_value(name);
            self.name_raw.append_null();
        } else {
            self.name.append_value(String::from_utf8_lossy(name));
            self.name_raw.append_value(name);
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.crc32c.values_slice().len()
    }

    /// What the columns are.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Bytes of their names, bodies, URLs and kept values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows so far; then there are none.
    pub fn finish(&mut self) -> io::Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.sequence.finish()),
            Arc::new(self.name.finish()),
            Arc::new(self.name_raw.finish()),
            Arc::new(self.status.finish()),
            Arc::new(self.content_type.finish()),
            Arc::new(self.etag.finish()),
            Arc::new(self.last_modified.finish()),
            Arc::new(self.fetched_at.finish()),
            Arc::new(self.crc32c.finish()),
            Arc::new(self.body.finish()),
        ];
        for column in self.url.iter_mut().chain(&mut self.kept) {
            columns.push(Arc::new(column.finish()));
        }
        self.bytes = 0;
        self.column_bytes = 0;
        if std::mem::take(&mut self.overflow) {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "objects of more than 2 GiB do not fit into a batch of rows",
            ));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(io::Error::other)
    }
}

fn push_text(column: &mut StringBuilder, text: Option<&[u8]>) {
    match text {
        Some(text) => column.append_value(String::from_utf8_lossy(text)),
        None => column.append_null(),
    }
}

fn from_seconds(seconds: Seconds) -> Option<i64> {
    i64::try_from(seconds).ok()?.checked_mul(1_000_000)
}

fn from_micros(micros: Micros) -> Option<i64> {
    i64::try_from(micros).ok().filter(|micros| *micros != 0)
}
