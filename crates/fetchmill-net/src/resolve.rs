//! Looks up names for all workers. Concurrent requests for the same name share one lookup, and results are cached for a
//! while.
//!
//! The system's lookup blocks and cannot be given a deadline, so it runs on a fixed number of threads. A caller that
//! has waited too long continues without an answer, and the late answer is cached.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::dns::{Cache, Resolution};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::panics;

/// Stack size of a lookup thread. The system's lookup keeps its buffers on the stack.
const STACK_BYTES: usize = 512 * 1024;
/// Messages of the C libraries of Linux and macOS for names that do not exist or have no address. The standard library
/// reports only the message, not the error number. All other messages count as temporary failures.
const NOT_FOUND: &[&str] = &[
    "Name or service not known",
    "No address associated with hostname",
    "Name does not resolve",
    "Name has no usable address",
    "nodename nor servname provided, or not known",
];

type LookUpFn = dyn Fn(&str) -> Resolution + Send + Sync;

/// The system's lookup with a cache. Clones share the cache.
#[derive(Clone)]
pub struct Resolver {
    shared: Arc<ResolverShared>,
}

struct ResolverShared {
    look_up: Box<LookUpFn>,
    times: ResolverTimes,
    state: Mutex<ResolverState>,
}

#[derive(Clone, Copy)]
struct ResolverTimes {
    /// Maximum time to wait for an answer.
    patience: Duration,
    found: Duration,
    failed: Duration,
}

struct ResolverState {
    known: Cache<Instant>,
    /// Names being looked up, with the callers that wait for them.
    asked: HashMap<Box<str>, watch::Receiver<Option<Resolution>>>,
    /// Names that no thread has taken yet.
    queue: VecDeque<(Box<str>, watch::Sender<Option<Resolution>>)>,
    threads: usize,
}

impl Default for ResolverState {
    fn default() -> Self {
        ResolverState {
            known: Cache::new(limits::DNS_CACHE_NAMES_MAX),
            asked: HashMap::new(),
            queue: VecDeque::new(),
            threads: 0,
        }
    }
}

impl Default for Resolver {
    fn default() -> Self {
        let times = ResolverTimes {
            patience: limits::DNS_TIMEOUT,
            found: limits::DNS_TTL,
            failed: limits::DNS_NEGATIVE_TTL,
        };
        Resolver::with(times, Box::new(system_look_up))
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl Resolver {
    /// Creates a resolver that uses the system's lookup, with an empty cache.
    pub fn new() -> Self {
        Resolver::default()
    }

    fn with(times: ResolverTimes, look_up: Box<LookUpFn>) -> Self {
        Resolver { shared: Arc::new(ResolverShared { look_up, times, state: Mutex::default() }) }
    }

    /// Returns up to eight addresses of a host, in the system's order. Fails with `dns` or `dns-not-found`.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Arc<[SocketAddr]>, FailureKind> {
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = literal.parse::<IpAddr>() {
            return Ok(Arc::new([SocketAddr::new(address, port)]));
        }
        let name = host.to_ascii_lowercase();
        let addresses = match self.shared.ask(&name)? {
            NameState::Known(answer) => answer?,
            NameState::Wait(mut answer) => {
                let answered = answer.wait_for(Option::is_some);
                match tokio::time::timeout(self.shared.times.patience, answered).await {
                    Ok(Ok(answer)) => answer.clone().unwrap_or(Err(FailureKind::Dns))?,
                    Ok(Err(_)) | Err(_) => return Err(FailureKind::Dns),
                }
            }
        };
        Ok(addresses.iter().map(|address| SocketAddr::new(*address, port)).collect())
    }
}

/// State of a name.
enum NameState {
    Known(Resolution),
    Wait(watch::Receiver<Option<Resolution>>),
}

impl ResolverShared {
    /// Returns the answer if it is known. Otherwise returns the lookup that will provide it, starting one if none is
    /// running.
    fn ask(self: &Arc<Self>, name: &str) -> Result<NameState, FailureKind> {
        let mut state = self.lock();
        if let Some(answer) = state.known.get(name, Instant::now()) {
            return Ok(NameState::Known(answer));
        }
        if let Some(answer) = state.asked.get(name) {
            return Ok(NameState::Wait(answer.clone()));
        }
        if state.asked.len() >= limits::DNS_ASKED_MAX {
            return Err(FailureKind::Dns);
        }
        let (sender, answer) = watch::channel(None);
        state.asked.insert(name.into(), answer.clone());
        state.queue.push_back((name.into(), sender));
        if state.threads < limits::DNS_THREADS_MAX {
            let shared = Arc::clone(self);
            let thread = std::thread::Builder::new().name("fetchmill-dns".into()).stack_size(STACK_BYTES);
            match thread.spawn(panics::inherited(move || shared.work())) {
                Ok(_) => state.threads += 1,
                // No new thread could be started, so an existing one will look up the name.
                Err(_) if state.threads > 0 => {}
                Err(_) => {
                    state.asked.clear();
                    state.queue.clear();
                    return Err(FailureKind::Dns);
                }
            }
        }
        Ok(NameState::Wait(answer))
    }

    /// Processes the queue on a lookup thread until the queue is empty.
    fn work(&self) {
        loop {
            let mut state = self.lock();
            let Some((name, sender)) = state.queue.pop_front() else {
                state.threads -= 1;
                return;
            };
            drop(state);
            let answer = (self.look_up)(&name);
            let lifetime = if answer.is_ok() { self.times.found } else { self.times.failed };
            let mut state = self.lock();
            state.asked.remove(&name);
            state.known.insert(name, answer.clone(), Instant::now() + lifetime);
            drop(state);
            // If the lookup took too long, its callers have stopped waiting.
            let _ = sender.send(Some(answer));
        }
    }

