//! Names of objects, as Python has them.

use fetchmill_store::journal::Doubtful;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A name as data: whole, so that it can be looked for. Whoever shows it escapes what a terminal would obey.
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

/// Sets what a report says of doubtful objects: the first names, and how many there are.
pub(crate) fn set_doubtful(dict: &Bound<'_, PyDict>, doubtful: &Doubtful) -> PyResult<()> {
    let names: Vec<String> = doubtful.names.iter().map(|name| whole_text(name)).collect();
    dict.set_item("doubtful", names)?;
    dict.set_item("doubtful_count", doubtful.count)
}
