//! Rows that are made from the items of an API, with their columns and values.
//!
//! Each column is a field of the items. A value that does not fit its column becomes null, and [`UNFIT_COLUMN`]
//! contains the name of its field. The row also contains the item itself, so nothing is lost.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::fields::NULL;
use crate::limits::KEPT_COLUMNS_MAX;
use crate::source::json_text::JsonText;
use crate::target::extra_columns::{
    ColumnType, TypedValue, TypesByName, UNFIT_COLUMN, is_item_column, write_extra,
};

/// Text in [`UNFIT_COLUMN`] if an item is not an object.
const NOT_AN_OBJECT: &str = ".";

/// The columns of all items so far, each with a type that fits all its values. There are at most [`KEPT_COLUMNS_MAX`]
/// columns, including [`UNFIT_COLUMN`].
#[derive(Debug, Default)]
pub struct ItemTypes {
    names: Vec<String>,
    /// The type of a column. `None` while all values so far are null.
    types: BTreeMap<String, Option<ColumnType>>,
}

impl ItemTypes {
    /// Creates columns with types that the user has given. These types do not change.
    pub fn given(given: &TypesByName) -> Self {
        let types = given.iter().map(|(name, kind)| (name.clone(), Some(*kind))).collect();
        ItemTypes { names: given.keys().cloned().collect(), types }
    }

    /// Adds the columns of one more item.
    pub fn add(&mut self, item: &str, given: &TypesByName) {
        let mut fields = |name: &str, value: &str| {
            if !given.contains_key(name) && is_item_column(name) {
                self.see(name, value);
            }
        };
        // An item that is not an object contributes no fields.
        let _ = for_each_field(item, &mut fields);
    }

    fn see(&mut self, name: &str, value: &str) {
        let seen = type_of(value);
        match self.types.get_mut(name) {
            Some(known) => *known = joined(*known, seen),
            None if self.names.len() + 1 < KEPT_COLUMNS_MAX => {
                self.names.push(name.to_owned());
                self.types.insert(name.to_owned(), seen);
            }
            None => {}
        }
    }

    /// Returns the columns in the order in which they first had a value. [`UNFIT_COLUMN`] comes last.
    pub fn into_columns(self) -> Vec<(String, ColumnType)> {
        let ItemTypes { names, types } = self;
        let kind = |name: &String| types.get(name).copied().flatten().unwrap_or_default();
        let columns: Vec<_> = names.iter().map(|name| (name.clone(), kind(name))).collect();
        columns.into_iter().chain([(UNFIT_COLUMN.to_owned(), ColumnType::String)]).collect()
    }
}

/// Returns the type of a value, or `None` if it is null.
fn type_of(value: &str) -> Option<ColumnType> {
    match value.as_bytes().first() {
        Some(b'n') => None,
        Some(b't' | b'f') => Some(ColumnType::Bool),
        Some(b'-' | b'0'..=b'9') if ColumnType::Int64.read(value.as_bytes()).is_some() => {
            Some(ColumnType::Int64)
        }
        Some(b'-' | b'0'..=b'9') => Some(ColumnType::Float64),
        _ => Some(ColumnType::String),
    }
}

/// Returns a type that fits values of both types.
fn joined(one: Option<ColumnType>, other: Option<ColumnType>) -> Option<ColumnType> {
    let (Some(one_type), Some(other_type)) = (one, other) else { return one.or(other) };
    if one_type == other_type {
        return one;
    }
    let are_numbers =
        [one_type, other_type].iter().all(|kind| matches!(kind, ColumnType::Int64 | ColumnType::Float64));
    Some(if are_numbers { ColumnType::Float64 } else { ColumnType::String })
}

/// Reads the values of a job's columns from items.
#[derive(Debug, Default)]
pub struct ItemColumns {
    /// All columns except [`UNFIT_COLUMN`].
    columns: Vec<(String, ColumnType)>,
    places: BTreeMap<String, usize>,
    /// The values of the current item.
    values: Vec<Option<Vec<u8>>>,
    seen: Vec<bool>,
    unfit: String,
}

impl ItemColumns {
    /// Creates the reader for a job with these columns. The last column must be [`UNFIT_COLUMN`]. If the output format
    /// has no columns, the list is empty.
    pub fn new(columns: impl Iterator<Item = (String, ColumnType)>) -> Self {
        let columns: Vec<_> = columns.filter(|(name, _)| name != UNFIT_COLUMN).collect();
        let places = columns.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
        ItemColumns { columns, places, ..ItemColumns::default() }
    }

