//! `txt`: a URL a line. Empty lines and comments are no targets.

use super::ListPosition;
use super::columns::{Column, Plan};
use super::lines::{Found, Lines, Progress};
use super::records::{Records, Step, Values};
use crate::error::{Error, Result};

/// Lines with one value each.
pub(super) struct Text {
    lines: Lines,
}

impl Text {
    pub(super) fn new(lines: Lines, plan: &Plan) -> Result<Self> {
        let other = |column: &&Column| !matches!(column, Column::Url | Column::Manifest(_));
        match plan.wanted().iter().find(other) {
            None => Ok(Text { lines }),
            Some(column) => Err(Error::Usage(format!(
                "the list {} is plain text, it has no column {}; say what it is with --list-format",
                lines.label(),
                column.text()
            ))),
        }
    }
}

impl Records for Text {
    fn next(&mut self, values: &mut Values) -> Result<Step> {
        values.clear(1);
        loop {
            if self.lines.is_skipping() {
                return skip(&mut self.lines);
            }
            match self.lines.find(0)? {
                (Found::Line(place), next) => {
                    let line = self.lines.bytes(place).trim_ascii();
                    let is_target = !line.is_empty() && !line.starts_with(b"#");
                    if is_target {
                        values.set(0, line);
                    }
                    self.lines.consume(next, 1);
                    if is_target {
                        return Ok(Step::Record);
                    }
                }
                (Found::TooLong, _) => return skip(&mut self.lines),
                (Found::NothingNow, _) => return Ok(Step::NothingNow),
                (Found::End, _) => return Ok(Step::End),
            }
        }
    }

    fn place(&self) -> String {
        format!("line {}", self.lines.line())
    }

    fn position(&mut self) -> ListPosition {
        self.lines.position()
    }

    fn go_to(&mut self, position: ListPosition) -> Result<Progress> {
        self.lines.go_to(position)
    }
}

/// Goes behind a line that is too long.
pub(super) fn skip(lines: &mut Lines) -> Result<Step> {
    Ok(match lines.skip_line()? {
        Progress::NothingNow => Step::NothingNow,
        Progress::Done | Progress::End => Step::Bad("it is longer than 1 MiB"),
    })
}
