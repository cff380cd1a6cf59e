//! Rate limits of hosts, shared by all threads. A thread looks up a limit once per origin rather than for each object.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fetchmill_model::planner::pace::Pace;

/// Maximum number of hosts whose rates are kept. At about 150 bytes per host, they take 10 MiB. Above this number,
/// hosts that no thread uses are dropped.
const HOSTS_MAX: usize = 65_536;

/// Rate limit of each host.
#[derive(Debug)]
pub struct Paces {
    per_second: f64,
    hosts: Mutex<HashMap<Box<str>, Arc<Pace>>>,
}

impl Paces {
    /// Allows up to `per_second` requests per second to each host.
    pub fn new(per_second: f64) -> Self {
        Paces { per_second, hosts: Mutex::default() }
    }

    /// Returns the rate limit of a host.
    pub fn of(&self, host: &str) -> Arc<Pace> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pace) = hosts.get(host) {
            return Arc::clone(pace);
        }
        if hosts.len() >= HOSTS_MAX {
            hosts.retain(|_, pace| Arc::strong_count(pace) > 1);
        }
        let pace = Arc::new(Pace::new(self.per_second));
        hosts.insert(host.into(), Arc::clone(&pace));
        pace
    }
}
