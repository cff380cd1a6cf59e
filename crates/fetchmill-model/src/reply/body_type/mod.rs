//! Body types, recognised by their first bytes (`--accept`). `Content-Type` is ignored, because a login page that is
//! sent in place of an image can state any type.

mod accepted;
mod containers;
mod markup;
mod start;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use accepted::AcceptedTypes;
pub use start::BodyStart;

use crate::limits::BODY_START_BYTES;

/// Returns the type of a body if it is an image. Reads at most [`BODY_START_BYTES`] of `body`.
pub fn image_type(body: &[u8]) -> Option<&'static str> {
    let start = &body[..body.len().min(BODY_START_BYTES)];
    let found = table::TYPES.iter().find(|each| (each.begins)(start))?;
    Some(found.names[0]).filter(|name| name.starts_with("image/"))
}
