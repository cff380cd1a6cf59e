//! Durations of an attempt's phases. The clock is read only if the phases are recorded.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{AddressPolicy, Deadlines, Timeouts};

/// Phases of an attempt in microseconds. `None` means that the phase did not occur. For example, a kept connection has
/// no connecting phase. A failed phase lasts until the failure.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// Name lookup.
    pub dns: Option<u64>,
    /// Connecting, over all addresses. Includes the tunnel of a proxy.
    pub connect: Option<u64>,
    /// TLS handshake.
    pub tls: Option<u64>,
    /// Time from the last byte of the request to the first byte of a head.
    pub first_byte: Option<u64>,
    /// Time when connecting started, or when sending started on a kept connection.
    pub started: Option<Instant>,
}

/// Times when a request was sent and when its reply started.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ExchangeTimes {
    is_wanted: bool,
    /// Whether any bytes of a head arrived, interim or final.
    has_come: bool,
    sent: Option<Instant>,
    first: Option<Instant>,
}

impl ExchangeTimes {
    pub(super) fn new(is_wanted: bool) -> Self {
        ExchangeTimes { is_wanted, ..ExchangeTimes::default() }
    }

    /// Resets the times for the next request.
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

    /// Records that bytes of a head arrived.
    pub(super) fn came(&mut self) {
        self.has_come = true;
        if self.is_wanted && self.first.is_none() {
            self.first = Some(Instant::now());
        }
    }

    /// Returns whether bytes of a head arrived.
    pub(super) fn has_come(&self) -> bool {
        self.has_come
    }

    /// Returns the time to the first byte. It is 0 if the server answered before receiving the whole request.
    pub(super) fn first_byte(&self) -> Option<u64> {
        self.first.map(|first| micros(first.saturating_duration_since(self.sent.unwrap_or(first))))
    }
}

/// Time limits and phases of a connection being opened.
#[derive(Debug)]
pub(super) struct ConnectionSetup<'w> {
    pub(super) reach: AddressPolicy,
    pub(super) phases: Phases,
    /// Addresses of the host, if they are already known.
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

    /// Starts the attempt's time limit when the first packet is sent.
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

    /// Returns the start time of a phase, if phases are recorded.
    pub(super) fn now(&self) -> Option<Instant> {
        self.is_timed.then(Instant::now)
    }
}

/// Returns how long ago a phase started.
pub(super) fn since(start: Option<Instant>) -> Option<u64> {
    start.map(|start| micros(start.elapsed()))
}

fn micros(duration: Duration) -> u64 {
    duration.as_micros().try_into().unwrap_or(u64::MAX)
}
