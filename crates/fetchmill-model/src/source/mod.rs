//! Sources, which define the request for the next page of a listing and the meaning of a page's bytes.
//!
//! Sources do no I/O. The engine sends the requests for the listing on a separate connection. The only state of a
//! source is its cursor, which is stored in the journal. With each page, a source returns exactly what the journal must
//! store to continue after that page.

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
