//! Connections without a target. The one that was parked last is woken first: its connection is warm, and those
//! that are not needed stay unused until they are closed.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use crate::transport::{Lane, Watch};

/// Whether it was woken, and how.
type Parked = (Rc<Cell<bool>>, Rc<Watch>);

#[derive(Default)]
pub(super) struct Parking {
    parked: RefCell<Vec<Parked>>,
}

impl Parking {
    /// Waits until woken, until something comes on the connection, or until the watch has expired.
    pub(super) async fn park(&self, lane: &Lane, watch: &Rc<Watch>) {
        let is_woken = Rc::new(Cell::new(false));
        self.parked.borrow_mut().push((Rc::clone(&is_woken), Rc::clone(watch)));
        poll_fn(|context| {
            let has_expired = watch.poll_expired(context).is_some();
            let has_input = lane.poll_input(context).is_ready();
            if is_woken.get() || has_expired || has_input { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        if !is_woken.get() {
            self.parked.borrow_mut().retain(|(other, _)| !Rc::ptr_eq(other, &is_woken));
        }
    }

    /// How many are parked.
    pub(super) fn count(&self) -> usize {
        self.parked.borrow().len()
    }

    pub(super) fn wake_one(&self) {
        self.wake(1);
    }

    pub(super) fn wake(&self, count: usize) {
        for _ in 0..count {
            let Some((is_woken, watch)) = self.parked.borrow_mut().pop() else {
                return;
            };
            is_woken.set(true);
            watch.wake();
        }
    }

    pub(super) fn wake_all(&self) {
        self.wake(usize::MAX);
    }
}
