//! The loop that makes attempts.

use std::time::Duration;

use tokio::time::Instant;

use super::end::{AttemptEnd, Failure};
use super::requester::{BodyOf, CertainReplies, ConnectionOf, Requester};
use super::resumable::ResumableBody;
use super::slow::{abandon, await_as_others, note_patience};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::certainty::MonotonicMicros;
use fetchmill_model::verdict::{BreakOff, BrokenFacts};
use fetchmill_net::certain::{AfterReply, HeldReplies, Judged};
use fetchmill_net::{BrokenExchange, Deadlines, OriginConnections, ReceivedReply};

/// Makes attempts until the request is answered or must wait. `came` is the result of a first attempt that the caller
/// already made.
pub(crate) async fn fulfil<R: Requester>(
    requester: &R,
    task: &mut ConnectionOf<R>,
    request: &mut R::Request,
    body: &mut BodyOf<R>,
    watch: &Deadlines,
    mut came: Option<AttemptEnd>,
) {
    let mut is_fresh = false;
    loop {
        let end = match came.take() {
            Some(end) => end,
            None => attempt(requester, task, request, body, is_fresh, watch).await,
        };
        requester.attempted(body);
        is_fresh = matches!(end, AttemptEnd::Again | AttemptEnd::BrokenOff | AttemptEnd::Renewing);
        if is_fresh {
            requester.leave_connection(task);
        }
        let goes_on = match end {
            AttemptEnd::Over => false,
            AttemptEnd::Again | AttemptEnd::AgainOnUsed => true,
            AttemptEnd::BrokenOff => await_resumption(requester, request, watch).await,
            AttemptEnd::Renewing => {
                watch.rest();
                requester.await_credentials(request).await
            }
            AttemptEnd::Redirected => requester.enter_new_host(request),
            AttemptEnd::Split => {
                requester.split(request);
                true
            }
        };
        if !goes_on {
            break;
        }
    }
    if body.is_broken_off() {
        // The request now waits, or has ended.
        body.discard();
    }
}

async fn attempt<R: Requester>(
    requester: &R,
    task: &mut ConnectionOf<R>,
    request: &mut R::Request,
    body: &mut BodyOf<R>,
    is_fresh: bool,
    watch: &Deadlines,
) -> AttemptEnd {
    let origin = match requester.find_origin(request, watch).await {
        Ok(origin) => origin,
        Err(end) => return end,
    };
    if let Err(end) = requester.await_turn(request, &origin, watch).await {
        return end;
    }
    requester.prepare(request, body, &origin);
    requester.bring(task, request, &origin, is_fresh, watch).await;
    if !task.connection.is_open()
        && let Err(failure) = requester.open_connection(&mut task.connection, request, watch).await
    {
        return unconnected(requester, request, body, &origin, failure);
    }
    let is_first = task.connection.replies() == 0;
    let is_certain = is_first
        || match R::CERTAIN {
            CertainReplies::First => false,
            CertainReplies::FirstAfterRest => task.has_rested(),
            CertainReplies::All => true,
        };
    let sent = requester.micros();
    await_as_others(requester, task, request, body, &origin, watch);
    match requester.exchange(&mut task.connection, request, &origin, body, watch).await {
        Ok(replied) => {
            task.note_replies(1, sent, requester.micros());
            note_patience(requester, request, &origin, &replied, sent, watch);
            requester.note_reply(&task.connection, request, &replied, body, sent);
            let replied = ReceivedReply { head: body.head_of_whole(replied.head), ..replied };
            if replied.head.is_suspect && !is_first && !task.connection.is_shared() {
                return drop_suspect(requester, task, request, body);
            }
            take_reply(requester, task, request, body, watch, &replied, is_certain).await
        }
        Err(_) if watch.was_abandoned() => abandon(requester, task, request, body, sent),
        Err(broken) => broke_off(requester, task, request, body, broken, sent),
    }
}

/// Handles an attempt that could not open a connection to the origin.
fn unconnected<R: Requester>(
    requester: &R,
    request: &mut R::Request,
    body: &mut BodyOf<R>,
    origin: &OriginConnections,
    failure: Failure,
) -> AttemptEnd {
    let kind = failure.kind;
    if let Some(end) = requester.note_unconnected(request, origin, kind) {
        return end;
    }
    let facts =
        BrokenFacts { kind, was_used: false, is_unanswered: true, is_shared: false, needs_http1: false };
    if body.is_broken_off()
        && let Some(end) = resumed(requester, request, body, facts)
    {
        return end;
    }
    requester.attempt_failed(request, failure.of_host(origin.key.host()), None)
}

