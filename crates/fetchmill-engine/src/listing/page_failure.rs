//! Page failures and their reasons.

use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::verdict::{AttemptState, Rules, Verdict};

/// Statuses that servers send for an unknown or expired marker. All other refusals concern the client.
const UNKNOWN_MARKER: [u16; 5] = [400, 403, 404, 410, 422];

/// Hint for HTML pages that are not an index.
pub(super) const TRY_LINKS: &str = "; to fetch the links on a page, try --listing links";

/// Reason why a page could not be fetched.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct PageFailure {
    pub(super) kind: FailureKind,
    /// Status of the reply, or 0 if there was none.
    pub(super) status: u16,
    pub(super) reason: String,
    /// Delay requested by the server.
    pub(super) retry_after: Option<Millis>,
    /// Advice for the user, starting with a semicolon. Empty if there is none.
    pub(super) hint: &'static str,
}

/// Last failure of a page, with the number of attempts.
pub(super) struct FailedPage {
    pub(super) failure: PageFailure,
    pub(super) attempts: u32,
}

impl FailedPage {
    /// Returns whether the server refused the page with a final status. If so, the server works and would give the same
    /// answer again.
    pub(super) fn is_refusal(&self) -> bool {
        let PageFailure { status, .. } = self.failure;
        // A status in `--retry-status` has already been retried.
        let is_final = !FailureKind::of_status(status).is_err_and(FailureKind::is_retryable);
        is_final && (300..500).contains(&status)
    }

    /// Returns whether the marker of the page might have expired.
    pub(super) fn is_of_unknown_marker(&self) -> bool {
        self.is_refusal() && UNKNOWN_MARKER.contains(&self.failure.status)
    }
}

impl PageFailure {
    pub(super) fn new(kind: FailureKind, status: u16, reason: impl Into<String>) -> Self {
        PageFailure { kind, status, reason: reason.into(), retry_after: None, hint: "" }
    }

    /// Returns whether to stop trying after `attempts` failed attempts.
    pub(super) fn is_last(&self, attempts: u32, has_listed: bool) -> bool {
        let attempts_max = if has_listed { u32::MAX } else { limits::FIRST_PAGE_ATTEMPTS_MAX };
        let rules = Rules { attempts_max, ..Rules::default() };
        let mut state = AttemptState { attempts: attempts.saturating_sub(1), ..AttemptState::default() };
        !matches!(state.after_failure(self.kind, &rules, 0), Verdict::Retry(_))
    }
}
