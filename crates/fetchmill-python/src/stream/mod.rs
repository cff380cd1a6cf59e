//! Requests of a Python program: from an iterable into batches, and from batches into replies.

mod batches;
mod body;
mod client;
mod feed;
mod headers;
mod iterator;
mod reply;
mod request;

pub(crate) use batches::{Batch, Batches};
pub(crate) use body::Body;
pub(crate) use client::Fetcher;
pub(crate) use headers::Headers;
pub(crate) use iterator::Stream;
pub(crate) use reply::{Reply, Timings};
pub(crate) use request::Request;
