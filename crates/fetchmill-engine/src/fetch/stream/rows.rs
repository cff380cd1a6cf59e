//! Converts replies to rows of record batches.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{Float64Builder, LargeBinaryBuilder, StringBuilder, UInt16Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::batch::{ReplyBatch, ReplyRecord};

/// Returns the schema of reply batches.
pub fn reply_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            Field::new("index", DataType::UInt64, false),
            Field::new("url", DataType::Utf8, false),
            Field::new("tag", DataType::Utf8, true),
            Field::new("status", DataType::UInt16, true),
            Field::new("error", DataType::Utf8, true),
            Field::new("content_type", DataType::Utf8, true),
            Field::new("body", DataType::LargeBinary, true),
            Field::new("total_time", DataType::Float64, false),
        ]))
    });
    Arc::clone(&SCHEMA)
}

/// Builder of batches with the schema [`reply_schema`].
#[derive(Debug, Default)]
pub struct ReplyRows {
    index: UInt64Builder,
    url: StringBuilder,
    tag: StringBuilder,
    status: UInt16Builder,
    error: StringBuilder,
    content_type: StringBuilder,
    body: LargeBinaryBuilder,
    total_time: Float64Builder,
    rows: usize,
    bytes: usize,
}

impl ReplyRows {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the total size of all strings and bodies in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a reply.
    pub fn push(
        &mut self,
        index: u64,
        url: &str,
        tag: Option<&str>,
        replies: &ReplyBatch,
        record: &ReplyRecord,
    ) {
        let is_reply = record.failure.is_none();
        let body = is_reply.then(|| replies.body(record));
        let content_type = replies.content_type(record).map(String::from_utf8_lossy);
        self.rows += 1;
        self.bytes += url.len() + tag.map_or(0, str::len) + body.map_or(0, <[u8]>::len);
        self.bytes += content_type.as_ref().map_or(0, |text| text.len());
        self.index.append_value(index);
        self.url.append_value(url);
        self.tag.append_option(tag);
        self.status.append_option(is_reply.then_some(record.status));
        self.error.append_option(record.failure.as_ref().map(|(kind, _)| kind.name()));
        self.content_type.append_option(content_type);
        self.body.append_option(body);
        self.total_time.append_value(record.times.total as f64 / 1e6);
    }

    /// Returns the rows as a batch and starts the next one.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        (self.rows, self.bytes) = (0, 0);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.index.finish()),
            Arc::new(self.url.finish()),
            Arc::new(self.tag.finish()),
            Arc::new(self.status.finish()),
            Arc::new(self.error.finish()),
            Arc::new(self.content_type.finish()),
            Arc::new(self.body.finish()),
            Arc::new(self.total_time.finish()),
        ];
        RecordBatch::try_new(reply_schema(), columns)
    }
}
