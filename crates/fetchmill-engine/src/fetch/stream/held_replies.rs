//! The connection of a stream, with its uncertain replies.

use std::net::SocketAddr;
use std::rc::Rc;

use super::queue::TaskRequest;
use super::reply_buffer::StreamBody;
use super::reply_collector::ReplyCollector;
use fetchmill_net::ReceivedReply;
use fetchmill_net::certain::{CertainConnection, HeldReplies};

/// Connection of a task, with its uncertain replies.
pub(super) type StreamConnection = CertainConnection<UncertainReplies>;

/// Uncertain replies of a connection. See the [module documentation](self). Memory use: a share of `HELD_BYTES_MAX`,
/// one additional body, and the positions of up to `STREAM_UNCERTAIN_MAX` replies.
#[derive(Default)]
pub(super) struct UncertainReplies {
    pub(super) held: Vec<HeldReply>,
    pub(super) given: Vec<GivenReply>,
    /// Replies that became certain last. They become doubtful if the rest turns out to have been too short.
    pub(super) last: Vec<GivenReply>,
    pub(super) bytes: usize,
}

/// Reply that is held until it is certain.
pub(super) struct HeldReply {
    pub(super) request: TaskRequest,
    pub(super) incoming: StreamBody,
    pub(super) replied: ReceivedReply,
    /// Address of the server. `None` if a proxy is used.
    pub(super) address: Option<SocketAddr>,
}

/// The collector of a stream, and the input position of a reply that the program has received or will receive.
pub(super) type GivenReply = (Rc<ReplyCollector>, u64);

impl HeldReplies for UncertainReplies {
    // The replies might belong to streams other than the dropped one.
    const OUTLIVE_WATCH: bool = true;

    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.given.is_empty()
    }
}
