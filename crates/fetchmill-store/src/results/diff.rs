//! Compares two results files and finds sites that were added, were removed, or have a different answer.
//!
//! Rows are compared by key, or by URL if they have no key. If a key or URL occurs several times, its n-th row in one
//! file is compared with its n-th row in the other. For each row of the first file, a hash and the number of its answer
//! are kept in memory, which takes 16 bytes. If there are more than [`DIFF_ROWS_HELD_MAX`] rows, the files are read
//! several times, each time for a different part of the hash range.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::answers::{AnswerReader, RowAnswer};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::{DIFF_ANSWERS_MAX, DIFF_ROWS_HELD_MAX};

/// Number of rows between two checks of the stop signal.
const STRETCH_ROWS: u64 = 16 * 1024;

/// Maximum total length of a status and a kind.
const ANSWER_BYTES_MAX: usize = 64;

/// Numbers of rows that differ between two files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Rows in the first file.
    pub old_rows: u64,
    /// Rows in the second file.
    pub new_rows: u64,
    /// Rows only in the second file.
    pub added: u64,
    /// Rows only in the first file.
    pub removed: u64,
    /// Rows with a different status or kind.
    pub changed: u64,
    /// Rows with the same status and kind.
    pub unchanged: u64,
    /// Number of changed rows for each pair of old and new answer.
    pub transitions: BTreeMap<(String, String), u64>,
}

/// A row that differs. An answer is `None` if the file does not contain the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'c> {
    /// The key, or the URL if there is no key.
    pub site: &'c str,
    /// Answer in the first file.
    pub before: Option<&'c str>,
    /// Answer in the second file.
    pub after: Option<&'c str>,
}

