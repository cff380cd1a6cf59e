//! HTTP/1.1 for a client: bytes in, bytes out, no I/O and no clock.
//!
//! Requests and replies are independent. [`RequestTemplate`] writes requests, and [`ReplyReader`] reads replies one
//! after another from a stream of bytes. A transport can therefore pipeline its requests.
//!
//! # Rules
//! - The body stored under a name must come from its own reply, never from a neighbouring one. A reply whose end is
//!   ambiguous is refused. If RFC 9112, 6.3, resolves the ambiguity, the reply is only suspect ([`Head::is_suspect`]).
//! - Lines of a head that do not define where the reply ends may be odd (see `odd_head`). They are checked only after
//!   `httparse` has refused the head.
//! - Every loop and counter is bounded by `limits`. The work is linear in the bytes received, however they are split.
//! - Whether a reply is accepted does not depend on how the stream is split into inputs.
//!
//! # Never
//!
//! No allocation, no copy of a body, no panic on any input.
//!
//! # Cost
//!
//! If the head of a 100-byte reply arrives in one input, `httparse` runs once, and the field names are scanned once
//! (see `examples/http1_cost.rs`).

mod body_sink;
pub mod byte_range;
mod chunked;
mod date;
mod head;
pub mod header_field;
mod malformed;
mod odd_head;
mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use body_sink::{BodySink, DiscardedBody};
pub use date::RetryAfter;
pub use head::{FieldSpans, Framing, Head, Span, Version, field_values, odd_head};
pub use malformed::MalformedReply;
pub use odd_head::{FieldLine, FieldLines, field_lines, kept_value};
pub use reply::{ReplyProgress, ReplyReader, StreamEnd};
pub use request::{
    ACCEPT_ENCODING, HttpUrl, OPEN_FIELDS, RequestParts, RequestTemplate, add_cookies, escape_target,
    request_fields,
};
