//! S3 and compatible stores: who asks, what is learned of a bucket, what its replies mean, and requests that are no objects.

mod access;
mod client;
mod contact;
mod credentials;
mod document;
mod environment;
mod judge;
mod metadata;
mod process;
mod profile;
mod refresh;
mod sts;
#[cfg(test)]
mod tests;
mod upload;
mod web;

pub use access::S3Options;
pub(super) use access::{Access, Places, SignedOrigins};
pub(super) use client::{Answer, Ask, Client};
pub(super) use contact::{complaint, contact, kind_of, learn};
pub(super) use judge::{FAULT_BYTES_MAX, Judgement, StoreReply, bucket_of, no_credentials, region_in};
pub(super) use refresh::Renewal;
pub(super) use upload::Uploader;
