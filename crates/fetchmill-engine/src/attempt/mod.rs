//! The attempt loop, which makes attempts at a request until it is answered or must wait. All requests use this loop.
//! Workers, streams, listings and the store client are [`Requester`]s.
//!
//! [`fulfil`] connects, sends the request, holds the reply until it is certain ([`fetchmill_net::certain`]), follows
//! redirects and resumes truncated bodies. Each requester defines its own requests, bodies and verdicts.

mod end;
mod fulfil;
mod redirect;
mod requester;
mod resumable;
mod slow;

pub(crate) use end::{AttemptEnd, Failure};
pub(crate) use fulfil::fulfil;
pub(crate) use redirect::{Location, RedirectHead, RedirectPolicy, RedirectRefusal};
pub(crate) use requester::{CertainReplies, Requester};
pub(crate) use resumable::{Resumable, ResumableBody};
