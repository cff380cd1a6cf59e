//! A string of JSON.

use std::borrow::Cow;

/// What it says, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
pub(super) struct JsonText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);
