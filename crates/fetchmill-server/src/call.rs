//! A parsed request, its result, and the state that is kept if the reply takes longer.

use std::time::Duration;

use crate::content::Stream;
use crate::reply::{self, Persistence};
use crate::rules::Fault;

/// Content type of replies whose body only states their status.
pub(crate) const TEXT: &str = "text/plain";

/// A request whose meaning is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) what: CallKind<'a>,
    /// Whether the method is HEAD. If so, the reply ends with its head.
    pub(crate) head: bool,
    pub(crate) old: bool,
    pub(crate) persistence: Persistence,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum CallKind<'a> {
    Get(&'a str),
    List(Option<&'a str>),
}

/// Result of a request.
pub(crate) enum CallResult {
    /// The reply is in the buffer.
    Done,
    /// The reply is in the buffer. The connection ends after the reply.
    Last,
    /// The reply needs further steps.
    Later(Continuation),
}

/// A reply that the fast path cannot complete.
pub(crate) enum Continuation {
    /// The head is in the buffer. The body follows piece by piece.
    Large(LargeReply),
    /// The reply is delayed, or a fault affects it.
    Script(Box<Script>),
}

pub(crate) struct LargeReply {
    pub(crate) size: u64,
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) keep_alive: bool,
}

/// A call that has to be kept, with its delay and its fault.
pub(crate) struct Script {
    pub(crate) list: bool,
    pub(crate) text: Option<String>,
    pub(crate) head: bool,
    pub(crate) old: bool,
    pub(crate) persistence: Persistence,
    pub(crate) delay: Option<Duration>,
    pub(crate) fault: Option<Fault>,
}

impl Script {
    pub(crate) fn call(&self) -> Call<'_> {
        let text = self.text.as_deref();
        Call {
            what: if self.list { CallKind::List(text) } else { CallKind::Get(text.unwrap_or_default()) },
            head: self.head,
            old: self.old,
            persistence: self.persistence,
        }
    }
}

/// A reply in parts.
pub(crate) struct ReplyParts {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) extra: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) stream: Option<Box<dyn Stream>>,
}

impl ReplyParts {
    /// Creates a reply whose body only states its status.
    pub(crate) fn text(status: u16) -> Self {
        let body = text(status).into_bytes();
        let size = body.len() as u64;
        ReplyParts { status, content_type: TEXT, extra: Vec::new(), body, size, stream: None }
    }
}

/// Returns the body of a reply that only states its status.
pub(crate) fn text(status: u16) -> String {
    let what_to_do = match status {
        421 => {
            "This server accepts requests to localhost only. Use http://localhost or http://127.0.0.1, or \
             start the server with --allow-host NAME.\n"
        }
        _ => "",
    };
    format!("{status} {}\n{what_to_do}", reply::reason(status))
}
