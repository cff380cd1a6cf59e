//! S3 and compatible stores, without I/O and without a clock: where a bucket is, what requests are signed with, what
//! pages of a listing and error documents say, and how the key space is divided.

mod fault;
pub mod multipart;
mod page;
mod place;
mod query;
mod select;
mod sign;
mod split;
mod upload;

pub use fault::{Fault, Meaning};
pub use page::{PageEnd, read_page};
pub use place::{Addressing, BucketName, BucketPlace, Endpoint, REGION_DEFAULT, parse_source, split_url};
pub use query::{START_UPLOAD_QUERY, list_query, part_query, upload_query};
pub use select::{KeyBounds, Selection};
pub use sign::Signer;
pub use split::between;
pub use upload::Upload;

pub use crate::listed::ListedKey;

/// Who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Known to everybody who sees a request.
    pub access_key: String,
    /// What requests are signed with; never sent.
    pub secret_key: String,
    /// Of credentials that expire.
    pub token: Option<String>,
}

impl std::fmt::Debug for Credentials {
    /// Without what is secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}
