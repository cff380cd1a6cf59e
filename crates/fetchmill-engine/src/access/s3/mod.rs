//! S3 and compatible stores: credentials, bucket state, interpretation of replies, and all requests except those for
//! objects.

mod access;
mod bucket_check;
mod bucket_requester;
mod client;
mod credential_client;
mod credential_document;
mod credentials;
mod environment;
mod metadata;
mod options;
mod profile;
mod settings;
mod sso;
mod sts;
#[cfg(test)]
mod tests;

pub(crate) use access::{Access, BucketResolver, SignedOrigins};
pub(crate) use bucket_check::{complaint, contact};
pub(crate) use client::{BucketAnswer, BucketReply, BucketRequest, Client};
pub use options::S3Options;
pub(crate) use settings::S3Settings;
