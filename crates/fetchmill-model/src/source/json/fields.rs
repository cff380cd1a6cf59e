//! The fields of a JSON object, which are found by dotted paths.
//!
//! Values are parsed only if they are needed. Everything outside the paths is skipped without recursion, however deeply
//! it is nested.

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::limits::FIELD_PATH_PARTS_MAX;
use crate::source::json_text::JsonText;

/// Text that stands for a missing value.
pub(super) const NULL: &str = "null";

/// The path of a field through nested objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldPath(Vec<String>);

impl FieldPath {
    /// Parses a path as typed in an option. `.` stands for the value itself.
    pub(super) fn new(option: &str, text: &str) -> Result<Self> {
        if text == "." {
            return Ok(FieldPath(Vec::new()));
        }
        let parts: Vec<String> = text.split('.').map(str::to_owned).collect();
        if parts.len() > FIELD_PATH_PARTS_MAX || parts.iter().any(String::is_empty) {
            return Err(Error::Usage(format!(
                "{option} {text} is not a field path; write up to {FIELD_PATH_PARTS_MAX} names separated by \
                 dots, such as data.items"
            )));
        }
        Ok(FieldPath(parts))
    }

    /// Returns whether the path stands for the value itself.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the path as typed.
    pub(super) fn text(&self) -> String {
        self.0.join(".")
    }
}

/// A value as written in its page. `None` if the field does not exist.
pub(super) type FieldText<'t> = Option<&'t str>;

/// Finds the values of fields in `text`, which must be a single JSON value. Returns the values in the order of the
/// paths.
pub(super) fn find_fields<'t, const N: usize>(
    text: &'t str,
    paths: [Option<&FieldPath>; N],
) -> serde_json::Result<[FieldText<'t>; N]> {
    let mut found = [None; N];
    let wanted =
        paths.iter().enumerate().filter_map(|(at, path)| Some(WantedField { at, rest: &path.as_ref()?.0 }));
    find_below(text, &wanted.collect::<Vec<_>>(), &mut found)?;
    Ok(found)
}

/// A field that is searched for, and the remainder of its path.
#[derive(Clone, Copy)]
struct WantedField<'p> {
    at: usize,
    rest: &'p [String],
}

fn find_below<'t>(
    text: &'t str,
    wanted: &[WantedField<'_>],
    found: &mut [FieldText<'t>],
) -> serde_json::Result<()> {
    let (here, below): (Vec<WantedField<'_>>, Vec<_>) =
        wanted.iter().partition(|field| field.rest.is_empty());
    for field in here {
        found[field.at] = Some(text);
    }
    if below.is_empty() || text == NULL {
        return Ok(());
    }
    let mut json = serde_json::Deserializer::from_str(text);
    FieldsSeed { wanted: &below, found }.deserialize(&mut json).and_then(|()| json.end())
}

struct FieldsSeed<'p, 'f, 't> {
    wanted: &'f [WantedField<'p>],
    found: &'f mut [FieldText<'t>],
}

impl<'t> DeserializeSeed<'t> for FieldsSeed<'_, '_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'t> Visitor<'t> for FieldsSeed<'_, '_, 't> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.wanted.first().and_then(|field| field.rest.first());
        write!(formatter, "an object with the field {}", name.map_or("", String::as_str))
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let mut seen = vec![false; self.wanted.len()];
        while let Some(JsonText(name)) = map.next_key()? {
            let mut below = Vec::new();
            for (field, seen) in self.wanted.iter().zip(&mut seen) {
                if field.rest.first().is_some_and(|part| *part == name) {
                    if std::mem::replace(seen, true) {
                        return Err(A::Error::custom(format!("the field {name} appears twice")));
                    }
                    below.push(WantedField { rest: &field.rest[1..], ..*field });
                }
            }
            if below.is_empty() {
                map.next_value::<IgnoredAny>()?;
            } else {
                let value = map.next_value::<&'t RawValue>()?;
                find_below(value.get(), &below, self.found).map_err(A::Error::custom)?;
            }
        }
        Ok(())
    }
}
