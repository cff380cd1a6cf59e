//! Records: the output of every list format, with the values of the wanted columns.

use std::ops::Range;

use super::lines::ReadStep;
use super::read_share::ReadShare;
use crate::error::Result;
use crate::source::ListPosition;
use crate::target::extra_columns::ColumnType;

/// What comes next in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RecordStep {
    /// A record; its values are there.
    Record,
    /// A record that cannot be understood, and why.
    Bad(&'static str),
    /// A record of what is to be left out.
    LeftOut,
    /// See [`super::ListStep::NothingNow`].
    NothingNow,
    /// There is none.
    End,
}

/// The records of a list.
pub(super) trait Records: Send {
    /// The next record; `values` are cleared first.
    fn next(&mut self, values: &mut RecordValues) -> Result<RecordStep>;

    /// Which record the last one was, in words: `line 17`.
    fn place(&self) -> String;

    /// The last record as its list has it; empty where that is not text.
    fn text(&self) -> &[u8] {
        b""
    }

    /// How far the list was read, without the number of entries.
    fn position(&mut self) -> ListPosition;

    /// Goes behind a position of another run. To be called again until it is done; `End` means that the list is
    /// another.
    fn go_to(&mut self, position: ListPosition) -> Result<ReadStep>;

    /// What the values of a wanted column are, as far as the list itself says it.
    fn column_type(&self, _column: usize) -> ColumnType {
        ColumnType::String
    }

    /// The names of all columns, where the list itself has them: files of one list must agree. Nothing is consumed.
    fn columns(&mut self) -> Result<Option<Vec<String>>> {
        Ok(None)
    }

    /// What a user should know of records that were read all the same.
    fn notice(&self) -> Option<String> {
        None
    }

    /// How much of the list was read; `None` if its records do not know.
    fn read_share(&self) -> Option<ReadShare> {
        None
    }

    /// What a position counts.
    fn unit(&self) -> &'static str {
        "bytes"
    }
}

/// The records of a file that is a part of a list.
pub struct ListRecords(pub(super) Box<dyn Records>);

impl std::fmt::Debug for ListRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListRecords").field("place", &self.0.place()).finish_non_exhaustive()
    }
}

/// The values of a record's wanted columns.
#[derive(Debug, Default)]
pub(super) struct RecordValues {
    bytes: Vec<u8>,
    places: Vec<Option<Range<usize>>>,
}

impl RecordValues {
    /// Forgets them; this many will come.
    pub(super) fn clear(&mut self, count: usize) {
        self.bytes.clear();
        self.places.clear();
        self.places.resize(count, None);
    }

    /// The value of a wanted column.
    pub(super) fn set(&mut self, column: usize, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.places[column] = Some(start..self.bytes.len());
    }

    /// Takes the value of a wanted column back.
    pub(super) fn unset(&mut self, column: usize) {
        self.places[column] = None;
    }

    /// `None` when the record has none.
    pub(super) fn get(&self, column: usize) -> Option<&[u8]> {
        self.places.get(column)?.clone().map(|place| &self.bytes[place])
    }
}
