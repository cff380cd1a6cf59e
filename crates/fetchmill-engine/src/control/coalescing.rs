//! Coalescing (`--coalesce`): the maximum gap between parts that are requested together, and the results so far. All
//! workers of the job share this state.

use std::sync::atomic::{AtomicU32, Ordering};

/// Coalescing ends after this many consecutive replies that do not contain the coalesced range. A single such reply
/// might be a coincidence.
const REFUSED_MAX: u32 = 2;

/// Coalescing state of a job. See the [module documentation](self). It is read once per request. Only a rejected range
/// and the next success change it.
#[derive(Debug)]
pub(crate) struct Coalescing {
    /// Maximum number of bytes between two parts. `None` means that each part is requested separately.
    gap_max: Option<u64>,
    /// Number of replies without the requested range since the last success. It stops counting at `REFUSED_MAX`.
    refused: AtomicU32,
}

impl Coalescing {
    pub(crate) fn new(gap_max: Option<u64>) -> Self {
        Coalescing { gap_max, refused: AtomicU32::new(0) }
    }

    /// Returns the maximum number of bytes between parts that are requested together, or `None` if parts are not
    /// coalesced.
    pub(crate) fn gap_max(&self) -> Option<u64> {
        self.gap_max.filter(|_| !self.has_ended())
    }

    fn has_ended(&self) -> bool {
        self.refused.load(Ordering::Relaxed) >= REFUSED_MAX
    }

    /// Records that the server sent the whole object or a range that was not requested.
    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that the server sent the requested range.
    pub(crate) fn note_joined(&self) {
        if (1..REFUSED_MAX).contains(&self.refused.load(Ordering::Relaxed)) {
            self.refused.store(0, Ordering::Relaxed);
        }
    }

    /// Returns a notice for the user if coalescing was turned off.
    pub(crate) fn notice(&self) -> Option<String> {
        self.has_ended().then(|| {
            "--coalesce was turned off: the server did not return the coalesced ranges; later ranges were \
             requested one by one"
                .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_refusal_in_a_row_ends_it() {
        let coalescing = Coalescing::new(Some(100));
        coalescing.note_refused();
        coalescing.note_joined();
        coalescing.note_refused();
        assert_eq!((coalescing.gap_max(), coalescing.notice()), (Some(100), None));

        coalescing.note_refused();
        coalescing.note_joined();
        assert_eq!(coalescing.gap_max(), None);
        assert!(coalescing.notice().is_some());
        assert_eq!(Coalescing::new(None).gap_max(), None);
    }
}
