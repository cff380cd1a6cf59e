//! How much of a list a job may read: a worker of a shared job lets it read some rows at a time, and ends it early.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct ListGate {
    /// Rows that may be read.
    allowed: AtomicU64,
    /// Rows that were read.
    read: AtomicU64,
    is_ended: AtomicBool,
    /// Whether the listing has ended because of that, and not at the list's end.
    is_cut: AtomicBool,
}

/// What the listing does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListTurn {
    /// Read a page.
    Read,
    /// Wait for more rows that may be read.
    Wait,
    /// Take what was read for the whole list.
    End,
}

impl ListGate {
    /// A gate that lets all pass until somebody sets it, or nothing.
    pub(crate) fn new(is_closed: bool) -> Self {
        ListGate {
            allowed: AtomicU64::new(if is_closed { 0 } else { u64::MAX }),
            read: AtomicU64::new(0),
            is_ended: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
        }
    }

    /// Lets the listing read so many rows in all. A page may go beyond.
    pub(crate) fn allow(&self, rows: u64) {
        self.allowed.store(rows, Ordering::Relaxed);
    }

    /// Ends the list after the page that is being read.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }

    /// Notes how many rows were read.
    pub(crate) fn note_read(&self, rows: u64) {
        self.read.store(rows, Ordering::Relaxed);
    }

    /// Rows that were read when the listing ended before the list; `None` if it did not.
    pub(crate) fn cut_at(&self) -> Option<u64> {
        self.is_cut.load(Ordering::Relaxed).then(|| self.read())
    }

    /// Rows that were read.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// What the listing does next.
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
