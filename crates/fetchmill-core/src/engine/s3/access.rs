//! What all threads know of a store: the credentials, the regions of its buckets, and how its clock differs. A thread
//! that signs has a copy, and looks with one atomic load whether that is the latest.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::credentials::{Chain, endpoint_url, region};
use super::refresh::{Refresher, Renewal};
use crate::error::{Error, Result};
use crate::limits;
use crate::origin::{Authority, Authorize, OriginKey};
use crate::outcome::FailureKind;
use crate::s3::{BucketName, BucketPlace, Credentials, Endpoint, REGION_DEFAULT, Signer, split_url};
use crate::source::OriginUrl;
use crate::transport::PoolSettings;

/// How stores are reached.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct S3Options {
    /// Which store.
    pub endpoint: Endpoint,
    /// Where buckets are; none: what the configuration says, else what the store says.
    pub region: Option<String>,
    /// Whose credentials; none: what the environment says.
    pub profile: Option<String>,
    /// Requests are not signed: for public buckets.
    pub no_sign_request: bool,
}

impl S3Options {
    /// Fills in what the environment and the profile say.
    pub(in crate::engine) fn resolve(&mut self) -> Result<()> {
        self.region = region(self);
        if self.endpoint.url.is_none()
            && let Some(text) = endpoint_url(self)
        {
            let url = OriginUrl::parse(&text).map_err(|error| {
                Error::Usage(format!(
                    "the endpoint that the environment or the profile names is none: {error}"
                ))
            })?;
            self.endpoint.url = Some(url);
        }
        Ok(())
    }

    /// Where a bucket is asked for, as far as the options say.
    pub(in crate::engine) fn place(&self, bucket: &BucketName) -> Result<BucketPlace> {
        BucketPlace::of(&self.endpoint, bucket, self.region.as_deref().unwrap_or(REGION_DEFAULT))
    }
}

/// What changes while a job runs.
#[derive(Debug, Default)]
struct Known {
    /// None: requests are not signed.
    credentials: Option<Arc<Credentials>>,
    regions: HashMap<BucketName, String>,
    /// Origins that get signed requests, with the region that these are signed for.
    origins: HashMap<OriginKey, String>,
}

/// See the module. Memory: a row for each bucket that the job has met, at most `limits::S3_BUCKETS_MAX`.
#[derive(Debug)]
pub(in crate::engine) struct Access {
    pub(in crate::engine) options: S3Options,
    known: Mutex<Known>,
    /// Raised whenever what is known changes.
    generation: AtomicU64,
    /// Raised whenever the credentials are replaced.
    credentials_generation: AtomicU64,
    /// Seconds to add to this machine's clock.
    clock_offset: AtomicI64,
    /// What the chain of credentials needs to make requests.
    pool: OnceLock<PoolSettings>,
    /// Whether the chain was gone through, and what came of it.
    loaded: Mutex<Option<std::result::Result<(), Arc<Error>>>>,
    refresher: Mutex<Option<Refresher>>,
}