    fn lock(&self) -> MutexGuard<'_, ResolverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn system_look_up(name: &str) -> Resolution {
    match (name, 0).to_socket_addrs() {
        Ok(found) => {
            let found: Arc<[IpAddr]> =
                found.map(|address| address.ip()).take(limits::DNS_ADDRESSES_MAX).collect();
            if found.is_empty() { Err(FailureKind::DnsNotFound) } else { Ok(found) }
        }
        Err(error) => Err(kind_of(&error)),
    }
}

/// Returns the failure kind of a failed lookup, which shows whether a retry can succeed.
fn kind_of(error: &std::io::Error) -> FailureKind {
    let text = error.to_string();
    // The `InvalidInput` error kind means that the text cannot be a name.
    if error.kind() == std::io::ErrorKind::InvalidInput || NOT_FOUND.iter().any(|words| text.contains(words))
    {
        FailureKind::DnsNotFound
    } else {
        FailureKind::Dns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const LOCAL: [u8; 4] = [127, 0, 0, 1];

    fn found() -> Arc<[IpAddr]> {
        Arc::new([IpAddr::from(LOCAL)])
    }

    /// Creates a resolver that counts its lookups.
    fn counted(
        times: ResolverTimes,
        answer: impl Fn(&str) -> Resolution + Send + Sync + 'static,
    ) -> (Resolver, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let look_up = move |name: &str| {
            counter.fetch_add(1, Ordering::SeqCst);
            answer(name)
        };
        (Resolver::with(times, Box::new(look_up)), count)
    }

    fn times(patience: u64, found: u64, failed: u64) -> ResolverTimes {
        let millis = Duration::from_millis;
        ResolverTimes { patience: millis(patience), found: millis(found), failed: millis(failed) }
    }

    async fn sleep(millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    #[tokio::test]
    async fn an_address_is_not_looked_up() {
        let (resolver, count) = counted(times(5000, 5000, 5000), |_| Err(FailureKind::Dns));

        for (host, address) in [("127.0.0.1", "127.0.0.1:8"), ("::1", "[::1]:8"), ("[::1]", "[::1]:8")] {
            assert_eq!(*resolver.resolve(host, 8).await.unwrap(), [address.parse().unwrap()]);
        }

        assert_eq!(count.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn the_system_knows_itself_and_no_invalid_name() {
        let resolver = Resolver::new();

        let found = resolver.resolve("LocalHost", 81).await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 81));
        assert!(!found.is_empty());
        let long = "a".repeat(300);
        assert_eq!(resolver.resolve(&long, 81).await, Err(FailureKind::DnsNotFound));
    }

    #[tokio::test]
    async fn a_name_is_looked_up_once_at_a_time_and_kept() {
        let (resolver, count) = counted(times(5000, 300, 300), |_| {
            std::thread::sleep(Duration::from_millis(50));
            Ok(found())
        });

        let (one, two) = tokio::join!(resolver.resolve("a.test", 80), resolver.resolve("A.TEST", 443));
        assert_eq!((one.unwrap()[0].port(), two.unwrap()[0].port()), (80, 443));
        assert_eq!(count.load(Ordering::SeqCst), 1);
        resolver.resolve("a.test", 80).await.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 1);

        sleep(350).await;
        resolver.resolve("a.test", 80).await.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_failure_is_kept_for_a_shorter_time() {
        let (resolver, count) = counted(times(5000, 60_000, 400), |_| Err(FailureKind::DnsNotFound));

        for _ in 0..3 {
            assert_eq!(resolver.resolve("gone.test", 80).await, Err(FailureKind::DnsNotFound));
        }
        assert_eq!(count.load(Ordering::SeqCst), 1);

        sleep(450).await;
        assert_eq!(resolver.resolve("gone.test", 80).await, Err(FailureKind::DnsNotFound));
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_slow_answer_is_not_waited_for_and_not_lost() {
        let (resolver, count) = counted(times(50, 5000, 5000), |_| {
            std::thread::sleep(Duration::from_millis(200));
            Ok(found())
        });

        assert_eq!(resolver.resolve("slow.test", 80).await, Err(FailureKind::Dns));
        assert_eq!(resolver.resolve("slow.test", 80).await, Err(FailureKind::Dns));
        sleep(200).await;

        assert!(resolver.resolve("slow.test", 80).await.is_ok());
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn names_are_looked_up_by_a_bounded_number_of_threads() {
        let now = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let (busy, peak) = (Arc::clone(&now), Arc::clone(&most));
        let (resolver, count) = counted(times(5000, 5000, 5000), move |_| {
            peak.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(30));
            busy.fetch_sub(1, Ordering::SeqCst);
            Ok(found())
        });

        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..200 {
            let resolver = resolver.clone();
            waiting.spawn(async move { resolver.resolve(&format!("h{number}.test"), 80).await.is_ok() });
        }
        assert!(waiting.join_all().await.into_iter().all(|is_found| is_found));

        assert_eq!(count.load(Ordering::SeqCst), 200);
        assert!(most.load(Ordering::SeqCst) <= limits::DNS_THREADS_MAX);
    }

    #[test]
    fn names_that_do_not_exist_are_told_from_failures_that_pass() {
        let text =
            |words: &str| std::io::Error::other(format!("failed to lookup address information: {words}"));

        assert_eq!(kind_of(&text("Name or service not known")), FailureKind::DnsNotFound);
        assert_eq!(kind_of(&text("Temporary failure in name resolution")), FailureKind::Dns);
    }
}
