//! What a store's reply for an object means: a complete reply is not always the object that was listed.

use crate::engine::worker::queue::Target;
use crate::entry::{Entry, Naming};
use crate::error::Error;
use crate::listed::ListedKey;
use crate::outcome::FailureKind;
use crate::s3::{BucketName, Fault, Meaning, split_url};

/// Bytes of a reply's body that are looked at when it may be an error document.
pub(in crate::engine) const FAULT_BYTES_MAX: usize = 4096;

/// A complete reply of a store.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct StoreReply<'r> {
    pub(in crate::engine) status: u16,
    /// How its body begins: what may be an error document, up to [`FAULT_BYTES_MAX`].
    pub(in crate::engine) start: &'r [u8],
    pub(in crate::engine) length: u64,
    /// As it was sent.
    pub(in crate::engine) etag: Option<&'r [u8]>,
    /// The field `x-amz-bucket-region`.
    pub(in crate::engine) region: Option<&'r [u8]>,
}

/// What is to be done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::engine) enum Judgement {
    /// As with any other server.
    AsItIs,
    /// It is not what was listed, or an error in the place of an object.
    Failed(FailureKind),
    /// Our clock is wrong by so much; the store's is this, seconds since 1970, if it says so.
    Skewed(Option<u64>),
    /// The credentials have expired.
    Expired,
    /// The bucket is in another region.
    Region(String),
    /// No request will ever succeed with these credentials: what the store says of them.
    NoCredentials(String),
}

impl StoreReply<'_> {
    /// Compares it with what the listing said of the object, if it said something.
    pub(in crate::engine) fn judge(&self, listed: Option<&ListedKey<'_>>) -> Judgement {
        if self.status >= 300 {
            return self.judge_fault();
        }
        let Some(ListedKey { size: Some(size), etag, .. }) = listed else { return Judgement::AsItIs };
        if self.length != *size && Fault::is_document(self.start) {
            return match Fault::read(self.start).map(|fault| fault.meaning(self.status)) {
                Some(Meaning::Throttled) => Judgement::Failed(FailureKind::Throttled),
                _ => Judgement::Failed(FailureKind::ServerError),
            };
        }
        if self.is_object(*size, etag) { Judgement::AsItIs } else { Judgement::Failed(FailureKind::Changed) }
    }

    /// Whether it brings the object that was listed, whoever sent it. An ETag that one of both has not is no difference.
    pub(in crate::engine) fn is_object(&self, size: u64, etag: &[u8]) -> bool {
        let is_same = |sent: &[u8]| without_quotes(sent) == without_quotes(etag);
        self.length == size && (etag.is_empty() || self.etag.is_none_or(is_same))
    }

    fn judge_fault(&self) -> Judgement {
        let Some(fault) = Fault::read(self.start) else { return Judgement::AsItIs };
        match fault.meaning(self.status) {
            Meaning::Skewed => Judgement::Skewed(fault.server_time),
            Meaning::Expired => Judgement::Expired,
            Meaning::BadCredentials => Judgement::NoCredentials(format!("{}: {}", fault.code, fault.message)),
            Meaning::WrongRegion => {
                let region =
                    self.region.map(|region| String::from_utf8_lossy(region).into_owned()).or(fault.region);
                region.map_or(Judgement::AsItIs, Judgement::Region)
            }
            Meaning::Throttled => Judgement::Failed(FailureKind::Throttled),
            Meaning::Transient => Judgement::Failed(FailureKind::ServerError),
            Meaning::Denied | Meaning::NoBucket | Meaning::NoKey | Meaning::Other => Judgement::AsItIs,
        }
    }
}

/// The bucket of a list's target; none for one that a bucket's own listing has brought.
pub(in crate::engine) fn bucket_of(target: &Target, naming: Naming) -> Option<BucketName> {
    let url = naming.has_url().then(|| Entry::read(&target.entry).url)?;
    let (bucket, _) = split_url(std::str::from_utf8(url).ok()?)?;
    BucketName::parse(bucket).ok()
}

