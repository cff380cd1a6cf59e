//! Names of objects in Python.

use fetchmill_store::journal::Doubtful;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns a complete name as data, so that users can search for it. Code that displays the result must escape terminal
/// control characters.
pub(crate) fn whole_text(name: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Adds the suspect objects to a report, as their total number and the first names.
pub(crate) fn set_doubtful(dict: &Bound<'_, PyDict>, doubtful: &Doubtful) -> PyResult<()> {
    let names: Vec<String> = doubtful.names.iter().map(|name| whole_text(name)).collect();
    dict.set_item("doubtful", names)?;
    dict.set_item("doubtful_count", doubtful.count)
}
