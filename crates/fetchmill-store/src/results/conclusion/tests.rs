//! Tests of the end of a check when the run is killed at different points.

use super::*;
use crate::journal::Identity;
use crate::sink::failures::FailuresShard;
use fetchmill_model::outcome::skips::Skips;
use fetchmill_model::outcome::{Receipt, Runs, Tally};
use fetchmill_model::source::{ListedPage, PageCursor};
use fetchmill_model::target::Names;
use fetchmill_model::text::file_name::FileName;

const ROWS: u64 = 3;

/// A check in which every target has its row.
struct Settled {
    folder: tempfile::TempDir,
    place: JobLocation,
    journal: Journal,
}

impl Settled {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = JobLocation::prepare_file(&folder.path().join("r.csv"), None).unwrap();
        let identity = Identity::new([("format", "check".to_owned())]);
        let mut journal = Journal::open(&place, &identity, false).unwrap();
        let mut names = Names::default();
        let mut shard = FailuresShard::new(&place.failures_path(), FileName::of_own("0.jsonl.zst"), false);
        for number in 0..ROWS {
            names.push(b"https://a.test/");
            let url = format!("https://a.test/{number}");
            let mut line = Vec::new();
            CheckRow { url: Some(url.into()), status: Some(200), ..CheckRow::default() }
                .write_line(&mut line);
            shard.add_line(&line).unwrap();
        }
        let cursor = PageCursor::Marker { from: None, next: None };
        journal.add_page(&ListedPage { names, skipped: Skips::default(), total: None, cursor }).unwrap();
        let settled = Runs::from_unsorted(&mut (0..ROWS).collect::<Vec<_>>());
        let tally = Tally { fetched: ROWS, ..Tally::default() };
        let failures = shard.checkpoint().unwrap();
        journal.settle(&Receipt { settled, tally, failures, ..Receipt::default() }).unwrap();
        journal.commit().unwrap();
        Settled { folder, place, journal }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("r.csv")
    }

    fn conclude(&mut self, goes_on: bool) -> Result<Option<Summary>> {
        let path = self.path();
        let format = ResultsFormat::of("r.csv", None).unwrap();
        let target = ResultsTarget {
            path: &path,
            rows: RowKind::Answers,
            format,
            kept: &ExtraColumns::default(),
            is_durable: true,
        };
        conclude(&self.place, &mut self.journal, RowKind::Answers, Some(target), &|| goes_on)
    }

    /// Returns the files in the folder, without the state.
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    fn assert_whole(&self) {
        assert_eq!(self.files(), ["r.csv", "r.csv.fetchmill"]);
        assert_eq!(std::fs::read_to_string(self.path()).unwrap().lines().count() as u64, 1 + ROWS);
    }
}

#[test]
fn results_are_whole_and_the_shards_are_forgotten_with_the_jobs_end() {
    let mut check = Settled::new();

    let summary = check.conclude(true).unwrap().unwrap();

    check.assert_whole();
    assert_eq!(summary.rows, ROWS);
    assert_eq!(read_summary(&check.journal).unwrap(), Some(summary));
    assert_eq!(check.journal.failures_shards().unwrap(), []);
    // Until the transaction is committed, the next run repeats all of its changes.
    check.journal.roll_back().unwrap();
    assert_eq!(read_summary(&check.journal).unwrap(), None);
    assert_eq!(check.journal.failures_shards().unwrap().len(), 1);
    assert_eq!(check.conclude(true).unwrap().unwrap().rows, ROWS);
    check.assert_whole();
}

#[test]
fn a_file_that_was_cut_off_is_written_again() {
    let mut check = Settled::new();
    check.journal.set(UNFINISHED, ".left").unwrap();
    std::fs::write(check.folder.path().join(".left"), "url,key,sta").unwrap();

    check.conclude(true).unwrap().unwrap();

    check.assert_whole();
}

#[test]
fn a_run_that_is_to_stop_leaves_nothing() {
    let mut check = Settled::new();

    assert_eq!(check.conclude(false).unwrap(), None);

    assert_eq!(check.files(), ["r.csv.fetchmill"]);
    check.conclude(true).unwrap().unwrap();
    check.assert_whole();
}

#[test]
fn a_file_that_another_has_the_place_of_waits() {
    let mut check = Settled::new();
    std::fs::write(check.path(), "precious").unwrap();

    for _ in 0..2 {
        assert_eq!(check.conclude(true).unwrap_err().exit_code(), 2);
        assert_eq!(std::fs::read_to_string(check.path()).unwrap(), "precious");
    }
    std::fs::remove_file(check.path()).unwrap();

    check.conclude(true).unwrap().unwrap();
    check.assert_whole();
}

#[test]
fn rows_that_are_missing_are_told_and_nothing_is_written() {
    let mut check = Settled::new();
    let tally = Tally { absent: 1, ..Tally::default() };
    check.journal.settle(&Receipt { tally, ..Receipt::default() }).unwrap();
    check.journal.commit().unwrap();

    let error = check.conclude(true).unwrap_err();

    assert_eq!(error.exit_code(), 10);
    assert!(error.to_string().contains("3 rows, but 4 targets have an outcome"), "{error}");
    assert_eq!(check.files(), ["r.csv.fetchmill"]);
}
