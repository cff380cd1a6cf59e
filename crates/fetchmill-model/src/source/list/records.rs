//! Records, which every list format produces. A record consists of the values of the wanted columns.

use std::ops::Range;

use super::lines::ReadStep;
use super::read_share::ReadShare;
use crate::error::Result;
use crate::source::ListPosition;
use crate::target::extra_columns::ColumnType;

/// Result of reading the next record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RecordStep {
    /// A valid record, whose values are set.
    Record,
    /// An invalid record. Contains the reason.
    Bad(&'static str),
    /// A record to skip.
    LeftOut,
    /// No data is available at the moment. See [`super::ListStep::NothingNow`].
    NothingNow,
    /// There are no more records.
    End,
}

/// The records of a list.
pub(super) trait Records: Send {
    /// Reads the next record. `values` is cleared first.
    fn next(&mut self, values: &mut RecordValues) -> Result<RecordStep>;

    /// Describes the position of the last record, such as `line 17`.
    fn place(&self) -> String;

    /// Returns the text of the last record as it appears in the list. For formats that are not text, the result is
    /// empty.
    fn text(&self) -> &[u8] {
        b""
    }

    /// Returns the position in the list, without the number of entries.
    fn position(&mut self) -> ListPosition;

    /// Resumes after a position from another run. Must be called again until it returns `Done`. `End` means that the
    /// list has changed.
    fn go_to(&mut self, position: ListPosition) -> Result<ReadStep>;

    /// Returns the type of a wanted column, if the list states the type.
    fn column_type(&self, _column: usize) -> ColumnType {
        ColumnType::String
    }

    /// Returns the names of all columns, if the list has column names. The names must be the same in all files of a
    /// list. Consumes nothing.
    fn columns(&mut self) -> Result<Option<Vec<String>>> {
        Ok(None)
    }

    /// Returns a warning about records that may have been misread.
    fn notice(&self) -> Option<String> {
        None
    }

    /// Returns how much of the list has been read, or `None` if the records do not show this.
    fn read_share(&self) -> Option<ReadShare> {
        None
    }

    /// Returns the unit in which a position is measured.
    fn unit(&self) -> &'static str {
        "bytes"
    }
}

/// Records from one file of a list.
pub struct ListRecords(pub(super) Box<dyn Records>);

impl std::fmt::Debug for ListRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListRecords").field("place", &self.0.place()).finish_non_exhaustive()
    }
}

/// Values of the wanted columns in a record.
#[derive(Debug, Default)]
pub(super) struct RecordValues {
    bytes: Vec<u8>,
    places: Vec<Option<Range<usize>>>,
}

impl RecordValues {
    /// Removes all values and makes room for `count` new ones.
    pub(super) fn clear(&mut self, count: usize) {
        self.bytes.clear();
        self.places.clear();
        self.places.resize(count, None);
    }

    /// Sets the value of a wanted column.
    pub(super) fn set(&mut self, column: usize, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.places[column] = Some(start..self.bytes.len());
    }

    /// Removes the value of a wanted column.
    pub(super) fn unset(&mut self, column: usize) {
        self.places[column] = None;
    }

    /// Returns the value of a column, or `None` if the record does not have one.
    pub(super) fn get(&self, column: usize) -> Option<&[u8]> {
        self.places.get(column)?.clone().map(|place| &self.bytes[place])
    }
}
