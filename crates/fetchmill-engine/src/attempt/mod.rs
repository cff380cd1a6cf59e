//! Attempts at one request, until it has its answer or waits: the only loop of this kind. Workers, streams, listings and
//! the client of a store are its [`Requester`]s.
//!
//! [`fulfil`] connects, exchanges, has replies wait until they are certain ([`fetchmill_net::certain`]), follows
//! redirects and resumes bodies that broke off. A requester has its own requests, bodies and verdicts.

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
