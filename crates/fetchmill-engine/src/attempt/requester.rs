//! The operations that differ between the kinds of requesters.

use std::rc::Rc;

use super::end::{AttemptEnd, Failure};
use super::resumable::{Resumable, ResumableBody};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::certainty::MonotonicMicros;
use fetchmill_model::verdict::{AttemptState, BrokenFacts, Rules};
use fetchmill_net::certain::{CertainConnection, HeldReplies, Judged};
use fetchmill_net::{BrokenExchange, Connection, Deadlines, OriginConnections, ReceivedReply};

/// The connection of a requester's task, with the replies that it holds.
pub(crate) type ConnectionOf<R> = CertainConnection<<R as Requester>::Held>;
/// The reply that a requester receives, which can be resumed.
pub(crate) type BodyOf<R> = Resumable<<R as Requester>::Body>;

/// Replies that are certain when they arrive. All other replies are held until their connection has rested or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CertainReplies {
    /// The first one of a connection.
    First,
    /// The first one of a connection, and the first one after each rest.
    FirstAfterRest,
    /// All: each request goes out on a connection that is new or has rested.
    All,
}

/// Makes requests with [`fulfil`](super::fulfil). The methods are in the order in which an attempt calls them.
pub(crate) trait Requester {
    /// A request and its progress.
    type Request;
    /// Replies that wait until they are certain.
    type Held: HeldReplies;
    /// The receiver of replies.
    type Body: ResumableBody;

    /// Replies that are certain when they arrive.
    const CERTAIN: CertainReplies;

    /// Finds the origin of the request, or returns how the attempt ends without one.
    async fn find_origin(
        &self,
        request: &mut Self::Request,
        watch: &Deadlines,
    ) -> Result<Rc<OriginConnections>, AttemptEnd>;

    /// Waits until the request may go out, or returns how the attempt ends instead.
    async fn await_turn(
        &self,
        request: &mut Self::Request,
        origin: &OriginConnections,
        watch: &Deadlines,
    ) -> Result<(), AttemptEnd>;

    /// Prepares `body` for the reply, unless it is about to be resumed.
    fn prepare(&self, request: &mut Self::Request, body: &mut BodyOf<Self>, origin: &OriginConnections);

    /// Gives the task a connection to the origin. If none can be reused, the connection is not open yet. With
    /// `is_fresh`, a used connection must not be taken.
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

    /// Acts on an origin that cannot be reached. Returns the end of the attempt if this decides it.
    fn note_unconnected(
        &self,
        _request: &mut Self::Request,
        _origin: &OriginConnections,
        _kind: FailureKind,
    ) -> Option<AttemptEnd> {
        None
    }

    /// Sends the request, or a request for the rest of its body, and receives the reply.
    async fn exchange(
        &self,
        connection: &mut Connection,
        request: &mut Self::Request,
        origin: &OriginConnections,
        body: &mut BodyOf<Self>,
        watch: &Deadlines,
    ) -> Result<ReceivedReply, BrokenExchange>;

    /// Returns the time on the thread's clock.
    fn micros(&self) -> MonotonicMicros;

    /// Notes a complete reply to a request that was sent at `sent`.
    fn note_reply(
        &self,
        connection: &Connection,
        request: &mut Self::Request,
        replied: &ReceivedReply,
        body: &BodyOf<Self>,
        sent: MonotonicMicros,
    );

    /// Returns whether to check the socket for more bytes after a reply.
    fn checks_socket(&self, connection: &Connection, is_certain: bool) -> bool;

    /// Acts on a reply that is certain.
    fn settle_reply(
        &self,
        connection: &Connection,
        request: &mut Self::Request,
        body: &mut BodyOf<Self>,
        replied: &ReceivedReply,
    ) -> AttemptEnd;

    /// Keeps a reply, or its consequence, until it is certain.
    fn hold_reply(
        &self,
        task: &mut ConnectionOf<Self>,
        request: &mut Self::Request,
        body: &mut BodyOf<Self>,
        replied: &ReceivedReply,
    ) -> AttemptEnd;

    /// Acts on the judgement of the replies that a connection holds.
    fn judge_replies(&self, task: &mut ConnectionOf<Self>, judged: Judged);

    /// Fails a request that must not be repeated and whose reply is uncertain.
    fn fail_unknown_reply(&self, request: &mut Self::Request, failure: Failure) -> AttemptEnd;

    /// Ends a connection that its server closes after the last reply.
    async fn await_end(&self, task: &mut ConnectionOf<Self>, watch: &Deadlines);

    /// Acts on an attempt without a complete reply. `broken` is `None` if there was no connection.
    fn attempt_failed(
        &self,
        request: &mut Self::Request,
        failure: Failure,
        broken: Option<BrokenFacts>,
    ) -> AttemptEnd;

    /// Releases the memory of the attempt, unless its body is about to be resumed.
    fn attempted(&self, _body: &mut BodyOf<Self>) {}

    /// Leaves the task without a connection. The replies that the old one holds are kept.
    fn leave_connection(&self, task: &mut ConnectionOf<Self>);

    /// Waits for newer credentials. Returns `false` if the request ends instead.
    async fn await_credentials(&self, request: &mut Self::Request) -> bool;

    /// Acts on a redirect that was followed. Returns `false` if the request waits for its new host.
    fn enter_new_host(&self, _request: &mut Self::Request) -> bool {
        true
    }

    /// Splits a joined request into its targets.
    fn split(&self, _request: &mut Self::Request) {}

    /// Returns whether no further attempt is wanted.
    fn is_over(&self, request: &Self::Request) -> bool;

    /// Returns whether the request may be repeated at its current URL.
    fn may_repeat(&self, request: &Self::Request) -> bool;

    /// Returns whether the request at its current URL is a `GET` or `HEAD`. If it is slow, it may be repeated.
    fn only_reads(&self, _request: &Self::Request) -> bool {
        false
    }

    /// Returns the attempts and time spent on the request.
    fn state_of<'r>(&self, request: &'r mut Self::Request) -> &'r mut AttemptState;

    /// Returns the rules for the request.
    fn rules_of(&self, request: &Self::Request) -> Rules;
}
