//! A large object that broke off goes on from where it was: its task keeps what has come, and asks for the rest at once.
//!
//! What has come stays in the task's [`BodyReceiver`], so it has the bounds of any body that is received. It is forgotten when
//! the target waits for anything but its rest. [`fetchmill_model::verdict`] says whether the rest is asked for, and what a reply to
//! that is worth.

use std::time::Duration;

use tokio::time::Instant;

use super::body::BodyReceiver;
use super::state::Worker;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::http1::RequestParts;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::verdict::{BreakOff, BrokenFacts};
use fetchmill_net::{
    BrokenExchange, Connection, Deadlines, IF_RANGE, OriginConnections, RANGE, ReceivedReply, RequestTarget,
};

impl Worker {
    /// Whether the rest of a target may be asked for, as far as its request says.
    pub(super) fn may_be_resumed(&self, target: &CurrentTarget) -> bool {
        let (request, effects) = (target.request.as_deref(), target.effects);
        !self.has_rows()
            && !self.setup.decodes
            && target.range().is_none()
            && effects.method(request) == "GET"
            && effects.body(request).is_none()
            && target.may_start_again()
            && !effects.fields(request).iter().any(|(name, _)| name.eq_ignore_ascii_case(IF_RANGE))
    }

    /// What is asked for at once when a request brought no complete reply; none: what follows is what follows from any failure.
    pub(super) fn go_on(
        &self,
        target: &mut CurrentTarget,
        body: &mut BodyReceiver,
        broken: BrokenFacts,
    ) -> Option<BreakOff> {
        if self.is_done.get() || body.has_failed() || !body.progress.can_go_on() {
            return None;
        }
        let rules = self.rules(target);
        let asked = target.state.after_break_off(broken, body.progress.brought(), &rules)?;
        match asked {
            BreakOff::Rest => body.progress.break_off(),
            BreakOff::Whole => body.discard(),
        }
        Some(asked)
    }

    /// The same when there was no connection to ask for the rest.
    pub(super) fn go_on_unconnected(
        &self,
        target: &mut CurrentTarget,
        body: &mut BodyReceiver,
        kind: FailureKind,
    ) -> Option<BreakOff> {
        let facts = BrokenFacts { kind, was_used: false, is_unanswered: true, is_shared: false };
        if body.progress.is_broken_off() { self.go_on(target, body, facts) } else { None }
    }

    /// Waits until the rest is asked for; `false` when the job ends before.
    pub(super) async fn await_resumption(&self, target: &CurrentTarget, watch: &Deadlines) -> bool {
        watch.rest();
        let until = Instant::now() + target.state.resumed_wait();
        while !self.is_done.get() {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return true;
            }
            tokio::time::sleep(left.min(limits::TICK)).await;
        }
        false
    }

    /// Asks for the rest, where the first part came from.
    pub(super) async fn exchange_rest(
        &self,
        connection: &mut Connection,
        origin: &OriginConnections,
        target: &CurrentTarget,
        body: &mut BodyReceiver,
        (range, etag): (String, String),
        watch: &Deadlines,
    ) -> Result<ReceivedReply, BrokenExchange> {
        let mut fields = target.effects.fields(target.request.as_deref()).into_owned();
        fields.extend([(RANGE.to_owned(), range), (IF_RANGE.to_owned(), etag)]);
        let path = origin.key.path_of(&target.url).map_or_else(
            || {
                let mut path = Vec::new();
                origin.template.write_target(target.name(self.setup.naming), &mut path);
                String::from_utf8_lossy(&path).into_owned()
            },
            str::to_owned,
        );
        let call = RequestParts { method: "GET", path: &path, fields: &fields, body: None };
        let (buffers, max_body) = (&self.buffers, self.setup.pool.max_body);
        connection.exchange(RequestTarget::Call(&call), buffers, body, watch, max_body).await
    }
}
