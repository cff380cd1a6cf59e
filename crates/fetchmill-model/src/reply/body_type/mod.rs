//! Body types, recognised by their first bytes (`--accept`). `Content-Type` is ignored, because a login page that is
//! sent in place of an image may state any type.

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
