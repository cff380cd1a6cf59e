//! What a world has seen: counters by behaviour, and what watched hosts have seen.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;

use super::behaviour::{Behaviour, Host};

/// Requests of a watched host whose times are kept: 512 KiB.
const TIMES_MAX: usize = 65_536;

/// Counters of one behaviour.
#[derive(Debug, Default)]
struct BehaviourCounters {
    connections: AtomicU64,
    requests: AtomicU64,
    queries: AtomicU64,
}

/// What all threads count in.
#[derive(Debug)]
pub(super) struct WorldCounters {
    started: Instant,
    counters: Vec<BehaviourCounters>,
    datagrams_lost: AtomicU64,
    /// The hosts that are watched never change, so that nothing is locked for any other.
    watched: HashMap<Host, WatchedHost>,
}

/// A host that is watched.
#[derive(Debug)]
struct WatchedHost {
    name: String,
    seen: Mutex<HostStats>,
}

/// What a world has seen of a host that is watched.
#[derive(Debug, Default, Clone, Serialize)]
pub struct HostStats {
    /// When requests came: milliseconds since the start of the world.
    pub requests_ms: Vec<u64>,
    /// Connections that are open now, since it is known whose they are: from the end of the handshake with https,
    /// from the first request with http.
    pub connections: u64,
    /// The most that were open at a time.
    pub connections_max: u64,
    /// Queries for its name, of any type.
    pub queries: u64,
}

/// What a world has counted of a behaviour.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct BehaviourStats {
    /// Connections accepted at its addresses.
    pub connections: u64,
    /// Requests read there.
    pub requests: u64,
    /// Queries for the names of its hosts.
    pub queries: u64,
}

/// What a world has seen so far.
#[derive(Debug, Default, Clone, Serialize)]
pub struct WorldStats {
    /// Milliseconds since the start of the world.
    pub elapsed_ms: u64,
    /// Datagrams to the name server that were dropped (`dns_loss`).
    pub datagrams_lost: u64,
    /// By behaviour; only those that were met.
    pub behaviours: BTreeMap<&'static str, BehaviourStats>,
    /// By the names given in `watched`.
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

    /// A request at the address of a behaviour, for a host when its name is one.
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

/// A connection: it counts for a watched host from when it is known whose it is until it is dropped.
#[derive(Debug)]
pub(super) struct CountedConnection {
    counters: Arc<WorldCounters>,
    host: Option<Host>,
}

impl CountedConnection {
    pub(super) fn new(counters: &Arc<WorldCounters>) -> Self {
        CountedConnection { counters: Arc::clone(counters), host: None }
    }

    /// It is this host's. Only the first call counts.
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

/// A thread that panicked has left counters that are still right.
fn lock(seen: &Mutex<HostStats>) -> MutexGuard<'_, HostStats> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
