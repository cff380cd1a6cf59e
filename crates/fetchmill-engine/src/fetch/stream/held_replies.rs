//! A stream's connection and its uncertain replies.

use std::net::SocketAddr;
use std::rc::Rc;

use super::queue::TaskRequest;
use super::reply_buffer::StreamBody;
use super::reply_collector::ReplyCollector;
use fetchmill_net::ReceivedReply;
use fetchmill_net::certain::{CertainConnection, HeldReplies};

/// A task's connection and its uncertain replies.
pub(super) type StreamConnection = CertainConnection<UncertainReplies>;

/// See the [module documentation](self). Memory use: a share of `HELD_BYTES_MAX`, one more body, and the positions of
/// up to `STREAM_UNCERTAIN_MAX` replies.
#[derive(Default)]
pub(super) struct UncertainReplies {
    pub(super) held: Vec<HeldReply>,
    pub(super) given: Vec<GivenReply>,
    /// The most recent replies to become certain. They become doubtful if the rest turns out to have been too short.
    pub(super) last: Vec<GivenReply>,
    pub(super) bytes: usize,
}

/// A held reply.
pub(super) struct HeldReply {
    pub(super) request: TaskRequest,
    pub(super) incoming: StreamBody,
    pub(super) replied: ReceivedReply,
    /// Address of the server. `None` through a proxy.
    pub(super) address: Option<SocketAddr>,
}

/// Input position of a reply that the program has or will get, and the collector of its stream.
pub(super) type GivenReply = (Rc<ReplyCollector>, u64);

impl HeldReplies for UncertainReplies {
    // The replies may belong to other streams than the one that was dropped.
    const OUTLIVE_WATCH: bool = true;

    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.given.is_empty()
    }
}
