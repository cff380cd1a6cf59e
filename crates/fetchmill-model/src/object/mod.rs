//! A fetched object in the form in which sinks store it and readers return it.

pub mod kept_reply;

use crate::target::Sequence;

/// Microseconds since 1970 UTC.
pub type Micros = u64;
/// Seconds since 1970 UTC.
pub type Seconds = u64;

/// Facts about an object in addition to its bytes. If a format does not store a fact, the fact is unknown when the
/// object is read back.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Facts<'a> {
    /// Status of the reply. 0 if unknown.
    pub status: u16,
    /// Number of attempts. 0 if unknown.
    pub attempts: u32,
    /// Time when the reply was complete. 0 if unknown.
    pub fetched_at: Micros,
    /// The `Content-Type` field, as sent.
    pub content_type: Option<&'a [u8]>,
    /// The `Content-Encoding` field, as sent, if the body is stored in an encoding that was not requested.
    pub content_encoding: Option<&'a [u8]>,
    /// The `ETag` field, as sent.
    pub etag: Option<&'a [u8]>,
    /// The `Last-Modified` field, if it is a date.
    pub last_modified: Option<Seconds>,
    /// Status line and fields as sent, including the empty line. Kept only for sinks that need them.
    pub head: Option<&'a [u8]>,
    /// Requested URL, or the final URL after redirects. Set if it differs from the object's name.
    pub url: Option<&'a [u8]>,
    /// Values of the kept columns: see [`crate::target::extra_columns::extra_values`].
    pub kept: Option<&'a [u8]>,
    /// The list entry ([`crate::target::entry::ListEntry`]), in case a failure row is needed. It is set if the request
    /// is not a plain `GET` and the target can still fail. No format stores it.
    pub entry: Option<&'a [u8]>,
    /// The listed name, if the object is stored under a different name and can still fail. No format stores it.
    pub listed: Option<&'a [u8]>,
    /// The redirects before the object ([`crate::object::kept_reply`]), for WARC.
    pub replies: Option<&'a [u8]>,
}

/// An object that is written to a shard or read from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object<'a> {
    /// Sequence number of the target in the job.
    pub sequence: Sequence,
    /// Name of the object, which can contain any bytes.
    pub name: &'a [u8],
    /// Body of the object.
    pub body: &'a [u8],
    /// CRC-32C of the body.
    pub crc32c: u32,
    /// Other facts.
    pub facts: Facts<'a>,
}

/// A target without a stored object. The target's row explains why there is no object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnfetchedTarget<'a> {
    /// Sequence number of the target in the job.
    pub sequence: Sequence,
    /// Name of the target, which can contain any bytes.
    pub name: &'a [u8],
    /// `absent`, `failed` or `skipped`.
    pub outcome: &'a str,
    /// Failure kind of a failed target.
    pub kind: Option<&'a str>,
    /// Description of the problem.
    pub detail: Option<&'a str>,
    /// Status of the last reply. 0 if there was none.
    pub status: u16,
    /// Number of attempts.
    pub attempts: u32,
    /// See [`Facts::url`].
    pub url: Option<&'a [u8]>,
    /// See [`Facts::kept`].
    pub kept: Option<&'a [u8]>,
    /// Replies received in place of an object ([`crate::object::kept_reply`]), for WARC.
    pub replies: Option<&'a [u8]>,
}

/// An object that owns its bytes, as returned from a record.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// See [`Object::name`].
    pub name: Vec<u8>,
    /// See [`Object::body`].
    pub body: Vec<u8>,
    /// See [`Facts::status`].
    pub status: u16,
    /// See [`Facts::attempts`].
    pub attempts: u32,
    /// See [`Facts::fetched_at`].
    pub fetched_at: Micros,
    /// See [`Facts::content_type`].
    pub content_type: Option<Vec<u8>>,
    /// See [`Facts::content_encoding`].
    pub content_encoding: Option<Vec<u8>>,
    /// See [`Facts::etag`].
    pub etag: Option<Vec<u8>>,
    /// See [`Facts::last_modified`].
    pub last_modified: Option<Seconds>,
    /// See [`Facts::head`].
    pub head: Option<Vec<u8>>,
    /// See [`Facts::url`].
    pub url: Option<Vec<u8>>,
    /// See [`Facts::kept`].
    pub kept: Option<Vec<u8>>,
}

impl StoredObject {
    /// Returns the object in the form that sinks accept, with this sequence number.
    pub fn as_object(&self, sequence: Sequence) -> Object<'_> {
        Object {
            sequence,
            name: &self.name,
            body: &self.body,
            crc32c: crc32c::crc32c(&self.body),
            facts: Facts {
                status: self.status,
                attempts: self.attempts,
                fetched_at: self.fetched_at,
                content_type: self.content_type.as_deref(),
                content_encoding: self.content_encoding.as_deref(),
                etag: self.etag.as_deref(),
                last_modified: self.last_modified,
                head: self.head.as_deref(),
                url: self.url.as_deref(),
                kept: self.kept.as_deref(),
                entry: None,
                listed: None,
                replies: None,
            },
        }
    }
}
