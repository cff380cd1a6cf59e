//! A list in several files, read one after another.
//!
//! Only one file is open at a time. A position contains a digest of all earlier files. A resumed run reads these files
//! again, so it notices if one of them was changed, added, removed or renamed.

use xxhash_rust::xxh3::xxh3_64;

use super::lines::ReadStep;
use super::read_share::ReadShare;
use super::records::{ListRecords, RecordStep, RecordValues, Records};
use crate::error::{Error, Result};
use crate::source::ListPosition;
use crate::target::extra_columns::ColumnType;

/// Number of records that are skipped before the caller can check its stop signal.
const STRETCH_RECORDS: u64 = 64 * 1024;

/// The files of a list, in order.
pub trait ListParts: Send {
    /// Returns the number of files.
    fn count(&self) -> usize;

    /// Returns the name of file `part`, counted from 0.
    fn name(&self, part: usize) -> String;

    /// Returns the size of file `part` in bytes.
    fn length(&self, part: usize) -> u64;

    /// Opens file `part`.
    fn open(&self, part: usize) -> Result<ListRecords>;
}

/// Records of a list in several files. See the module.
pub(super) struct PartRecords {
    label: String,
    parts: Box<dyn ListParts>,
    /// Number of the current file, counted from 0.
    at: usize,
    /// Records of the current file. `None` if no file is open.
    records: Option<Box<dyn Records>>,
    /// Digest of the files before the current one.
    before: u64,
    /// Total size of the files before the current one. `bytes` is the total size of all files.
    bytes_before: u64,
    bytes: u64,
    /// Types of the wanted columns in the first file.
    types: Vec<ColumnType>,
    /// First notice from a file that was read completely.
    notice: Option<String>,
}

impl PartRecords {
    /// Creates the records. All files must have the same columns as the first one. `wanted` is the number of wanted
    /// columns.
    pub(super) fn new(label: &str, parts: Box<dyn ListParts>, wanted: usize) -> Result<Self> {
        let mut first = parts.open(0)?.0;
        let columns = first.columns()?;
        for part in 1..parts.count() {
            let other = parts.open(part)?.0.columns()?;
            if other != columns {
                let shown = |columns: &Option<Vec<String>>| {
                    columns.as_ref().map_or("none".to_owned(), |columns| columns.join(", "))
                };
                return Err(Error::Usage(format!(
                    "the files of the list {label} have different columns ({}: {}; {}: {}); give files with the same \
                     columns",
                    parts.name(0),
                    shown(&columns),
                    parts.name(part),
                    shown(&other)
                )));
            }
        }
        let types = (0..wanted).map(|column| first.column_type(column)).collect();
        let bytes = (0..parts.count()).map(|part| parts.length(part)).sum();
        Ok(PartRecords {
            label: label.to_owned(),
            parts,
            at: 0,
            records: Some(first),
            before: 0,
            bytes_before: 0,
            bytes,
            types,
            notice: None,
        })
    }

    /// Returns the records of the current file, which is opened if necessary. Returns `None` after the last file.
    fn records(&mut self) -> Result<Option<&mut (dyn Records + 'static)>> {
        if self.at == self.parts.count() {
            return Ok(None);
        }
        if self.records.is_none() {
            self.records = Some(self.parts.open(self.at)?.0);
        }
        Ok(self.records.as_deref_mut())
    }

    /// Moves to the next file after the current one has ended.
    fn finish_part(&mut self) {
        let name = self.parts.name(self.at);
        if let Some(mut records) = self.records.take() {
            let end = records.position().digest;
            let said = [&self.before.to_le_bytes()[..], &end.to_le_bytes(), name.as_bytes()].concat();
            self.before = xxh3_64(&said);
            if self.notice.is_none() {
                self.notice = records.notice().map(|notice| format!("{name}: {notice}"));
            }
        }
        self.bytes_before += self.parts.length(self.at);
        self.at += 1;
    }

    /// Reads up to the start of a file. Must be called again until it returns `Done`. `End` means that the list has
    /// fewer files.
    fn go_to_part(&mut self, part: u64) -> Result<ReadStep> {
        let mut values = RecordValues::default();
        let mut passed = 0;
        while (self.at as u64) < part {
            let Some(records) = self.records()? else { return Ok(ReadStep::End) };
            match records.next(&mut values)? {
                RecordStep::End => self.finish_part(),
                RecordStep::NothingNow => return Ok(ReadStep::NothingNow),
                RecordStep::Record | RecordStep::Bad(_) | RecordStep::LeftOut => passed += 1,
            }
            if passed == STRETCH_RECORDS {
                return Ok(ReadStep::NothingNow);
            }
        }
        Ok(ReadStep::Done)
    }
}

