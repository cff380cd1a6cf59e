//! Operations that each kind of requester defines.

use std::rc::Rc;

use super::end::{AttemptEnd, Failure};
use super::resumable::{Resumable, ResumableBody};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::certainty::MonotonicMicros;
use fetchmill_model::verdict::{AttemptState, BrokenFacts, Rules};
use fetchmill_net::certain::{CertainConnection, HeldReplies, Judged};
use fetchmill_net::{BrokenExchange, Connection, Deadlines, OriginConnections, ReceivedReply};

/// The connection of a requester's task, with the replies held on it.
pub(crate) type ConnectionOf<R> = CertainConnection<<R as Requester>::Held>;
/// Receiver of a requester's replies that can resume a truncated body.
pub(crate) type BodyOf<R> = Resumable<<R as Requester>::Body>;

/// Replies that are certain on arrival. All others are held until their connection has rested or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CertainReplies {
    /// The first reply on each connection.
    First,
    /// The first reply on each connection, and the first reply after each rest.
    FirstAfterRest,
    /// All replies. Each request uses a connection that is new or has rested.
    All,
}

/// Sender of requests with [`fulfil`](super::fulfil). The methods are listed in the order in which an attempt calls
/// them.
pub(crate) trait Requester {
    /// A request, with its progress.
    type Request;
    /// Replies held until they are certain.
    type Held: HeldReplies;
    /// Receiver of replies.
    type Body: ResumableBody;

    /// Replies that are certain on arrival.
    const CERTAIN: CertainReplies;

    /// Determines the request's origin. If there is none, the returned error is the end of the attempt.
    async fn find_origin(
        &self,
        request: &mut Self::Request,
        watch: &Deadlines,
    ) -> Result<Rc<OriginConnections>, AttemptEnd>;

    /// Waits until the request can be sent. If it must not be sent, the returned error is the end of the attempt.
    async fn await_turn(
        &self,
        request: &mut Self::Request,
        origin: &OriginConnections,
        watch: &Deadlines,
    ) -> Result<(), AttemptEnd>;

    /// Prepares `body` for the reply, unless the body is to be resumed.
    fn prepare(&self, request: &mut Self::Request, body: &mut BodyOf<Self>, origin: &OriginConnections);

    /// Gives the task a connection to the origin. A new connection is not opened yet. `is_fresh` rules out used
    /// connections.
    async fn bring(
        &self,
        task: &mut ConnectionOf<Self>,
        request: &Self::Request,
        origin: &Rc<OriginConnections>,
        is_fresh: bool,
        watch: &Deadlines,
    );

    /// Opens the connection.
    async fn open_connection(
        &self,
        connection: &mut Connection,
        request: &mut Self::Request,
        watch: &Deadlines,
    ) -> Result<(), Failure>;

    /// Handles an origin that cannot be reached. If the attempt ends for this reason, returns how it ends.
    fn note_unconnected(
        &self,
        _request: &mut Self::Request,
        _origin: &OriginConnections,
        _kind: FailureKind,
    ) -> Option<AttemptEnd> {
        None
    }

    /// Sends the request, or a request for the missing part of the body, and receives the reply.
    async fn exchange(
        &self,
        connection: &mut Connection,
        request: &mut Self::Request,
        origin: &OriginConnections,
        body: &mut BodyOf<Self>,
        watch: &Deadlines,
    ) -> Result<ReceivedReply, BrokenExchange>;

    /// Returns the current time on the thread's clock.
    fn micros(&self) -> MonotonicMicros;

    /// Records a complete reply to a request that was sent at `sent`.
    fn note_reply(
        &self,
        connection: &Connection,
        request: &mut Self::Request,
        replied: &ReceivedReply,
        body: &BodyOf<Self>,
        sent: MonotonicMicros,
    );

    /// Returns whether to check the socket for extra bytes after a reply.
    fn checks_socket(&self, connection: &Connection, is_certain: bool) -> bool;

    /// Processes a certain reply.
    fn settle_reply(
        &self,
        connection: &Connection,
        request: &mut Self::Request,
        body: &mut BodyOf<Self>,
        replied: &ReceivedReply,
    ) -> AttemptEnd;

    /// Holds a reply, or its effect, until the reply is certain.
    fn hold_reply(
        &self,
        task: &mut ConnectionOf<Self>,
        request: &mut Self::Request,
        body: &mut BodyOf<Self>,
        replied: &ReceivedReply,
    ) -> AttemptEnd;

    /// Applies a judgement to the replies held on a connection.
    fn judge_replies(&self, task: &mut ConnectionOf<Self>, judged: Judged);

    /// Fails a request that has an uncertain reply and must not be repeated.
    fn fail_unknown_reply(&self, request: &mut Self::Request, failure: Failure) -> AttemptEnd;

    /// Ends a connection that the server closes after the last reply.
    async fn await_end(&self, task: &mut ConnectionOf<Self>, watch: &Deadlines);

    /// Handles an attempt that got no complete reply. `broken` is `None` if there was no connection.
    fn attempt_failed(
        &self,
        request: &mut Self::Request,
        failure: Failure,
        broken: Option<BrokenFacts>,
    ) -> AttemptEnd;

    /// Frees the attempt's memory, unless its body is to be resumed.
    fn attempted(&self, _body: &mut BodyOf<Self>) {}

    /// Detaches the task from its connection. Replies held on the connection are kept.
    fn leave_connection(&self, task: &mut ConnectionOf<Self>);

    /// Waits for newer credentials. Returns `false` if the request ends instead.
    async fn await_credentials(&self, request: &mut Self::Request) -> bool;

    /// Handles a redirect that was followed. Returns `false` if the request must wait for its new host.
    fn enter_new_host(&self, _request: &mut Self::Request) -> bool {
        true
    }

    /// Splits a coalesced request into its targets.
    fn split(&self, _request: &mut Self::Request) {}

    /// Returns whether no more attempts should be made.
    fn is_over(&self, request: &Self::Request) -> bool;

    /// Returns whether the request can be repeated at its current URL.
    fn may_repeat(&self, request: &Self::Request) -> bool;

    /// Returns whether the request to its current URL is a `GET` or `HEAD`. Such a request can be repeated if it is
    /// slow.
    fn only_reads(&self, _request: &Self::Request) -> bool {
        false
    }

    /// Returns the number of attempts at the request and the time spent on them.
    fn state_of<'r>(&self, request: &'r mut Self::Request) -> &'r mut AttemptState;

    /// Returns the retry rules of the request.
    fn rules_of(&self, request: &Self::Request) -> Rules;
}
