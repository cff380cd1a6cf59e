//! Options of a world as JSON, and their validation.

use std::time::Duration;

use serde::Deserialize;

use super::addresses::ADDRESSES_MAX;
use super::behaviour::Host;
use crate::error::Error;
use crate::options::refuse;

const THREADS_MAX: usize = 64;
/// Maximum number of seconds, which is one hour. A larger number must be a mistake.
const SECONDS_MAX: f64 = 3600.0;
/// Maximum delay, which is one minute in milliseconds.
const DNS_DELAY_MAX: u64 = 60_000;

/// All options. Each has a default.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorldOptions {
    /// HTTP port, which is the same at all addresses. 0 (the default) picks any free port.
    pub http_port: u16,
    /// HTTPS port, which is the same at all addresses. 0 (the default) picks any free port.
    pub https_port: u16,
    /// Port of the name server at 127.0.0.1. 0 (the default) picks any free port.
    pub dns_port: u16,
    /// Number of addresses per common behaviour. Default: 16. Each address allows about 28,000 connections per minute.
    pub addresses: u8,
    /// Number of threads that serve. Default: 1.
    pub threads: usize,
    /// Timeout of the clients, in seconds. Slow hosts take up to a third of this time. Default: 3.
    pub timeout: f64,
    /// `Retry-After` of busy hosts, in seconds. Default: 2.
    pub retry_after: u32,
    /// Delay of every lookup, in milliseconds. Default: 0.
    pub dns_delay_ms: u64,
    /// Share of the datagrams to the name server that are lost. Default: 0.
    pub dns_loss: f64,
    /// Hosts whose requests, connections and lookups are recorded.
    pub watched: Vec<String>,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for WorldOptions {
    fn default() -> Self {
        WorldOptions {
            http_port: 0,
            https_port: 0,
            dns_port: 0,
            addresses: 16,
            threads: 1,
            timeout: 3.0,
            retry_after: 2,
            dns_delay_ms: 0,
            dns_loss: 0.0,
            watched: Vec::new(),
            seed: 0,
        }
    }
}

impl WorldOptions {
    pub(super) fn check(&self) -> Result<(), Error> {
        if !(1..=ADDRESSES_MAX).contains(&self.addresses) {
            return refuse(format!("addresses must be 1 to {ADDRESSES_MAX}"));
        }
        if !(1..=THREADS_MAX).contains(&self.threads) {
            return refuse(format!("threads must be 1 to {THREADS_MAX}"));
        }
        if !(self.timeout > 0.0 && self.timeout <= SECONDS_MAX) {
            return refuse(format!("timeout must be above 0 and at most {SECONDS_MAX} seconds"));
        }
        if !(0.0..=1.0).contains(&self.dns_loss) {
            return refuse("dns_loss must be 0 to 1".to_owned());
        }
        if self.dns_delay_ms > DNS_DELAY_MAX {
            return refuse(format!("dns_delay_ms must be at most {DNS_DELAY_MAX}"));
        }
        if self.http_port != 0 && self.http_port == self.https_port {
            return refuse("http_port and https_port must differ".to_owned());
        }
        match self.watched.iter().find(|name| Host::parse(name).is_none()) {
            Some(name) => refuse(format!("watched: {name:?} is not a host; write <behaviour>-<number>.test")),
            None => Ok(()),
        }
    }

    /// Returns the delay of every lookup.
    pub(super) fn dns_delay(&self) -> Duration {
        Duration::from_millis(self.dns_delay_ms)
    }
}
