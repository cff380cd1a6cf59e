//! Durations of the phases of an attempt. The clock is read only if they are requested.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{AddressPolicy, Deadlines, Timeouts};

/// The phases of an attempt in microseconds. `None` for a phase that did not happen, such as connecting on a kept
/// connection. A failed phase counts the time until it failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// Look-up of the name.
    pub dns: Option<u64>,
    /// Connecting, over all addresses. Through a proxy it includes the tunnel.
    pub connect: Option<u64>,
    /// TLS handshake.
    pub tls: Option<u64>,
    /// From the last byte of the request to the first byte of a head.
    pub first_byte: Option<u64>,
    /// Start of connecting, or of sending on a kept connection.
    pub started: Option<Instant>,
}

/// When a request was sent and when its reply began.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ExchangeTimes {
    is_wanted: bool,
    /// Whether bytes of a head came, interim or final.
    has_come: bool,
    sent: Option<Instant>,
    first: Option<Instant>,
}

impl ExchangeTimes {
    pub(super) fn new(is_wanted: bool) -> Self {
        ExchangeTimes { is_wanted, ..ExchangeTimes::default() }
    }

    /// Resets the times for another request.
    pub(super) fn clear(&mut self) {
        if self.is_wanted {
            *self = ExchangeTimes::new(true);
        }
    }

    /// Records that the last byte of the request was sent.
    pub(super) fn sent(&mut self) {
        if self.is_wanted {
            self.sent = Some(Instant::now());
        }
    }

    /// Records that bytes of a head came.
    pub(super) fn came(&mut self) {
        self.has_come = true;
        if self.is_wanted && self.first.is_none() {
            self.first = Some(Instant::now());
        }
    }

    /// Returns whether bytes of a head came.
    pub(super) fn has_come(&self) -> bool {
        self.has_come
    }

    /// Returns the time to the first byte. It is 0 if the server answered before it had the whole request.
    pub(super) fn first_byte(&self) -> Option<u64> {
        self.first.map(|first| micros(first.saturating_duration_since(self.sent.unwrap_or(first))))
    }
}

/// Time limits and phases of a connection that is being opened.
#[derive(Debug)]
pub(super) struct ConnectionSetup<'w> {
    pub(super) reach: AddressPolicy,
    pub(super) phases: Phases,
    /// Addresses of the host, if they are known.
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

    /// Starts the time of the attempt when the first packet is sent.
    pub(super) fn begin(&mut self) {
        self.watch.connecting();
        if self.is_timed || self.timeouts.attempt.is_some() {
            self.began = Some(Instant::now());
        }
        self.phases.started = self.began.filter(|_| self.is_timed);
    }

    /// Returns how long the next step may take.
    pub(super) fn patience(&self) -> Duration {
        let step = self.timeouts.connect;
        match (self.timeouts.attempt, self.began) {
            (Some(attempt), Some(began)) => step.min(attempt.saturating_sub(began.elapsed())),
            _ => step,
        }
    }

    /// Returns the start of a phase, if phases are recorded.
    pub(super) fn now(&self) -> Option<Instant> {
        self.is_timed.then(Instant::now)
    }
}

/// Returns the time since the start of a phase.
pub(super) fn since(start: Option<Instant>) -> Option<u64> {
    start.map(|start| micros(start.elapsed()))
}

fn micros(duration: Duration) -> u64 {
    duration.as_micros().try_into().unwrap_or(u64::MAX)
}