/// Callback for each change. It is occasionally called with `None`, so that the caller can decide whether to continue.
pub type EachChange<'e> = &'e mut dyn FnMut(Option<Change<'_>>) -> Result<()>;

/// Compares two files. Reports changes in the order of the second file, and then removed rows in the order of the first
/// one.
pub fn diff(old: &Path, new: &Path, each: EachChange<'_>) -> Result<Difference> {
    diff_within(old, new, DIFF_ROWS_HELD_MAX, each)
}

fn diff_within(old: &Path, new: &Path, held_max: usize, each: EachChange<'_>) -> Result<Difference> {
    let old_rows = count(old, each)?;
    let parts = old_rows.div_ceil(held_max as u64).max(1);
    let mut names = AnswerNumbers::default();
    let mut found = Difference { old_rows, ..Difference::default() };
    for number in 0..parts {
        // The parts of the hash range contain slightly different numbers of rows, so each part needs some spare room.
        let part = HashPartition {
            number,
            parts,
            rows_max: held_max.saturating_add(held_max / 4).saturating_add(1024),
        };
        let mut held = part.hold(old, &mut names, each)?;
        part.compare(new, &mut held, &mut names, &mut found, each)?;
        part.find_removed(old, held, &mut names, &mut found, each)?;
    }
    found.new_rows = found.added + found.changed + found.unchanged;
    Ok(found)
}

fn count(path: &Path, each: EachChange<'_>) -> Result<u64> {
    let mut answers = AnswerReader::open(path)?;
    let mut rows = 0;
    while answers.next_row()?.is_some() {
        rows += 1;
        look(rows, each)?;
    }
    Ok(rows)
}

fn look(rows: u64, each: EachChange<'_>) -> Result<()> {
    if rows.is_multiple_of(STRETCH_ROWS) { each(None) } else { Ok(()) }
}

/// A row in the first file.
#[derive(Debug, Clone, Copy)]
struct ComparedRow {
    hash: u64,
    /// Position of the row in the file. After sorting, the first row of each hash instead contains the number of rows
    /// with this hash that have a counterpart.
    place: u32,
    answer: u16,
}

/// Rows of the first file whose hashes fall into this part of the range.
struct HashPartition {
    number: u64,
    parts: u64,
    rows_max: usize,
}

impl HashPartition {
    fn hash(&self, site: &[u8]) -> Option<u64> {
        let hash = xxh3_64(site);
        (hash % self.parts == self.number).then_some(hash)
    }

    fn hold(&self, old: &Path, names: &mut AnswerNumbers, each: EachChange<'_>) -> Result<Vec<ComparedRow>> {
        let mut answers = AnswerReader::open(old)?;
        let (mut held, mut rows): (Vec<ComparedRow>, u64) = (Vec::new(), 0);
        while let Some(row) = answers.next_row()? {
            rows += 1;
            look(rows, each)?;
            let Some(hash) = self.hash(row.site) else { continue };
            if held.len() == self.rows_max {
                return Err(Error::Usage(format!(
                    "cannot compare {}: too many rows for one site",
                    old.display()
                )));
            }
            held.push(ComparedRow { hash, place: held.len() as u32, answer: names.number(&row)? });
        }
        held.sort_unstable_by_key(|row| (row.hash, row.place));
        let mut last = None;
        for row in &mut held {
            if last != Some(row.hash) {
                last = Some(row.hash);
                row.place = 0;
            }
        }
        Ok(held)
    }

    fn compare(
        &self,
        new: &Path,
        held: &mut [ComparedRow],
        names: &mut AnswerNumbers,
        found: &mut Difference,
        each: EachChange<'_>,
    ) -> Result<()> {
        let mut answers = AnswerReader::open(new)?;
        let mut rows = 0;
        while let Some(row) = answers.next_row()? {
            rows += 1;
            look(rows, each)?;
            let Some(hash) = self.hash(row.site) else { continue };
            let after = names.number(&row)?;
            let before = take(held, hash);
            if before == Some(after) {
                found.unchanged += 1;
                continue;
            }
            let site = String::from_utf8_lossy(row.site);
            let (before, after) = (before.map(|before| names.name(before)), names.name(after));
            match before {
                None => found.added += 1,
                Some(before) => {
                    found.changed += 1;
                    *found.transitions.entry((before.to_owned(), after.to_owned())).or_default() += 1;
                }
            }
            each(Some(Change { site: &site, before, after: Some(after) }))?;
        }
        Ok(())
    }

    /// Reports removed rows. For each hash, the first rows have a counterpart, and the others were removed.
    fn find_removed(
        &self,
        old: &Path,
        mut held: Vec<ComparedRow>,
        names: &mut AnswerNumbers,
        found: &mut Difference,
        each: EachChange<'_>,
    ) -> Result<()> {
        let matched: u64 = counterparts(&held);
        if matched == held.len() as u64 {
            return Ok(());
        }
        let mut answers = AnswerReader::open(old)?;
        let mut rows = 0;
        while let Some(row) = answers.next_row()? {
            rows += 1;
            look(rows, each)?;
            let Some(hash) = self.hash(row.site) else { continue };
            let start = held.partition_point(|row| row.hash < hash);
            let Some(first) = held.get_mut(start) else { continue };
            if first.place > 0 {
                first.place -= 1;
                continue;
            }
            found.removed += 1;
            let site = String::from_utf8_lossy(row.site);
            let before = names.number(&row)?;
            each(Some(Change { site: &site, before: Some(names.name(before)), after: None }))?;
        }
        Ok(())
    }
}

/// Returns the answer of the next row with this hash that has no counterpart yet, and counts this row as matched.
fn take(held: &mut [ComparedRow], hash: u64) -> Option<u16> {
    let start = held.partition_point(|row| row.hash < hash);
    let next = start + held.get(start)?.place as usize;
    let answer = held.get(next).filter(|row| row.hash == hash)?.answer;
    held[start].place += 1;
    Some(answer)
}

fn counterparts(held: &[ComparedRow]) -> u64 {
    let firsts = held.chunk_by(|one, other| one.hash == other.hash).filter_map(<[ComparedRow]>::first);
    firsts.map(|first| u64::from(first.place)).sum()
}

/// Assigns numbers to the few distinct answers.
#[derive(Debug, Default)]
struct AnswerNumbers {
    numbers: HashMap<String, u16>,
    texts: Vec<String>,
    /// The previous answer, kept because most rows have the same answer as the row before.
    last: String,
}

impl AnswerNumbers {
    fn number(&mut self, row: &RowAnswer<'_>) -> Result<u16> {
        self.last.clear();
        self.last.push_str(&String::from_utf8_lossy(row.status));
        if !row.kind.is_empty() {
            if !self.last.is_empty() {
                self.last.push(' ');
            }
            self.last.push_str(&String::from_utf8_lossy(row.kind));
        }
        if let Some(number) = self.numbers.get(&self.last) {
            return Ok(*number);
        }
        if self.texts.len() == DIFF_ANSWERS_MAX || self.last.len() > ANSWER_BYTES_MAX {
            return Err(Error::Usage(format!(
                "not results of `fetchmill check`: too many or too long answers (at {})",
                fetchmill_model::name::for_display(self.last.as_bytes())
            )));
        }
        let number = self.texts.len() as u16;
        self.texts.push(self.last.clone());
        self.numbers.insert(self.last.clone(), number);
        Ok(number)
    }

    fn name(&self, number: u16) -> &str {
        self.texts.get(usize::from(number)).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file whose rows contain a site and a status.
    fn file(folder: &Path, name: &str, rows: &[(&str, &str)]) -> std::path::PathBuf {
        let path = folder.join(name);
        let lines = rows.iter().map(|(site, answer)| format!("{site},,{answer}\n"));
        std::fs::write(&path, format!("url,key,status,kind\n{}", lines.collect::<String>())).unwrap();
        path
    }

    fn differ(old: &[(&str, &str)], new: &[(&str, &str)], held_max: usize) -> (Difference, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (file(folder.path(), "old.csv", old), file(folder.path(), "new.csv", new));
        let mut said = Vec::new();
        let mut each = |change: Option<Change<'_>>| {
            if let Some(Change { site, before, after }) = change {
                said.push(format!("{site} {} {}", before.unwrap_or("-"), after.unwrap_or("-")));
            }
            Ok(())
        };
        let found = diff_within(&old, &new, held_max, &mut each).unwrap();
        said.sort();
        (found, said)
    }

    const OLD: &[(&str, &str)] =
        &[("a", "200,"), ("b", ",dns"), ("c", "200,"), ("a", "404,"), ("d", "200,truncated"), ("a", "500,")];
    const NEW: &[(&str, &str)] =
        &[("d", "206,truncated"), ("a", "200,"), ("b", "200,"), ("e", "301,"), ("a", "200,")];

    #[test]
    fn the_nth_row_of_a_site_is_compared_with_its_nth() {
        for held_max in [1, 2, 1000] {
            let (found, said) = differ(OLD, NEW, held_max);

            assert_eq!(
                said,
                ["a 404 200", "a 500 -", "b dns 200", "c 200 -", "d 200 truncated 206 truncated", "e - 301"]
            );
            assert_eq!((found.old_rows, found.new_rows), (6, 5));
            assert_eq!((found.added, found.removed, found.changed, found.unchanged), (1, 2, 3, 1));
            assert_eq!(found.transitions[&("dns".to_owned(), "200".to_owned())], 1);
            assert_eq!(found.transitions.len(), 3);
        }
    }

    #[test]
    fn a_file_is_like_itself_in_any_order() {
        let mut sorted = OLD.to_vec();
        sorted.sort_unstable();
        let mut rotated = sorted.clone();
        rotated.rotate_left(3);

        let (found, said) = differ(&sorted, &rotated, 2);

        assert_eq!((found.unchanged, said.len()), (6, 0));
        assert_eq!(differ(&[], &[], 2).0, Difference::default());
    }

    #[test]
    fn many_rows_of_one_site_cost_no_more_than_others() {
        let row = ("a", "200,");
        let (old, new) = (vec![row; 20_000], vec![row; 10_000]);

        let (found, _) = differ(&old, &new, 1 << 20);

        assert_eq!((found.unchanged, found.removed), (10_000, 10_000));
    }

    #[test]
    fn what_is_no_result_is_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let good = file(folder.path(), "good.csv", OLD);
        for (name, content) in [
            ("a.csv", "url,rank\nhttps://a/,1\n"),
            ("b.csv", "url,key,status,kind\n,,200,\n"),
            ("c.jsonl", "{\"url\":\"https://a/\"}\n"),
            ("d.jsonl", "no\n"),
            ("e.parquet", "no"),
            ("f.csv.gz", "no"),
            ("g.txt", ""),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            let error = diff(&good, &path, &mut |_| Ok(())).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{name}: {error}");
            assert!(error.to_string().contains(name) && !error.to_string().contains('\n'), "{error}");
        }
        assert_eq!(diff(&good, &folder.path().join("none.csv"), &mut |_| Ok(())).unwrap_err().exit_code(), 2);
    }
}
