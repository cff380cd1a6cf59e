//! The state of a store's thread, and its answers to requests. Converts a head and a body to the bytes of the reply.
//! Does no I/O on the connection.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;

use super::behaviour::StoreBehaviour;
use super::clock;
use super::failure::Failure;
use super::gate::GatedRequest;
use super::head::RequestHead;
use super::listing;
use super::object::ObjectRequest;
use super::operation::Operation;
use super::parts;
use super::reply::{Date, Reply};
use super::stats::{S3Stats, StoreCounters};
use super::store::{Bucket, Store};
use super::uri::{self, Query};
use super::xml;
use crate::hash;

/// State that all threads share.
#[derive(Debug)]
pub(crate) struct StoreState {
    pub(crate) store: Store,
    behaviour: RwLock<Arc<StoreBehaviour>>,
    pub(crate) region: String,
    pub(crate) suffix: Option<String>,
    /// Host and port that error replies contain.
    pub(crate) endpoint: String,
    counters: Vec<StoreCounters>,
    /// Counts at the time of the last reset.
    before: Mutex<S3Stats>,
}

impl StoreState {
    pub(crate) fn new(region: String, suffix: Option<String>, endpoint: String, threads: usize) -> Self {
        StoreState {
            store: Store::default(),
            behaviour: RwLock::default(),
            region,
            suffix,
            endpoint,
            counters: (0..threads).map(|_| StoreCounters::default()).collect(),
            before: Mutex::default(),
        }
    }

    pub(crate) fn behaviour(&self) -> Arc<StoreBehaviour> {
        Arc::clone(&self.behaviour.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the current behaviour.
    pub(crate) fn change<E>(
        &self,
        make: impl FnOnce(&StoreBehaviour) -> Result<StoreBehaviour, E>,
    ) -> Result<(), E> {
        let mut behaviour = self.behaviour.write().unwrap_or_else(PoisonError::into_inner);
        *behaviour = Arc::new(make(&behaviour)?);
        Ok(())
    }

    pub(crate) fn stats(&self) -> S3Stats {
        S3Stats::sum(self.counters.iter()).since(&self.before.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn reset_stats(&self) {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = S3Stats::sum(self.counters.iter());
    }

    /// Returns the bucket and the key in a decoded path.
    fn place<'a>(&self, head: &RequestHead<'_>, path: &'a [u8]) -> (Cow<'a, [u8]>, &'a [u8]) {
        let path = path.get(1..).unwrap_or_default();
        if let Some(bucket) = self.bucket_of_host(head) {
            return (Cow::Owned(bucket.into_bytes()), path);
        }
        match path.iter().position(|byte| *byte == b'/') {
            Some(slash) => (Cow::Borrowed(&path[..slash]), &path[slash + 1..]),
            None => (Cow::Borrowed(path), &[]),
        }
    }

    fn bucket_of_host(&self, head: &RequestHead<'_>) -> Option<String> {
        let host = std::str::from_utf8(head.field("host")?).ok()?;
        match &self.suffix {
            None => self.store.bucket_of_host(host),
            Some(suffix) => {
                let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
                Some(name.strip_suffix(suffix.as_str())?.strip_suffix('.')?.to_owned())
            }
        }
    }
}

/// Facts about a request that are determined before it is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// Time at which the request arrived, in milliseconds since 1970.
    pub(crate) now: i64,
    pub(crate) delay: Duration,
    /// Whether to reset the connection in the middle of the body.
    pub(crate) drops: bool,
}

/// State of a thread.
pub(crate) struct StoreWorker {
    shared: Arc<StoreState>,
    position: usize,
    replies: AtomicU64,
}

/// Buffers that consecutive requests reuse.
#[derive(Default)]
struct StoreScratch {
    path: Vec<u8>,
    body: Vec<u8>,
    date: Date,
    modified: Date,
}

thread_local! {
    static SCRATCH: RefCell<StoreScratch> = RefCell::default();
}

impl StoreWorker {
    pub(crate) fn new(shared: Arc<StoreState>, position: usize) -> Self {
        StoreWorker { shared, position, replies: AtomicU64::new((position as u64) << 48) }
    }

    pub(crate) fn counters(&self) -> &StoreCounters {
        &self.shared.counters[self.position]
    }

    /// Determines when a request arrived, and its delay and fault.
    pub(crate) fn arrive(&self, head: &RequestHead<'_>) -> Arrival {
        let behaviour = self.shared.behaviour();
        let options = &behaviour.options;
        let is_list = head.method == b"GET" && memchr::memmem::find(head.query, b"list-type=2").is_some();
        let delay = if is_list { options.list_latency } else { options.get_latency };
        Arrival {
            now: clock::now(options.clock_offset),
            // The options were checked, so this is a valid number of seconds.
            delay: Duration::try_from_secs_f64(delay).unwrap_or_default(),
            drops: head.method == b"PUT" && head.length > 0 && behaviour.drops_upload(),
        }
    }

    /// Appends the reply to a request.
    pub(crate) fn answer(&self, head: &RequestHead<'_>, body: &Bytes, now: i64, out: &mut Vec<u8>) {
        let counters = self.counters();
        counters.requests.add(1);
        SCRATCH.with_borrow_mut(|scratch| {
            let StoreScratch { path, body: buffer, date, modified } = scratch;
            let mut reply =
                self.reply((head.method == b"HEAD", head.keep_alive), date.at(now), modified, out);
            let start = reply.out.len();
            if let Err(failure) = self.carry_out(head, body, now, path, buffer, &mut reply) {
                self.count(&failure);
                reply.out.truncate(start);
                reply.failure(&failure);
            }
        });
    }

    /// Appends the reply to something that is not an S3 request. The connection ends after that.
    pub(crate) fn refuse(&self, failure: &Failure, out: &mut Vec<u8>) {
        let date = clock::http(clock::now(self.shared.behaviour().options.clock_offset));
        self.reply((false, false), &date, &mut Date::default(), out).failure(failure);
    }

    fn reply<'a>(
        &self,
        (head_only, keep_alive): (bool, bool),
        date: &'a str,
        modified: &'a mut Date,
        out: &'a mut Vec<u8>,
    ) -> Reply<'a> {
        let id = hash::mix(self.replies.fetch_add(1, Ordering::Relaxed));
        Reply { out, date, modified, id, head_only, keep_alive }
    }