impl Access {
    pub(in crate::engine) fn new(options: S3Options) -> Arc<Self> {
        Arc::new(Access {
            options,
            known: Mutex::default(),
            generation: AtomicU64::new(1),
            credentials_generation: AtomicU64::new(1),
            clock_offset: AtomicI64::new(0),
            pool: OnceLock::new(),
            loaded: Mutex::default(),
            refresher: Mutex::default(),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Before the first request: how requests for credentials are made, and how the store's clock is known to go.
    pub(in crate::engine) fn prepare(&self, pool: PoolSettings, clock_offset: i64) {
        let _ = self.pool.set(pool);
        self.clock_offset.store(clock_offset, Ordering::Relaxed);
    }

    /// Looks for credentials, the first time; it may take a second or two. From then on they are kept fresh, until
    /// [`Access::close`].
    pub(in crate::engine) fn load(self: &Arc<Self>, is_over: &(dyn Fn() -> bool + Sync)) -> Result<()> {
        let mut loaded = lock(&self.loaded);
        let done = loaded.get_or_insert_with(|| self.load_now(is_over).map_err(Arc::new));
        done.clone().map_err(|error| again(&error))
    }

    /// On a thread of its own: whoever asks may be one that has an event loop.
    fn load_now(self: &Arc<Self>, is_over: &(dyn Fn() -> bool + Sync)) -> Result<()> {
        let Some(pool) = self.pool.get().cloned() else {
            return Err(Error::Internal("nothing was said of how credentials are asked for".into()));
        };
        let load = || {
            let chain = Chain::new(&self.options, pool);
            let found = chain.load(is_over)?;
            self.set_credentials(found.as_ref().map(|found| found.credentials.clone()));
            let refresher = Refresher::start(self, chain, found, || false)?;
            *lock(&self.refresher) = Some(refresher);
            Ok(())
        };
        std::thread::scope(|scope| scope.spawn(load).join())
            .unwrap_or_else(|_| Err(Error::Internal("a thread has panicked".into())))
    }

    /// After the store has said that credentials have expired that were those of `generation`.
    pub(in crate::engine) fn renew(&self, generation: u64) -> Renewal {
        match &*lock(&self.refresher) {
            Some(refresher) => refresher.renew(generation),
            None => {
                Renewal::Failed("the store says that credentials have expired, and there are none".into())
            }
        }
    }

    /// The job has ended: nothing is kept fresh any more.
    pub(in crate::engine) fn close(&self) {
        let refresher = lock(&self.refresher).take();
        drop(refresher);
    }

    /// Replaces the credentials; none: nothing is signed from now on.
    pub(in crate::engine) fn set_credentials(&self, credentials: Option<Credentials>) {
        let mut known = self.known();
        known.credentials = credentials.map(Arc::new);
        self.credentials_generation.fetch_add(1, Ordering::Release);
        drop(known);
        self.changed();
    }

    /// Which credentials these are. Who asks before a request is signed never takes newer ones for those that it used.
    pub(in crate::engine) fn generation(&self) -> u64 {
        self.credentials_generation.load(Ordering::Acquire)
    }

    /// Whether requests are signed.
    pub(in crate::engine) fn is_signed(&self) -> bool {
        self.known().credentials.is_some()
    }

    /// What a worker's process must be told: the region that the only bucket of the job was found in.
    pub(in crate::engine) fn region_of_job(&self) -> Option<String> {
        let known = self.known();
        known.regions.values().next().filter(|_| known.regions.len() == 1).cloned()
    }

    /// Seconds by which the store's clock is ahead.
    pub(in crate::engine) fn clock_offset(&self) -> i64 {
        self.clock_offset.load(Ordering::Relaxed)
    }

    /// Where a bucket is, as far as is known. Its origin gets signed requests from now on.
    pub(in crate::engine) fn place(&self, bucket: &BucketName) -> Result<BucketPlace> {
        let mut known = self.known();
        let region = known.regions.get(bucket).or(self.options.region.as_ref());
        let region = region.map_or(REGION_DEFAULT, String::as_str);
        let place = BucketPlace::of(&self.options.endpoint, bucket, region)?;
        if known.origins.get(&place.key) != Some(&place.region) {
            if known.origins.len() >= limits::S3_BUCKETS_MAX && !known.origins.contains_key(&place.key) {
                let most = limits::S3_BUCKETS_MAX;
                return Err(Error::Usage(format!("a job knows at most {most} buckets; divide the list")));
            }
            known.origins.insert(place.key.clone(), place.region.clone());
            drop(known);
            self.changed();
        }
        Ok(place)
    }

    /// The store says that a bucket is in another region; whether that is news.
    pub(in crate::engine) fn learn_region(&self, bucket: &BucketName, region: &str) -> bool {
        let mut known = self.known();
        if known.regions.len() >= limits::S3_BUCKETS_MAX && !known.regions.contains_key(bucket) {
            return false;
        }
        let is_news = known.regions.get(bucket).is_none_or(|old| old != region);
        known.regions.insert(bucket.clone(), region.to_owned());
        drop(known);
        self.changed();
        is_news
    }

    /// The store's clock says this, seconds since 1970; whether ours differs by more than a few seconds from it.
    pub(in crate::engine) fn learn_clock(&self, store: u64) -> bool {
        let offset = store as i64 - machine_seconds();
        let old = self.clock_offset.swap(offset, Ordering::Relaxed);
        old.abs_diff(offset) > CLOCK_NEWS_SECONDS
    }

    /// What a request says that somebody else sends: `Host` apart, nothing of it may change before it is sent.
    pub(in crate::engine) fn signed_fields(
        self: &Arc<Self>,
        key: &OriginKey,
        target: &str,
    ) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        if let Some(authorize) = SignedOrigins(Arc::clone(self)).of(key) {
            authorize.write_fields("GET", target.as_bytes(), &[], &mut lines);
        }
        let text = String::from_utf8_lossy(&lines);
        let fields = text.lines().filter_map(|line| line.split_once(": "));
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Seconds since 1970 by the store's clock.
    pub(super) fn now(&self) -> u64 {
        machine_seconds().saturating_add(self.clock_offset.load(Ordering::Relaxed)).max(0) as u64
    }
}

/// The same error for each who asks.
fn again(error: &Error) -> Error {
    let text = error.to_string();
    match error {
        Error::Temporary(_) => Error::Temporary(text),
        Error::Security(_) => Error::Security(text),
        _ => Error::Usage(text),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a thread that panicked held is plain data.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A clock that differs less is as good as right: a reply is a moment old when it is read.
const CLOCK_NEWS_SECONDS: u64 = 5;

fn machine_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64
}

/// Turns `s3://` URLs into where their objects are asked for. A thread has its own, so that no object costs a lock,
/// whatever bucket it is in. Memory: as [`Access`].
#[derive(Debug)]
pub(in crate::engine) struct Places {
    access: Arc<Access>,
    known: RefCell<KnownPlaces>,
}

#[derive(Debug, Default)]
struct KnownPlaces {
    /// What they were found by.
    generation: u64,
    /// By bucket: the origin, and the path before keys.
    bases: HashMap<String, String>,
}

impl Places {
    pub(in crate::engine) fn new(access: Arc<Access>) -> Self {
        Places { access, known: RefCell::default() }
    }

    /// Where the object of a normalised `s3://` URL is asked for. The first time it looks for credentials, which may take
    /// a second or two.
    pub(in crate::engine) fn http_url(&self, url: &str) -> std::result::Result<String, FailureKind> {
        let (bucket, key) = split_url(url).ok_or(FailureKind::Url)?;
        let mut known = self.known.borrow_mut();
        let generation = self.access.generation.load(Ordering::Acquire);
        if known.generation != generation || known.bases.len() > limits::S3_BUCKETS_MAX {
            *known = KnownPlaces { generation, ..KnownPlaces::default() };
        }
        if let Some(base) = known.bases.get(bucket) {
            return Ok(format!("{base}{key}"));
        }
        self.access.load(&|| false).map_err(|_| FailureKind::Credentials)?;
        let name = BucketName::parse(bucket).map_err(|_| FailureKind::Url)?;
        let place = self.access.place(&name).map_err(|_| FailureKind::Url)?;
        let base = format!("{}{}", place.key.text(), place.prefix);
        let found = format!("{base}{key}");
        known.bases.insert(bucket.to_owned(), base);
        Ok(found)
    }
}

/// The [`Authority`] of a job: threads ask it for the signers of their origins.
#[derive(Debug)]
pub(in crate::engine) struct SignedOrigins(pub(in crate::engine) Arc<Access>);

impl Authority for SignedOrigins {
    fn is_named(&self, key: &OriginKey) -> bool {
        self.0.options.endpoint.url.is_some() && self.0.known().origins.contains_key(key)
    }

    fn of(&self, key: &OriginKey) -> Option<Rc<dyn Authorize>> {
        let is_own = self.0.known().origins.contains_key(key);
        is_own.then(|| {
            let copy = RefCell::new(Copy { generation: 0, credentials: None, signer: None });
            Rc::new(OriginSigner { access: Arc::clone(&self.0), key: key.clone(), copy }) as Rc<dyn Authorize>
        })
    }
}

/// Signs a thread's requests to one origin.
#[derive(Debug)]
struct OriginSigner {
    access: Arc<Access>,
    key: OriginKey,
    copy: RefCell<Copy>,
}

/// What a thread knows of what is known.
#[derive(Debug)]
struct Copy {
    generation: u64,
    credentials: Option<Arc<Credentials>>,
    signer: Option<Signer>,
}

impl OriginSigner {
    fn refresh(&self, copy: &mut Copy, generation: u64) {
        let known = self.access.known();
        copy.generation = generation;
        copy.credentials.clone_from(&known.credentials);
        copy.signer = known.origins.get(&self.key).map(|region| Signer::new(region, self.key.authority()));
    }
}

impl Authorize for OriginSigner {
    fn write_fields(&self, method: &str, target: &[u8], body: &[u8], out: &mut Vec<u8>) {
        let mut copy = self.copy.borrow_mut();
        let generation = self.access.generation.load(Ordering::Acquire);
        if copy.generation != generation {
            self.refresh(&mut copy, generation);
        }
        let Copy { credentials, signer, .. } = &mut *copy;
        if let (Some(credentials), Some(signer)) = (credentials, signer) {
            signer.write_fields(credentials, method, target, body, self.access.now(), out);
        }
    }
}