/// Handles a request that was sent at `sent` but got no complete reply.
fn broke_off<R: Requester>(
    requester: &R,
    task: &mut ConnectionOf<R>,
    request: &mut R::Request,
    body: &mut BodyOf<R>,
    broken: BrokenExchange,
    sent: MonotonicMicros,
) -> AttemptEnd {
    let BrokenExchange { kind, reason, is_unanswered, needs_http1 } = broken;
    let judged = task.met_break(is_unanswered.then_some(sent), requester.micros());
    requester.judge_replies(task, judged);
    let connection = &mut task.connection;
    let (was_used, is_shared) = (connection.replies() > 0, connection.is_shared());
    connection.abandon();
    let facts = BrokenFacts { kind, was_used, is_unanswered, is_shared, needs_http1 };
    if let Some(end) = resumed(requester, request, body, facts) {
        return end;
    }
    body.discard();
    requester.attempt_failed(request, Failure::new(kind, reason), Some(facts))
}

/// Returns the next step after an incomplete reply, if the step needs no delay. Returns `None` if the usual failure
/// rules apply.
fn resumed<R: Requester>(
    requester: &R,
    request: &mut R::Request,
    body: &mut BodyOf<R>,
    broken: BrokenFacts,
) -> Option<AttemptEnd> {
    if requester.is_over(request) || body.inner.has_failed() || !body.can_be_resumed() {
        return None;
    }
    let rules = requester.rules_of(request);
    let next = requester.state_of(request).after_break_off(broken, body.brought(), &rules)?;
    Some(match next {
        BreakOff::Rest => {
            body.break_off();
            AttemptEnd::BrokenOff
        }
        BreakOff::Whole => {
            body.discard();
            AttemptEnd::Again
        }
    })
}

/// Waits until the rest of a body can be requested. Returns `false` if the request ends first.
async fn await_resumption<R: Requester>(requester: &R, request: &mut R::Request, watch: &Deadlines) -> bool {
    watch.rest();
    let until = Instant::now() + requester.state_of(request).resumed_wait();
    while !requester.is_over(request) {
        let left = until.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return true;
        }
        tokio::time::sleep(left.min(limits::TICK)).await;
    }
    false
}

/// Handles a complete reply. Holds the reply unless it certainly belongs to this request.
async fn take_reply<R: Requester>(
    requester: &R,
    task: &mut ConnectionOf<R>,
    request: &mut R::Request,
    body: &mut BodyOf<R>,
    watch: &Deadlines,
    replied: &ReceivedReply,
    is_certain: bool,
) -> AttemptEnd {
    if task.connection.is_shared() {
        return requester.settle_reply(&task.connection, request, body, replied);
    }
    if replied.is_cut {
        return take_part(requester, task, request, body, replied, is_certain);
    }
    let looks = requester.checks_socket(&task.connection, is_certain);
    let after = task.after_reply(replied.surplus, replied.head.keep_alive, looks);
    if after == AfterReply::Surplus && !is_certain {
        body.discard();
        met_surplus(requester, task);
        if requester.may_repeat(request) {
            return AttemptEnd::Again;
        }
        return requester.fail_unknown_reply(request, Failure::surplus());
    }
    let end = if is_certain {
        requester.settle_reply(&task.connection, request, body, replied)
    } else {
        requester.hold_reply(task, request, body, replied)
    };
    match after {
        AfterReply::Open => {}
        AfterReply::Ends => requester.await_end(task, watch).await,
        AfterReply::Surplus => met_surplus(requester, task),
    }
    end
}

/// Takes the wanted part of a reply and closes the connection before the remainder arrives. The reply is certain only
/// if it is the first on its connection. Other replies held on this connection are dropped, because they can no longer
/// become certain.
fn take_part<R: Requester>(
    requester: &R,
    task: &mut ConnectionOf<R>,
    request: &mut R::Request,
    body: &mut BodyOf<R>,
    replied: &ReceivedReply,
    is_certain: bool,
) -> AttemptEnd {
    if !task.held.is_empty() {
        requester.judge_replies(task, Judged::Lost(FailureKind::Reset));
    }
    if is_certain {
        return requester.settle_reply(&task.connection, request, body, replied);
    }
    body.discard();
    AttemptEnd::Again
}

/// Drops a reply with a suspect end, unless it is the first on its connection. On a used connection, the apparent start
/// of the reply might be the remainder of another reply. Other replies held on this connection are dropped as well,
/// because they can no longer become certain.
fn drop_suspect<R: Requester>(
    requester: &R,
    task: &mut ConnectionOf<R>,
    request: &mut R::Request,
    body: &mut BodyOf<R>,
) -> AttemptEnd {
    body.discard();
    if !task.held.is_empty() {
        requester.judge_replies(task, Judged::Lost(FailureKind::Reset));
    }
    task.connection.abandon();
    if requester.may_repeat(request) {
        return AttemptEnd::Again;
    }
    requester.fail_unknown_reply(request, Failure::suspect())
}

/// Handles unsolicited bytes on a connection.
fn met_surplus<R: Requester>(requester: &R, task: &mut ConnectionOf<R>) {
    let judged = task.met_surplus();
    requester.judge_replies(task, judged);
}
