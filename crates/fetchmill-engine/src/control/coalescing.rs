//! Parts of objects that are requested together (`--coalesce`): their maximum distance, and the observed results. All
//! workers of the job share this.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of consecutive replies without the joined part that ends coalescing. A single one may be chance.
const REFUSED_MAX: u32 = 2;

/// See the module. Read once a request, and changed by refused requests and by the first success after them.
#[derive(Debug)]
pub(crate) struct Coalescing {
    /// Maximum number of bytes between two parts. `None` means that each part is requested alone.
    gap_max: Option<u64>,
    /// Replies without the requested part since the last success. Once it has reached `REFUSED_MAX`, it stays there.
    refused: AtomicU32,
}

impl Coalescing {
    pub(crate) fn new(gap_max: Option<u64>) -> Self {
        Coalescing { gap_max, refused: AtomicU32::new(0) }
    }

    /// Returns how many bytes may be between parts that are requested together. `None` means that parts are not joined.
    pub(crate) fn gap_max(&self) -> Option<u64> {
        self.gap_max.filter(|_| !self.has_ended())
    }

    fn has_ended(&self) -> bool {
        self.refused.load(Ordering::Relaxed) >= REFUSED_MAX
    }

    /// Notes that the server has sent another part than the joined one, or the whole object.
    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the server has sent the joined part.
    pub(crate) fn note_joined(&self) {
        if (1..REFUSED_MAX).contains(&self.refused.load(Ordering::Relaxed)) {
            self.refused.store(0, Ordering::Relaxed);
        }
    }

    /// Returns a notice for the user at the end. `None` if coalescing was not ended.
    pub(crate) fn notice(&self) -> Option<String> {
        self.has_ended().then(|| {
            "--coalesce was turned off: the replies did not match the coalesced ranges; later ranges were \
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
