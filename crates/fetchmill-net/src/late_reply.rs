//! Keeps listening on the connection of an abandoned request. If the reply still arrives, its delay shows how slow
//! replies can be.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::connection_kind::ConnectionKind;
use super::origin_connections::OriginConnections;
use fetchmill_model::reply::certainty::MonotonicMicros;

/// Maximum time to listen. If no reply arrives in this time, the request counts as hung and says nothing about slow
/// replies.
const LISTENED: Duration = Duration::from_secs(30);
/// Maximum number of connections to an origin on which a thread listens. Each one takes a descriptor, and as much
/// memory as a connection that receives no body.
const MOST: usize = 32;

/// Connection of an abandoned request. Only the arrival time of its reply matters.
#[derive(Debug)]
pub(super) struct LateReply {
    link: ConnectionKind,
    origin: Rc<OriginConnections>,
    /// Time that the request had waited when it was abandoned.
    waited: MonotonicMicros,
}

impl LateReply {
    /// Starts listening in a task of the thread, unless the thread is already listening on too many connections.
    pub(super) fn listen(link: ConnectionKind, origin: Rc<OriginConnections>, waited: MonotonicMicros) {
        if origin.late_replies.get() < MOST {
            origin.late_replies.set(origin.late_replies.get() + 1);
            tokio::task::spawn_local(LateReply { link, origin, waited }.await_bytes());
        }
    }

    async fn await_bytes(self) {
        let since = Instant::now();
        let came = std::future::poll_fn(|context| self.link.poll_input(context));
        let has_come = tokio::time::timeout(LISTENED, came).await.is_ok();
        if has_come && self.link.look().is_surplus() {
            let took = self.waited + since.elapsed().as_micros() as MonotonicMicros;
            self.origin.replies.borrow_mut().note_late(took);
        }
    }
}

impl Drop for LateReply {
    fn drop(&mut self) {
        self.origin.late_replies.set(self.origin.late_replies.get() - 1);
    }
}
