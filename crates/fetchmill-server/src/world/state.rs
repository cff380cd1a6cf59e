//! State that all threads of a world share.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::behaviour::Host;
use super::certificates::Acceptors;
use super::stats::WorldCounters;
use crate::hash;

/// Maximum number of busy hosts that are remembered. At 8 bytes each, with spare capacity, they take 32 MiB. Further
/// hosts stay busy forever.
const BUSY_MAX: usize = 1 << 21;
/// Maximum share of the timeout that a slow host takes.
const SLOWNESS_MAX: f64 = 1.0 / 3.0;

/// The two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// State that all threads share.
pub(super) struct WorldState {
    pub(super) counters: Arc<WorldCounters>,
    pub(super) acceptors: Acceptors,
    pub(super) http_port: u16,
    pub(super) https_port: u16,
    pub(super) retry_after: u32,
    pub(super) timeout: f64,
    pub(super) seed: u64,
    /// Numbers of the busy hosts that have already received a request.
    pub(super) busy: Mutex<HashSet<u64>>,
}

impl WorldState {
    /// Returns the delay of a slow host, which is always the same for the same host.
    pub(super) fn slowness(&self, host: Option<Host>) -> Duration {
        let number = host.map_or(0, |host| host.number);
        let share = hash::unit(hash::of_bytes(self.seed, &number.to_le_bytes()));
        Duration::from_secs_f64(share * self.timeout * SLOWNESS_MAX)
    }

    /// Returns whether this is the first request to a busy host.
    pub(super) fn is_first(&self, host: Option<Host>) -> bool {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let number = host.map_or(0, |host| host.number);
        let is_first = !busy.contains(&number);
        if is_first && busy.len() < BUSY_MAX {
            busy.insert(number);
        }
        is_first
    }
}
