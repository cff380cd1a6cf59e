//! `jsonl`: one object or string per line, or all of them in a single array.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::ListFormat;
use super::columns::{ColumnPlan, ColumnSelector, is_manifest};
use super::decode::DecodedInput;
use super::lines::{LineSearch, Lines, ReadStep};
use super::read_share::ReadShare;
use super::records::{RecordStep, RecordValues, Records};
use super::text::skip;
use crate::error::{Error, Result};
use crate::name::for_display;
use crate::row::LISTED_COLUMNS;
use crate::source::ListPosition;
use crate::source::json_text::JsonText;

/// Number of values at the start of a list in which each wanted field must occur, if any of these values is an object.
const CHECKED_VALUES: usize = 1000;
/// Number of decompressed bytes that are searched for a rare column. The search takes up to one second.
const CHECKED_BYTES: usize = 64 << 20;
/// Maximum number of field names that an error shows if a wanted field is missing.
const SHOWN_NAMES: usize = 20;

/// Records of JSON lines.
pub(super) struct JsonRecords {
    lines: Lines,
    /// Names of the wanted fields.
    fields: Vec<String>,
    /// Positions of the fields that occur only in a manifest.
    of_manifest: Vec<usize>,
    url: usize,
    /// The check of the wanted fields that is still to be done.
    check: FieldCheck,
}

/// How a JSON list is checked for the wanted fields before its first record is read.
pub enum FieldCheck {
    /// The list is not checked, because another file of the same list was checked, or because the list is not a file.
    None,
    /// The first values must contain the fields.
    FirstValues,
    /// The first values must contain the fields. If a field is missing from them, this second reader of the same file
    /// searches further for rare columns.
    File(Box<dyn Read + Send>),
}

impl fmt::Debug for FieldCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FieldCheck::None => "None",
            FieldCheck::FirstValues => "FirstValues",
            FieldCheck::File(_) => "File",
        })
    }
}

impl JsonRecords {
    pub(super) fn new(lines: Lines, plan: &ColumnPlan) -> Result<Self> {
        if let Some(column) = plan.wanted().iter().find(|column| matches!(column, ColumnSelector::Number(_)))
        {
            return Err(Error::Usage(format!(
                "the fields of the list {} have names, not numbers; give the name of a field instead of {}",
                lines.label(),
                column.text()
            )));
        }
        let fields = plan.wanted().iter().map(ColumnSelector::text).collect();
        let wanted = plan.wanted().iter().enumerate();
        let of_manifest = wanted.filter(|(_, column)| matches!(column, ColumnSelector::Manifest(_)));
        let of_manifest = of_manifest.map(|(field, _)| field).collect();
        Ok(JsonRecords { lines, fields, of_manifest, url: plan.url_column(), check: FieldCheck::None })
    }

    /// Enables the check that the list contains the wanted fields.
    pub(super) fn checked(self, check: FieldCheck) -> Self {
        JsonRecords { check, ..self }
    }

    /// Checks the first values without consuming them. If the list is a pipe, checks only the values that have arrived.
    fn check_fields(&mut self) -> Result<ReadStep> {
        if matches!(self.check, FieldCheck::None) {
            return Ok(ReadStep::Done);
        }
        let (mut seen, mut from) = (SeenFields::default(), 0);
        let mut is_whole = false;
        for _ in 0..CHECKED_VALUES {
            match self.lines.find(from)? {
                (LineSearch::Line(place), next) => {
                    seen.add(self.lines.bytes(place).trim_ascii());
                    from = next;
                }
                (LineSearch::NothingNow, _) if from == 0 => return Ok(ReadStep::NothingNow),
                // More data from the pipe is still to come.
                (LineSearch::NothingNow, _) => {
                    self.check = FieldCheck::None;
                    return Ok(ReadStep::Done);
                }
                (LineSearch::TooLong, _) => break,
                (LineSearch::End, _) => {
                    is_whole = true;
                    break;
                }
            }
        }
        match std::mem::replace(&mut self.check, FieldCheck::None) {
            // The URL column is in nearly every value, so the search continues only if this column was found.
            FieldCheck::File(file) if !is_whole && seen.has(&self.fields[self.url], true) => {
                self.look_further(file, &mut seen)?;
            }
            _ => {}
        }
        self.missing(&seen).map_or(Ok(ReadStep::Done), |name| {
            Err(Error::Usage(format!(
                "the list {} has no column {name} (its first values have {}); choose the column of URLs \
                 with --column NAME",
                self.lines.label(),
                seen.shown()
            )))
        })
    }

    /// Adds the fields of further values until no wanted field is missing or the limit is reached.
    fn look_further(&self, file: Box<dyn Read + Send>, seen: &mut SeenFields) -> Result<()> {
        let mut lines = Lines::new(self.lines.label(), DecodedInput::new(file, None), ListFormat::Jsonl);
        let mut checked = 0;
        while self.missing(seen).is_some() && checked < CHECKED_BYTES {
            match lines.find(0)? {
                (LineSearch::Line(place), next) => {
                    seen.add(lines.bytes(place).trim_ascii());
                    lines.consume(next, 1);
                    checked += next;
                }
                (LineSearch::NothingNow, _) => {}
                (LineSearch::TooLong | LineSearch::End, _) => break,
            }
        }
        Ok(())
    }

    /// Returns a wanted field that none of the values had.
    fn missing(&self, seen: &SeenFields) -> Option<&str> {
        let mut wanted =
            self.fields.iter().enumerate().filter(|(field, _)| !self.of_manifest.contains(field));
        wanted.find(|(field, name)| !seen.has(name, *field == self.url)).map(|(_, name)| name.as_str())
    }

