//! A JSON string.

use std::borrow::Cow;

/// Its decoded text, borrowed if it has no escapes.
#[derive(serde::Deserialize)]
pub(super) struct JsonText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);
