//! Names of files in the folders that contain a job's state.

use std::ops::Deref;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The name of a file in a folder. It cannot refer to another folder.
///
/// Journals, bases and messages from worker processes contain file names. A destination can come from another person,
/// so names are checked when they are read. If a name were an absolute path, or a path with `..`, files outside the
/// destination would be truncated or removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileName(String);

/// Error for a text that is not the name of a single file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` points outside the job's folder; do not use this destination", .0.escape_debug())]
pub struct NotAFileName(String);

impl FileName {
    /// Creates a name from text that this process has generated. Characters and names that would refer to another
    /// folder are replaced with `_`.
    pub fn of_own(text: &str) -> Self {
        let name = text.replace(['/', '\0'], "_");
        FileName(if matches!(name.as_str(), "" | "." | "..") { "_".into() } else { name })
    }
}

impl TryFrom<String> for FileName {
    type Error = NotAFileName;

    fn try_from(text: String) -> Result<Self, NotAFileName> {
        let is_name = !matches!(text.as_str(), "" | "." | "..") && !text.contains(['/', '\0']);
        if is_name { Ok(FileName(text)) } else { Err(NotAFileName(text)) }
    }
}

impl From<FileName> for String {
    fn from(name: FileName) -> Self {
        name.0
    }
}

impl Deref for FileName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<Path> for FileName {
    fn as_ref(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl std::fmt::Display for FileName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_not_a_name() {
        for path in ["", ".", "..", "/etc/passwd", "../x", "a/b", "a/", "a\0b"] {
            let text = serde_json::to_string(path).unwrap();
            assert!(serde_json::from_str::<FileName>(&text).is_err(), "{path:?}");
            assert!(FileName::try_from(FileName::of_own(path).to_string()).is_ok(), "{path:?}");
        }
        for name in ["0-1-2.shard", "...", "a b", "\u{fc}"] {
            assert_eq!(&*FileName::try_from(name.to_owned()).unwrap(), name);
            assert_eq!(&*FileName::of_own(name), name);
        }
    }
}
