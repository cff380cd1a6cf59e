//! Shared state of an S3 store: its credentials, the regions of its buckets, and its clock offset. Each signing thread
//! keeps a copy, and compares one atomic counter to see whether that copy is current.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::credentials::CredentialChain;
use super::settings::S3Settings;
use crate::access::renewal::{CredentialHolder, CredentialSource as _, Refresher, Renewal};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::origin::{Authority, Authorize, OriginKey};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::panics;
use fetchmill_model::panics::lock;
use fetchmill_model::s3::{BucketAddress, BucketName, Credentials, REGION_DEFAULT, Signer, split_url};
use fetchmill_model::verdict::Correction;
use fetchmill_net::PoolSettings;

/// State that can change while a job runs.
#[derive(Debug, Default)]
struct AccessState {
    /// `None` if requests are not signed.
    credentials: Option<Arc<Credentials>>,
    regions: HashMap<BucketName, String>,
    /// Origins whose requests are signed, each with the region to sign for.
    origins: HashMap<OriginKey, String>,
}

/// State of an S3 store. See the [module documentation](self). Memory use: one table row per bucket of the job, up to
/// `limits::S3_BUCKETS_MAX`.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) options: S3Settings,
    known: Mutex<AccessState>,
    /// Incremented on every change to the shared state.
    generation: AtomicU64,
    /// Incremented when the credentials are replaced.
    credentials_generation: AtomicU64,
    /// Seconds to add to this machine's clock.
    clock_offset: AtomicI64,
    /// Connection settings for credential requests.
    pool: OnceLock<PoolSettings>,
    /// Result of the search for credentials. `None` before the search.
    loaded: Mutex<Option<std::result::Result<(), Arc<Error>>>>,
    refresher: Mutex<Option<Refresher<Access>>>,
    /// Thread that searches for credentials, for callers that must not block.
    loader: Mutex<Option<JoinHandle<()>>>,
    load_began: OnceLock<Instant>,
    is_closed: AtomicBool,
}

/// State of the search for credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoadState {
    Done,
    Failed,
    /// A thread is still searching.
    Pending,
}

impl Access {
    pub(crate) fn new(options: S3Settings) -> Arc<Self> {
        Arc::new(Access {
            options,
            known: Mutex::default(),
            generation: AtomicU64::new(1),
            credentials_generation: AtomicU64::new(1),
            clock_offset: AtomicI64::new(0),
            pool: OnceLock::new(),
            loaded: Mutex::default(),
            refresher: Mutex::default(),
            loader: Mutex::default(),
            load_began: OnceLock::new(),
            is_closed: AtomicBool::new(false),
        })
    }

    fn known(&self) -> MutexGuard<'_, AccessState> {
        lock(&self.known)
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Sets the connection settings for credential requests and the known offset of the store's clock. Call this before
    /// the first request.
    pub(crate) fn prepare(&self, pool: PoolSettings, clock_offset: i64) {
        let _ = self.pool.set(pool);
        self.clock_offset.store(clock_offset, Ordering::Relaxed);
    }

    /// Searches for credentials once, which can take one or two seconds. The credentials are then renewed until
    /// [`Access::close`].
    pub(crate) fn load(self: &Arc<Self>, is_over: &(dyn Fn() -> bool + Sync)) -> Result<()> {
        let mut loaded = lock(&self.loaded);
        let done = loaded.get_or_insert_with(|| self.load_now(is_over).map_err(Arc::new));
        done.clone().map_err(|error| again(&error))
    }

