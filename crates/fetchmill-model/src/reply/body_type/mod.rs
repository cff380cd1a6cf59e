//! Body types, recognised by their first bytes (`--accept`). `Content-Type` is ignored: a login page in place of an
//! image may have any.

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
