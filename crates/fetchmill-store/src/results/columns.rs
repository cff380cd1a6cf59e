//! Collects rows into columns.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BooleanBuilder, Float32Builder, Int64Builder, ListBuilder, StringBuilder, TimestampMicrosecondBuilder,
    UInt16Builder,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::pack::parquet::{KeptBuilder, kept_fields};
use fetchmill_model::row::{ColumnKind, ColumnTypes, RowValues, Value};
use fetchmill_model::target::extra_columns::ExtraColumns;

/// Approximate memory per row, without its strings.
const ROW_BYTES: usize = 128;

/// Returns the columns of the results, including those kept from the list.
pub(super) fn schema(own: ColumnTypes, kept: &ExtraColumns) -> SchemaRef {
    let own = own.iter().map(|(name, holds)| Field::new(*name, data_type(*holds), is_nullable(*holds)));
    let kept = kept_fields(kept);
    Arc::new(Schema::new(own.chain(kept).collect::<Vec<_>>()))
}

/// Returns the field for each string of a [`ColumnKind::Texts`] list.
fn element() -> Arc<Field> {
    Arc::new(Field::new("element", DataType::Utf8, false))
}

fn data_type(holds: ColumnKind) -> DataType {
    match holds {
        ColumnKind::Text | ColumnKind::Word => DataType::Utf8,
        ColumnKind::Texts => DataType::List(element()),
        ColumnKind::Status => DataType::UInt16,
        ColumnKind::Number => DataType::Int64,
        ColumnKind::Millis => DataType::Float32,
        ColumnKind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ColumnKind::Flag => DataType::Boolean,
    }
}

fn is_nullable(holds: ColumnKind) -> bool {
    !matches!(holds, ColumnKind::Texts | ColumnKind::Flag)
}

enum Builder {
    Text(StringBuilder),
    Texts(ListBuilder<StringBuilder>),
    Status(UInt16Builder),
    Number(Int64Builder),
    Millis(Float32Builder),
    Time(TimestampMicrosecondBuilder),
    Flag(BooleanBuilder),
}

impl Builder {
    fn new(holds: ColumnKind) -> Self {
        match holds {
            ColumnKind::Text | ColumnKind::Word => Builder::Text(StringBuilder::new()),
            ColumnKind::Texts => Builder::Texts(ListBuilder::new(StringBuilder::new()).with_field(element())),
            ColumnKind::Status => Builder::Status(UInt16Builder::new()),
            ColumnKind::Number => Builder::Number(Int64Builder::new()),
            ColumnKind::Millis => Builder::Millis(Float32Builder::new()),
            ColumnKind::Time => Builder::Time(TimestampMicrosecondBuilder::new().with_timezone("UTC")),
            ColumnKind::Flag => Builder::Flag(BooleanBuilder::new()),
        }
    }

    /// Appends a value. A value that does not fit its column, such as a length above 2^63, becomes null.
    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Builder::Text(builder), Value::Text(text)) => builder.append_value(text),
            (Builder::Text(builder), _) => builder.append_null(),
            (Builder::Texts(builder), value) => {
                let texts: &[Cow<'_, str>] = if let Value::Texts(texts) = value { texts } else { &[] };
                for text in texts {
                    builder.values().append_value(text);
                }
                builder.append(true);
            }
            (Builder::Status(builder), Value::Number(status)) => {
                builder.append_option(u16::try_from(status).ok());
            }
            (Builder::Status(builder), _) => builder.append_null(),
            (Builder::Number(builder), Value::Number(number)) => {
                builder.append_option(i64::try_from(number).ok());
            }
            (Builder::Number(builder), _) => builder.append_null(),
            (Builder::Millis(builder), Value::Millis(millis)) => builder.append_value(millis),
            (Builder::Millis(builder), _) => builder.append_null(),
            (Builder::Time(builder), Value::Time(time)) => builder.append_option(i64::try_from(time).ok()),
            (Builder::Time(builder), _) => builder.append_null(),
            (Builder::Flag(builder), value) => builder.append_value(value == Value::Flag(true)),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Text(builder) => Arc::new(builder.finish()),
            Builder::Texts(builder) => Arc::new(builder.finish()),
            Builder::Status(builder) => Arc::new(builder.finish()),
            Builder::Number(builder) => Arc::new(builder.finish()),
            Builder::Millis(builder) => Arc::new(builder.finish()),
            Builder::Time(builder) => Arc::new(builder.finish()),
            Builder::Flag(builder) => Arc::new(builder.finish()),
        }
    }
}

/// The batch that is being built.
pub(super) struct Builders {
    own: Vec<Builder>,
    kept: Vec<KeptBuilder>,
    rows: usize,
    bytes: usize,
}

impl Builders {
    pub(super) fn new(own: ColumnTypes, kept: &ExtraColumns) -> Self {
        Builders {
            own: own.iter().map(|(_, holds)| Builder::new(*holds)).collect(),
            kept: kept.typed().map(|(_, kind)| KeptBuilder::new(kind)).collect(),
            rows: 0,
            bytes: 0,
        }
    }

    pub(super) fn push(&mut self, row: RowValues<'_>) {
        self.rows += 1;
        self.bytes += ROW_BYTES;
        for (builder, value) in self.own.iter_mut().zip(row.values.iter().copied()) {
            self.bytes += match value {
                Value::Text(text) => text.len(),
                Value::Texts(texts) => texts.iter().map(|text| text.len()).sum(),
                _ => 0,
            };
            builder.push(value);
        }
        for (column, builder) in self.kept.iter_mut().enumerate() {
            let value = row.extra_value(column);
            self.bytes += value.map_or(0, str::len);
            builder.push(value.map(str::as_bytes));
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the approximate memory used by the rows.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the columns and starts a new batch.
    pub(super) fn finish(&mut self) -> Vec<ArrayRef> {
        (self.rows, self.bytes) = (0, 0);
        let own = self.own.iter_mut().map(Builder::finish);
        own.chain(self.kept.iter_mut().map(KeptBuilder::finish)).collect()
    }
}