    /// Starts the search of [`Access::load`] on a thread and returns immediately. The thread ends after the search, or
    /// soon after [`Access::close`].
    fn load_beside(self: &Arc<Self>) -> LoadState {
        match self.loaded.try_lock().as_deref() {
            Ok(Some(Ok(()))) => return LoadState::Done,
            Ok(Some(Err(_))) | Err(TryLockError::Poisoned(_)) => return LoadState::Failed,
            Ok(None) | Err(TryLockError::WouldBlock) => {}
        }
        let mut loader = lock(&self.loader);
        if loader.is_none() && !self.is_closed.load(Ordering::Relaxed) {
            let access = Arc::clone(self);
            let work = move || {
                // Callers read the stored result.
                let _ = access.load(&|| access.is_closed.load(Ordering::Relaxed));
            };
            let started =
                std::thread::Builder::new().name("credentials".into()).spawn(panics::inherited(work));
            *loader = started.ok();
        }
        if loader.is_some() { LoadState::Pending } else { LoadState::Failed }
    }

    /// Returns the time since the search for credentials began, or `None` if the search has failed. Until the search
    /// fails, the caller retries targets that need credentials.
    pub(crate) fn loading(self: &Arc<Self>) -> Option<Duration> {
        let began = self.load_began.get_or_init(Instant::now);
        // The credentials might have arrived since the caller checked.
        (self.load_beside() != LoadState::Failed).then(|| began.elapsed())
    }

    /// Loads on a separate thread, because the caller might run an event loop.
    fn load_now(self: &Arc<Self>, is_over: &(dyn Fn() -> bool + Sync)) -> Result<()> {
        let Some(pool) = self.pool.get().cloned() else {
            return Err(Error::Internal("the connection pool for credentials is not set".into()));
        };
        let load = || {
            let chain = CredentialChain::new(&self.options, pool);
            let found = chain.load(is_over)?;
            self.set_credentials(found.as_ref().map(|found| found.credentials.clone()));
            let refresher = Refresher::start(self, chain, found, || false)?;
            *lock(&self.refresher) = Some(refresher);
            Ok(())
        };
        std::thread::scope(|scope| scope.spawn(panics::inherited(load)).join())
            .unwrap_or_else(|_| Err(Error::Internal("a thread has panicked".into())))
    }

    /// Requests newer credentials after the store reported that the credentials of `generation` have expired.
    pub(crate) fn renew(&self, generation: u64) -> Renewal {
        match &*lock(&self.refresher) {
            Some(refresher) => refresher.renew(generation),
            None => {
                Renewal::Failed("the store reports expired credentials, but the requests carried none".into())
            }
        }
    }

