//! Parts of objects that are asked for together (`--coalesce`): how far apart they may be, and what has come of them. The
//! job's workers share it.

use std::sync::atomic::{AtomicU32, Ordering};

/// Replies one after the other that were not the joined part: one may be chance.
const REFUSED_MAX: u32 = 2;

/// See the module. Looked at once a request, and changed by those that are refused, and the first that is not behind them.
#[derive(Debug)]
pub(crate) struct Coalescing {
    /// Bytes between two parts at most; none: each is asked for alone.
    gap_max: Option<u64>,
    /// Replies since the last good one that were not what was asked for; stays at its bound.
    refused: AtomicU32,
}

impl Coalescing {
    pub(crate) fn new(gap_max: Option<u64>) -> Self {
        Coalescing { gap_max, refused: AtomicU32::new(0) }
    }

    /// How many bytes may lie between parts that are asked for together; none: they are not.
    pub(crate) fn gap_max(&self) -> Option<u64> {
        self.gap_max.filter(|_| !self.has_ended())
    }

    fn has_ended(&self) -> bool {
        self.refused.load(Ordering::Relaxed) >= REFUSED_MAX
    }

    /// The server has sent another part than the joined one, or all of the object.
    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// It has sent the joined part.
    pub(crate) fn note_joined(&self) {
        if (1..REFUSED_MAX).contains(&self.refused.load(Ordering::Relaxed)) {
            self.refused.store(0, Ordering::Relaxed);
        }
    }

    /// What a user should know of it at the end; none when nothing has ended it.
    pub(crate) fn notice(&self) -> Option<String> {
        self.has_ended().then(|| {
            "--coalesce ended: the server sent something else than the joined ranges; each was asked for by itself since".into()
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
