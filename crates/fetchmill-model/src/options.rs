//! Options as rows: each is a field of a group with its default and its bounds, written down once and read from JSON
//! by its name. What a name that no group has means is decided by who reads: it is refused.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Values of options, by their names.
pub type OptionValues = Map<String, Value>;

/// The least that is more than nothing: a nanosecond, and for rates one request in 31 years.
const ABOVE_0: f64 = 1e-9;

/// What a number must be within.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    minimum: f64,
    maximum: Option<f64>,
    unit: &'static str,
}

impl Bounds {
    /// So much or more.
    pub const fn at_least(minimum: f64, unit: &'static str) -> Self {
        Bounds { minimum, maximum: None, unit }
    }

    /// Anything but nothing.
    pub const fn above_0(unit: &'static str) -> Self {
        Self::at_least(ABOVE_0, unit)
    }

    /// Within both, these included.
    pub const fn between(minimum: f64, maximum: f64, unit: &'static str) -> Self {
        Bounds { minimum, maximum: Some(maximum), unit }
    }

    /// Refuses a number that is outside, with the option's name as users write it.
    pub fn check(&self, name: &str, number: Option<f64>) -> Result<()> {
        let is_within = |number: f64| {
            number.is_finite() && number >= self.minimum && self.maximum.is_none_or(|most| number <= most)
        };
        match number {
            Some(number) if !is_within(number) => {
                let range = match self.maximum {
                    Some(most) => format!("between {} and {most}", self.minimum),
                    None if self.minimum <= ABOVE_0 && self.minimum > 0.0 => "above 0".to_owned(),
                    None => format!("at least {}", self.minimum),
                };
                let space = if self.unit.is_empty() { "" } else { " " };
                Err(Error::Usage(format!("{name} must be {range}{space}{}, not {number}", self.unit)))
            }
            _ => Ok(()),
        }
    }
}

/// What the field of an option may be.
pub trait OptionValue {
    /// As it is given in JSON; null for what is told in no other way than by leaving it out.
    fn json(&self) -> Value {
        Value::Null
    }

    /// What its bounds are for; none for what is no number, or not given.
    fn number(&self) -> Option<f64> {
        self.json().as_f64()
    }
}

/// Types whose values are written in JSON as they are.
macro_rules! plain_values {
    ($($type:ty),*) => {
        $(impl OptionValue for $type {
            fn json(&self) -> Value {
                self.clone().into()
            }
        })*
    };
}

plain_values!(bool, String, u32, u64, usize);

impl OptionValue for f64 {
    fn json(&self) -> Value {
        (*self).into()
    }

    fn number(&self) -> Option<f64> {
        // JSON has no infinity: its bounds must see it.
        Some(*self)
    }
}

impl OptionValue for Duration {
    fn json(&self) -> Value {
        self.as_secs_f64().into()
    }
}

impl<T: OptionValue> OptionValue for Option<T> {
    fn json(&self) -> Value {
        self.as_ref().map_or(Value::Null, OptionValue::json)
    }

    fn number(&self) -> Option<f64> {
        self.as_ref().and_then(OptionValue::number)
    }
}

/// Types whose values are words in JSON, as serde has them.
#[macro_export]
macro_rules! words {
    ($($type:ty),*) => {
        $(impl $crate::options::OptionValue for $type {
            fn json(&self) -> serde_json::Value {
                serde_json::to_value(self).unwrap_or_default()
            }
        })*
    };
}

/// None are given unless somebody gives some.
impl<T> OptionValue for Vec<T> {}
impl OptionValue for PathBuf {}

/// An option, for people and for other languages.
#[derive(Debug, Clone, Serialize)]
pub struct OptionRow {
    /// Its name.
    pub name: &'static str,
    /// The type of its field.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What a number of it counts; empty for none.
    pub unit: &'static str,
    /// What it is when it is left out; null: nothing, or what the other options say.
    pub default: Value,
    /// What a number of it is at least.
    pub minimum: Option<f64>,
    /// What a number of it is at most.
    pub maximum: Option<f64>,
}

impl OptionRow {
    /// Of a field with this value and perhaps bounds.
    pub fn new(name: &'static str, kind: &'static str, default: Value, bounds: Option<Bounds>) -> Self {
        let mut row = OptionRow { name, kind, unit: "", default, minimum: None, maximum: None };
        if let Some(bounds) = bounds {
            row.bound(bounds);
        }
        row
    }

    /// Gives it bounds.
    pub fn bound(&mut self, Bounds { minimum, maximum, unit }: Bounds) {
        (self.minimum, self.maximum, self.unit) = (Some(minimum), maximum, unit);
    }
}

/// A group of options: what the macro `options` makes of its rows.
pub trait Options: DeserializeOwned {
    /// What they are called.
    const NAMES: &'static [&'static str];

    /// All of them.
    fn rows() -> Vec<OptionRow>;

    /// Their names, what is a number of them, and what that must be within.
    fn numbers(&self) -> Vec<(&'static str, Option<f64>, Option<Bounds>)>;

    /// Refuses numbers that are out of bounds; `written` is how users write an option's name.
    fn check_bounds(&self, written: fn(&str) -> String) -> Result<()> {
        let bounded =
            self.numbers().into_iter().filter_map(|(name, number, bounds)| Some((name, number, bounds?)));
        bounded.into_iter().try_for_each(|(name, number, bounds)| bounds.check(&written(name), number))
    }
}

/// Reads a group out of what was given, and leaves the rest.
pub fn take<T: Options>(given: &mut OptionValues) -> Result<T> {
    let own = T::NAMES.iter().filter_map(|name| given.remove_entry(*name)).collect();
    read(Value::Object(own))
}

/// Reads anything of its kind.
pub fn read<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|error| Error::Usage(error.to_string()))
}

/// A field that is given as a number of seconds.
pub fn seconds<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Duration, D::Error> {
    let seconds = f64::deserialize(from)?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| D::Error::custom(format!("{seconds} is no number of seconds")))
}

/// The same when it may be left out.
pub fn some_seconds<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Duration>, D::Error> {
    seconds(from).map(Some)
}

/// A group of options. Each row is a field: its name, which is the option's, its type, its default, and the bounds of a
/// number. Behind `and` stand fields that are no options.
#[macro_export]
macro_rules! options {
    (
        $(#[$of_group:meta])*
        pub struct $Group:ident {
            $($(#[$of_field:meta])* $field:ident: $type:ty = $default:expr $(, $bounds:expr)?;)*
        }
        $(and { $($(#[$of_other:meta])* $other:ident: $other_type:ty,)* })?
    ) => {
        $(#[$of_group])*
        #[derive(Debug, Clone, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $Group {
            $($(#[$of_field])* pub $field: $type,)*
            $($($(#[$of_other])* #[serde(skip)] pub $other: $other_type,)*)?
        }

        impl Default for $Group {
            fn default() -> Self {
                $Group { $($field: $default,)* $($($other: Default::default(),)*)? }
            }
        }

        impl $crate::options::Options for $Group {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            fn rows() -> Vec<$crate::options::OptionRow> {
                use $crate::options::{OptionRow, OptionValue};
                let group = Self::default();
                vec![$(
                    OptionRow::new(
                        stringify!($field),
                        stringify!($type),
                        group.$field.json(),
                        [$($bounds)?].first().copied(),
                    )
                ),*]
            }

            fn numbers(&self) -> Vec<(&'static str, Option<f64>, Option<$crate::options::Bounds>)> {
                use $crate::options::OptionValue;
                vec![$((stringify!($field), self.$field.number(), [$($bounds)?].first().copied())),*]
            }
        }
    };
}

pub use {options, words};
