//! S3 and compatible stores: bucket addresses, request signatures, listing pages, error documents, and the division of
//! the key space. This module does no I/O and has no clock.

mod aws_endpoint;
mod bucket_address;
mod checksum;
mod customer_key;
mod error_document;
pub mod multipart;
mod page;
mod query;
mod select;
mod sign;
mod split;
mod upload;

pub use aws_endpoint::AwsVariant;
pub use bucket_address::{
    Addressing, BucketAddress, BucketName, Endpoint, REGION_DEFAULT, is_region, parse_source, split_url,
};
pub use checksum::{BodyChecksum, is_damaged};
pub use customer_key::CustomerKey;
pub use error_document::{ErrorDocument, StoreError};
pub use page::{Disorder, PageEnd, read_page};
pub use query::{ListQuery, START_UPLOAD_QUERY, part_query, upload_query};
pub use select::{BucketEntry, KeyBounds, Selection};
pub use sign::{CHECKSUM_MODE, REQUEST_PAYER, Signer};
pub use split::between;
pub use upload::UploadDestination;

pub use crate::target::source_metadata::ListedKey;

/// Credentials of an account.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Public part of the key pair, visible in each request.
    pub access_key: String,
    /// Key with which requests are signed. It is never sent.
    pub secret_key: String,
    /// Session token of temporary credentials.
    pub token: Option<String>,
}

impl std::fmt::Debug for Credentials {
    /// Omits the secret parts.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}
