//! All objects of a destination as record batches. The schema is the same for all formats.

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};

use super::Objects;
use crate::pack::parquet::BatchBuilder;
use fetchmill_model::limits::MIB;

/// Maximum number of rows in a batch.
const BATCH_ROWS: usize = 8192;
/// Maximum size of a batch in bytes. A batch with a single object may be larger.
const BATCH_BYTES: usize = 4 * MIB;
/// Value for an unknown sequence number.
const NO_SEQUENCE: u64 = u64::MAX;

/// Iterates over objects as record batches. An unknown sequence number is -1.
#[derive(Debug)]
pub struct ArrowBatches {
    objects: Objects,
    builder: BatchBuilder,
}

impl ArrowBatches {
    /// Creates the iterator over these objects.
    pub fn new(objects: Objects) -> Self {
        let builder = BatchBuilder::new(objects.columns());
        ArrowBatches { objects, builder }
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        while self.builder.rows() < BATCH_ROWS && self.builder.bytes() < BATCH_BYTES {
            let Some(found) = self.objects.next() else { break };
            let found = found.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
            self.builder.push(&found.object.as_object(found.sequence.unwrap_or(NO_SEQUENCE)));
        }
        if self.builder.rows() == 0 {
            return Ok(None);
        }
        let batch = self.builder.finish();
        batch.map(Some).map_err(|error| ArrowError::IoError(error.to_string(), error))
    }
}

impl Iterator for ArrowBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl RecordBatchReader for ArrowBatches {
    fn schema(&self) -> SchemaRef {
        self.builder.schema()
    }
}
