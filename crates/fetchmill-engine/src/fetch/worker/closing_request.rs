//! Ends a connection with one more request when the job has no more targets.
//!
//! At the end of a job, connections hold replies but have no further request that could ask the server to close the
//! connection. Each connection would have to be silent for twice as long as the slowest reply took, which can be a
//! minute. Instead, the last target is requested again with `Connection: close`. The close proves that all replies
//! belong to their requests
//! ([docs/internals/decisions/0023](../../../../../docs/internals/decisions/0023-replies-are-held-until-they-are-certain.md)).

use super::address::asked_for;
use super::body::WorkerBody;
use super::held_outcomes::WorkerConnection;
use super::state::Worker;
use crate::control::stop::Stop;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::http1::DiscardedBody;
use fetchmill_model::outcome::FailureKind;
use fetchmill_net::Deadlines;
use fetchmill_net::certain::AfterReply;

/// Maximum size in bytes of a body that is requested again, only to be discarded.
const BODY_MAX: u64 = 64 * 1024;

impl Worker {
    /// Returns whether a connection should end with one more request for `last`, its last target. `body` still contains
    /// the body of that target's reply.
    pub(super) fn ends_with_request(
        &self,
        task: &mut WorkerConnection,
        last: &CurrentTarget,
        body: &WorkerBody,
    ) -> bool {
        self.has_no_targets()
            && self.control().stop.get() == Stop::No
            && !self.control().origins.are_many()
            && task.connection.origin().is_some_and(|origin| last.is_plain_at(origin))
            && body.brought() <= BODY_MAX
            && task.ends_sooner()
    }

    /// Requests `last` again as the last request on the connection and discards the reply. If no reply arrives within
    /// the duration of a rest, the earlier replies are certain as well. Returns `false` if the pace allows no request.
    pub(super) async fn end_with_request(
        &self,
        task: &mut WorkerConnection,
        last: &CurrentTarget,
        watch: &Deadlines,
    ) -> bool {
        let Some(origin) = task.connection.origin().cloned() else { return false };
        watch.rest();
        if !self.keep_pace(&origin, watch).await {
            return false;
        }
        let silence = task.begin_end();
        let sent = self.control().clock.micros();
        self.outcomes.note_attempts(1);
        let replied = {
            let _exchange = self.load.count_exchange();
            let asked = asked_for(&origin, last, self.setup.naming);
            let (max_body, mut body) = (self.setup.pool.max_body, DiscardedBody);
            let exchange = task.connection.exchange(asked, &self.buffers, &mut body, watch, max_body);
            tokio::pin!(exchange);
            tokio::select! {
                replied = &mut exchange => replied,
                () = tokio::time::sleep(silence) => {
                    watch.expire(FailureKind::HeadTimeout);
                    exchange.await
                }
            }
        };
        match replied {
            Ok(replied) => {
                task.note_replies(1, sent, self.control().clock.micros());
                match task.after_reply(replied.surplus, replied.head.keep_alive, true) {
                    AfterReply::Surplus => self.met_surplus(task),
                    AfterReply::Open | AfterReply::Ends => self.end_connection(task, watch).await,
                }
            }
            Err(broken) => {
                self.met_break(task, broken.is_unanswered.then_some(sent));
                task.connection.abandon();
            }
        }
        true
    }
}
