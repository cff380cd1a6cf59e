//! Keeps the credentials of a job fresh: a thread replaces them before they expire, or when a server says that they
//! have. Nobody who sends requests waits for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::panics;

/// What came of asking for other credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// There are newer ones than those that were used: sign again.
    Newer,
    /// They are being looked for: ask again later.
    Pending,
    /// There are none, and why, in a line that says what to do.
    Failed(String),
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadedCredentials<C> {
    pub(crate) credentials: C,
    /// Seconds since 1970; none: they do not say that they expire.
    pub(crate) expires_at: Option<u64>,
    /// For people: `environment`, `profile NAME`, `web identity`, `container`, `instance metadata`.
    pub(crate) from: String,
    /// Whether asking again can give others.
    pub(crate) is_renewable: bool,
}

/// Where credentials are found.
pub(crate) trait CredentialSource: Send + 'static {
    /// What requests are made with.
    type Credentials;

    /// Looks for credentials, as things are now; none: nobody has any. It blocks, and ends soon after `is_over` says so.
    fn load(&self, is_over: &dyn Fn() -> bool) -> Result<Option<LoadedCredentials<Self::Credentials>>>;
}

/// Whose credentials are kept fresh.
pub(crate) trait CredentialHolder: std::fmt::Debug + Send + Sync + 'static {
    /// What requests are made with.
    type Credentials: Clone + PartialEq + Send;

    /// Raised whenever the credentials are replaced.
    fn generation(&self) -> u64;

    fn set_credentials(&self, credentials: Option<Self::Credentials>);

    /// Seconds since 1970, by the clock that the credentials are judged by.
    fn now(&self) -> u64;
}

const EXPIRED: &str = "the credentials have expired: renew them and run the same command again";

/// What both sides know.
#[derive(Debug, Default)]
struct RefreshState {
    /// Somebody has asked for other credentials, or they are being looked for.
    is_wanted: bool,
    /// What the last try said, and until when whoever asks hears it.
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

/// See the module. It ends when it is dropped, or soon after the job is over. Those whose credentials it keeps may own
/// it: it does not keep them.
#[derive(Debug)]
pub(crate) struct Refresher<H> {
    access: Weak<H>,
    shared: Arc<RefreshShared>,
    /// None: there is nothing that could replace them.
    thread: Option<JoinHandle<()>>,
}

impl<H: CredentialHolder> Refresher<H> {
    /// For the credentials that `access` has by now.
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
                Some(thread.map_err(|error| Error::storage("start a thread of", "this process", error))?)
            }
        };
        Ok(Refresher { access, shared, thread })
    }

    /// Asks for other credentials, because a server said that those with this [`CredentialHolder::generation`] have expired. It
    /// returns at once, and any number of askers make one look.
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
        // The thread itself may have had the last hold on who owns this: it ends without being waited for.
        let is_other = |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(is_other) {
            // A panic there has lost nothing: the job is over.
            let _ = thread.join();
        }
    }
}

/// What is said when the job has ended while credentials were asked for.
pub(crate) fn stopped() -> Error {
    Error::Temporary("stopped while credentials were asked for; run the same command again".into())
}

struct Ending(Arc<RefreshShared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.state().is_over = true;
    }
}

/// The thread's side.
struct RefreshThread<H, S: CredentialSource> {
    access: Weak<H>,
    shared: Arc<RefreshShared>,
    source: S,
    loaded: LoadedCredentials<S::Credentials>,
    /// When they are to be replaced without being asked.
    due: Option<Instant>,
    /// The wait after the next failure.
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
        // However it ends, nobody waits for other credentials then.
        let _ending = Ending(Arc::clone(&self.shared));
        while self.await_turn(is_over) {
            self.replace(is_over);
        }
    }

    /// Waits until credentials are to be looked for; whether the job goes on.
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

    /// Looks for credentials, and takes them if they are others.
    fn replace(&mut self, is_over: &dyn Fn() -> bool) {
        let shared = Arc::clone(&self.shared);
        let looked = self.source.load(&|| is_over() || shared.state().is_over);
        let why = match looked {
            Ok(Some(loaded)) if loaded.credentials != self.loaded.credentials => return self.take(loaded),
            // Nobody has renewed them. They may live longer than was said before.
            Ok(Some(loaded)) => {
                self.loaded = loaded;
                format!("{EXPIRED} ({} has no newer ones)", self.loaded.from)
            }
            Ok(None) => format!("{EXPIRED} ({} has none any more)", self.loaded.from),
            Err(error) => error.to_string(),
        };
        self.fail(why);
    }

    fn take(&mut self, loaded: LoadedCredentials<S::Credentials>) {
        // Before the state is locked: if this is the last hold, the refresher is dropped with it, and locks it, too.
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
        // Those that do not expire are looked for again only if somebody asks.
        self.due = self.due().map(|due| due.max(again));
    }

    /// Ahead of the expiry by `CREDENTIALS_AHEAD`, or by a quarter of what is left if that is less.
    fn due(&self) -> Option<Instant> {
        let left = Duration::from_secs(self.loaded.expires_at?.saturating_sub(self.access.upgrade()?.now()));
        let ahead = (left / 4).min(limits::CREDENTIALS_AHEAD);
        Some(Instant::now() + left.saturating_sub(ahead).max(limits::CREDENTIALS_RETRY_MIN))
    }
}