/// What ends a job whose requests a store takes for nobody's.
pub(in crate::engine) fn no_credentials(why: &str) -> Error {
    Error::Temporary(format!(
        "the store refuses the credentials ({why}): give others (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, --profile) \
         and run the same command again"
    ))
}

fn without_quotes(etag: &[u8]) -> &[u8] {
    let etag = etag.strip_prefix(b"W/").unwrap_or(etag);
    etag.strip_prefix(b"\"").and_then(|inside| inside.strip_suffix(b"\"")).unwrap_or(etag)
}

/// The part of a head's bytes that has the value of `x-amz-bucket-region`.
pub(in crate::engine) fn region_in(head: &[u8]) -> Option<&[u8]> {
    let name = b"x-amz-bucket-region:";
    let line = head
        .split(|byte| *byte == b'\n')
        .find(|line| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)))?;
    Some(line[name.len()..].trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: &[u8] = b"<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>m</Message></Error>";
    const INTERNAL: &[u8] = b"<Error><Code>InternalError</Code><Message>m</Message></Error>";

    fn reply<'r>(status: u16, start: &'r [u8], etag: Option<&'r [u8]>) -> StoreReply<'r> {
        StoreReply { status, start, length: start.len() as u64, etag, region: None }
    }

    #[test]
    fn what_came_is_compared_with_what_was_listed() {
        let listed = |size, etag| ListedKey { key: b"k", size: Some(size), etag, modified: 0 };
        let changed = Judgement::Failed(FailureKind::Changed);
        for (start, etag, listed, expected) in [
            (&b"abc"[..], Some(&b"\"e\""[..]), listed(3, &b"e"[..]), Judgement::AsItIs),
            (b"abc", Some(b"W/\"e\""), listed(3, b"e"), Judgement::AsItIs),
            (b"abc", None, listed(3, b"e"), Judgement::AsItIs),
            (b"abc", Some(b"\"e\""), listed(3, b""), Judgement::AsItIs),
            (b"abc", Some(b"\"f\""), listed(3, b"e"), changed.clone()),
            (b"abcd", Some(b"\"e\""), listed(3, b"e"), changed.clone()),
            (SLOW, None, listed(3, b"e"), Judgement::Failed(FailureKind::Throttled)),
            (INTERNAL, None, listed(3, b"e"), Judgement::Failed(FailureKind::ServerError)),
            (INTERNAL, None, listed(INTERNAL.len() as u64, b""), Judgement::AsItIs),
        ] {
            assert_eq!(reply(200, start, etag).judge(Some(&listed)), expected, "{start:?} {etag:?}");
        }
        assert_eq!(reply(200, INTERNAL, None).judge(None), Judgement::AsItIs);
    }

    #[test]
    fn errors_say_what_to_do() {
        let skewed = b"<Error><Code>RequestTimeTooSkewed</Code><Message>m</Message><ServerTime>2026-11-20T21:08:00Z</ServerTime></Error>";
        assert!(matches!(reply(403, skewed, None).judge(None), Judgement::Skewed(Some(_))));
        let expired = b"<Error><Code>ExpiredToken</Code><Message>m</Message></Error>";
        assert_eq!(reply(400, expired, None).judge(None), Judgement::Expired);
        let denied = b"<Error><Code>AccessDenied</Code><Message>m</Message></Error>";
        assert_eq!(reply(403, denied, None).judge(None), Judgement::AsItIs);
        let wrong = b"<Error><Code>SignatureDoesNotMatch</Code><Message>m</Message></Error>";
        assert!(matches!(reply(403, wrong, None).judge(None), Judgement::NoCredentials(_)));
        assert_eq!(reply(503, b"<html>", None).judge(None), Judgement::AsItIs);
        let elsewhere = b"<Error><Code>PermanentRedirect</Code><Message>m</Message></Error>";
        let region = region_in(b"HTTP/1.1 301 Moved\r\nX-Amz-Bucket-Region: eu-west-1\r\n\r\n");
        let moved = StoreReply { region, ..reply(301, elsewhere, None) };
        assert_eq!(moved.judge(None), Judgement::Region("eu-west-1".into()));
    }
}