    /// Stops the renewal at the end of the job.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let loader = lock(&self.loader).take();
        if let Some(loader) = loader {
            // The loader and its process exit soon. A panic in the loader is harmless.
            let _ = loader.join();
        }
        let refresher = lock(&self.refresher).take();
        drop(refresher);
    }

    /// Returns whether requests are signed.
    pub(crate) fn is_signed(&self) -> bool {
        self.known().credentials.is_some()
    }

    /// Returns the detected region of the job's only bucket, which worker processes need.
    pub(crate) fn region_of_job(&self) -> Option<String> {
        let known = self.known();
        known.regions.values().next().filter(|_| known.regions.len() == 1).cloned()
    }

    /// Returns how many seconds the store's clock is ahead.
    pub(crate) fn clock_offset(&self) -> i64 {
        self.clock_offset.load(Ordering::Relaxed)
    }

    /// Returns the address of a bucket, which depends on the bucket's region if the region is known. From now on,
    /// requests to its origin are signed.
    pub(crate) fn place(&self, bucket: &BucketName) -> Result<BucketAddress> {
        self.options.must_be_supported(bucket)?;
        let mut known = self.known();
        let region = known.regions.get(bucket).or(self.options.region.as_ref());
        let region = region.map_or(REGION_DEFAULT, String::as_str);
        let place = BucketAddress::of(&self.options.endpoint(), bucket, region)?;
        if known.origins.get(&place.key) != Some(&place.region) {
            if known.origins.len() >= limits::S3_BUCKETS_MAX && !known.origins.contains_key(&place.key) {
                let most = limits::S3_BUCKETS_MAX;
                return Err(Error::Usage(format!(
                    "too many buckets for one job (more than {most}); split the list"
                )));
            }
            known.origins.insert(place.key.clone(), place.region.clone());
            drop(known);
            self.changed();
        }
        Ok(place)
    }

    /// Records the region that the store reported for a bucket.
    pub(crate) fn learn_region(&self, bucket: &BucketName, region: &str) {
        let mut known = self.known();
        if known.regions.len() >= limits::S3_BUCKETS_MAX && !known.regions.contains_key(bucket) {
            return;
        }
        known.regions.insert(bucket.clone(), region.to_owned());
        drop(known);
        self.changed();
    }

    /// Records the store's current time, in seconds since 1970.
    fn learn_clock(&self, store: u64) {
        self.clock_offset.store(store as i64 - machine_seconds(), Ordering::Relaxed);
    }

    /// Corrects a setting that the store rejected in its reply to a request for `bucket`. The request was signed with
    /// the credentials of `generation`. Returns whether the request can be repeated now.
    pub(crate) fn correct(
        &self,
        bucket: Option<&BucketName>,
        correction: Correction,
        generation: u64,
    ) -> Renewal {
        match correction {
            Correction::Credentials => return self.renew(generation),
            Correction::Clock(store) => self.learn_clock(store),
            Correction::Region(region) => {
                if let Some(bucket) = bucket {
                    self.learn_region(bucket, &region);
                }
            }
        }
        Renewal::Newer
    }

    /// Signs a request that another library sends and returns the signed fields. The library must send all fields
    /// except `Host` unchanged.
    pub(crate) fn signed_fields(self: &Arc<Self>, key: &OriginKey, target: &str) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let objects = SignedOrigins { access: Arc::clone(self), are_of_objects: true, named: None };
        if let Some(authorize) = objects.of(key) {
            authorize.write_fields("GET", target.as_bytes(), &[], &mut lines);
        }
        let text = String::from_utf8_lossy(&lines);
        let fields = text.lines().filter_map(|line| line.split_once(": "));
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Returns the generation of the credentials. Read it before signing, so that newer credentials are never mistaken
    /// for the ones that signed the request.
    pub(crate) fn generation(&self) -> u64 {
        self.credentials_generation.load(Ordering::Acquire)
    }

    /// Returns whether requests are currently signed. Does not start a search for credentials.
    pub(crate) fn has_credentials(&self) -> bool {
        self.known().credentials.is_some()
    }

    /// Replaces the credentials. `None` turns signing off.
    pub(crate) fn set_credentials(&self, credentials: Option<Credentials>) {
        let mut known = self.known();
        known.credentials = credentials.map(Arc::new);
        self.credentials_generation.fetch_add(1, Ordering::Release);
        drop(known);
        self.changed();
    }

    /// Returns the store's time in seconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        machine_seconds().saturating_add(self.clock_offset.load(Ordering::Relaxed)).max(0) as u64
    }
}

impl CredentialHolder for Access {
    type Credentials = Credentials;

    fn generation(&self) -> u64 {
        self.generation()
    }

    fn set_credentials(&self, credentials: Option<Credentials>) {
        self.set_credentials(credentials);
    }

    fn now(&self) -> u64 {
        self.now()
    }
}

/// Copies the error for another caller.
fn again(error: &Error) -> Error {
    let text = error.to_string();
    match error {
        Error::Temporary(_) => Error::Temporary(text),
        Error::Security(_) => Error::Security(text),
        _ => Error::Usage(text),
    }
}

fn machine_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64
}

/// Resolver that converts `s3://` URLs to HTTP URLs. Each thread has its own, so no lock is needed per object. It uses
/// as much memory as [`Access`].
#[derive(Debug)]
pub(crate) struct BucketResolver {
    access: Arc<Access>,
    known: RefCell<ResolvedBuckets>,
}

#[derive(Debug, Default)]
struct ResolvedBuckets {
    /// Generation of the shared state that `bases` was copied from.
    generation: u64,
    /// Origin and path prefix of each bucket.
    bases: HashMap<String, String>,
}

impl BucketResolver {
    pub(crate) fn new(access: Arc<Access>) -> Self {
        BucketResolver { access, known: RefCell::default() }
    }

