//! How an attempt ends.

use std::borrow::Cow;

use fetchmill_model::outcome::FailureKind;
use fetchmill_model::verdict::Verdict;
use fetchmill_net::rejection_of;

/// What follows from an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    /// The request has its answer, or waits.
    Over,
    /// Another attempt at once, on a fresh connection. It does not count.
    Again,
    /// A large body broke off: its rest is asked for, on a fresh connection.
    BrokenOff,
    /// As [`AttemptEnd::Again`], once there are newer credentials.
    Renewing,
    /// The request is somewhere else.
    Redirected,
    /// What was asked for together is asked for one by one.
    Split,
}

/// Why an attempt failed, with a reason for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) reason: Cow<'static, str>,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, reason: impl Into<Cow<'static, str>>) -> Self {
        Failure { kind, reason: reason.into() }
    }

    /// There is no connection, since none can be made.
    pub(crate) fn unconnected(kind: FailureKind) -> Self {
        Failure::new(kind, kind.meaning())
    }

    /// Adds what this thread's last handshake with the host has shown, if the failure is one of TLS.
    pub(crate) fn of_host(mut self, host: &str) -> Self {
        let is_of_tls = self.kind == FailureKind::Tls || self.kind.is_untrusted();
        if let Some(why) = rejection_of(host).filter(|_| is_of_tls) {
            self.reason = format!("{}: {why}", self.reason).into();
        }
        self
    }

    /// This machine has no descriptor or port left for a connection.
    pub(crate) fn exhausted() -> Self {
        Failure::new(FailureKind::Unreachable, "this machine has no descriptor or port left")
    }

    /// Bytes came that nobody asked for, so what the connection holds may be other requests' replies.
    pub(crate) fn surplus() -> Self {
        Failure::new(
            FailureKind::Framing,
            "bytes came that nobody asked for: whose reply it is cannot be known",
        )
    }

    /// The reply is suspect, and was not the first of its connection.
    pub(crate) fn suspect() -> Self {
        let reason = "the end of the reply is suspect, and it was not the first of its connection";
        Failure::new(FailureKind::Framing, reason)
    }

    /// Adds the reason to a verdict that settles the request and has no other.
    pub(crate) fn explain(self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Settle(outcome, None) if !self.reason.is_empty() => {
                Verdict::Settle(outcome, Some(self.reason.into()))
            }
            other => other,
        }
    }
}
