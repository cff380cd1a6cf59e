//! Columns kept from a list. Their values are strings in memory, but have types in a file.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};

use fetchmill_model::target::extra_columns::{ColumnType, TypedValue};

/// Builds the values of a column.
#[derive(Debug)]
pub enum KeptBuilder {
    /// Strings, in which U+FFFD replaces bytes that are not UTF-8.
    String(StringBuilder),
    /// 64-bit integers.
    Int64(Int64Builder),
    /// 64-bit floating-point numbers.
    Float64(Float64Builder),
    /// `true` and `false`.
    Bool(BooleanBuilder),
}

impl KeptBuilder {
    /// Creates an empty builder.
    pub fn new(kind: ColumnType) -> Self {
        match kind {
            ColumnType::String => KeptBuilder::String(StringBuilder::new()),
            ColumnType::Int64 => KeptBuilder::Int64(Int64Builder::new()),
            ColumnType::Float64 => KeptBuilder::Float64(Float64Builder::new()),
            ColumnType::Bool => KeptBuilder::Bool(BooleanBuilder::new()),
        }
    }

    /// Appends a value. A value that does not have this type becomes null. Such a value occurs only if it made the
    /// target fail.
    pub fn push(&mut self, text: Option<&[u8]>) {
        match self {
            KeptBuilder::String(column) => match text {
                Some(text) => column.append_value(String::from_utf8_lossy(text)),
                None => column.append_null(),
            },
            KeptBuilder::Int64(column) => column.append_option(match read(ColumnType::Int64, text) {
                Some(TypedValue::Int64(value)) => Some(value),
                _ => None,
            }),
            KeptBuilder::Float64(column) => column.append_option(match read(ColumnType::Float64, text) {
                Some(TypedValue::Float64(value)) => Some(value),
                _ => None,
            }),
            KeptBuilder::Bool(column) => column.append_option(match read(ColumnType::Bool, text) {
                Some(TypedValue::Bool(value)) => Some(value),
                _ => None,
            }),
        }
    }

    /// Returns the values and empties the builder.
    pub fn finish(&mut self) -> ArrayRef {
        match self {
            KeptBuilder::String(column) => Arc::new(column.finish()),
            KeptBuilder::Int64(column) => Arc::new(column.finish()),
            KeptBuilder::Float64(column) => Arc::new(column.finish()),
            KeptBuilder::Bool(column) => Arc::new(column.finish()),
        }
    }
}

fn read(kind: ColumnType, text: Option<&[u8]>) -> Option<TypedValue<'_>> {
    kind.read(text?)
}

/// Values of a column in a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeptArray<'a> {
    String(&'a StringArray),
    Int64(&'a Int64Array),
    Float64(&'a Float64Array),
    Bool(&'a BooleanArray),
}

impl<'a> KeptArray<'a> {
    /// Returns the values of an array. `None` if its type is not supported.
    pub(super) fn of(array: &'a ArrayRef) -> Option<Self> {
        let any = array.as_any();
        any.downcast_ref()
            .map(KeptArray::String)
            .or_else(|| any.downcast_ref().map(KeptArray::Int64))
            .or_else(|| any.downcast_ref().map(KeptArray::Float64))
            .or_else(|| any.downcast_ref().map(KeptArray::Bool))
    }

    /// Returns the value in a row as text, which may borrow from `memory`.
    pub(super) fn text<'t>(self, row: usize, memory: &'t mut String) -> Option<&'t [u8]>
    where
        'a: 't,
    {
        let typed = match self {
            KeptArray::String(column) => {
                return (!column.is_null(row)).then(|| column.value(row).as_bytes());
            }
            KeptArray::Int64(column) => (!column.is_null(row)).then(|| TypedValue::Int64(column.value(row))),
            KeptArray::Float64(column) => {
                (!column.is_null(row)).then(|| TypedValue::Float64(column.value(row)))
            }
            KeptArray::Bool(column) => (!column.is_null(row)).then(|| TypedValue::Bool(column.value(row))),
        }?;
        *memory = typed.to_string();
        Some(memory.as_bytes())
    }
}
