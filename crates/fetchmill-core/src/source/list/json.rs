//! `jsonl`: an object or a string a line.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::ListPosition;
use super::columns::{Column, Plan};
use super::lines::{Found, Lines, Progress};
use super::records::{Records, Step, Values};
use super::text::skip;
use crate::error::{Error, Result};

/// Lines with fields.
pub(super) struct Json {
    lines: Lines,
    /// The names of the wanted fields.
    fields: Vec<String>,
    url: usize,
}

impl Json {
    pub(super) fn new(lines: Lines, plan: &Plan) -> Result<Self> {
        if let Some(column) = plan.wanted().iter().find(|column| matches!(column, Column::Number(_))) {
            return Err(Error::Usage(format!(
                "the list {} has fields, and these have no numbers: give the name of one instead of {}",
                lines.label(),
                column.text()
            )));
        }
        let fields = plan.wanted().iter().map(Column::text).collect();
        Ok(Json { lines, fields, url: plan.url_column() })
    }
}

impl Records for Json {
    fn next(&mut self, values: &mut Values) -> Result<Step> {
        loop {
            values.clear(self.fields.len());
            if self.lines.is_skipping() {
                return skip(&mut self.lines);
            }
            let (found, next) = self.lines.find(0)?;
            let place = match found {
                Found::Line(place) => place,
                Found::TooLong => return skip(&mut self.lines),
                Found::NothingNow => return Ok(Step::NothingNow),
                Found::End => return Ok(Step::End),
            };
            let line = self.lines.bytes(place).trim_ascii();
            let is_empty = line.is_empty();
            let is_read = is_empty || read(line, Fields { names: &self.fields, url: self.url, values });
            self.lines.consume(next, 1);
            if !is_empty {
                return Ok(if is_read { Step::Record } else { Step::Bad("it is no JSON object or string") });
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

/// Takes the fields out of a line; whether it is JSON.
fn read(line: &[u8], fields: Fields<'_>) -> bool {
    let mut json = serde_json::Deserializer::from_slice(line);
    fields.deserialize(&mut json).and_then(|()| json.end()).is_ok()
}

struct Fields<'f> {
    names: &'f [String],
    url: usize,
    values: &'f mut Values,
}

impl Fields<'_> {
    /// Strings as what they say, null as nothing, all else as it is written.
    fn set(&mut self, field: usize, value: &RawValue) -> serde_json::Result<()> {
        let text = value.get();
        match text.as_bytes().first() {
            Some(b'"') => self.values.set(field, serde_json::from_str::<Cow<'_, str>>(text)?.as_bytes()),
            Some(b'n') => {}
            _ => self.values.set(field, text.as_bytes()),
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object or a string")
    }

    fn visit_str<E>(self, url: &str) -> std::result::Result<(), E> {
        self.values.set(self.url, url.as_bytes());
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(name) = map.next_key::<Name<'de>>()? {
            if let Some(field) = self.names.iter().position(|wanted| *wanted == name.0) {
                let value = map.next_value::<&RawValue>()?;
                self.set(field, value).map_err(serde::de::Error::custom)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// A field's name, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
