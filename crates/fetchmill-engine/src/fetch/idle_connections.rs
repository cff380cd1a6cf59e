//! Connections without a target. The connection that became idle last is woken first, because it is still warm.
//! Connections that stay unused are eventually closed.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use fetchmill_net::{Connection, Deadlines};

/// Whether the connection was woken, and the deadlines that wake it.
type IdleConnection = (Rc<Cell<bool>>, Rc<Deadlines>);

#[derive(Default)]
pub(crate) struct IdleConnections {
    idle: RefCell<Vec<IdleConnection>>,
}

impl IdleConnections {
    /// Waits until the connection is woken or receives data, or until the watch expires.
    pub(crate) async fn wait_idle(&self, connection: &Connection, watch: &Rc<Deadlines>) {
        let is_woken = Rc::new(Cell::new(false));
        self.idle.borrow_mut().push((Rc::clone(&is_woken), Rc::clone(watch)));
        poll_fn(|context| {
            let has_expired = watch.poll_expired(context).is_some();
            let has_input = connection.poll_input(context).is_ready();
            if is_woken.get() || has_expired || has_input { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        if !is_woken.get() {
            self.idle.borrow_mut().retain(|(other, _)| !Rc::ptr_eq(other, &is_woken));
        }
    }

    /// Returns the number of idle connections.
    pub(crate) fn count(&self) -> usize {
        self.idle.borrow().len()
    }

    pub(crate) fn wake_one(&self) {
        self.wake(1);
    }

    pub(crate) fn wake(&self, count: usize) {
        for _ in 0..count {
            let Some((is_woken, watch)) = self.idle.borrow_mut().pop() else {
                return;
            };
            is_woken.set(true);
            watch.wake();
        }
    }

    pub(crate) fn wake_all(&self) {
        self.wake(usize::MAX);
    }
}
