//! Collects the replies of a stream until the thread hands them over.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::batch::ReplyBatch;
use super::channel::{FetcherState, StreamState};

pub(super) struct ReplyCollector {
    pub(super) shared: Arc<StreamState>,
    hub: Arc<FetcherState>,
    replies: RefCell<ReplyBatch>,
    /// Whether the collector is scheduled to be flushed.
    is_listed: Cell<bool>,
}

impl ReplyCollector {
    pub(super) fn new(shared: Arc<StreamState>, hub: Arc<FetcherState>) -> Self {
        ReplyCollector { shared, hub, replies: RefCell::default(), is_listed: Cell::new(false) }
    }

    /// Adds a reply. Returns whether the collector must be scheduled for a flush at the end of the turn.
    pub(super) fn add(&self, push: impl FnOnce(&mut ReplyBatch)) -> bool {
        let is_full = {
            let mut replies = self.replies.borrow_mut();
            push(&mut replies);
            replies.is_full()
        };
        if is_full {
            self.flush();
            return false;
        }
        !self.is_listed.replace(true)
    }

    pub(super) fn flush_listed(&self) {
        self.is_listed.set(false);
        self.flush();
    }

    fn flush(&self) {
        let mut replies = self.replies.borrow_mut();
        if replies.is_empty() {
            return;
        }
        self.shared.hand_over(&mut replies, &self.hub);
    }
}
