//! The result of an attempt.

use std::borrow::Cow;

use fetchmill_model::outcome::FailureKind;
use fetchmill_model::verdict::Verdict;
use fetchmill_net::rejection_of;

/// Next step after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    /// The request was answered or must wait.
    Over,
    /// Make another attempt immediately on a new connection. The last attempt does not count.
    Again,
    /// Make another attempt like [`AttemptEnd::Again`], but prefer an idle connection that has already replied.
    AgainOnUsed,
    /// A large body was truncated. Request the rest on a new connection.
    BrokenOff,
    /// Make another attempt like [`AttemptEnd::Again`], but wait for newer credentials first.
    Renewing,
    /// Continue with another URL.
    Redirected,
    /// Request the coalesced targets individually.
    Split,
}

/// Failure of an attempt, with a description for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) reason: Cow<'static, str>,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, reason: impl Into<Cow<'static, str>>) -> Self {
        Failure { kind, reason: reason.into() }
    }

    /// Returns the failure of a connection that could not be opened.
    pub(crate) fn unconnected(kind: FailureKind) -> Self {
        Failure::new(kind, kind.meaning())
    }

    /// If TLS failed, adds the details of this thread's last handshake with the host.
    pub(crate) fn of_host(mut self, host: &str) -> Self {
        let is_of_tls = self.kind == FailureKind::Tls || self.kind.is_untrusted();
        if let Some(why) = rejection_of(host).filter(|_| is_of_tls) {
            self.reason = format!("{}: {why}", self.reason).into();
        }
        self
    }

    /// Returns the failure for a machine that has run out of descriptors or ports.
    pub(crate) fn exhausted() -> Self {
        Failure::new(FailureKind::Unreachable, "this machine has no free file descriptors or ports left")
    }

    /// Returns the failure after unsolicited bytes. Replies on that connection might belong to other requests.
    pub(crate) fn surplus() -> Self {
        Failure::new(
            FailureKind::Framing,
            "unsolicited bytes on the connection: the reply cannot be matched to a request",
        )
    }

    /// Returns the failure for a reply whose end is suspect, unless the reply is the first on its connection.
    pub(crate) fn suspect() -> Self {
        let reason = "the end of the reply is suspect, and the reply was not the first on its connection";
        Failure::new(FailureKind::Framing, reason)
    }

    /// Adds the failure's reason to a final verdict that has no reason.
    pub(crate) fn explain(self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Settle(outcome, None) if !self.reason.is_empty() => {
                Verdict::Settle(outcome, Some(self.reason.into()))
            }
            other => other,
        }
    }
}
