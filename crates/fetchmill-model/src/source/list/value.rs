//! The values in a Parquet file, as text.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, ArrowTemporalType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};

use crate::target::extra_columns::ColumnType;

/// Returns whether [`give`] supports values of this type.
pub(super) fn is_readable(kind: &DataType) -> bool {
    kind.is_integer()
        || matches!(
            kind,
            DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::Boolean
                | DataType::Float32
                | DataType::Float64
                | DataType::Decimal128(..)
                | DataType::Date32
                | DataType::Timestamp(..)
        )
}

/// Returns the column type in which values of this type are kept. Dates, times, and numbers that fit no fetchmill type
/// become text.
pub(super) fn column_type(kind: &DataType) -> ColumnType {
    match kind {
        DataType::Boolean => ColumnType::Bool,
        DataType::Float32 | DataType::Float64 => ColumnType::Float64,
        DataType::UInt64 => ColumnType::String,
        _ if kind.is_integer() => ColumnType::Int64,
        _ => ColumnType::String,
    }
}

/// Passes the text of a value to `set`, unless the value is null. Dates and times are written in ISO 8601, with a `Z`
/// if the file says that they are in UTC.
pub(super) fn give(array: &ArrayRef, row: usize, mut set: impl FnMut(&[u8])) {
    if array.is_null(row) {
        return;
    }
    match array.data_type() {
        DataType::Utf8 => set(array.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => set(array.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => set(array.as_string_view().value(row).as_bytes()),
        DataType::Binary => set(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => set(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => set(array.as_binary_view().value(row)),
        _ => {
            if let Some(text) = other_text(array, row) {
                set(text.as_bytes());
            }
        }
    }
}

fn other_text(array: &ArrayRef, row: usize) -> Option<String> {
    fn number<T: ArrowPrimitiveType>(array: &ArrayRef, row: usize) -> String
    where
        T::Native: std::fmt::Debug,
    {
        // `{:?}` writes a float as the shortest text that parses to the same value and cannot be mistaken for an
        // integer.
        format!("{:?}", array.as_primitive::<T>().value(row))
    }
    Some(match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Int8 => number::<Int8Type>(array, row),
        DataType::Int16 => number::<Int16Type>(array, row),
        DataType::Int32 => number::<Int32Type>(array, row),
        DataType::Int64 => number::<Int64Type>(array, row),
        DataType::UInt8 => number::<UInt8Type>(array, row),
        DataType::UInt16 => number::<UInt16Type>(array, row),
        DataType::UInt32 => number::<UInt32Type>(array, row),
        DataType::UInt64 => number::<UInt64Type>(array, row),
        DataType::Float32 => number::<Float32Type>(array, row),
        DataType::Float64 => number::<Float64Type>(array, row),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value_as_string(row),
        DataType::Date32 => array.as_primitive::<Date32Type>().value_as_date(row)?.to_string(),
        DataType::Timestamp(unit, zone) => {
            let time = match unit {
                TimeUnit::Second => time::<TimestampSecondType>(array, row),
                TimeUnit::Millisecond => time::<TimestampMillisecondType>(array, row),
                TimeUnit::Microsecond => time::<TimestampMicrosecondType>(array, row),
                TimeUnit::Nanosecond => time::<TimestampNanosecondType>(array, row),
            }?;
            if zone.is_some() { time + "Z" } else { time }
        }
        _ => return None,
    })
}

fn time<T: ArrowTemporalType>(array: &ArrayRef, row: usize) -> Option<String>
where
    i64: From<T::Native>,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    Some(format!("{:?}", array.value_as_datetime(row)?))
}
