//! `txt`: one URL per line. Empty lines and comments are ignored.

use super::columns::{ColumnPlan, ColumnSelector};
use super::lines::{LineSearch, Lines, ReadStep};
use super::read_share::ReadShare;
use super::records::{RecordStep, RecordValues, Records};
use crate::error::{Error, Result};
use crate::source::ListPosition;

/// The records of a text list, which contains one value per line.
pub(super) struct TextRecords {
    lines: Lines,
}

impl TextRecords {
    pub(super) fn new(lines: Lines, plan: &ColumnPlan) -> Result<Self> {
        let other =
            |column: &&ColumnSelector| !matches!(column, ColumnSelector::Url | ColumnSelector::Manifest(_));
        match plan.wanted().iter().find(other) {
            None => Ok(TextRecords { lines }),
            Some(column) => Err(Error::Usage(format!(
                "the list {} is plain text and has no column {}; if the list has a different format, \
                 give --list-format",
                lines.label(),
                column.text()
            ))),
        }
    }
}

impl Records for TextRecords {
    fn read_share(&self) -> Option<ReadShare> {
        Some(self.lines.read_share())
    }

    fn next(&mut self, values: &mut RecordValues) -> Result<RecordStep> {
        values.clear(1);
        loop {
            if self.lines.is_skipping() {
                return skip(&mut self.lines);
            }
            match self.lines.find(0)? {
                (LineSearch::Line(place), next) => {
                    let line = self.lines.bytes(place).trim_ascii();
                    let is_target = !line.is_empty() && !line.starts_with(b"#");
                    if is_target {
                        values.set(0, line);
                    }
                    self.lines.consume(next, 1);
                    if is_target {
                        return Ok(RecordStep::Record);
                    }
                }
                (LineSearch::TooLong, _) => return skip(&mut self.lines),
                (LineSearch::NothingNow, _) => return Ok(RecordStep::NothingNow),
                (LineSearch::End, _) => return Ok(RecordStep::End),
            }
        }
    }

    fn place(&self) -> String {
        format!("line {}", self.lines.line())
    }

    fn text(&self) -> &[u8] {
        self.lines.last()
    }

    fn position(&mut self) -> ListPosition {
        self.lines.position()
    }

    fn go_to(&mut self, position: ListPosition) -> Result<ReadStep> {
        self.lines.go_to(position)
    }
}

/// Skips a line that is too long.
pub(super) fn skip(lines: &mut Lines) -> Result<RecordStep> {
    Ok(match lines.skip_line()? {
        ReadStep::NothingNow => RecordStep::NothingNow,
        ReadStep::Done | ReadStep::End => RecordStep::Bad("it is longer than 1 MiB"),
    })
}
