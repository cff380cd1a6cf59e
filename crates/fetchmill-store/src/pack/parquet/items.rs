//! Items of an API as rows. Each row contains the columns of the item, its sequence number, and the item itself.
//!
//! Readers of objects can read these rows as well. For this purpose, a row is converted to the columns of objects. The
//! name of an item is its sequence number, and its body is the item itself.

use super::error::ShardError;
use super::kept_columns::KeptBuilder;
use super::schema::{ITEM_OWN_COLUMNS, schema};
use arrow_array::{
    Array, ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray, UInt32Array, new_null_array,
};
use arrow_schema::{DataType, SchemaRef};
use fetchmill_model::target::extra_columns::ExtraColumns;
use std::sync::Arc;

/// Returns the arrays of a batch of items. JSON must be UTF-8, which is checked again here.
pub(super) fn item_arrays(
    kept: &mut [KeptBuilder],
    sequences: Int64Array,
    items: BinaryArray,
) -> Result<Vec<ArrayRef>, arrow_schema::ArrowError> {
    let own: [ArrayRef; ITEM_OWN_COLUMNS] =
        [Arc::new(sequences), Arc::new(StringArray::try_from_binary(items)?)];
    Ok(kept.iter_mut().map(KeptBuilder::finish).chain(own).collect())
}

/// Converts a batch of items to objects with the standard columns.
pub(super) fn widened(batch: &RecordBatch, columns: &ExtraColumns) -> Result<RecordBatch, ShardError> {
    let foreign = || ShardError::Foreign("the rows of items do not have the expected columns".into());
    let of_items = columns.kept().len();
    let own = |place: usize| batch.columns().get(of_items + place).ok_or_else(foreign);
    let sequences: &Int64Array = own(0)?.as_any().downcast_ref().ok_or_else(foreign)?;
    let items: &StringArray = own(1)?.as_any().downcast_ref().ok_or_else(foreign)?;
    let names = StringArray::from_iter_values(sequences.values().iter().map(i64::to_string));
    let bodies = BinaryArray::from(items.clone());
    let checksums: UInt32Array = bodies.iter().map(|body| body.map(crc32c::crc32c)).collect();
    let schema: SchemaRef = schema(&columns.clone().with_items(false));
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    arrays.extend([Arc::clone(own(0)?), Arc::new(names) as ArrayRef]);
    let unknown = schema.fields().iter().skip(arrays.len()).take(UNKNOWN_COLUMNS);
    arrays.extend(unknown.map(|field| new_null_array(field.data_type(), batch.num_rows())));
    arrays.extend([Arc::new(checksums) as ArrayRef, Arc::new(bodies)]);
    arrays.push(new_null_array(&DataType::Utf8, batch.num_rows()));
    arrays.extend(batch.columns().iter().take(of_items).cloned());
    RecordBatch::try_new(schema, arrays).map_err(|error| ShardError::Damage(error.to_string()))
}

/// Number of columns between the name and the checksum of an object. They have no values for items.
const UNKNOWN_COLUMNS: usize = 6;