    fn carry_out(
        &self,
        head: &RequestHead<'_>,
        body: &Bytes,
        now: i64,
        path: &mut Vec<u8>,
        buffer: &mut Vec<u8>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Failure> {
        let shared = &*self.shared;
        let behaviour = shared.behaviour();
        path.clear();
        let invalid = || Failure::new(400, "InvalidURI", "Couldn't parse the specified URI.");
        if !uri::decode(head.path, false, path) {
            return Err(invalid());
        }
        let query = Query::parse(head.query).ok_or_else(invalid)?;
        let (name, key) = shared.place(head, path);
        let name = std::str::from_utf8(&name).map_err(|_| invalid())?;
        let key = std::str::from_utf8(key).map_err(|_| invalid())?;
        let operation = Operation::of(head, !key.is_empty(), &query)?;
        self.count_operation(operation);
        if behaviour.is_too_fast() {
            return Err(Failure::slow_down());
        }
        let bucket = shared.store.bucket(name);
        let bucket = bucket.as_deref();
        let asking = GatedRequest {
            behaviour: &behaviour,
            head,
            path,
            query: &query,
            body,
            now,
            reads: operation.reads(),
            name,
            bucket,
            region: &shared.region,
            endpoint: &shared.endpoint,
        };
        asking.check()?;
        let bucket = bucket.ok_or_else(|| Failure::no_such_bucket(name))?;
        if behaviour.options.deny.contains(key)
            || (operation == Operation::List && behaviour.options.deny_lists)
        {
            return Err(Failure::access_denied());
        }
        let place = ObjectRequest { store: &shared.store, behaviour: &behaviour, bucket, key, now };
        self.operate(operation, &place, (head, &query, body), buffer, reply)
    }

    fn operate(
        &self,
        operation: Operation,
        place: &ObjectRequest<'_>,
        (head, query, body): (&RequestHead<'_>, &Query, &Bytes),
        buffer: &mut Vec<u8>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Failure> {
        let (counters, bucket) = (self.counters(), place.bucket);
        match operation {
            Operation::List => listing::page(bucket, place.behaviour, query, reply)?,
            Operation::ListUploads => parts::list_uploads(place.store, bucket, query, reply)?,
            Operation::ListParts => place.list_parts(query, reply)?,
            Operation::Location => location(bucket, reply),
            Operation::Get => counters.fetched.add(u64::from(place.get(head, buffer, reply)?)),
            Operation::Head => {
                place.get(head, buffer, reply)?;
            }
            Operation::HeadBucket => {
                reply.status(200);
                reply.field("x-amz-bucket-region", bucket.region.as_bytes());
                reply.empty(200);
            }
            Operation::Put => place.put(head, body, reply)?,
            Operation::PutPart => place.put_part(query, body, reply)?,
            Operation::Create => place.create(reply)?,
            Operation::Complete => {
                counters.completed.add(u64::from(place.complete(head, query, body, reply)?));
            }
            Operation::Abort => place.abort(query, reply)?,
            Operation::Delete => place.delete(reply)?,
        }
        Ok(())
    }

    fn count_operation(&self, operation: Operation) {
        let counters = self.counters();
        match operation {
            Operation::List => counters.lists.add(1),
            Operation::Get => counters.gets.add(1),
            Operation::Head | Operation::HeadBucket => counters.heads.add(1),
            Operation::Put => counters.puts.add(1),
            Operation::PutPart => counters.parts.add(1),
            Operation::Delete => counters.deletes.add(1),
            _ => {}
        }
    }

    fn count(&self, failure: &Failure) {
        let counters = self.counters();
        match (failure.status, &*failure.code) {
            (503, _) => counters.refused.add(1),
            (_, "RequestTimeTooSkewed") => counters.skewed.add(1),
            (_, "ExpiredToken") => counters.expired.add(1),
            (403, _) | (_, "InvalidToken") => counters.denied.add(1),
            (404, _) => counters.not_found.add(1),
            (301, _) => counters.redirected.add(1),
            _ => {}
        }
    }
}

/// Writes the region of a bucket for `?location`. For the oldest region, the element is empty.
fn location(bucket: &Bucket, reply: &mut Reply<'_>) {
    let mut out = Vec::new();
    xml::root("LocationConstraint", &mut out);
    if bucket.region != "us-east-1" {
        out.extend_from_slice(bucket.region.as_bytes());
    }
    xml::close("LocationConstraint", &mut out);
    reply.document(&out);
}
