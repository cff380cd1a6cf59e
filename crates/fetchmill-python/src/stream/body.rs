//! A large body as a buffer. The body is never copied, and its memory is freed with its last view.

use std::os::raw::c_int;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Owner of the bytes in the memoryview of a large body.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct BodyBuffer {
    bytes: Vec<u8>,
}

impl BodyBuffer {
    /// Returns a memoryview of these bytes.
    pub(crate) fn view(py: Python<'_>, bytes: Vec<u8>) -> PyResult<Bound<'_, PyAny>> {
        let body = Bound::new(py, BodyBuffer { bytes })?;
        Ok(pyo3::types::PyMemoryView::from(body.as_any())?.into_any())
    }
}

#[pymethods]
impl BodyBuffer {
    #[expect(unsafe_code, reason = "the buffer protocol is an interface of C")]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 requires it")]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = &slf.get().bytes;
        let length =
            ffi::Py_ssize_t::try_from(bytes.len()).map_err(|_| PyBufferError::new_err("too large"))?;
        let start = bytes.as_ptr().cast_mut().cast();
        // The view references the owner of the bytes, so the bytes outlive the view. They never change, and the view is
        // read-only.
        let failed = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 1, flags) };
        if failed == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
