//! Renews the credentials of a job. A thread replaces them before they expire, or when a server reports that they have
//! expired. Requests never wait for that thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::panics;

/// Answer to a request for newer credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Newer credentials are available. Sign the request again.
    Newer,
    /// The search is still running. Ask again later.
    Pending,
    /// No newer credentials are available. The string gives the reason and a remedy.
    Failed(String),
}

/// Credentials found by a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadedCredentials<C> {
    pub(crate) credentials: C,
    /// Expiry in seconds since 1970, if known.
    pub(crate) expires_at: Option<u64>,
    /// Source, as shown to users: `environment`, `profile NAME`, `web identity`, `container`, `instance metadata`.
    pub(crate) from: String,
    /// Whether a later search can return different credentials.
    pub(crate) is_renewable: bool,
}

/// A source of credentials.
pub(crate) trait CredentialSource: Send + 'static {
    /// Type of the credentials that requests use.
    type Credentials;

    /// Searches for the current credentials. Returns `None` if there are none. Blocks, but returns soon after `is_over`
    /// becomes true.
    fn load(&self, is_over: &dyn Fn() -> bool) -> Result<Option<LoadedCredentials<Self::Credentials>>>;
}

/// Holder of credentials that the refresher replaces.
pub(crate) trait CredentialHolder: std::fmt::Debug + Send + Sync + 'static {
    /// Type of the credentials that requests use.
    type Credentials: Clone + PartialEq + Send;

    /// Returns a number that increases each time the credentials are replaced.
    fn generation(&self) -> u64;

    fn set_credentials(&self, credentials: Option<Self::Credentials>);

    /// Returns the current time in seconds since 1970, according to the clock that expiry times refer to.
    fn now(&self) -> u64;
}

const EXPIRED: &str = "the credentials have expired; renew them and run the same command again";

/// State shared by the callers and the refresh thread.
#[derive(Debug, Default)]
struct RefreshState {
    /// Whether a search was requested or is running.
    is_wanted: bool,
    /// Reason for the last failure. Until the given time, callers get the same answer.
    failed: Option<(String, Instant)>,
    is_over: bool,
}

#[derive(Debug, Default)]
struct RefreshShared {
    state: Mutex<RefreshState>,
    changed: Condvar,
}

impl RefreshShared {
    fn state(&self) -> MutexGuard<'_, RefreshState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refresher of a job's credentials. See the [module documentation](self). Its thread ends when this value is dropped,
/// or soon after the job is over. The credential holder can own this value, because the refresher has only a weak
/// reference to the holder.
#[derive(Debug)]
pub(crate) struct Refresher<H> {
    access: Weak<H>,
    shared: Arc<RefreshShared>,
    /// `None` if no source can replace the credentials.
    thread: Option<JoinHandle<()>>,
}

impl<H: CredentialHolder> Refresher<H> {
    /// Starts with the current credentials of `access`.
    pub(crate) fn start<S: CredentialSource<Credentials = H::Credentials>>(
        access: &Arc<H>,
        source: S,
        loaded: Option<LoadedCredentials<S::Credentials>>,
        is_over: impl Fn() -> bool + Send + 'static,
    ) -> Result<Self> {
        let shared = Arc::new(RefreshShared::default());
        let access = Arc::downgrade(access);
        let thread = match loaded.filter(|loaded| loaded.is_renewable) {
            None => None,
            Some(loaded) => {
                let keeper = RefreshThread::new(Weak::clone(&access), Arc::clone(&shared), source, loaded);
                let work = move || keeper.keep(&is_over);
                let thread =
                    std::thread::Builder::new().name("credentials".into()).spawn(panics::inherited(work));
                Some(thread.map_err(|error| Error::storage("start a thread in", "this process", error))?)
            }
        };
        Ok(Refresher { access, shared, thread })
    }

    /// Requests newer credentials after a server reported that the credentials of `seen_generation`
    /// ([`CredentialHolder::generation`]) have expired. Returns immediately. Concurrent callers share one search.
    pub(crate) fn renew(&self, seen_generation: u64) -> Renewal {
        let access = self.access.upgrade();
        let mut state = self.shared.state();
        if access.as_ref().is_some_and(|access| access.generation() > seen_generation) {
            return Renewal::Newer;
        }
        if self.thread.is_none() {
            return Renewal::Failed(EXPIRED.into());
        }
        match &state.failed {
            Some((why, until)) if Instant::now() < *until => Renewal::Failed(why.clone()),
            _ if state.is_over => Renewal::Failed(EXPIRED.into()),
            _ => {
                state.is_wanted = true;
                self.shared.changed.notify_all();
                Renewal::Pending
            }
        }
    }
}

impl<H> Drop for Refresher<H> {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_all();
        // The thread itself might drop the last reference to the owner, and a thread must not join itself.
        let is_other = |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(is_other) {
            // A panic in the thread is harmless, because the job is over.
            let _ = thread.join();
        }
    }
}

