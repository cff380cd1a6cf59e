//! The summary of a check: the number of sites for each answer, and some of the failed sites. For a list that is
//! written out, only the rows are counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::jsonl::write_row;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::CHECK_FAILED_SHOWN;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::row::{CheckAnswer, CheckRow, ROW_COLUMNS, RowValues};
use fetchmill_model::target::extra_columns::ExtraColumns;

/// Counts the rows of a job and keeps some of the failed ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of rows.
    pub rows: u64,
    /// Number of rows whose failure this machine may have caused.
    pub suspect: u64,
    counts: BTreeMap<CheckAnswer, u64>,
    /// The first failed rows, in the same form as in JSON lines results, but without the kept columns.
    pub failed: Vec<String>,
}

/// The form in which the journal stores a summary.
#[derive(Serialize, Deserialize)]
struct StoredSummary {
    rows: u64,
    suspect: u64,
    counts: BTreeMap<String, u64>,
    failed: Vec<String>,
}

impl Summary {
    /// Counts a row.
    pub fn add(&mut self, row: &CheckRow<'_>) {
        let answer = row.answer();
        self.rows += 1;
        self.suspect += u64::from(row.suspect);
        *self.counts.entry(answer).or_default() += 1;
        if answer.is_failure() && self.failed.len() < CHECK_FAILED_SHOWN {
            let mut line = Vec::new();
            let record = RowValues { values: &row.values(), kept: &[] };
            write_row(&ROW_COLUMNS, record, &ExtraColumns::default(), &mut line);
            self.failed.push(String::from_utf8_lossy(line.trim_ascii()).into_owned());
        }
    }

    /// Returns each answer with its row count.
    pub fn counts(&self) -> impl Iterator<Item = (CheckAnswer, u64)> {
        self.counts.iter().map(|(answer, count)| (*answer, *count))
    }

    /// Returns the summary as text for the journal.
    pub fn to_text(&self) -> String {
        let counts = self.counts().map(|(answer, count)| (answer.name().into_owned(), count)).collect();
        let stored =
            StoredSummary { rows: self.rows, suspect: self.suspect, counts, failed: self.failed.clone() };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Parses the output of [`Summary::to_text`].
    pub fn from_text(text: &str) -> Result<Self> {
        let damaged = || Error::Journal("the journal is damaged: its summary cannot be read".into());
        let StoredSummary { rows, suspect, counts, failed } =
            serde_json::from_str(text).map_err(|_| damaged())?;
        let counts = counts.into_iter().map(|(name, count)| Some((answer_of(&name)?, count)));
        Ok(Summary { rows, suspect, counts: counts.collect::<Option<_>>().ok_or_else(damaged)?, failed })
    }
}

fn answer_of(name: &str) -> Option<CheckAnswer> {
    let kind = FailureKind::from_name(name).map(CheckAnswer::Kind);
    kind.or_else(|| name.parse().ok().map(CheckAnswer::Status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_and_the_first_failures_kept() {
        let mut summary = Summary::default();
        for status in [200, 200, 301, 500] {
            summary.add(&CheckRow { status: Some(status), ..CheckRow::default() });
        }
        for _ in 0..CHECK_FAILED_SHOWN {
            summary.add(&CheckRow { kind: Some(FailureKind::Refused), suspect: true, ..CheckRow::default() });
        }

        let counts: Vec<_> =
            summary.counts().map(|(answer, count)| (answer.name().into_owned(), count)).collect();
        let expected = [("200", 2), ("301", 1), ("500", 1), ("refused", 20)];
        assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)));
        assert_eq!((summary.rows, summary.suspect), (24, 20));
        assert_eq!(summary.failed.len(), CHECK_FAILED_SHOWN);
        assert!(summary.failed[0].contains(r#""status":500,"#) && summary.failed[0].ends_with('}'));
        assert_eq!(Summary::from_text(&summary.to_text()).unwrap(), summary);
    }

    #[test]
    fn a_damaged_summary_is_told() {
        for text in ["", "{}", r#"{"rows":1,"suspect":0,"counts":{"sunshine":1},"failed":[]}"#] {
            assert_eq!(Summary::from_text(text).unwrap_err().exit_code(), 10);
        }
    }
}
