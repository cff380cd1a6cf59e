//! Statistics of a world: counters by behaviour, and records of watched hosts.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;

use super::behaviour::{Behaviour, Host};

/// Maximum number of request times that are kept for a watched host. They take 512 KiB.
const TIMES_MAX: usize = 65_536;

/// Counters of a behaviour.
#[derive(Debug, Default)]
struct BehaviourCounters {
    connections: AtomicU64,
    requests: AtomicU64,
    queries: AtomicU64,
}

/// Counters shared by all threads.
#[derive(Debug)]
pub(super) struct WorldCounters {
    started: Instant,
    counters: Vec<BehaviourCounters>,
    datagrams_lost: AtomicU64,
    /// Watched hosts. The set never changes, so other hosts need no lock.
    watched: HashMap<Host, WatchedHost>,
}

/// A watched host.
#[derive(Debug)]
struct WatchedHost {
    name: String,
    seen: Mutex<HostStats>,
}

/// Statistics of a watched host.
#[derive(Debug, Default, Clone, Serialize)]
pub struct HostStats {
    /// Arrival times of requests in milliseconds since the start of the world.
    pub requests_ms: Vec<u64>,
    /// Number of open connections that are known to belong to the host. With HTTPS, the host is known after the
    /// handshake. With HTTP, it is known after the first request.
    pub connections: u64,
    /// Maximum number of connections that were open at the same time.
    pub connections_max: u64,
    /// Number of queries for the host's name, of any type.
    pub queries: u64,
}

/// Counters of a behaviour.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct BehaviourStats {
    /// Connections accepted at the addresses of the behaviour.
    pub connections: u64,
    /// Requests read at the addresses of the behaviour.
    pub requests: u64,
    /// Queries for the names of its hosts.
    pub queries: u64,
}

/// Statistics of a world so far.
#[derive(Debug, Default, Clone, Serialize)]
pub struct WorldStats {
    /// Milliseconds since the start of the world.
    pub elapsed_ms: u64,
    /// Number of datagrams to the name server that were dropped (`dns_loss`).
    pub datagrams_lost: u64,
    /// Counters by behaviour, without behaviours that did not occur.
    pub behaviours: BTreeMap<&'static str, BehaviourStats>,
    /// Statistics of the hosts in `watched`, by name.
    pub watched: BTreeMap<String, HostStats>,
}

impl WorldCounters {
    pub(super) fn new(watched: &[String]) -> Self {
        let watched = watched.iter().filter_map(|name| {
            Host::parse(name).map(|host| (host, WatchedHost { name: name.clone(), seen: Mutex::default() }))
        });
        WorldCounters {
            started: Instant::now(),
            counters: Behaviour::ALL.iter().map(|_| BehaviourCounters::default()).collect(),
            datagrams_lost: AtomicU64::new(0),
            watched: watched.collect(),
        }
    }

    pub(super) fn connection(&self, behaviour: Behaviour) {
        self.of(behaviour).connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request at an address of a behaviour. If the name belongs to a host, also counts the request for
    /// the host.
    pub(super) fn request(&self, behaviour: Behaviour, host: Option<Host>) {
        self.of(behaviour).requests.fetch_add(1, Ordering::Relaxed);
        if let Some(mut seen) = self.watched(host)
            && seen.requests_ms.len() < TIMES_MAX
        {
            seen.requests_ms.push(self.elapsed_ms());
        }
    }

    pub(super) fn query(&self, host: Host) {
        self.of(host.behaviour).queries.fetch_add(1, Ordering::Relaxed);
        if let Some(mut seen) = self.watched(Some(host)) {
            seen.queries += 1;
        }
    }

    pub(super) fn datagram_lost(&self) {
        self.datagrams_lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> WorldStats {
        let counted = Behaviour::ALL.iter().map(|&behaviour| (behaviour.name(), self.of(behaviour).read()));
        let seen = self.watched.values().map(|watched| (watched.name.clone(), lock(&watched.seen).clone()));
        WorldStats {
            elapsed_ms: self.elapsed_ms(),
            datagrams_lost: self.datagrams_lost.load(Ordering::Relaxed),
            behaviours: counted.filter(|(_, stats)| stats.is_met()).collect(),
            watched: seen.collect(),
        }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn of(&self, behaviour: Behaviour) -> &BehaviourCounters {
        &self.counters[behaviour as usize]
    }

    fn watched(&self, host: Option<Host>) -> Option<MutexGuard<'_, HostStats>> {
        if self.watched.is_empty() {
            return None;
        }
        self.watched.get(&host?).map(|watched| lock(&watched.seen))
    }
}

impl BehaviourCounters {
    fn read(&self) -> BehaviourStats {
        BehaviourStats {
            connections: self.connections.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            queries: self.queries.load(Ordering::Relaxed),
        }
    }
}

impl BehaviourStats {
    fn is_met(&self) -> bool {
        self.connections + self.requests + self.queries > 0
    }
}

/// A connection. It counts for a watched host from the time when the host is known until the connection is dropped.
#[derive(Debug)]
pub(super) struct CountedConnection {
    counters: Arc<WorldCounters>,
    host: Option<Host>,
}

impl CountedConnection {
    pub(super) fn new(counters: &Arc<WorldCounters>) -> Self {
        CountedConnection { counters: Arc::clone(counters), host: None }
    }

    /// Assigns the connection to a host. Only the first call counts.
    pub(super) fn enter(&mut self, host: Option<Host>) {
        if self.host.is_some() {
            return;
        }
        if let Some(mut seen) = self.counters.watched(host) {
            seen.connections += 1;
            seen.connections_max = seen.connections_max.max(seen.connections);
            self.host = host;
        }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        if let Some(mut seen) = self.counters.watched(self.host) {
            seen.connections -= 1;
        }
    }
}

/// Locks the statistics, which are correct even if a thread has panicked.
fn lock(seen: &Mutex<HostStats>) -> MutexGuard<'_, HostStats> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
