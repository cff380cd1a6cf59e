//! The body types that the user accepts, and the check of a body against these types.

use serde::Deserialize;

use super::table::{BodyType, TYPES};
use crate::error::Error;
use crate::limits::BODY_START_BYTES;
use crate::options::OptionValue;

/// Maximum number of types in a set.
pub(super) const TYPES_MAX: usize = u128::BITS as usize;
const _: () = assert!(TYPES.len() <= TYPES_MAX);

/// The types in `--accept`, one bit per type. If no bit is set, all bodies are accepted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct AcceptedTypes(u128);

impl OptionValue for AcceptedTypes {}

impl TryFrom<Vec<String>> for AcceptedTypes {
    type Error = Error;

    fn try_from(names: Vec<String>) -> Result<Self, Error> {
        let mut accepted = AcceptedTypes::default();
        for name in names {
            let named = Self::named(&name.trim().to_ascii_lowercase());
            if named.is_all() {
                return Err(Error::Usage(unknown(&name)));
            }
            accepted.0 |= named.0;
        }
        Ok(accepted)
    }
}

impl AcceptedTypes {
    /// Returns whether all bodies are accepted.
    pub fn is_all(&self) -> bool {
        self.0 == 0
    }

    /// If the body is not accepted, returns a text that names the type of the body and the accepted types. Reads at
    /// most [`BODY_START_BYTES`] of `body`.
    pub fn refusal(&self, body: &[u8]) -> Option<String> {
        if self.is_all() {
            return None;
        }
        let start = &body[..body.len().min(BODY_START_BYTES)];
        let found = TYPES.iter().enumerate().find(|(_, found)| (found.begins)(start));
        if found.is_some_and(|(index, found)| self.contains(index, found)) {
            return None;
        }
        let came = match found {
            Some((_, found)) => format!("{} ({})", found.label, found.names[0]),
            None if body.is_empty() => "an empty body".to_owned(),
            None => "bytes of an unknown type".to_owned(),
        };
        Some(format!("{came}, but --accept allows {}", self.names().join(", ")))
    }

    fn contains(&self, index: usize, found: &BodyType) -> bool {
        let also = found.is_also.iter().fold(0, |types, name| types | Self::named(name).0);
        self.0 & (1 << index | also) != 0
    }

    /// Returns the types with this name, or all types that match a pattern such as `image/*`.
    fn named(name: &str) -> Self {
        let main = name.strip_suffix('*').filter(|main| main.ends_with('/'));
        let fits = |known: &&str| main.map_or(*known == name, |main| known.starts_with(main));
        let bits = TYPES.iter().enumerate().filter(|(_, each)| each.names.iter().any(&fits));
        AcceptedTypes(bits.fold(0, |types, (index, _)| types | 1 << index))
    }

    /// Returns the shortest list of names that covers all types in the set.
    fn names(&self) -> Vec<String> {
        let mut left = self.0;
        let mut names = Vec::new();
        for main in main_types() {
            let whole = Self::named(&main).0;
            if self.0 & whole == whole && left & whole != 0 {
                left &= !whole;
                names.push(main);
            }
        }
        let single = TYPES.iter().enumerate().filter(|(index, _)| left & (1 << index) != 0);
        names.extend(single.map(|(_, each)| each.names[0].to_owned()));
        names
    }
}

/// Returns the patterns of all main types, such as `image/*`.
fn main_types() -> Vec<String> {
    let mut mains = Vec::new();
    for each in TYPES {
        let main = each.names[0].split_once('/').map_or(each.names[0], |(main, _)| main);
        let main = format!("{main}/*");
        if !mains.contains(&main) {
            mains.push(main);
        }
    }
    mains
}

fn unknown(name: &str) -> String {
    let main = name.split_once('/').map(|(main, _)| format!("{}/", main.to_ascii_lowercase()));
    let known = TYPES.iter().filter_map(|each| each.names.first());
    let near: Vec<&str> = match &main {
        Some(main) => known.filter(|known| known.starts_with(main.as_str())).copied().collect(),
        None => Vec::new(),
    };
    let all = main_types().join(", ");
    let choice = if near.is_empty() { all } else { format!("{all}, {}", near.join(", ")) };
    format!(
        "--accept: the type {name:?} cannot be recognised from the first bytes of a body; choose from {choice}"
    )
}
