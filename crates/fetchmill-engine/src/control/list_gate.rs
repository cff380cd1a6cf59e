//! Limits how far a job reads its list. A worker of a shared job releases the rows step by step, and can end the list
//! early.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Limit on the rows that are read. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct ListGate {
    /// Number of rows that can be read.
    allowed: AtomicU64,
    /// Number of rows read so far.
    read: AtomicU64,
    is_ended: AtomicBool,
    /// Whether the gate ended the listing before the list ended.
    is_cut: AtomicBool,
}

/// Next step of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListTurn {
    /// Read another page.
    Read,
    /// Wait until more rows are allowed.
    Wait,
    /// Treat the rows read so far as the whole list.
    End,
}

impl ListGate {
    /// Creates a gate that allows all rows. With `is_closed`, it allows none until a limit is set.
    pub(crate) fn new(is_closed: bool) -> Self {
        ListGate {
            allowed: AtomicU64::new(if is_closed { 0 } else { u64::MAX }),
            read: AtomicU64::new(0),
            is_ended: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
        }
    }

    /// Sets the number of rows that can be read in total. The last page can exceed it.
    pub(crate) fn allow(&self, rows: u64) {
        self.allowed.store(rows, Ordering::Relaxed);
    }

    /// Ends the list after the current page.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }

    /// Records how many rows were read.
    pub(crate) fn note_read(&self, rows: u64) {
        self.read.store(rows, Ordering::Relaxed);
    }

    /// If the gate ended the listing, returns the number of rows read until then.
    pub(crate) fn cut_at(&self) -> Option<u64> {
        self.is_cut.load(Ordering::Relaxed).then(|| self.read())
    }

    /// Returns the number of rows read so far.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns the next step of the listing.
    pub(crate) fn turn(&self) -> ListTurn {
        if self.is_ended.load(Ordering::Relaxed) {
            self.is_cut.store(true, Ordering::Relaxed);
            ListTurn::End
        } else if self.read() >= self.allowed.load(Ordering::Relaxed) {
            ListTurn::Wait
        } else {
            ListTurn::Read
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_open_until_somebody_sets_it() {
        assert_eq!(ListGate::new(true).turn(), ListTurn::Wait);
        let gate = ListGate::new(false);
        assert_eq!(gate.turn(), ListTurn::Read);

        gate.allow(10);
        gate.note_read(9);
        assert_eq!(gate.turn(), ListTurn::Read);
        gate.note_read(12);
        assert_eq!(gate.turn(), ListTurn::Wait);
        gate.end();
        assert_eq!(gate.cut_at(), None);
        assert_eq!((gate.turn(), gate.cut_at()), (ListTurn::End, Some(12)));
    }
}
