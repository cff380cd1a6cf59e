//! Probes, which find out whether an origin is down. A probe is sent after a rest, or when the origin seems to be down.
//!
//! The first choice is a target that has never failed. If there is no such target, or if it also fails, something that
//! is known to exist is requested again: a fetched object, or the first page of the listing. This is a health check,
//! and its reply is discarded. If the health check fails, there is an outage, and the target's attempt does not count.
//! If it succeeds, the target is broken, and the attempt counts. If nothing is known to exist, a waiting target is the
//! probe. The attempts for this target count, so that there is always progress (docs/internals/decisions/0025).

use super::retry::Retry;
use crate::target::Sequence;

/// The request that a health check makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthCheck {
    /// A request for a fetched object. Contains the object as stored in its page.
    Object(Box<[u8]>),
    /// A request for the first page of the listing.
    FirstPage,
}

/// Result of a health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthStatus {
    /// The reply was good.
    Healthy,
    /// There was no reply, or the reply shows that the server is in trouble.
    Down,
    /// This client cannot make the request, so the health of the origin is unknown.
    Unknown,
}

/// The current probe.
#[derive(Debug, Default)]
pub(super) enum ProbeState {
    /// There is no probe.
    #[default]
    Idle,
    /// The probe is a target.
    Target {
        sequence: Sequence,
        /// Whether the target has never failed.
        is_first: bool,
    },
    /// The probe is a health check. Contains the target that failed before it and waits for the result.
    Check(Option<Retry>),
}

/// The current probe, and the requests that can serve as health checks. See the module.
#[derive(Debug, Default)]
pub(super) struct Probing {
    pub(super) state: ProbeState,
    fetched: Option<Box<[u8]>>,
    has_first_page: bool,
    /// The health check that was requested.
    pub(super) question: Option<HealthCheck>,
}

impl Probing {
    /// Records that the first page of the listing can be requested again.
    pub(super) fn can_ask_first_page(&mut self) {
        self.has_first_page = true;
    }

    /// Records a fetched object.
    pub(super) fn note_fetched(&mut self, entry: Option<Box<[u8]>>) {
        if entry.is_some() {
            self.fetched = entry;
        }
    }

    /// Returns the last fetched object.
    pub(super) fn last_fetched(&self) -> Option<Box<[u8]>> {
        self.fetched.clone()
    }

    /// Returns whether anything that is known to exist can be requested.
    pub(super) fn can_check(&self) -> bool {
        self.fetched.is_some() || self.has_first_page
    }

    /// Forgets an object or a page that can no longer be requested.
    pub(super) fn forget(&mut self, asked: &HealthCheck) {
        match asked {
            HealthCheck::Object(_) => self.fetched = None,
            HealthCheck::FirstPage => self.has_first_page = false,
        }
    }

    /// Requests a health check. Returns `false` if there is nothing to request.
    pub(super) fn check(&mut self) -> bool {
        let question = match &self.fetched {
            Some(entry) => HealthCheck::Object(entry.clone()),
            None if self.has_first_page => HealthCheck::FirstPage,
            None => return false,
        };
        self.question = Some(question);
        self.state = ProbeState::Check(None);
        true
    }

    /// Returns the target that is the probe.
    pub(super) fn target(&self) -> Option<Sequence> {
        match self.state {
            ProbeState::Target { sequence, .. } => Some(sequence),
            _ => None,
        }
    }
}
