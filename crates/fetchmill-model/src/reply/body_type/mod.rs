//! Types of bodies, recognised by their first bytes (`--accept`). `Content-Type` has no say: a login page under the name of an
//! image may come with any.

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
