//! Pickling and copying of the native module's values.

use pyo3::PyTypeInfo;
use pyo3::prelude::*;

/// Result of `__reduce__`: the function that recreates the value, and the arguments of this function.
pub(super) type Reduced<'py, Arguments> = (Bound<'py, PyAny>, Arguments);

/// Returns the result of `__reduce__` for a class that has a static method `_restored`.
pub(super) fn reduced<Class: PyTypeInfo, Arguments>(
    py: Python<'_>,
    arguments: Arguments,
) -> PyResult<Reduced<'_, Arguments>> {
    Ok((py.get_type::<Class>().getattr("_restored")?, arguments))
}
