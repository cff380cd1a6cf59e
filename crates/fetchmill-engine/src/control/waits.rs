//! Outages that a job is waiting out, either of its origin or of a listing page. Each wait has a time limit
//! (`--give-up-after`) and a description.

use std::fmt::Write;
use std::sync::Mutex;

use fetchmill_model::panics::lock;
use fetchmill_model::planner::origin::{Millis, OriginTrouble};
use fetchmill_model::text::dates::utc;
use fetchmill_store::journal::Wait;

fn wait(what: String, since: Millis, until: Millis) -> Wait {
    Wait { what, since: utc(since / 1000), until: utc(until.div_ceil(1000)) }
}

/// Current waits of a job, at most two.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<KnownWaits>);

#[derive(Debug, Default)]
struct KnownWaits {
    origin: Option<OriginTrouble>,
    listing: Option<Wait>,
}

impl Waits {
    /// Sets the trouble at the origin. Returns whether the wait has changed.
    pub(crate) fn set_origin(&self, trouble: Option<OriginTrouble>) -> bool {
        let mut shown = lock(&self.0);
        let has_changed = shown.origin.map(|known| known.since) != trouble.map(|trouble| trouble.since);
        shown.origin = trouble;
        has_changed
    }

    /// Sets the listing page that fails, the reason, and the start and end of the wait. `None` means that the page has
    /// arrived. Returns whether the wait has changed.
    pub(crate) fn set_page(&self, failing: Option<(&str, &str, Millis, Millis)>) -> bool {
        let mut shown = lock(&self.0);
        let listing = failing.map(|(page, reason, since, until)| {
            wait(format!("the listing page {page} fails ({reason})"), since, until)
        });
        let has_changed = shown.listing != listing;
        shown.listing = listing;
        has_changed
    }

    /// Returns all waits, longest first.
    pub(crate) fn all(&self) -> Vec<Wait> {
        let shown = lock(&self.0);
        let origin = shown.origin.map(|OriginTrouble { since, until, kind }| {
            let mut what = "the server returns no valid reply".to_owned();
            if let Some(kind) = kind {
                let _ = write!(what, " ({})", kind.name());
            }
            wait(what, since, until)
        });
        let mut waits: Vec<Wait> = origin.into_iter().chain(shown.listing.clone()).collect();
        waits.sort_by(|one, other| one.since.cmp(&other.since));
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetchmill_model::outcome::FailureKind;

    #[test]
    fn a_wait_says_for_what_since_when_and_until_when() {
        let waits = Waits::default();
        let trouble = OriginTrouble { since: 60_000, until: 120_000, kind: Some(FailureKind::Reset) };

        assert!(waits.set_origin(Some(trouble)));
        assert!(!waits.set_origin(Some(OriginTrouble { kind: None, ..trouble })), "the wait has not changed");
        assert!(waits.set_page(Some(("/list?2", "status 500", 1_000, 61_000))));

        let text = |wait: &Wait| format!("{} | {} | {}", wait.what, wait.since, wait.until);
        assert_eq!(
            waits.all().iter().map(text).collect::<Vec<_>>(),
            [
                "the listing page /list?2 fails (status 500) | 1970-01-01T00:00:01Z | 1970-01-01T00:01:01Z",
                "the server returns no valid reply | 1970-01-01T00:01:00Z | 1970-01-01T00:02:00Z",
            ]
        );
        assert!(waits.set_page(None));
        assert!(waits.set_origin(None));
        assert_eq!(waits.all(), []);
    }
}
