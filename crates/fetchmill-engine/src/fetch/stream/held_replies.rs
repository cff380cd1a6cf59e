//! A stream's connection, with its replies that are not certain yet.

use std::net::SocketAddr;
use std::rc::Rc;

use super::queue::TaskRequest;
use super::reply_buffer::StreamBody;
use super::reply_collector::ReplyCollector;
use fetchmill_net::ReceivedReply;
use fetchmill_net::certain::{CertainConnection, HeldReplies};

/// A task's connection with the replies that are not certain yet.
pub(super) type StreamConnection = CertainConnection<UncertainReplies>;

/// See the module. Memory: a share of `HELD_BYTES_MAX` plus one body, and the positions of at most
/// `STREAM_UNCERTAIN_MAX` replies.
#[derive(Default)]
pub(super) struct UncertainReplies {
    pub(super) held: Vec<HeldReply>,
    pub(super) given: Vec<GivenReply>,
    /// The replies that became certain last. They become doubtful if the rest turns out to have been too short.
    pub(super) last: Vec<GivenReply>,
    pub(super) bytes: usize,
}

/// A reply that is held.
pub(super) struct HeldReply {
    pub(super) request: TaskRequest,
    pub(super) incoming: StreamBody,
    pub(super) replied: ReceivedReply,
    /// Address of the server. `None` through a proxy.
    pub(super) address: Option<SocketAddr>,
}

/// A reply that the program has or will have, by its position in the input.
pub(super) type GivenReply = (Rc<ReplyCollector>, u64);

impl HeldReplies for UncertainReplies {
    // The replies may belong to another program than the one that has left its stream.
    const OUTLIVE_WATCH: bool = true;

    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.given.is_empty()
    }
}
