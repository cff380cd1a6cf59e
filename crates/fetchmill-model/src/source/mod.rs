//! Sources: which request gives the next page of a listing, and what a page's bytes mean.
//!
//! No I/O: the engine moves the requests on a connection of the listing's own. A source's state is its cursor, and
//! the cursor stands in the journal: what a source returns with a page is exactly what the journal must keep in
//! order to go on behind it.

pub mod api;
pub mod autoindex;
mod bounded_reader;
pub mod folder;
pub mod html;
pub mod json;
mod json_text;
pub mod list;
mod listed_time;
pub mod one_object;
mod origin_url;
mod page;
pub mod percent;
mod position;
pub mod robots;
pub mod sitemap;
mod utf16_reader;

pub use api::ApiNames;
pub use origin_url::{OriginUrl, resolve_marker, resolve_next};
pub use page::{BadPage, BucketCursor, KeyRange, ListedPage, PageCursor, PendingFolder};
pub use position::ListPosition;
