//! Strings in JSON.

use std::borrow::Cow;

/// The decoded text of a JSON string. It is borrowed if the string contains no escapes.
#[derive(serde::Deserialize)]
pub(super) struct JsonText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);
