//! Abandons and repeats requests that are far slower than other requests to their origin
//! ([`fetchmill_model::reply::patience`]).

use super::end::AttemptEnd;
use super::requester::{BodyOf, ConnectionOf, Requester};
use fetchmill_model::reply::certainty::MonotonicMicros;
use fetchmill_model::reply::patience::Patience;
use fetchmill_net::{Deadlines, OriginConnections, ReceivedReply};

/// Allows the watch to abandon the next request if it is far slower than others. This applies only to the first
/// attempt, and only if the request cannot change anything on the server. A repeated attempt waits as long as the
/// options allow. A write must not run twice at the same time.
pub(super) fn await_as_others<R: Requester>(
    requester: &R,
    task: &ConnectionOf<R>,
    request: &mut R::Request,
    body: &BodyOf<R>,
    origin: &OriginConnections,
    watch: &Deadlines,
) {
    let state = *requester.state_of(request);
    // On a shared connection, a reply that waits for another one looks slow as well.
    if task.connection.is_shared() || body.is_broken_off() || state.attempts > 0 {
        return;
    }
    if Patience::may_abandon(state.abandoned) && requester.only_reads(request) {
        watch.wait_as_for_others(&origin.patience, state.abandoned);
    }
}

/// Records the reply time of a request sent at `sent`. Recorded times determine how long later requests to the origin
/// can take.
pub(super) fn note_patience<R: Requester>(
    requester: &R,
    request: &mut R::Request,
    origin: &OriginConnections,
    replied: &ReceivedReply,
    sent: MonotonicMicros,
    watch: &Deadlines,
) {
    let (status, asks_to_wait) = (replied.head.status, replied.head.retry_after.is_some());
    let is_refused = status >= 400 && requester.rules_of(request).retried.throttles(status, asks_to_wait);
    let was_abandoned = requester.state_of(request).abandoned > 0;
    if is_refused {
        origin.patience.borrow_mut().note_refused(watch.now());
    } else if was_abandoned {
        let took = requester.micros().saturating_sub(sent);
        origin.patience.borrow_mut().note_made_again(took);
    }
}

/// Abandons a request that was sent at `sent` and is slower than others. The request is repeated, and the abandoned
/// attempt does not count. Replies held on its connection are uncertain, because each might belong to another request.
pub(super) fn abandon<R: Requester>(
    requester: &R,
    task: &mut ConnectionOf<R>,
    request: &mut R::Request,
    body: &mut BodyOf<R>,
    sent: MonotonicMicros,
) -> AttemptEnd {
    let now = requester.micros();
    let judged = task.met_break(None, now);
    requester.judge_replies(task, judged);
    task.connection.abandon_request(now.saturating_sub(sent));
    body.discard();
    let state = requester.state_of(request);
    state.abandoned += 1;
    if Patience::prefers_used(state.abandoned) { AttemptEnd::AgainOnUsed } else { AttemptEnd::Again }
}
