//! Comparison of two results files.

use std::path::PathBuf;

use fetchmill_model::error::Error;
use fetchmill_store::results::{self, Change, Difference};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;

/// Number of changes passed per call.
const BATCH_CHANGES: usize = 1000;

/// A site, its previous answer and its current answer.
type ChangeTuple = (String, Option<String>, Option<String>);

/// Compare two results files. Return the fields of `fetchmill.DiffReport`, without the changes.
///
/// Args:
///     old: the earlier results file.
///     new: the later results file.
///     each: called with a list of changes, each a tuple of the site, the old answer and the new answer. If this
///         function or a signal handler raises an exception, the comparison ends.
///
/// Raises:
///     UsageError: a file cannot be read, or is not the results file of a check.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
pub(crate) fn diff(
    py: Python<'_>,
    old: PathBuf,
    new: PathBuf,
    each: Py<PyAny>,
) -> PyResult<Bound<'_, PyDict>> {
    let mut batch = ChangeBatch { each, changes: Vec::new(), raised: None };
    let found = py.detach(|| {
        let found = results::diff(&old, &new, &mut |change| batch.take(change))?;
        batch.hand_over().map(|()| found)
    });
    match found {
        Ok(found) => difference_dict(py, &found),
        Err(error) => Err(batch.raised.take().unwrap_or_else(|| errors::of(&error))),
    }
}

/// Changes to pass to Python.
struct ChangeBatch {
    each: Py<PyAny>,
    changes: Vec<ChangeTuple>,
    raised: Option<PyErr>,
}

impl ChangeBatch {
    fn take(&mut self, change: Option<Change<'_>>) -> Result<(), Error> {
        let Some(Change { site, before, after }) = change else {
            return self.attached(|py, _| py.check_signals());
        };
        self.changes.push((site.to_owned(), before.map(str::to_owned), after.map(str::to_owned)));
        if self.changes.len() < BATCH_CHANGES { Ok(()) } else { self.hand_over() }
    }

    fn hand_over(&mut self) -> Result<(), Error> {
        let changes = std::mem::take(&mut self.changes);
        self.attached(|py, each| each.call1(py, (changes,)).map(drop))
    }

    /// Calls Python. If Python raises an exception, the comparison ends.
    fn attached(&mut self, act: impl FnOnce(Python<'_>, &Py<PyAny>) -> PyResult<()>) -> Result<(), Error> {
        Python::attach(|py| act(py, &self.each)).map_err(|raised| {
            self.raised = Some(raised);
            Error::Internal("the caller raised an exception".into())
        })
    }
}

fn difference_dict<'py>(py: Python<'py>, found: &Difference) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("old_rows", found.old_rows)?;
    dict.set_item("new_rows", found.new_rows)?;
    dict.set_item("added", found.added)?;
    dict.set_item("removed", found.removed)?;
    dict.set_item("changed", found.changed)?;
    dict.set_item("unchanged", found.unchanged)?;
    let transitions = PyDict::new(py);
    for (answers, count) in &found.transitions {
        transitions.set_item(answers.clone(), count)?;
    }
    dict.set_item("transitions", transitions)?;
    Ok(dict)
}
