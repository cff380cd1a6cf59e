//! Rows as columns: the names and types of the columns, and the values of a row.

use std::borrow::Cow;

use super::check_row::CheckRow;
use crate::object::Micros;
use crate::outcome::FailureKind;

/// Type of a results column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text.
    Text,
    /// Text with few distinct values.
    Word,
    /// An ordered list of texts.
    Texts,
    /// A status.
    Status,
    /// A whole number.
    Number,
    /// Milliseconds.
    Millis,
    /// A point in time.
    Time,
    /// Yes or no.
    Flag,
}

/// Names and types of columns, in order.
pub type ColumnTypes = &'static [(&'static str, ColumnKind)];

/// Columns of a check's results, in order. They are followed by the kept columns of the list.
pub const ROW_COLUMNS: [(&str, ColumnKind); 22] = [
    ("url", ColumnKind::Text),
    ("key", ColumnKind::Text),
    ("status", ColumnKind::Status),
    ("kind", ColumnKind::Word),
    ("detail", ColumnKind::Text),
    ("final_url", ColumnKind::Text),
    ("redirects", ColumnKind::Texts),
    ("address", ColumnKind::Text),
    ("http_version", ColumnKind::Word),
    ("content_type", ColumnKind::Word),
    ("content_length", ColumnKind::Number),
    ("body_bytes", ColumnKind::Number),
    ("attempts", ColumnKind::Number),
    ("started_at", ColumnKind::Time),
    ("queue_ms", ColumnKind::Millis),
    ("dns_ms", ColumnKind::Millis),
    ("connect_ms", ColumnKind::Millis),
    ("tls_ms", ColumnKind::Millis),
    ("first_byte_ms", ColumnKind::Millis),
    ("total_ms", ColumnKind::Millis),
    ("second_look", ColumnKind::Flag),
    ("suspect", ColumnKind::Flag),
];

/// A row as it is written to a file, with a value for each column and each kept column.
#[derive(Debug, Clone, Copy)]
pub struct RowValues<'r> {
    /// Values in the order of the columns.
    pub values: &'r [Value<'r>],
    /// Values in the order of the kept columns. `None` if a value is missing.
    pub kept: &'r [Option<Cow<'r, str>>],
}

impl<'r> RowValues<'r> {
    /// Returns the value of a kept column.
    pub fn extra_value(&self, column: usize) -> Option<&'r str> {
        self.kept.get(column).and_then(Option::as_deref)
    }
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'r> {
    /// No value.
    Null,
    /// Text.
    Text(&'r str),
    /// A list of texts.
    Texts(&'r [Cow<'r, str>]),
    /// A number.
    Number(u64),
    /// Milliseconds.
    Millis(f32),
    /// A point in time.
    Time(Micros),
    /// Yes or no.
    Flag(bool),
}

impl CheckRow<'_> {
    /// Returns the values in the order of [`ROW_COLUMNS`].
    pub fn values(&self) -> [Value<'_>; ROW_COLUMNS.len()] {
        [
            of_text(self.url.as_deref()),
            of_text(self.key.as_deref()),
            of_number(self.status.map(u64::from)),
            of_text(self.kind.map(FailureKind::name)),
            of_text(self.detail.as_deref()),
            of_text(self.final_url.as_deref()),
            Value::Texts(&self.redirects),
            of_text(self.address.as_deref()),
            of_text(self.http_version.as_deref()),
            of_text(self.content_type.as_deref()),
            of_number(self.content_length),
            Value::Number(self.body_bytes),
            Value::Number(u64::from(self.attempts)),
            if self.started_at == 0 { Value::Null } else { Value::Time(self.started_at) },
            of_millis(self.queue_ms),
            of_millis(self.dns_ms),
            of_millis(self.connect_ms),
            of_millis(self.tls_ms),
            of_millis(self.first_byte_ms),
            of_millis(self.total_ms),
            Value::Flag(self.second_look),
            Value::Flag(self.suspect),
        ]
    }
}

pub(super) fn of_text(text: Option<&str>) -> Value<'_> {
    text.map_or(Value::Null, Value::Text)
}

pub(super) fn of_number<'r>(number: Option<u64>) -> Value<'r> {
    number.map_or(Value::Null, Value::Number)
}

fn of_millis<'r>(millis: Option<f32>) -> Value<'r> {
    millis.filter(|millis| millis.is_finite()).map_or(Value::Null, Value::Millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_its_column_holds() {
        let all: CheckRow<'_> = serde_json::from_value(serde_json::json!({
            "url": "u", "key": "k", "status": 200, "kind": "dns", "detail": "d", "final_url": "f", "redirects": ["r"],
            "address": "a", "http_version": "2", "content_type": "t", "content_length": 1, "body_bytes": 2,
            "attempts": 3, "started_at": 4, "queue_ms": 1.0, "dns_ms": 2.0, "connect_ms": 3.0, "tls_ms": 4.0,
            "first_byte_ms": 5.0, "total_ms": 6.0, "second_look": true, "suspect": true,
        }))
        .unwrap();
        let written = serde_json::to_value(&all).unwrap();

        for ((name, holds), value) in ROW_COLUMNS.into_iter().zip(all.values()) {
            let fits = match value {
                Value::Null => false,
                Value::Text(text) => {
                    matches!(holds, ColumnKind::Text | ColumnKind::Word) && written[name] == text
                }
                Value::Texts(texts) => holds == ColumnKind::Texts && written[name][0] == texts[0].as_ref(),
                Value::Number(number) => {
                    matches!(holds, ColumnKind::Number | ColumnKind::Status) && written[name] == number
                }
                Value::Millis(millis) => holds == ColumnKind::Millis && written[name] == millis,
                Value::Time(time) => holds == ColumnKind::Time && written[name] == time,
                Value::Flag(flag) => holds == ColumnKind::Flag && written[name] == flag,
            };
            assert!(fits, "{name}: {value:?}");
        }
    }
}
