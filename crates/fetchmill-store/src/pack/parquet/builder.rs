//! Builds columns from objects.

use super::items::item_arrays;
use super::kept_columns::KeptBuilder;
use super::schema::schema;
use arrow_array::builder::{
    BinaryBuilder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder, UInt16Builder, UInt32Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use fetchmill_model::object::{Micros, Object, Seconds, UnfetchedTarget};
use fetchmill_model::outcome::Outcome;
use fetchmill_model::target::extra_columns::{ExtraColumns, extra_values};
use std::io;
use std::sync::Arc;

/// Maximum total size of the columns of a batch. It also limits each column, because offsets are `i32`.
const COLUMN_BYTES_MAX: usize = i32::MAX as usize;
/// Maximum growth of text: U+FFFD takes three bytes and can replace a single byte.
const TEXT_GROWTH_MAX: usize = 3;

/// Builds record batches from objects, with the columns of [`schema()`].
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
    has_items: bool,
    content_encoding: Option<StringBuilder>,
    outcomes: Option<OutcomeBuilders>,
    url: Option<StringBuilder>,
    kept: Vec<KeptBuilder>,
    /// Total size in bytes of the names, bodies, URLs and kept values.
    bytes: usize,
    /// Upper bound for the size of any column.
    column_bytes: usize,
    overflow: bool,
}

/// Outcome columns.
#[derive(Debug, Default)]
struct OutcomeBuilders {
    outcome: StringBuilder,
    kind: StringBuilder,
    detail: StringBuilder,
    attempts: UInt32Builder,
}

impl OutcomeBuilders {
    fn push(&mut self, outcome: &str, kind: Option<&str>, detail: Option<&str>, attempts: u32) {
        self.outcome.append_value(outcome);
        self.kind.append_option(kind);
        self.detail.append_option(detail);
        self.attempts.append_value(attempts);
    }

    fn finish(&mut self) -> [ArrayRef; 4] {
        let (outcome, kind, detail) = (self.outcome.finish(), self.kind.finish(), self.detail.finish());
        [Arc::new(outcome), Arc::new(kind), Arc::new(detail), Arc::new(self.attempts.finish())]
    }
}

impl BatchBuilder {
    /// Creates an empty builder for objects with these columns.
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
            has_items: columns.has_items(),
            content_encoding: columns.has_encodings().then(StringBuilder::new),
            outcomes: columns.has_outcomes().then(OutcomeBuilders::default),
            url: columns.has_url().then(StringBuilder::new),
            kept: columns.typed().map(|(_, kind)| KeptBuilder::new(kind)).collect(),
            bytes: 0,
            column_bytes: 0,
            overflow: false,
        }
    }

    /// Appends a row. If the rows exceed the size limit of a batch (2 GiB), [`BatchBuilder::finish`] will fail.
    pub fn push(&mut self, object: &Object<'_>) {
        let facts = &object.facts;
        let length = |text: Option<&[u8]>| text.map_or(0, <[u8]>::len);
        let fields = length(facts.content_type) + length(facts.content_encoding) + length(facts.etag);
        let rest = length(facts.url) + length(facts.kept);
        if !self.has_room(object.name.len() + fields + rest, object.body.len()) {
            return;
        }
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
        if let Some(encodings) = &mut self.content_encoding {
            push_text(encodings, facts.content_encoding);
        }
        if let Some(outcomes) = &mut self.outcomes {
            outcomes.push(Outcome::Fetched.name(), None, None, facts.attempts);
        }
        self.push_listed(facts.url, facts.kept);
    }

    /// Appends the row of a target without an object. Only for jobs in which every target has a row.
    pub fn push_unfetched(&mut self, target: &UnfetchedTarget<'_>) {
        let length = |text: Option<&[u8]>| text.map_or(0, <[u8]>::len);
        let said = target.kind.map_or(0, str::len) + target.detail.map_or(0, str::len);
        let text = target.name.len() + said + length(target.url) + length(target.kept);
        if !self.has_room(text, 0) {
            return;
        }
        self.bytes += text;
        self.sequence.append_value(target.sequence as i64);
        self.push_name(target.name);
        self.status.append_option((target.status != 0).then_some(target.status));
        self.content_type.append_null();
        self.etag.append_null();
        self.last_modified.append_null();
        self.fetched_at.append_null();
        self.crc32c.append_null();
        self.body.append_null();
        if let Some(encodings) = &mut self.content_encoding {
            encodings.append_null();
        }
        if let Some(outcomes) = &mut self.outcomes {
            outcomes.push(target.outcome, target.kind, target.detail, target.attempts);
        }
        self.push_listed(target.url, target.kept);
    }

    /// Returns whether a row with this much text and body fits into the batch. If so, counts its bytes.
    fn has_room(&mut self, text: usize, body: usize) -> bool {
        let text = text.saturating_mul(TEXT_GROWTH_MAX);
        let column_bytes = self.column_bytes.saturating_add(text).saturating_add(body);
        let has_room = column_bytes <= COLUMN_BYTES_MAX;
        if has_room {
            self.column_bytes = column_bytes;
        } else {
            self.overflow = true;
        }
        has_room
    }

    /// Appends the columns that come from lists.
    fn push_listed(&mut self, url: Option<&[u8]>, kept: Option<&[u8]>) {
        if let Some(column) = &mut self.url {
            push_text(column, url);
        }
        let mut values = extra_values(kept.unwrap_or_default());
        for column in &mut self.kept {
            column.push(values.next().flatten());
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

    /// Returns the number of rows so far.
    pub fn rows(&self) -> usize {
        self.sequence.values_slice().len()
    }

    /// Returns the schema of the batch.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Returns the total size in bytes of the names, bodies, URLs and kept values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the rows as a batch and empties the builder.
    pub fn finish(&mut self) -> io::Result<RecordBatch> {
        let columns = self.finish_columns();
        self.bytes = 0;
        self.column_bytes = 0;
        if std::mem::take(&mut self.overflow) {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "objects larger than 2 GiB do not fit into a batch of rows",
            ));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns.map_err(io::Error::other)?)
            .map_err(io::Error::other)
    }

    fn finish_columns(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        let (sequences, bodies) = (self.sequence.finish(), self.body.finish());
        let between: [ArrayRef; 8] = [
            Arc::new(self.name.finish()),
            Arc::new(self.name_raw.finish()),
            Arc::new(self.status.finish()),
            Arc::new(self.content_type.finish()),
            Arc::new(self.etag.finish()),
            Arc::new(self.last_modified.finish()),
            Arc::new(self.fetched_at.finish()),
            Arc::new(self.crc32c.finish()),
        ];
        if self.has_items {
            return item_arrays(&mut self.kept, sequences, bodies);
        }
        let mut columns: Vec<ArrayRef> = vec![Arc::new(sequences)];
        columns.extend(between);
        columns.push(Arc::new(bodies));
        if let Some(encodings) = &mut self.content_encoding {
            columns.push(Arc::new(encodings.finish()));
        }
        if let Some(outcomes) = &mut self.outcomes {
            columns.extend(outcomes.finish());
        }
        if let Some(url) = &mut self.url {
            columns.push(Arc::new(url.finish()));
        }
        columns.extend(self.kept.iter_mut().map(KeptBuilder::finish));
        Ok(columns)
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
