//! What came of an attempt, what holds for it, and what follows: as values.

use super::part::ExpectedPart;
use super::retried_statuses::RetriedStatuses;
use crate::error::Error;
use crate::outcome::{FailureKind, Outcome};
use crate::reply::body_type::AcceptedTypes;
use crate::target::source_metadata::ListedKey;

/// Bytes of a reply's body that are looked at when it may be an error document.
pub const ERROR_BYTES_MAX: usize = 4096;

/// What holds for all attempts of a job, a stream, a listing or an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub struct Rules {
    /// Attempts that count.
    pub attempts_max: u32,
    /// Replies that throttle do not count for [`THROTTLE_FREE`](crate::limits::THROTTLE_FREE): the server asks for patience, not for fewer
    /// objects. To a check, a stream, a listing each is one attempt.
    pub is_patient: bool,
    /// Whether a request may be made again: not one that changes something on the server.
    pub may_repeat: bool,
    /// Redirects that are followed one after the other.
    pub redirects_max: u32,
    /// Bodies whose end nothing tells are taken as they come.
    pub allow_eof_bodies: bool,
    /// Bytes of a body.
    pub body_max: u64,
    /// A reply of whatever status goes to who asked, and so must be whole; a stream's program, for one.
    pub gives_every_reply: bool,
    /// What seems dead is looked at once more, later; in a check.
    pub has_second_look: bool,
    /// An object that its store has in an archive is left out; else it has failed.
    pub skips_archived: bool,
    /// Statuses that are retried as 503 is.
    pub retried: RetriedStatuses,
    /// Types that the body of an object may have.
    pub accepted: AcceptedTypes,
}

impl Default for Rules {
    /// For requests that are no targets: a redirect is not followed, and who asks counts attempts or time.
    fn default() -> Self {
        Rules {
            attempts_max: u32::MAX,
            is_patient: false,
            may_repeat: true,
            redirects_max: 0,
            allow_eof_bodies: false,
            body_max: u64::MAX,
            gives_every_reply: false,
            has_second_look: false,
            skips_archived: false,
            retried: RetriedStatuses::default(),
            accepted: AcceptedTypes::default(),
        }
    }
}

impl Rules {
    /// What a person should know of an outcome besides its kind: which bound it is above.
    pub fn detail_of(&self, outcome: Outcome) -> Option<String> {
        match outcome {
            Outcome::Failed(FailureKind::BodyTooLarge) => {
                Some(format!("above --max-size, {} bytes", self.body_max))
            }
            _ => None,
        }
    }
}

/// A complete reply.
#[derive(Debug, Default, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct ReplyFacts<'r> {
    /// Its status.
    pub status: u16,
    /// It had a field `Retry-After` that can be read.
    pub asks_to_wait: bool,
    /// Whose it is was certain when it came: it was the first on its connection, say.
    pub is_certain: bool,
    /// Its head told how long it is, or its framing where it ends.
    pub is_verified: bool,
    /// Bytes of the body.
    pub length: u64,
    /// As it was sent.
    pub etag: Option<&'r [u8]>,
    /// The body is not the object's own bytes but a form of them (`Content-Encoding`): its length says nothing of theirs.
    pub is_encoded: bool,
    /// What the source said of the object, if it did.
    pub listed: Option<ListedKey<'r>>,
    /// The part of the object that was asked for, if it was not all of it.
    pub part: Option<&'r ExpectedPart>,
    /// The request had `If-None-Match` or `If-Modified-Since`.
    pub is_conditional: bool,
    /// The rest of an object was asked for, and this is neither that nor all of the object.
    pub is_no_rest: bool,
    /// The request has shown a token that can be renewed.
    pub shows_token: bool,
    /// Of a store: what else it says.
    pub store: Option<StoreReply<'r>>,
}

/// No complete reply.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct BrokenFacts {
    /// What it is counted as.
    pub kind: FailureKind,
    /// The connection had brought a reply before.
    pub was_used: bool,
    /// Not a byte of a reply came.
    pub is_unanswered: bool,
    /// Requests of others are on the connection at the same time.
    pub is_shared: bool,
    /// The server wants the request over HTTP/1.1, and the next attempt makes it so.
    pub needs_http1: bool,
}

/// What is asked for at once when a large body broke off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakOff {
    /// The rest of it.
    Rest,
    /// All of it, on a fresh connection: whose the bytes are that came is not certain.
    Whole,
}

/// What follows.
#[derive(Debug)]
pub enum Verdict {
    /// The object has come.
    Store,
    /// There is no object, and this is the outcome; with what the store said of it.
    Settle(Outcome, Option<Box<str>>),
    /// Another attempt, after a delay; it has been counted.
    Retry(FailureKind),
    /// Another attempt at once, on a fresh connection; it does not count.
    Again,
    /// One more attempt after [`SECOND_LOOK_AFTER`](crate::limits::SECOND_LOOK_AFTER): a check found it dead.
    SecondLook(FailureKind),
    /// The object is where the reply says; whether it may be looked for there is decided by who follows.
    Redirect,
    /// Another attempt at once, when this is corrected; it does not count.
    Correct(Correction),
    /// No target of the job will fare better.
    Stop(Error),
}

/// What a store, or a server, has shown to be wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Correction {
    /// The store's clock says this, seconds since 1970.
    Clock(u64),
    /// The bucket is in this region.
    Region(String),
    /// The credentials have expired.
    Credentials,
}

/// What a store says beside status, length and `ETag`.
#[derive(Debug, Default, Clone, Copy)]
pub struct StoreReply<'r> {
    /// How the body begins: what may be an error document, up to [`ERROR_BYTES_MAX`].
    pub start: &'r [u8],
    /// The field `x-amz-bucket-region`.
    pub region: Option<&'r [u8]>,
    /// The field `Date`: the store's clock.
    pub date: Option<&'r [u8]>,
    /// For which region a request for the bucket itself was signed; none of one for an object.
    pub signed_for: Option<&'r str>,
    /// The reply had a field `Retry-After` that can be read.
    pub asks_to_wait: bool,
}

/// Whether a status says that the server does not know who asks (RFC 9110, 15.5.2).
pub fn is_unauthorized(status: u16) -> bool {
    status == 401
}

/// Whether a status says that the object is somewhere else.
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}