    /// Appends the values of an item, in the format of [`write_extra`].
    pub fn write(&mut self, item: &str, out: &mut Vec<u8>) {
        self.values.clear();
        self.values.resize(self.columns.len(), None);
        self.seen.clear();
        self.seen.resize(self.columns.len(), false);
        self.unfit.clear();
        let ItemColumns { columns, places, values, seen, unfit } = self;
        let mut field = |name: &str, value: &str| match places.get(name) {
            Some(place) if !std::mem::replace(&mut seen[*place], true) => {
                values[*place] =
                    value_of(columns[*place].1, value).map(|text| text.into_owned().into_bytes());
                if values[*place].is_none() && value != NULL {
                    add_name(unfit, name);
                }
            }
            // The field occurs twice, so neither value is used.
            Some(place) => {
                if values[*place].take().is_some() || value != NULL {
                    add_name(unfit, name);
                }
            }
            None => add_name(unfit, name),
        };
        if for_each_field(item, &mut field).is_err() {
            add_name(unfit, NOT_AN_OBJECT);
        }
        let unfit = Some(unfit.as_bytes()).filter(|unfit| !unfit.is_empty());
        write_extra(values.iter().map(Option::as_deref).chain([unfit]), out);
    }
}

/// Adds a name unless it is already the last one.
fn add_name(names: &mut String, name: &str) {
    if names.rsplit(',').next() == Some(name) {
        return;
    }
    if !names.is_empty() {
        names.push(',');
    }
    names.push_str(name);
}

/// Returns the text of a value for a column of this type, or `None` if the value is null or does not fit.
fn value_of(kind: ColumnType, value: &str) -> Option<Cow<'_, str>> {
    let first = value.as_bytes().first();
    match (kind, first) {
        (_, Some(b'n')) => None,
        (ColumnType::String, Some(b'"')) => serde_json::from_str(value).ok().map(|JsonText(text)| text),
        (ColumnType::String, _) | (ColumnType::Bool, Some(b't' | b'f')) => Some(Cow::Borrowed(value)),
        (ColumnType::Int64, Some(b'-' | b'0'..=b'9')) => {
            kind.read(value.as_bytes()).map(|_| Cow::Borrowed(value))
        }
        (ColumnType::Float64, Some(b'-' | b'0'..=b'9')) => {
            let Some(TypedValue::Float64(number)) = kind.read(value.as_bytes()) else { return None };
            (number.is_finite() && !is_rounded(value, number)).then_some(Cow::Borrowed(value))
        }
        _ => None,
    }
}

/// Returns whether the text is an integer that float64 cannot represent exactly. Fractions may be rounded, as is usual
/// for floats.
fn is_rounded(text: &str, number: f64) -> bool {
    text.parse::<i128>().is_ok_and(|exact| number as i128 != exact)
}

/// Calls `field` with the name and the text of each field of an item.
fn for_each_field(item: &str, field: &mut dyn FnMut(&str, &str)) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_str(item);
    EachField(field).deserialize(&mut json).and_then(|()| json.end())
}

struct EachField<'f>(&'f mut dyn FnMut(&str, &str));

impl<'t> DeserializeSeed<'t> for EachField<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'t> Visitor<'t> for EachField<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(JsonText(name)) = map.next_key()? {
            let value = map.next_value::<&'t RawValue>()?;
            (self.0)(&name, value.get());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::extra_columns::extra_values;

    fn types(items: &[&str], given: &TypesByName) -> Vec<(String, ColumnType)> {
        let mut types = ItemTypes::given(given);
        for item in items {
            types.add(item, given);
        }
        types.into_columns()
    }

    #[test]
    fn a_column_has_the_type_that_fits_all_its_values() {
        let items = [
            r#"{"i":1,"f":1,"b":true,"s":"x","m":1,"n":null,"o":{},"_item":1}"#,
            r#"{"i":-9,"f":1.5,"b":false,"s":null,"m":"x","n":null,"o":[],"big":18446744073709551616}"#,
            "7",
        ];
        let found: Vec<_> = types(&items, &TypesByName::new())
            .into_iter()
            .map(|(name, kind)| format!("{name}={}", kind.name()))
            .collect();
        let expected =
            "i=int64 f=float64 b=bool s=string m=string n=string o=string big=float64 _unfit=string";
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn a_value_without_a_place_is_named() {
        let columns = types(&[r#"{"i":1,"f":1.5,"b":true,"s":"x"}"#], &TypesByName::new());
        let mut columns = ItemColumns::new(columns.into_iter());
        for (item, expected) in [
            (r#"{"i":2,"f":3,"b":false,"s":"\u00e9"}"#, "2 3 false \u{e9} -"),
            (r#"{"i":"2","f":1e400,"b":0,"s":[1,{}]}"#, "- - - [1,{}] i,f,b"),
            (r#"{"i":9223372036854775808,"new":1}"#, "- - - - i,new"),
            (r#"{"f":9007199254740993}"#, "- - - - f"),
            (r#"{"f":9007199254740994}"#, "- 9007199254740994 - - -"),
            (r#"{"i":1,"i":2,"i":3,"s":null}"#, "- - - - i"),
            (r#"{"s":"\ud800"}"#, "- - - - s"),
            ("{}", "- - - - -"),
            ("[1]", "- - - - ."),
        ] {
            let mut out = Vec::new();
            columns.write(item, &mut out);
            let values: Vec<_> =
                extra_values(&out).map(|value| value.map_or("-".into(), String::from_utf8_lossy)).collect();
            assert_eq!(values.join(" "), expected, "{item}");
        }
    }
}
