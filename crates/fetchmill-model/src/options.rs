//! Definitions of options. Each option is a field of a group, with a default and, for numbers, bounds. It is defined
//! once and read from JSON by name. Names that belong to no group are refused by the caller.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Values of options, indexed by name.
pub type OptionValues = Map<String, Value>;

/// The smallest number that counts as positive: a nanosecond for times, or one request in 31 years for rates.
const ABOVE_0: f64 = 1e-9;

/// Bounds of a number.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    minimum: f64,
    maximum: Option<f64>,
    unit: &'static str,
}

impl Bounds {
    /// Allows numbers of at least `minimum`.
    pub const fn at_least(minimum: f64, unit: &'static str) -> Self {
        Bounds { minimum, maximum: None, unit }
    }

    /// Allows any number above 0.
    pub const fn above_0(unit: &'static str) -> Self {
        Self::at_least(ABOVE_0, unit)
    }

    /// Allows numbers between both bounds, inclusive.
    pub const fn between(minimum: f64, maximum: f64, unit: &'static str) -> Self {
        Bounds { minimum, maximum: Some(maximum), unit }
    }

    /// Refuses a number that is out of bounds. The error shows the name of the option as users write it.
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

/// Types that an option's field can have.
pub trait OptionValue {
    /// Returns the value in JSON, or null if the value is set by omitting the option.
    fn json(&self) -> Value {
        Value::Null
    }

    /// Returns the number to which the bounds apply, or `None` if the value is not a number or is not set.
    fn number(&self) -> Option<f64> {
        self.json().as_f64()
    }
}

/// Types whose values are written to JSON unchanged.
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
        // JSON has no infinity, but the bounds still have to be checked.
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

/// Types whose values are words in JSON, in the form that serde writes.
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

/// The default is an empty list.
impl<T> OptionValue for Vec<T> {}
impl OptionValue for PathBuf {}

/// Description of an option, for people and for other programming languages.
#[derive(Debug, Clone, Serialize)]
pub struct OptionRow {
    /// Name of the option.
    pub name: &'static str,
    /// Type of the option's field.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Unit of a number. Empty if there is none.
    pub unit: &'static str,
    /// Default value. Null if there is none or if it depends on other options.
    pub default: Value,
    /// Minimum of a number.
    pub minimum: Option<f64>,
    /// Maximum of a number.
    pub maximum: Option<f64>,
}

impl OptionRow {
    /// Creates the row for a field with this default and optional bounds.
    pub fn new(name: &'static str, kind: &'static str, default: Value, bounds: Option<Bounds>) -> Self {
        let mut row = OptionRow { name, kind, unit: "", default, minimum: None, maximum: None };
        if let Some(bounds) = bounds {
            row.bound(bounds);
        }
        row
    }

    /// Sets the bounds.
    pub fn bound(&mut self, Bounds { minimum, maximum, unit }: Bounds) {
        (self.minimum, self.maximum, self.unit) = (Some(minimum), maximum, unit);
    }
}

/// A group of options, which the macro `options` generates from rows.
pub trait Options: DeserializeOwned {
    /// Names of the options.
    const NAMES: &'static [&'static str];

    /// Returns all options.
    fn rows() -> Vec<OptionRow>;

    /// Returns the names of the options, each with its number and its bounds.
    fn numbers(&self) -> Vec<(&'static str, Option<f64>, Option<Bounds>)>;

    /// Refuses numbers that are out of bounds. `written` converts an option's name to the form in which users write it.
    fn check_bounds(&self, written: fn(&str) -> String) -> Result<()> {
        let bounded =
            self.numbers().into_iter().filter_map(|(name, number, bounds)| Some((name, number, bounds?)));
        bounded.into_iter().try_for_each(|(name, number, bounds)| bounds.check(&written(name), number))
    }
}

/// Removes the options of a group from `given` and reads them. All other values stay in `given`.
pub fn take<T: Options>(given: &mut OptionValues) -> Result<T> {
    let own = T::NAMES.iter().filter_map(|name| given.remove_entry(*name)).collect();
    read(Value::Object(own))
}

/// Reads a value of any type.
pub fn read<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|error| Error::Usage(error.to_string()))
}

/// Reads a field that is given as a number of seconds.
pub fn seconds<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Duration, D::Error> {
    let seconds = f64::deserialize(from)?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| D::Error::custom(format!("{seconds} is not a number of seconds")))
}

/// Reads an optional field that is given as a number of seconds.
pub fn some_seconds<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Duration>, D::Error> {
    seconds(from).map(Some)
}

/// Defines a group of options. Each row is a field: the name of the option, its type, its default and, for numbers, its
/// bounds. Fields after `and` are not options.
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
