//! State that all threads of a server share: the content, the compiled options, and the counters of all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::content::Content;
use crate::error::Error;
use crate::faults::Faults;
use crate::hosts::AllowedHosts;
use crate::options::{self, Delay, Options};
use crate::reply::GetHead;
use crate::stats::{Counters, Stats};

/// State that all threads share.
pub(crate) struct ServerState {
    pub(crate) content: Arc<dyn Content>,
    pub(crate) faults: Faults,
    /// Start of the head of a `/get` reply.
    pub(crate) get_head: Vec<u8>,
    pub(crate) page_size: usize,
    pub(crate) get_delay: Option<Delay>,
    /// Share of `/get` requests with a longer delay, and the length of this delay.
    pub(crate) slow: Option<(f64, Delay)>,
    pub(crate) list_delay: Option<Delay>,
    /// Whether any request may have a delay or a fault. The fast path checks nothing else.
    pub(crate) scripted: bool,
    pub(crate) seed: u64,
    /// Hosts for which the server answers. `None` means any host.
    pub(crate) hosts: Option<AllowedHosts>,
    pub(crate) client_timeout: Duration,
    pub(crate) counters: Vec<Counters>,
    connections: AtomicU64,
}

impl ServerState {
    pub(crate) fn new(content: Arc<dyn Content>, options: &Options) -> Result<Self, Error> {
        let faults = Faults::new(&options.faults, options.seed)?;
        let get_delay = Delay::new("delay", options.delay, options.delay_steps)?;
        let list_delay = Delay::new("list_delay", options.list_delay, false)?;
        let slow = Delay::new("slow_delay", Some(options.slow_delay), false)?;
        let slow = slow.filter(|_| options.slow_rate > 0.0).map(|delay| (options.slow_rate, delay));
        Ok(ServerState {
            get_head: GetHead::prepare(content.content_type()),
            content,
            page_size: options.page_size,
            scripted: !faults.is_empty() || get_delay.is_some() || slow.is_some() || list_delay.is_some(),
            faults,
            get_delay,
            slow,
            list_delay,
            seed: options.seed,
            hosts: None,
            client_timeout: options::client_timeout(options.client_timeout)?,
            counters: (0..options.threads).map(|_| Counters::default()).collect(),
            connections: AtomicU64::new(0),
        })
    }

    /// Returns the number of a new connection.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats::sum(self.counters.iter(), self.content.unlisted())
    }
}
