//! The environment variables and the files that they refer to. All tests of a process share one environment, so tests
//! replace the variables.

use std::path::PathBuf;
use std::sync::Arc;

use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;

/// A function that returns the value of a variable.
type VariableReader = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Source of environment variables. See the [module documentation](self).
#[derive(Clone)]
pub(crate) struct Environment {
    lookup: Arc<VariableReader>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Environment").finish_non_exhaustive()
    }
}

impl Environment {
    /// Returns the environment of this process.
    pub(crate) fn of_process() -> Self {
        Environment::new(|name| std::env::var(name).ok())
    }

    /// Creates an environment that reads its variables from a function.
    pub(super) fn new(lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Environment { lookup: Arc::new(lookup) }
    }

    /// Returns the value of a variable, or `None` if it is unset or empty.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    /// Returns the value of the first of these variables that is set.
    pub(super) fn first(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.get(name))
    }

    /// Returns whether the variable is `true`.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Expands a leading `~/` in a path. Returns `None` if this requires a home directory and there is none.
    pub(super) fn path(&self, text: &str) -> Option<PathBuf> {
        match text.strip_prefix("~/") {
            Some(rest) => Some(PathBuf::from(self.get("HOME")?).join(rest)),
            None => Some(PathBuf::from(text)),
        }
    }

    /// Reads a file that the configuration names. `what` describes the file in messages.
    pub(super) fn read(&self, text: &str, what: &str) -> Result<String> {
        let unreadable = |why: &str| Error::Usage(format!("cannot read {text} ({what}): {why}"));
        let path = self.path(text).ok_or_else(|| unreadable("HOME is not set"))?;
        read_file(&path).map_err(|error| unreadable(&error.to_string()))
    }
}

/// Reads a file of up to `CREDENTIALS_BYTES_MAX` bytes.
pub(super) fn read_file(path: &std::path::Path) -> std::io::Result<String> {
    use std::io::Read;

    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(limits::CREDENTIALS_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    if text.len() > limits::CREDENTIALS_BYTES_MAX {
        return Err(std::io::Error::other("too large"));
    }
    Ok(text)
}
