//! Sends requests to a store, except those for the objects of a job, which [`crate::attempt`] sends. Each request uses
//! a connection that is new or has rested.

use std::rc::Rc;

use super::client::{BucketAnswer, BucketReply, BucketRequest, Client};
use crate::access::renewal::Renewal;
use crate::attempt::{AttemptEnd, CertainReplies, Failure, Requester, Resumable, ResumableBody, fulfil};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::certainty::MonotonicMicros;
use fetchmill_model::s3::BucketAddress;
use fetchmill_model::verdict::{AttemptState, BrokenFacts, Correction, Rules, Verdict};
use fetchmill_net::certain::{Judged, RestedConnection};
use fetchmill_net::{BrokenExchange, Connection, Deadlines, OriginConnections, ReceivedReply};

impl Client {
    /// Sends a request. If the store rejects a setting, corrects the setting and repeats the request. The returned
    /// verdict is never `Again`, `Correct` or `Redirect`. An error ends the job.
    pub(crate) async fn ask(
        &self,
        connection: &mut RestedConnection,
        ask: &BucketRequest<'_>,
        state: &mut AttemptState,
        rules: &Rules,
    ) -> Result<(Verdict, BucketAnswer)> {
        let watch = Deadlines::new(Rc::clone(&self.clock), self.timeouts);
        let mut attempt = BucketAttempt::new(*state);
        let mut reply = Resumable::default();
        let requester = BucketRequester { client: self, ask, rules };
        tokio::select! {
            () = fulfil(&requester, connection, &mut attempt, &mut reply, &watch, None) => {}
            never = self.tick(&watch) => match never {},
        }
        let mut answer = attempt.answer;
        if answer.is_ok() {
            answer = Ok(reply.inner);
        }
        *state = attempt.state;
        match attempt.end {
            BucketEnd::Verdict(verdict) => Ok((verdict, answer)),
            BucketEnd::Error(error) => Err(error),
            // The job is ending, and newer credentials are not available yet.
            BucketEnd::Nothing => {
                Ok((state.after_failure(FailureKind::TotalTimeout, rules, (self.now)()), answer))
            }
        }
    }
}

/// Sender of one request for a client.
struct BucketRequester<'a> {
    client: &'a Client,
    ask: &'a BucketRequest<'a>,
    rules: &'a Rules,
}

/// Progress of a request.
struct BucketAttempt {
    state: AttemptState,
    /// Address of the bucket when the request was last sent.
    place: Option<BucketAddress>,
    /// Generation of the credentials used for signing.
    generation: u64,
    /// Last reply, or the reason why there is none.
    answer: BucketAnswer,
    /// Result of the request.
    end: BucketEnd,
}

/// Result of a request.
enum BucketEnd {
    /// No result, because the job is ending.
    Nothing,
    Verdict(Verdict),
    /// An error that ends the job.
    Error(Error),
}

impl BucketAttempt {
    fn new(state: AttemptState) -> Self {
        BucketAttempt {
            state,
            place: None,
            generation: 0,
            answer: Ok(BucketReply::default()),
            end: BucketEnd::Nothing,
        }
    }
}

impl BucketRequester<'_> {
    fn after(&self, attempt: &mut BucketAttempt, verdict: Verdict) -> AttemptEnd {
        match verdict {
            Verdict::Again => AttemptEnd::Again,
            Verdict::Correct(correction) => self.correct(attempt, correction),
            verdict => {
                attempt.end = BucketEnd::Verdict(verdict);
                AttemptEnd::Over
            }
        }
    }

    /// Corrects a setting that the store rejected.
    fn correct(&self, attempt: &mut BucketAttempt, correction: Correction) -> AttemptEnd {
        let access = &self.client.access;
        let renewal = access.correct(Some(self.ask.bucket), correction, attempt.generation);
        Self::renewed(attempt, renewal)
    }

    /// Continues with newer credentials or corrected settings. The address of the bucket might have changed.
    fn renewed(attempt: &mut BucketAttempt, renewal: Renewal) -> AttemptEnd {
        match renewal {
            Renewal::Newer => AttemptEnd::Redirected,
            Renewal::Pending => AttemptEnd::Renewing,
            Renewal::Failed(why) => {
                attempt.end = BucketEnd::Error(Error::Temporary(why));
                AttemptEnd::Over
            }
        }
    }
}

impl ResumableBody for BucketReply {
    fn forget(&mut self) {
        *self = BucketReply::default();
    }

    fn start_again(&mut self) {
        self.forget();
    }
}