/// Returns the error for a job that is stopped while it searches for credentials.
pub(crate) fn stopped() -> Error {
    Error::Temporary("stopped while requesting credentials; run the same command again".into())
}

struct Ending(Arc<RefreshShared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.state().is_over = true;
    }
}

/// State of the refresh thread.
struct RefreshThread<H, S: CredentialSource> {
    access: Weak<H>,
    shared: Arc<RefreshShared>,
    source: S,
    loaded: LoadedCredentials<S::Credentials>,
    /// Time of the next scheduled renewal.
    due: Option<Instant>,
    /// Delay before the next search if this one fails.
    wait: Duration,
}

impl<H: CredentialHolder, S: CredentialSource<Credentials = H::Credentials>> RefreshThread<H, S> {
    fn new(
        access: Weak<H>,
        shared: Arc<RefreshShared>,
        source: S,
        loaded: LoadedCredentials<S::Credentials>,
    ) -> Self {
        let wait = limits::CREDENTIALS_RETRY_MIN;
        let mut keeper = RefreshThread { access, shared, source, loaded, due: None, wait };
        keeper.due = keeper.due();
        keeper
    }

    fn keep(mut self, is_over: &dyn Fn() -> bool) {
        // Wakes all waiting callers when the thread ends for any reason.
        let _ending = Ending(Arc::clone(&self.shared));
        while self.await_turn(is_over) {
            self.replace(is_over);
        }
    }

    /// Waits until a search is due. Returns `false` if the job is over.
    fn await_turn(&self, is_over: &dyn Fn() -> bool) -> bool {
        let mut state = self.shared.state();
        loop {
            state.is_over |= is_over();
            if state.is_over {
                return false;
            }
            if state.is_wanted || self.due.is_some_and(|due| due <= Instant::now()) {
                state.is_wanted = true;
                return true;
            }
            let waited = self.shared.changed.wait_timeout(state, limits::TICK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Searches for credentials and installs them if they are new.
    fn replace(&mut self, is_over: &dyn Fn() -> bool) {
        let shared = Arc::clone(&self.shared);
        let looked = self.source.load(&|| is_over() || shared.state().is_over);
        let why = match looked {
            Ok(Some(loaded)) if loaded.credentials != self.loaded.credentials => return self.take(loaded),
            // The credentials are unchanged, but they might now expire later.
            Ok(Some(loaded)) => {
                self.loaded = loaded;
                format!("{EXPIRED} ({} provides no newer credentials)", self.loaded.from)
            }
            Ok(None) => format!("{EXPIRED} ({} no longer provides credentials)", self.loaded.from),
            Err(error) => error.to_string(),
        };
        self.fail(why);
    }

    fn take(&mut self, loaded: LoadedCredentials<S::Credentials>) {
        // Upgrade before locking, because dropping the last reference also drops the refresher, which takes the lock.
        let Some(access) = self.access.upgrade() else { return };
        let mut state = self.shared.state();
        access.set_credentials(Some(loaded.credentials.clone()));
        state.is_wanted = false;
        state.failed = None;
        drop(state);
        self.loaded = loaded;
        self.wait = limits::CREDENTIALS_RETRY_MIN;
        self.due = self.due();
    }

    fn fail(&mut self, why: String) {
        let again = Instant::now() + self.wait;
        let mut state = self.shared.state();
        state.is_wanted = false;
        state.failed = Some((why, again));
        drop(state);
        self.wait = (self.wait * 2).min(limits::CREDENTIALS_RETRY_MAX);
        // Credentials without an expiry are searched for only on request.
        self.due = self.due().map(|due| due.max(again));
    }

    /// Returns the time of the next renewal: `CREDENTIALS_AHEAD` before the expiry, or when three quarters of the
    /// remaining time have passed, whichever is later.
    fn due(&self) -> Option<Instant> {
        let left = Duration::from_secs(self.loaded.expires_at?.saturating_sub(self.access.upgrade()?.now()));
        let ahead = (left / 4).min(limits::CREDENTIALS_AHEAD);
        Some(Instant::now() + left.saturating_sub(ahead).max(limits::CREDENTIALS_RETRY_MIN))
    }
}