    /// Returns the HTTP URL of a normalised `s3://` URL. The first call starts a search for credentials, which can take
    /// up to a minute. Fails with `credentials` while the search is running, and if the search finds none.
    /// [`Access::loading`] distinguishes these two cases.
    pub(crate) fn http_url(&self, url: &str) -> std::result::Result<String, FailureKind> {
        let (bucket, key) = split_url(url).ok_or(FailureKind::Url)?;
        let mut known = self.known.borrow_mut();
        let generation = self.access.generation.load(Ordering::Acquire);
        if known.generation != generation || known.bases.len() > limits::S3_BUCKETS_MAX {
            *known = ResolvedBuckets { generation, ..ResolvedBuckets::default() };
        }
        if let Some(base) = known.bases.get(bucket) {
            return Ok(format!("{base}{key}"));
        }
        if self.access.load_beside() != LoadState::Done {
            return Err(FailureKind::Credentials);
        }
        let name = BucketName::parse(bucket).map_err(|_| FailureKind::Url)?;
        let place = self.access.place(&name).map_err(|_| FailureKind::Url)?;
        let base = format!("{}{}", place.key.text(), place.prefix);
        let found = format!("{base}{key}");
        known.bases.insert(bucket.to_owned(), base);
        Ok(found)
    }
}

/// [`Authority`] of a job with an S3 store. It provides each thread with signers for its origins.
#[derive(Debug)]
pub(crate) struct SignedOrigins {
    pub(crate) access: Arc<Access>,
    /// Whether the requests are for objects.
    pub(crate) are_of_objects: bool,
    /// Origin that the user named in addition to the store.
    pub(crate) named: Option<OriginKey>,
}

impl Authority for SignedOrigins {
    fn is_named(&self, key: &OriginKey) -> bool {
        let is_of_store =
            || self.access.options.endpoint_url.is_some() && self.access.known().origins.contains_key(key);
        self.named.as_ref() == Some(key) || is_of_store()
    }

    fn of(&self, key: &OriginKey) -> Option<Rc<dyn Authorize>> {
        let is_own = self.access.known().origins.contains_key(key);
        is_own.then(|| {
            let copy = RefCell::new(ThreadSigner { generation: 0, credentials: None, signer: None });
            let (access, is_of_objects) = (Arc::clone(&self.access), self.are_of_objects);
            Rc::new(OriginSigner { access, key: key.clone(), copy, is_of_objects }) as Rc<dyn Authorize>
        })
    }
}

/// Signs a thread's requests to one origin.
#[derive(Debug)]
struct OriginSigner {
    access: Arc<Access>,
    key: OriginKey,
    copy: RefCell<ThreadSigner>,
    is_of_objects: bool,
}

/// A thread's copy of the shared state.
#[derive(Debug)]
struct ThreadSigner {
    generation: u64,
    credentials: Option<Arc<Credentials>>,
    signer: Option<Signer>,
}

impl OriginSigner {
    fn refresh(&self, copy: &mut ThreadSigner, generation: u64) {
        let known = self.access.known();
        copy.generation = generation;
        copy.credentials.clone_from(&known.credentials);
        copy.signer = known
            .origins
            .get(&self.key)
            .map(|region| self.access.options.signer(region, self.key.authority(), self.is_of_objects));
    }
}

impl Authorize for OriginSigner {
    fn write_fields(&self, method: &str, target: &[u8], body: &[u8], out: &mut Vec<u8>) {
        let mut copy = self.copy.borrow_mut();
        let generation = self.access.generation.load(Ordering::Acquire);
        if copy.generation != generation {
            self.refresh(&mut copy, generation);
        }
        let ThreadSigner { credentials, signer, .. } = &mut *copy;
        let Some(signer) = signer else { return };
        match credentials {
            Some(credentials) => {
                signer.write_fields(credentials, method, target, body, self.access.now(), out);
            }
            None => signer.write_unsigned(method, out),
        }
    }
}
