//! Converts a Python program's iterable of requests to batches, and batches to replies.

mod batches;
mod body;
mod client;
mod headers;
mod input;
mod iterator;
mod pickling;
mod reply;
mod request;

pub(crate) use batches::{ArrowBatch, Batches};
pub(crate) use body::BodyBuffer;
pub(crate) use client::Fetcher;
pub(crate) use headers::Headers;
pub(crate) use iterator::Stream;
pub(crate) use reply::{Reply, Timings};
pub(crate) use request::Request;
