//! Reads records back.

use super::member_reader::unpack;
use super::message::{parse_head, unchunked};
use super::{RECORD_END, UNKNOWN_TYPE, VERSION, digest};
use crate::pack::number::parse_decimal;
use crate::pack::{Damage, Decoder};
use fetchmill_model::name;
use fetchmill_model::object::{Micros, StoredObject};
use fetchmill_model::reply::content_encoding::is_identity;
use fetchmill_model::text::dates;

/// Maximum number of fields in a record. The encoder writes twelve at most.
const FIELDS_MAX: usize = 16;

/// Reads an object that [`super::WarcEncoder`] wrote: one or two members, followed by two for each redirect that led to
/// the object.
#[derive(Debug, Default, Clone, Copy)]
pub struct WarcDecoder;

impl Decoder for WarcDecoder {
    fn decode(&self, record: &[u8]) -> Result<StoredObject, Damage> {
        let (first, behind) = unpack(record)?;
        let first = WarcRecord::of(&first)?;
        if first.kind == b"resource" {
            check_redirects(behind)?;
            return first.resource();
        }
        if first.kind != b"request" {
            return Err(Damage("the first member is neither a resource nor a request"));
        }
        let (second, behind) = unpack(behind)?;
        check_redirects(behind)?;
        WarcRecord::of(&second)?.response()
    }
}

/// Checks the members after an object. They must be pairs of records for the redirects that led to the object, if any.
fn check_redirects(members: &[u8]) -> Result<(), Damage> {
    let mut rest = members;
    while !rest.is_empty() {
        for kind in [&b"request"[..], b"response"] {
            let (member, behind) = unpack(rest)?;
            let record = WarcRecord::of(&member)?;
            if record.kind != kind || record.name.is_some() {
                return Err(Damage(
                    "the records after the object are not the request and reply of a redirect",
                ));
            }
            rest = behind;
        }
    }
    Ok(())
}

/// The fields of a record that the decoder uses.
pub(super) struct WarcRecord<'a> {
    pub(super) kind: &'a [u8],
    name: Option<&'a [u8]>,
    pub(super) target_uri: Option<&'a [u8]>,
    block_digest: Option<&'a [u8]>,
    pub(super) payload_digest: Option<&'a [u8]>,
    url: Option<&'a [u8]>,
    pub(super) content_type: Option<&'a [u8]>,
    pub(super) fetched_at: Micros,
    pub(super) block: &'a [u8],
}

impl<'a> WarcRecord<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Result<Self, Damage> {
        let record = Self::without_digest(bytes)?;
        if record.block_digest != Some(&digest(&[record.block])) {
            return Err(Damage("the block's digest is wrong"));
        }
        Ok(record)
    }

    /// Parses a record whose bytes have already been verified with another checksum.
    pub(super) fn without_digest(bytes: &'a [u8]) -> Result<Self, Damage> {
        const DAMAGE: Damage = Damage("the record's fields are malformed");
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let bytes = bytes.strip_prefix(VERSION).ok_or(Damage("the record is not WARC/1.1"))?;
        let Ok(httparse::Status::Complete((start, fields))) = httparse::parse_headers(bytes, &mut fields)
        else {
            return Err(DAMAGE);
        };
        let block = bytes.get(start..).and_then(|block| block.strip_suffix(RECORD_END));
        let block = block.ok_or(Damage("the end of the record is missing"))?;
        let field = |name| only(fields, name);
        if field("Content-Length")?.and_then(parse_decimal) != Some(block.len() as u64) {
            return Err(Damage("the record's length is wrong"));
        }
        Ok(WarcRecord {
            block_digest: field("WARC-Block-Digest")?,
            kind: field("WARC-Type")?.ok_or(DAMAGE)?,
            name: field("Fetchmill-Name")?,
            target_uri: field("WARC-Target-URI")?,
            payload_digest: field("WARC-Payload-Digest")?,
            url: field("Fetchmill-Url")?,
            content_type: field("Content-Type")?,
            fetched_at: field("WARC-Date")?.and_then(dates::parse_utc_micros).ok_or(DAMAGE)?,
            block,
        })
    }

    fn name(&self) -> Result<Vec<u8>, Damage> {
        self.name.and_then(name::decode).ok_or(Damage("the record has no object name"))
    }

    fn url(&self) -> Result<Option<Vec<u8>>, Damage> {
        let decoded = |url| name::decode(url).ok_or(Damage("the record's own URL is malformed"));
        self.url.map(decoded).transpose()
    }

    fn resource(&self) -> Result<StoredObject, Damage> {
        if self.kind != b"resource" {
            return Err(Damage("the only member is not a resource"));
        }
        Ok(StoredObject {
            name: self.name()?,
            url: self.url()?,
            body: self.block.to_vec(),
            fetched_at: self.fetched_at,
            content_type: self.content_type.filter(|kind| *kind != UNKNOWN_TYPE).map(<[u8]>::to_vec),
            ..StoredObject::default()
        })
    }

    fn response(&self) -> Result<StoredObject, Damage> {
        if self.kind != b"response" {
            return Err(Damage("the second member is not a response"));
        }
        let (reply, length) = parse_head(self.block).ok_or(Damage("the response has no head"))?;
        let (head, payload) = self.block.split_at(length);
        let body = if reply.is_chunked { unchunked(payload) } else { Some(payload) };
        Ok(StoredObject {
            name: self.name()?,
            body: body.ok_or(Damage("the response's chunks are malformed"))?.to_vec(),
            status: reply.status,
            attempts: 0,
            fetched_at: self.fetched_at,
            content_type: reply.content_type.map(<[u8]>::to_vec),
            content_encoding: reply.content_encoding.filter(|name| !is_identity(name)).map(<[u8]>::to_vec),
            etag: reply.etag.map(<[u8]>::to_vec),
            last_modified: reply.last_modified,
            head: Some(head.to_vec()),
            url: self.url()?,
            kept: None,
        })
    }
}

/// Returns the value of a field that may occur only once.
fn only<'a>(fields: &[httparse::Header<'a>], name: &str) -> Result<Option<&'a [u8]>, Damage> {
    let mut values = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
    let value = values.next().map(|field| field.value);
    if values.next().is_some() {
        return Err(Damage("the record has a duplicate field"));
    }
    Ok(value)
}
