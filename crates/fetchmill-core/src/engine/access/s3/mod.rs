//! S3 and compatible stores: who asks, what is learned of a bucket, what its replies mean, and requests that are no
//! objects.

mod access;
mod bucket_check;
mod client;
mod credential_client;
mod credential_document;
mod credentials;
mod environment;
mod metadata;
mod options;
mod profile;
mod sts;
#[cfg(test)]
mod tests;

pub(in crate::engine) use access::{Access, BucketResolver, SignedOrigins};
pub(in crate::engine) use bucket_check::{complaint, contact};
pub(in crate::engine) use client::{BucketAnswer, BucketReply, BucketRequest, Client};
pub use options::S3Options;
