//! An S3 implementation for tests and measurements, which serves plain HTTP on 127.0.0.1. Buckets are in memory,
//! signatures are checked as in AWS, and faults are injected on demand.
//!
//! The operations are `ListObjectsV2`, get, head, put, delete, multipart uploads, and the location of a bucket.
//! Signature Version 4 must be in the `Authorization` field. Signed URLs and signed chunks are not supported (501).
//! Requests name the bucket in the path or in the host.
//!
//! # Layout, from the bottom up
//! - `failure` contains the error replies; `clock`, `uri` and `xml` format and parse values; `options`, `stats`
//! - `head` reads requests, and `reply` writes replies
//! - `sign` computes signatures, `checksum` checks bodies, and `gate` checks access; `behaviour` is the current
//!   behaviour of the store
//! - `store` holds the objects, and `uploads` holds the parts of incomplete objects
//! - `operation` identifies the operation of a request; `listing`, `object` and `parts` carry it out; `worker` connects
//!   them
//! - `connection` moves bytes
//!
//! # Example
//! ```
//! let store = fetchmill_server::s3::S3::start(&fetchmill_server::s3::S3Options::default())?;
//! println!("http://{}/bucket?list-type=2", store.address());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod behaviour;
mod checksum;
mod clock;
mod connection;
mod failure;
mod gate;
mod head;
mod listing;
mod object;
mod operation;
mod options;
mod parts;
mod reply;
mod sign;
mod stats;
mod store;
mod uploads;
mod uri;
mod worker;
mod xml;

pub use options::{BehaviourOptions, BucketOptions, CredentialOptions, ErrorWith200, S3Options};
pub use stats::S3Stats;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Error;
use crate::threads::{self, Threads};
use behaviour::Credential;
use store::{Bucket, Object};
use worker::{StoreState, StoreWorker};

const HOST: &str = "127.0.0.1";

/// A running store. It ends when it is stopped or dropped.
pub struct S3 {
    address: SocketAddr,
    shared: Arc<StoreState>,
    /// The threads of the store. They end when this is dropped.
    _threads: Threads,
}

impl std::fmt::Debug for S3 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("S3").field("address", &self.address).finish_non_exhaustive()
    }
}

impl S3 {
    /// Starts a store without buckets or credentials.
    pub fn start(options: &S3Options) -> Result<S3, Error> {
        options.check()?;
        let (listener, address) = threads::listen(HOST, options.port)?;
        let (region, suffix) = (options.region.clone(), options.virtual_host_suffix.clone());
        let shared = Arc::new(StoreState::new(region, suffix, address.to_string(), options.threads));
        let serve = |position| {
            let worker = Arc::new(StoreWorker::new(Arc::clone(&shared), position));
            move |stream| connection::serve(stream, Arc::clone(&worker))
        };
        let threads = Threads::start("fetchmill-s3", options.threads, listener, serve)?;
        Ok(S3 { address, shared, _threads: threads })
    }

    /// Returns the address on which the store listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a bucket, replacing any bucket that has the same name.
    pub fn add_bucket(&self, options: BucketOptions) -> Result<(), Error> {
        options.check()?;
        self.shared.store.add_bucket(Bucket::new(options));
        Ok(())
    }

    /// Puts an object into a bucket. `modified` is in milliseconds since 1970. `None` means now.
    pub fn put(&self, bucket: &str, key: &str, body: Bytes, modified: Option<i64>) -> Result<(), Error> {
        let offset = self.shared.behaviour().options.clock_offset;
        let modified = modified.unwrap_or_else(|| clock::now(offset));
        let object = Object { etag: store::etag_text(&body), body, modified };
        let store = &self.shared.store;
        let refused = |failure: failure::Failure| Error::Option(format!("{key:?}: {}", failure.message));
        store.put(&*self.bucket(bucket)?, key, object, false).map_err(refused)
    }

    /// Returns all objects that were put into a bucket, sorted by key.
    pub fn objects(&self, bucket: &str) -> Result<Vec<(String, Bytes)>, Error> {
        Ok(self.bucket(bucket)?.objects())
    }

    fn bucket(&self, name: &str) -> Result<Arc<Bucket>, Error> {
        self.shared.store.bucket(name).ok_or_else(|| Error::Option(format!("bucket {name:?} does not exist")))
    }

    /// Adds a pair of keys for signing, replacing any pair that has the same access key.
    pub fn set_credentials(&self, options: CredentialOptions) -> Result<(), Error> {
        let credential = Credential::new(options)?;
        self.shared.change(|behaviour| {
            let mut behaviour = behaviour.clone();
            behaviour.add_credential(credential);
            Ok(behaviour)
        })
    }

    /// Changes some of the values of [`BehaviourOptions`]. The other values and their countdowns stay unchanged.
    pub fn change(&self, values: &serde_json::Map<String, serde_json::Value>) -> Result<(), Error> {
        self.shared.change(|behaviour| behaviour.with(values))
    }

    /// Makes GET requests return these bodies instead of the listed objects from now on.
    pub fn set_changed(&self, changed: HashMap<String, Bytes>) -> Result<(), Error> {
        self.shared.change(|behaviour| {
            let mut behaviour = behaviour.clone();
            behaviour.changed = changed;
            Ok(behaviour)
        })
    }

    /// Returns the counts since the start or the last reset.
    pub fn stats(&self) -> S3Stats {
        self.shared.stats()
    }

    /// Resets the counters to 0.
    pub fn reset_stats(&self) {
        self.shared.reset_stats();
    }

    /// Closes all connections and waits for the threads to end.
    pub fn stop(self) {
        drop(self);
    }
}
