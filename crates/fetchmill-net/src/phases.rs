//! What an attempt took, phase by phase, for who wants to know: otherwise no clock is read.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{AddressPolicy, Deadlines, Timeouts};

/// The phases of an attempt, in microseconds. `None`: it did not happen on this attempt, as on a kept connection. One
/// that failed took the time until it did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// The look-up of the name.
    pub dns: Option<u64>,
    /// The connection, over all addresses; through a proxy, the tunnel too.
    pub connect: Option<u64>,
    /// The handshake of TLS.
    pub tls: Option<u64>,
    /// From the last byte of the request to the first one of a head.
    pub first_byte: Option<u64>,
    /// When connecting began, or sending on a kept connection.
    pub started: Option<Instant>,
}

/// When a request was out and when its reply began.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ExchangeTimes {
    is_wanted: bool,
    /// A head, interim or not.
    has_come: bool,
    sent: Option<Instant>,
    first: Option<Instant>,
}

impl ExchangeTimes {
    pub(super) fn new(is_wanted: bool) -> Self {
        ExchangeTimes { is_wanted, ..ExchangeTimes::default() }
    }

    /// Another request begins.
    pub(super) fn clear(&mut self) {
        if self.is_wanted {
            *self = ExchangeTimes::new(true);
        }
    }

    /// The last byte of the request is out.
    pub(super) fn sent(&mut self) {
        if self.is_wanted {
            self.sent = Some(Instant::now());
        }
    }

    /// Something of a head came.
    pub(super) fn came(&mut self) {
        self.has_come = true;
        if self.is_wanted && self.first.is_none() {
            self.first = Some(Instant::now());
        }
    }

    /// Whether something of a head came.
    pub(super) fn has_come(&self) -> bool {
        self.has_come
    }

    /// A server may answer before it has all of the request: at once, that is.
    pub(super) fn first_byte(&self) -> Option<u64> {
        self.first.map(|first| micros(first.saturating_duration_since(self.sent.unwrap_or(first))))
    }
}

/// A connection that is being opened: what bounds it, and what it took.
#[derive(Debug)]
pub(super) struct ConnectionSetup<'w> {
    pub(super) reach: AddressPolicy,
    pub(super) phases: Phases,
    /// The addresses of the host, when they are known.
    pub(super) found: Option<Arc<[IpAddr]>>,
    watch: &'w Deadlines,
    timeouts: Timeouts,
    is_timed: bool,
    began: Option<Instant>,
}

impl<'w> ConnectionSetup<'w> {
    pub(super) fn new(
        reach: AddressPolicy,
        watch: &'w Deadlines,
        timeouts: Timeouts,
        is_timed: bool,
    ) -> Self {
        ConnectionSetup {
            reach,
            phases: Phases::default(),
            found: None,
            watch,
            timeouts,
            is_timed,
            began: None,
        }
    }

    /// The first packet goes out: from now on the time of the attempt runs.
    pub(super) fn begin(&mut self) {
        self.watch.connecting();
        if self.is_timed || self.timeouts.attempt.is_some() {
            self.began = Some(Instant::now());
        }
        self.phases.started = self.began.filter(|_| self.is_timed);
    }

    /// How long the next step may take.
    pub(super) fn patience(&self) -> Duration {
        let step = self.timeouts.connect;
        match (self.timeouts.attempt, self.began) {
            (Some(attempt), Some(began)) => step.min(attempt.saturating_sub(began.elapsed())),
            _ => step,
        }
    }

    /// The start of a phase.
    pub(super) fn now(&self) -> Option<Instant> {
        self.is_timed.then(Instant::now)
    }
}

/// The time since the start of a phase.
pub(super) fn since(start: Option<Instant>) -> Option<u64> {
    start.map(|start| micros(start.elapsed()))
}

fn micros(duration: Duration) -> u64 {
    duration.as_micros().try_into().unwrap_or(u64::MAX)
}