    /// Accepts a line that is an unquoted URL, as in a text list. Returns whether the line is such a URL.
    fn take_bare(&self, line: &[u8], values: &mut RecordValues) -> bool {
        let is_url = is_bare_url(line);
        if is_url {
            values.clear(self.fields.len());
            values.set(self.url, line);
        }
        is_url
    }
}

/// The fields that occur in a list's first values.
#[derive(Default)]
struct SeenFields {
    names: BTreeSet<String>,
    has_objects: bool,
    has_strings: bool,
}

impl SeenFields {
    #[expect(clippy::zero_sized_map_values, reason = "the values of the object are not needed")]
    fn add(&mut self, line: &[u8]) {
        if let Ok(fields) = serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(line) {
            self.has_objects = true;
            self.names.extend(fields.into_keys());
        }
        self.has_strings |= line.starts_with(b"\"") || is_bare_url(line);
    }

    /// Returns whether a field can exist. A string counts as a URL, and lists without objects are not checked.
    fn has(&self, name: &str, is_url: bool) -> bool {
        !self.has_objects || self.names.contains(name) || is_url && self.has_strings
    }

    fn shown(&self) -> String {
        let names = self.names.iter().take(SHOWN_NAMES);
        names.map(|name| for_display(name.as_bytes())).collect::<Vec<_>>().join(", ")
    }
}

impl Records for JsonRecords {
    fn read_share(&self) -> Option<ReadShare> {
        Some(self.lines.read_share())
    }

    fn next(&mut self, values: &mut RecordValues) -> Result<RecordStep> {
        if self.check_fields()? == ReadStep::NothingNow {
            return Ok(RecordStep::NothingNow);
        }
        loop {
            values.clear(self.fields.len());
            if self.lines.is_skipping() {
                return skip(&mut self.lines);
            }
            let (found, next) = self.lines.find(0)?;
            let place = match found {
                LineSearch::Line(place) => place,
                LineSearch::TooLong => return skip(&mut self.lines),
                LineSearch::NothingNow => return Ok(RecordStep::NothingNow),
                LineSearch::End => return Ok(RecordStep::End),
            };
            let line = self.lines.bytes(place).trim_ascii();
            let is_empty = line.is_empty();
            let fields =
                JsonFields { names: &self.fields, of_manifest: &self.of_manifest, url: self.url, values };
            let is_read = is_empty || read(line, fields) || self.take_bare(line, values);
            self.lines.consume(next, 1);
            if !is_empty {
                return Ok(if is_read {
                    RecordStep::Record
                } else {
                    RecordStep::Bad("not a JSON object or string")
                });
            }
        }
    }

    fn place(&self) -> String {
        let unit = if self.lines.is_array() { "item" } else { "line" };
        format!("{unit} {}", self.lines.line())
    }

    fn text(&self) -> &[u8] {
        self.lines.last()
    }

    fn position(&mut self) -> ListPosition {
        self.lines.position()
    }

    fn go_to(&mut self, position: ListPosition) -> Result<ReadStep> {
        // The fields were checked when the job began.
        self.check = FieldCheck::None;
        self.lines.go_to(position)
    }
}

/// Returns whether a line begins like a URL. No JSON value begins like this.
fn is_bare_url(line: &[u8]) -> bool {
    [&b"http://"[..], b"https://", b"s3://"].iter().any(|scheme| line.starts_with(scheme))
}

/// Reads the fields of a line. Returns whether the line is JSON.
fn read(line: &[u8], fields: JsonFields<'_>) -> bool {
    let mut json = serde_json::Deserializer::from_slice(line);
    fields.deserialize(&mut json).and_then(|()| json.end()).is_ok()
}

struct JsonFields<'f> {
    names: &'f [String],
    of_manifest: &'f [usize],
    url: usize,
    values: &'f mut RecordValues,
}

impl JsonFields<'_> {
    /// Sets a value. Strings are decoded, null counts as missing, and all other values are kept unchanged.
    fn set(&mut self, field: usize, value: &RawValue) -> serde_json::Result<()> {
        let text = value.get();
        match text.as_bytes().first() {
            // Invalid text, such as half of a surrogate pair, is reported when the value is used.
            Some(b'"') => {
                serde_json::Deserializer::from_str(text).deserialize_bytes(ValueSeed(self.values, field))?;
            }
            Some(b'n') => {}
            _ => self.values.set(field, text.as_bytes()),
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for JsonFields<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonFields<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object or a string")
    }

    fn visit_str<E>(self, url: &str) -> std::result::Result<(), E> {
        self.values.set(self.url, url.as_bytes());
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> std::result::Result<(), A::Error> {
        let mut seen = 0_u32;
        while let Some(name) = map.next_key::<JsonText<'de>>()? {
            if !self.of_manifest.is_empty() {
                seen |= bit_of(&name.0);
            }
            let names = self.names;
            let mut fields = (0..names.len()).filter(|field| names[*field] == name.0).peekable();
            if fields.peek().is_none() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<&RawValue>()?;
            for field in fields {
                self.set(field, value).map_err(serde::de::Error::custom)?;
            }
        }
        if !is_manifest(|name| seen & bit_of(name) != 0) {
            self.of_manifest.iter().for_each(|field| self.values.unset(*field));
        }
        Ok(())
    }
}

/// Reads the bytes of a string.
struct ValueSeed<'v>(&'v mut RecordValues, usize);

impl Visitor<'_> for ValueSeed<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_bytes<E>(self, value: &[u8]) -> std::result::Result<(), E> {
        self.0.set(self.1, value);
        Ok(())
    }
}

/// Returns a separate bit for each manifest column, and 0 for any other column.
fn bit_of(name: &str) -> u32 {
    let position = LISTED_COLUMNS.iter().position(|(own, _)| *own == name);
    position.map_or(0, |position| 1 << position)
}
