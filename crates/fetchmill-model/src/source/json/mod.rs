//! Pages of JSON of any API: an array of items, each with the URL of an object, and a way that leads to the next page.
//!
//! A page is read as a whole, since what leads to the next one may stand before or behind the items. What a page says is
//! believed in nothing: where the next page is must be at the source's own origin, and each page may come once.

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
