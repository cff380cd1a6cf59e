//! JSON pages of any API. A page contains an array of items, each with the URL of an object, and a link to the next
//! page.
//!
//! A page is read as a whole, because the link can come before or after the items. Pages are untrusted: the next page
//! must be at the source's own origin, and no page is allowed to occur twice.

mod fields;
mod item_columns;
mod item_text;
mod items;
mod link_field;
mod options;
mod pages;
#[cfg(test)]
mod tests;

pub use item_columns::{ItemColumns, ItemTypes};
pub use options::{JsonPageOptions, NextPage, Stored};
pub use pages::{JsonPage, JsonPages, PageReply};
