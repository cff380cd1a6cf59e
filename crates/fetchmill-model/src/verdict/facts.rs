//! The result of an attempt, the circumstances of the attempt, and the next step, all as plain values.

use super::part::ExpectedPart;
use super::retried_statuses::RetriedStatuses;
use crate::error::Error;
use crate::outcome::{FailureKind, Outcome};
use crate::reply::body_type::AcceptedTypes;
use crate::target::source_metadata::ListedKey;

/// Number of bytes that are read from the body of a reply if the body may be an error document.
pub const ERROR_BYTES_MAX: usize = 4096;

/// Rules that apply to all attempts of a job, a stream, a listing or an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is an independent rule")]
pub struct Rules {
    /// Maximum number of counted attempts.
    pub attempts_max: u32,
    /// Whether throttling replies do not count as attempts during [`THROTTLE_FREE`](crate::limits::THROTTLE_FREE). With
    /// such a reply, the server asks for a pause but does not refuse the object. In a check, a stream and a listing,
    /// each of these replies counts.
    pub is_patient: bool,
    /// Whether a request may be repeated. A request that changes data on the server must not be repeated.
    pub may_repeat: bool,
    /// Maximum number of consecutive redirects that are followed.
    pub redirects_max: u32,
    /// Whether bodies are accepted even if nothing marks their end.
    pub allow_eof_bodies: bool,
    /// Maximum size of a body in bytes.
    pub body_max: u64,
    /// Whether the client, such as a program that uses a stream, receives replies with any status. Every reply must
    /// then be complete.
    pub gives_every_reply: bool,
    /// Whether a check tests a target again later if it seems dead.
    pub has_second_look: bool,
    /// Whether an object that the store has archived is skipped. Otherwise, it fails.
    pub skips_archived: bool,
    /// Statuses that are retried like 503.
    pub retried: RetriedStatuses,
    /// Accepted types of the bodies of objects.
    pub accepted: AcceptedTypes,
}

impl Default for Rules {
    /// Returns rules for requests that are not targets. Redirects are not followed, and the caller limits the attempts
    /// or the time.
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
    /// Returns the limit that an outcome exceeded, as a detail that people see in addition to the failure kind.
    pub fn detail_of(&self, outcome: Outcome) -> Option<String> {
        match outcome {
            Outcome::Failed(FailureKind::BodyTooLarge) => {
                Some(format!("above --max-size ({} bytes)", self.body_max))
            }
            _ => None,
        }
    }
}

/// Facts about a complete reply.
#[derive(Debug, Default, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is an independent fact")]
pub struct ReplyFacts<'r> {
    /// Status of the reply.
    pub status: u16,
    /// Whether the reply had a valid `Retry-After` field.
    pub asks_to_wait: bool,
    /// Whether, on arrival, the reply certainly belonged to this request. For example, the first reply on a connection
    /// always does.
    pub is_certain: bool,
    /// Whether the head stated the length, or the framing marked the end.
    pub is_verified: bool,
    /// Size of the body in bytes.
    pub length: u64,
    /// `ETag` field, as sent.
    pub etag: Option<&'r [u8]>,
    /// Whether the body is an encoded form of the object (`Content-Encoding`). If it is, the length of the body says
    /// nothing about the length of the object.
    pub is_encoded: bool,
    /// Facts that the source stated about the object, if any.
    pub listed: Option<ListedKey<'r>>,
    /// The requested part of the object. `None` if the whole object was requested.
    pub part: Option<&'r ExpectedPart>,
    /// Whether the request contained `If-None-Match` or `If-Modified-Since`.
    pub is_conditional: bool,
    /// Whether the remaining bytes of an object were requested, but the reply contains neither these bytes nor the
    /// whole object.
    pub is_no_rest: bool,
    /// Whether the request contained a token that can be renewed.
    pub shows_token: bool,
    /// Further facts about the reply, if it comes from a store.
    pub store: Option<StoreReply<'r>>,
}

/// Facts about a request that did not receive a complete reply.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is an independent fact")]
pub struct BrokenFacts {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Whether the connection had delivered another reply before.
    pub was_used: bool,
    /// Whether no byte of a reply was received.
    pub is_unanswered: bool,
    /// Whether the connection carried other requests at the same time.
    pub is_shared: bool,
    /// Whether the server requires HTTP/1.1 for the request. If so, the next attempt uses HTTP/1.1.
    pub needs_http1: bool,
}

/// The request that is sent immediately after a large body broke off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakOff {
    /// The request asks for the remaining bytes of the object.
    Rest,
    /// The request asks for the whole object on a new connection, because the received bytes may answer a different
    /// request.
    Whole,
}

/// The next step after an attempt.
#[derive(Debug)]
pub enum Verdict {
    /// Store the object.
    Store,
    /// There is no object to store. Contains the outcome and the store's message.
    Settle(Outcome, Option<Box<str>>),
    /// Try again after a delay. The attempt has been counted.
    Retry(FailureKind),
    /// Try again immediately on a new connection. The attempt does not count.
    Again,
    /// Try again after [`SECOND_LOOK_AFTER`](crate::limits::SECOND_LOOK_AFTER), because the target of a check seems
    /// dead.
    SecondLook(FailureKind),
    /// The object is at the URL in the reply. The code that follows redirects decides whether this URL may be
    /// requested.
    Redirect,
    /// Try again immediately, with this correction. The attempt does not count.
    Correct(Correction),
    /// Stop the job, because all other targets would also fail.
    Stop(Error),
}

/// A correction of a request, based on a problem that a store or a server has reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Correction {
    /// The clock of the store shows this time, in seconds since 1970.
    Clock(u64),
    /// The bucket is in this region.
    Region(String),
    /// The credentials have expired.
    Credentials,
}

/// Facts about a store's reply in addition to its status, length and `ETag`.
#[derive(Debug, Default, Clone, Copy)]
pub struct StoreReply<'r> {
    /// Beginning of the body, up to [`ERROR_BYTES_MAX`]. The body may be an error document.
    pub start: &'r [u8],
    /// The `x-amz-bucket-region` field.
    pub region: Option<&'r [u8]>,
    /// The `Date` field, which shows the store's clock.
    pub date: Option<&'r [u8]>,
    /// Region for which a request to the bucket itself was signed. `None` if the request was for an object.
    pub signed_for: Option<&'r str>,
    /// Whether the reply had a valid `Retry-After` field.
    pub asks_to_wait: bool,
}

/// Returns whether a status means that the client is not authenticated (RFC 9110, 15.5.2).
pub fn is_unauthorized(status: u16) -> bool {
    status == 401
}

/// Returns whether a status means that the object is at another URL.
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}