impl Records for PartRecords {
    fn next(&mut self, values: &mut RecordValues) -> Result<RecordStep> {
        while let Some(records) = self.records()? {
            match records.next(values)? {
                RecordStep::End => self.finish_part(),
                step => return Ok(step),
            }
        }
        Ok(RecordStep::End)
    }

    fn place(&self) -> String {
        match &self.records {
            Some(records) => format!("{} of {}", records.place(), self.parts.name(self.at)),
            None => "the end".to_owned(),
        }
    }

    fn text(&self) -> &[u8] {
        self.records.as_ref().map_or(b"", |records| records.text())
    }

    fn position(&mut self) -> ListPosition {
        let here = self.records.as_mut().map(|records| records.position()).unwrap_or_default();
        ListPosition { digest: here.digest ^ self.before, file: self.at as u64, ..here }
    }

    fn go_to(&mut self, position: ListPosition) -> Result<ReadStep> {
        let step = match self.go_to_part(position.file)? {
            ReadStep::Done => {
                let there = ListPosition { digest: position.digest ^ self.before, file: 0, ..position };
                match &mut self.records {
                    None if there.digest == 0 => ReadStep::Done,
                    None if self.at == self.parts.count() => ReadStep::End,
                    // The position is between two files.
                    _ => match self.records()? {
                        Some(records) => records.go_to(there)?,
                        None => ReadStep::End,
                    },
                }
            }
            other => other,
        };
        if step == ReadStep::End {
            return Err(Error::Usage(format!(
                "the list {} has changed since the job started (at least one of the first {} files \
                 differs); restore the original files, or choose another destination",
                self.label,
                position.file + 1
            )));
        }
        Ok(step)
    }

    fn read_share(&self) -> Option<ReadShare> {
        let length = self.parts.length(self.at);
        let here = self.records.as_ref().and_then(|records| records.read_share()?.of(Some(length)));
        let read = self.bytes_before as f64 + here.unwrap_or(0.0) * length as f64;
        Some(ReadShare::Part(read / self.bytes.max(1) as f64))
    }

    fn column_type(&self, column: usize) -> ColumnType {
        self.types.get(column).copied().unwrap_or_default()
    }

    fn notice(&self) -> Option<String> {
        let of_last = || self.records.as_ref().and_then(|records| records.notice());
        self.notice.clone().or_else(of_last)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::super::{FieldCheck, ListFormat, ListOptions, ListReader, ListSource, ListStep};
    use super::*;
    use crate::source::PageCursor;

    /// Files that consist of strings.
    struct Texts(Vec<String>);

    impl ListParts for Texts {
        fn count(&self) -> usize {
            self.0.len()
        }

        fn name(&self, part: usize) -> String {
            format!("part-{part}")
        }

        fn length(&self, part: usize) -> u64 {
            self.0.get(part).map_or(0, |text| text.len() as u64)
        }

        fn open(&self, part: usize) -> Result<ListRecords> {
            let input = Box::new(Cursor::new(self.0[part].clone().into_bytes()));
            let reader = ListReader::of_stream(
                "x",
                (input, FieldCheck::FirstValues),
                (ListFormat::Text, None),
                &ListOptions::default(),
            )?;
            Ok(reader.into_records())
        }
    }

    fn texts() -> Vec<String> {
        let line_of = |part, line| format!("http://a/{part}/{line}\n");
        let lines = |part| (0..400).map(|line| line_of(part, line)).collect();
        vec![lines(0), String::new(), lines(2), lines(3)]
    }

    /// Returns the number of entries after a position, and the positions after each page.
    fn read(texts: Vec<String>, from: ListPosition) -> Result<(usize, Vec<(usize, ListPosition)>)> {
        let mut reader = ListReader::of_parts("parts", Texts(texts), &ListOptions::default())?;
        reader.resume(from);
        let (mut count, mut ends) = (0, Vec::new());
        loop {
            match reader.next_page()? {
                ListStep::End => return Ok((count, ends)),
                ListStep::NothingNow => {}
                ListStep::Page(page) => {
                    count += page.names.len();
                    let PageCursor::List { position, .. } = page.cursor else { panic!("another cursor") };
                    ends.push((count, position));
                }
            }
        }
    }

    #[test]
    fn a_list_in_parts_is_resumed_after_each_page_and_only_if_it_is_the_same() {
        let (all, ends) = read(texts(), ListPosition::default()).unwrap();
        assert_eq!(all, 1200);

        for (count, position) in ends {
            assert_eq!(read(texts(), position).unwrap().0, 1200 - count, "{position:?}");
            let mut other = texts();
            other[0] = other[0].replace("/0/", "/9/");
            let error = read(other, position).unwrap_err();
            assert!(error.exit_code() == 2 && error.to_string().contains("has changed"), "{error}");
        }
    }
}
