//! The end of an attempt.

use std::borrow::Cow;

use fetchmill_model::outcome::FailureKind;
use fetchmill_model::verdict::Verdict;
use fetchmill_net::rejection_of;

/// The consequence of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    /// The request has its answer, or waits.
    Over,
    /// Make another attempt immediately, on a fresh connection. This one does not count.
    Again,
    /// A large body broke off. Request its rest on a fresh connection.
    BrokenOff,
    /// As [`AttemptEnd::Again`], once there are newer credentials.
    Renewing,
    /// The request continues at another URL.
    Redirected,
    /// The targets that were requested together must be requested one by one.
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

    /// No connection could be opened.
    pub(crate) fn unconnected(kind: FailureKind) -> Self {
        Failure::new(kind, kind.meaning())
    }

    /// For a TLS failure, adds the details of this thread's last handshake with the host.
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

    /// Unsolicited bytes came, so the replies on the connection may belong to other requests.
    pub(crate) fn surplus() -> Self {
        Failure::new(
            FailureKind::Framing,
            "unsolicited bytes on the connection: the reply cannot be matched to a request",
        )
    }

    /// The end of the reply is suspect, and it was not the first reply of its connection.
    pub(crate) fn suspect() -> Self {
        let reason = "the end of the reply is suspect, and the reply was not the first on its connection";
        Failure::new(FailureKind::Framing, reason)
    }

    /// Adds the reason to a verdict that finishes the request without a reason.
    pub(crate) fn explain(self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Settle(outcome, None) if !self.reason.is_empty() => {
                Verdict::Settle(outcome, Some(self.reason.into()))
            }
            other => other,
        }
    }
}
