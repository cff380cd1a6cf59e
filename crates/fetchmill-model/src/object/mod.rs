//! A fetched object as a pack stores it and gives it back.

pub mod kept_reply;

use crate::target::Sequence;

/// Microseconds since 1970 UTC.
pub type Micros = u64;
/// Seconds since 1970 UTC.
pub type Seconds = u64;

/// What is known of an object besides its bytes. What a format does not store is unknown when it is read back.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Facts<'a> {
    /// The reply's status; 0: unknown.
    pub status: u16,
    /// Attempts that were made; 0: unknown.
    pub attempts: u32,
    /// When the reply was complete; 0: unknown.
    pub fetched_at: Micros,
    /// The field `Content-Type`, as it was sent.
    pub content_type: Option<&'a [u8]>,
    /// The field `Content-Encoding`, as it was sent, when the body is stored so: nobody asked for that.
    pub content_encoding: Option<&'a [u8]>,
    /// The field `ETag`, as it was sent.
    pub etag: Option<&'a [u8]>,
    /// The field `Last-Modified` when it is a date.
    pub last_modified: Option<Seconds>,
    /// Status line and fields as they were sent, the empty line included; kept for sinks that ask for it.
    pub head: Option<&'a [u8]>,
    /// The URL it was asked for or, after redirects, the one that answered, when that is not its name.
    pub url: Option<&'a [u8]>,
    /// Values of the kept columns, see [`crate::target::extra_columns::extra_values`].
    pub kept: Option<&'a [u8]>,
    /// As its list has it ([`crate::target::entry::ListEntry`]), for a target that is asked with no plain `GET` and may still fail: its
    /// row of failures needs that. No format stores it.
    pub entry: Option<&'a [u8]>,
    /// The name that it is listed under, when it is stored under another one and may still fail. No format stores it.
    pub listed: Option<&'a [u8]>,
    /// The redirects that led to it ([`crate::object::kept_reply`]), for WARC.
    pub replies: Option<&'a [u8]>,
}

/// An object on its way into a pack, or out of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object<'a> {
    /// Which target of the job it was.
    pub sequence: Sequence,
    /// Its name: any bytes.
    pub name: &'a [u8],
    /// Its bytes.
    pub body: &'a [u8],
    /// CRC-32C of the body.
    pub crc32c: u32,
    /// What else is known.
    pub facts: Facts<'a>,
}

/// A target of which no object is stored, as a row of its own: it says why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnfetchedTarget<'a> {
    /// Which target of the job it is.
    pub sequence: Sequence,
    /// Its name: any bytes.
    pub name: &'a [u8],
    /// `absent`, `failed` or `skipped`.
    pub outcome: &'a str,
    /// The failure kind, of a failed one.
    pub kind: Option<&'a str>,
    /// What went wrong, for people.
    pub detail: Option<&'a str>,
    /// The status of the last reply; 0: there was none.
    pub status: u16,
    /// Attempts that were made.
    pub attempts: u32,
    /// See [`Facts::url`].
    pub url: Option<&'a [u8]>,
    /// See [`Facts::kept`].
    pub kept: Option<&'a [u8]>,
    /// What came in place of an object ([`crate::object::kept_reply`]), for WARC.
    pub replies: Option<&'a [u8]>,
}

/// An object that owns its bytes: what a record gives back.
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
    /// As it goes into a pack, under a sequence number.
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