impl Requester for BucketRequester<'_> {
    type Request = BucketAttempt;
    type Held = ();
    type Body = BucketReply;

    const CERTAIN: CertainReplies = CertainReplies::All;

    async fn find_origin(
        &self,
        attempt: &mut BucketAttempt,
        _watch: &Deadlines,
    ) -> std::result::Result<Rc<OriginConnections>, AttemptEnd> {
        let Client { access, pool, clock, now, .. } = self.client;
        clock.set(now());
        attempt.generation = access.generation();
        let found = access.place(self.ask.bucket).and_then(|place| {
            let origin = pool.origin(&place.key)?;
            attempt.place = Some(place);
            Ok(origin)
        });
        found.map_err(|error| {
            attempt.end = BucketEnd::Error(error);
            AttemptEnd::Over
        })
    }

    async fn await_turn(
        &self,
        _attempt: &mut BucketAttempt,
        _origin: &OriginConnections,
        _watch: &Deadlines,
    ) -> std::result::Result<(), AttemptEnd> {
        Ok(())
    }

    fn prepare(
        &self,
        attempt: &mut BucketAttempt,
        reply: &mut Resumable<BucketReply>,
        _origin: &OriginConnections,
    ) {
        reply.discard();
        reply.start(false);
        if let Some(place) = &attempt.place {
            reply.inner.signed_for.clone_from(&place.region);
        }
        attempt.answer = Ok(BucketReply::default());
    }

    async fn bring(
        &self,
        task: &mut RestedConnection,
        _attempt: &BucketAttempt,
        origin: &Rc<OriginConnections>,
        is_fresh: bool,
        _watch: &Deadlines,
    ) {
        if !is_fresh || !task.connection.is_at(origin) {
            task.renew(&self.client.pool, origin);
        }
    }

    async fn open_connection(
        &self,
        connection: &mut Connection,
        _attempt: &mut BucketAttempt,
        watch: &Deadlines,
    ) -> std::result::Result<(), Failure> {
        self.client.open(connection, watch).await
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        attempt: &mut BucketAttempt,
        _origin: &OriginConnections,
        reply: &mut Resumable<BucketReply>,
        watch: &Deadlines,
    ) -> std::result::Result<ReceivedReply, BrokenExchange> {
        let Some(place) = &attempt.place else { return Err(BrokenExchange::unconnected()) };
        self.client.exchange(connection, place, self.ask, reply, watch).await
    }

    fn micros(&self) -> MonotonicMicros {
        (self.client.now)() * 1000
    }

    fn note_reply(
        &self,
        _connection: &Connection,
        _attempt: &mut BucketAttempt,
        _replied: &ReceivedReply,
        _reply: &Resumable<BucketReply>,
        _sent: MonotonicMicros,
    ) {
    }

    fn checks_socket(&self, _connection: &Connection, _is_certain: bool) -> bool {
        false
    }

    fn settle_reply(
        &self,
        _connection: &Connection,
        attempt: &mut BucketAttempt,
        reply: &mut Resumable<BucketReply>,
        replied: &ReceivedReply,
    ) -> AttemptEnd {
        let (now, reply) = ((self.client.now)(), &mut reply.inner);
        reply.complete(replied, now);
        let may_hide_error = self.ask.may_hide_error();
        let verdict =
            attempt.state.after_bucket_reply(&reply.facts(), reply.status, may_hide_error, self.rules, now);
        self.after(attempt, verdict)
    }

    fn hold_reply(
        &self,
        task: &mut RestedConnection,
        attempt: &mut BucketAttempt,
        reply: &mut Resumable<BucketReply>,
        replied: &ReceivedReply,
    ) -> AttemptEnd {
        self.settle_reply(&task.connection, attempt, reply, replied)
    }

    fn judge_replies(&self, _task: &mut RestedConnection, _judged: Judged) {}

    fn fail_unknown_reply(&self, attempt: &mut BucketAttempt, failure: Failure) -> AttemptEnd {
        self.attempt_failed(attempt, failure, None)
    }

    async fn await_end(&self, task: &mut RestedConnection, _watch: &Deadlines) {
        task.close();
    }

    fn attempt_failed(
        &self,
        attempt: &mut BucketAttempt,
        failure: Failure,
        broken: Option<BrokenFacts>,
    ) -> AttemptEnd {
        let kind = failure.kind;
        let facts =
            BrokenFacts { kind, was_used: false, is_unanswered: false, is_shared: false, needs_http1: false };
        let facts = broken.unwrap_or(facts);
        attempt.answer = Err(failure);
        let verdict = attempt.state.after_broken(facts, self.rules, (self.client.now)());
        self.after(attempt, verdict)
    }

    fn leave_connection(&self, task: &mut RestedConnection) {
        task.close();
    }

    async fn await_credentials(&self, attempt: &mut BucketAttempt) -> bool {
        while !self.client.is_over() {
            match Self::renewed(attempt, self.client.access.renew(attempt.generation)) {
                AttemptEnd::Redirected => return true,
                AttemptEnd::Renewing => tokio::time::sleep(limits::TICK).await,
                _ => return false,
            }
        }
        false
    }

    fn is_over(&self, _attempt: &BucketAttempt) -> bool {
        self.client.is_over()
    }

    fn may_repeat(&self, _attempt: &BucketAttempt) -> bool {
        self.rules.may_repeat
    }

    fn state_of<'r>(&self, attempt: &'r mut BucketAttempt) -> &'r mut AttemptState {
        &mut attempt.state
    }

    fn rules_of(&self, _attempt: &BucketAttempt) -> Rules {
        *self.rules
    }
}
