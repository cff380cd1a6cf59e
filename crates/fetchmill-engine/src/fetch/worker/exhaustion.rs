//! Measures how long this machine has been out of descriptors or ports.

use std::cell::Cell;

use fetchmill_model::planner::origin::Millis;

/// Time in milliseconds after which the job ends if this machine cannot open any connections.
const ENDS_AFTER: Millis = 10_000;

/// Period in which no connection could be opened, because this machine has run out of descriptors or ports.
#[derive(Debug, Default)]
pub(super) struct Exhaustion {
    /// Start of the period. `None` if the last attempt opened a connection.
    since: Cell<Option<Millis>>,
}

impl Exhaustion {
    /// Records that a connection was opened.
    pub(super) fn end(&self) {
        self.since.set(None);
    }

    /// Records that no connection could be opened. Returns whether the job must end, which is the case after 10 s
    /// without any open connection (`open` is 0).
    pub(super) fn note(&self, open: usize, now: Millis) -> bool {
        let since = self.since.get().unwrap_or(now);
        self.since.set(Some(since));
        open == 0 && now.saturating_sub(since) > ENDS_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_seconds_without_any_connection_end_the_job() {
        let exhaustion = Exhaustion::default();

        assert!(!exhaustion.note(0, 1_000));
        assert!(!exhaustion.note(0, 11_000));
        assert!(!exhaustion.note(1, 11_001), "others are open");
        assert!(exhaustion.note(0, 11_001));
    }

    #[test]
    fn an_opened_connection_ends_it() {
        let exhaustion = Exhaustion::default();
        exhaustion.note(0, 1_000);

        exhaustion.end();

        assert!(!exhaustion.note(0, 20_000));
        assert!(exhaustion.note(0, 30_001));
    }
}
