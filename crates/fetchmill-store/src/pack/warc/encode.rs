//! Writes records.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha1::{Digest as _, Sha1};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use super::member::MemberWriter;
use super::message::{StoredHead, chunk_around, parse_head};
use super::{DigestText, RECORD_END, UNKNOWN_TYPE, VERSION, WarcOrigin, digest, digest_text};
use crate::pack::number::write_decimal;
use crate::pack::{Encoder, FileBody};
use fetchmill_model::http1::{HttpUrl, RequestTemplate};
use fetchmill_model::limits::BODY_MEMORY_BYTES_MAX;
use fetchmill_model::name;
use fetchmill_model::object::kept_reply::KeptReply;
use fetchmill_model::object::{Facts, Micros, Object, UnfetchedTarget};
use fetchmill_model::target::Sequence;
use fetchmill_model::text::dates;

const WARCINFO: &str = concat!(
    "software: fetchmill/",
    env!("CARGO_PKG_VERSION"),
    "\r\nformat: WARC File Format 1.1\r\n",
    "conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n"
);

/// Content type of request records.
const REQUEST_TYPE: &[u8] = b"application/http; msgtype=request";
const RESPONSE_TYPE: &[u8] = b"application/http; msgtype=response";
/// Profile of `revisit` records for unchanged objects (WARC 1.1, 6.7.3).
const NOT_MODIFIED: &[u8] = b"http://netpreserve.org/warc/1.1/revisit/server-not-modified";

/// A target whose replies are written: its sequence number, its name, and its URL if the two differ.
type RepliedTarget<'a> = (Sequence, &'a [u8], Option<&'a [u8]>);
/// Identifier of a record, without its brackets.
type Uuid = [u8; 36];

/// Last digit of an identifier. It distinguishes records with the same hash, such as a request and its reply.
/// Identifiers that differ only in this digit compress to a few bytes.
#[derive(Clone, Copy)]
enum RecordKind {
    Info,
    Resource,
    Request,
    Response,
    /// Request for a reply that arrived in place of an object.
    OtherRequest,
    OtherResponse,
}

/// Writes WARC records.
pub struct WarcEncoder {
    /// Template for requests, without secrets.
    template: RequestTemplate,
    uri_start: Vec<u8>,
    names_are_urls: bool,
    opened_at: Micros,
    key: u64,
    shards: u64,
    /// Seed of the hash. It gives objects from different origins different identifiers.
    seed: u64,
    members: MemberWriter,
    buffers: RecordBuffers,
}

/// Buffers for an object, which are reused for the next one.
#[derive(Default)]
struct RecordBuffers {
    date: Vec<u8>,
    uri: Vec<u8>,
    request: Vec<u8>,
    chunk: Vec<u8>,
    identity: Vec<u8>,
    record: Vec<u8>,
}

impl WarcEncoder {
    /// Creates an encoder for the objects of an origin. The first record of each shard contains the time, and `key`, a
    /// number that no other encoder of the job uses.
    pub fn new(origin: &WarcOrigin, opened_at: Micros, key: u64) -> Self {
        let mut uri_start = Vec::with_capacity(origin.uri_start.len());
        write_uri(origin.uri_start.as_bytes(), &mut uri_start);
        let members = MemberWriter::new(&beginnings(&uri_start, origin.names_are_urls));
        WarcEncoder {
            template: origin.template.without_secrets(),
            seed: xxh3_64(&uri_start),
            uri_start,
            names_are_urls: origin.names_are_urls,
            opened_at,
            key,
            shards: 0,
            members,
            buffers: RecordBuffers::default(),
        }
    }

    /// Returns the hash that the identifiers of an object are made from.
    fn hash(&mut self, object: &Object<'_>) -> u128 {
        let identity = &mut self.buffers.identity;
        identity.clear();
        identity.extend_from_slice(&object.sequence.to_le_bytes());
        identity.extend_from_slice(&object.facts.fetched_at.to_le_bytes());
        identity.extend_from_slice(&object.crc32c.to_le_bytes());
        identity.extend_from_slice(object.name);
        identity.extend_from_slice(object.facts.url.unwrap_or_default());
        xxh3_128_with_seed(identity, self.seed)
    }

    /// Appends the replies that arrived in place of an object, each with its request.
    pub fn encode_unfetched(&mut self, target: &UnfetchedTarget<'_>, out: &mut Vec<u8>) {
        self.replies((target.sequence, target.name, target.url), target.replies, out);
    }

    fn replies(&mut self, target: RepliedTarget<'_>, replies: Option<&[u8]>, out: &mut Vec<u8>) {
        for reply in KeptReply::all(replies.unwrap_or_default()) {
            self.reply(target, &reply, out);
        }
    }

    fn reply(&mut self, (sequence, name, url): RepliedTarget<'_>, reply: &KeptReply<'_>, out: &mut Vec<u8>) {
        let Some((head, length)) = parse_head(reply.head) else { return };
        if length != reply.head.len() {
            return;
        }
        let object = Object {
            sequence,
            name,
            body: reply.body,
            crc32c: crc32c::crc32c(reply.body),
            facts: Facts { url: reply.url.or(url), fetched_at: reply.fetched_at, ..Facts::default() },
        };
        self.buffers.set_date(reply.fetched_at);
        self.write_uri_of(&object);
        let hash = self.hash(&object);
        let (request, response) =
            (uuid(hash, RecordKind::OtherRequest), uuid(hash, RecordKind::OtherResponse));
        self.request(&object, &request, &response, out);
        let is_unchanged = head.status == 304;
        self.buffers.open(if is_unchanged { "revisit" } else { "response" }, RESPONSE_TYPE, &response);
        let RecordBuffers { record, chunk, uri, .. } = &mut self.buffers;
        if is_unchanged {
            write_field("WARC-Profile", &[NOT_MODIFIED], record);
            write_field("WARC-Refers-To-Target-URI", &[uri], record);
        }
        write_field("Fetchmill-Sequence", &[sequence.to_string().as_bytes()], record);
        if reply.is_cut {
            write_field("WARC-Truncated", &[b"length"], record);
        }
        let (start, end): (&[u8], &[u8]) =
            if head.is_chunked { chunk_around(reply.body.len() as u64, chunk) } else { (b"", b"") };
        close(&[reply.head, start, reply.body, end], Some(1), record);
        self.pack(out);
    }

    fn request(&mut self, object: &Object<'_>, id: &Uuid, response: &Uuid, out: &mut Vec<u8>) {
        self.write_request(object);
        self.buffers.open("request", REQUEST_TYPE, id);
        let RecordBuffers { record, request, .. } = &mut self.buffers;
        write_field("WARC-Concurrent-To", &[b"<urn:uuid:", response, b">"], record);
        close(&[request], None, record);
        self.pack(out);
    }

    fn response(&mut self, object: &Object<'_>, id: &Uuid, reply: &StoredHead<'_>, out: &mut Vec<u8>) {
        self.buffers.open("response", RESPONSE_TYPE, id);
        let RecordBuffers { record, chunk, .. } = &mut self.buffers;
        write_object_fields(object, record);
        let (start, end): (&[u8], &[u8]) =
            if reply.is_chunked { chunk_around(object.body.len() as u64, chunk) } else { (b"", b"") };
        let head = object.facts.head.unwrap_or_default();
        close(&[head, start, object.body, end], Some(1), record);
        self.pack(out);
    }

    fn resource(&mut self, object: &Object<'_>, out: &mut Vec<u8>) {
        self.open_resource(object);
        close(&[object.body], Some(0), &mut self.buffers.record);
        self.pack(out);
    }

    fn open_resource(&mut self, object: &Object<'_>) {
        let id = uuid(self.hash(object), RecordKind::Resource);
        let content_type = object.facts.content_type.unwrap_or(UNKNOWN_TYPE).trim_ascii();
        self.buffers.open("resource", content_type, &id);
        write_object_fields(object, &mut self.buffers.record);
    }

    /// Returns the identifiers of an object's request and response records, and the parsed head of the reply. `None` if
    /// the head is unknown.
    fn exchange<'o>(&mut self, object: &Object<'o>) -> Option<(Uuid, Uuid, StoredHead<'o>)> {
        let head = object.facts.head.unwrap_or_default();
        let (reply, _) = parse_head(head).filter(|(_, length)| *length == head.len())?;
        let hash = self.hash(object);
        Some((uuid(hash, RecordKind::Request), uuid(hash, RecordKind::Response), reply))
    }

    /// Completes the open record with this block and writes it as a gzip member. The body is never in memory as a
    /// whole.
    fn close_with_file(&mut self, block: &FileBlock<'_>, out: &mut dyn Write) -> io::Result<()> {
        let record = &mut self.buffers.record;
        let (whole, payload) = block.digests()?;
        write_digests(&whole, Some(&payload), block.length(), record);
        let mut member = GzEncoder::new(out, Compression::fast());
        member.write_all(record)?;
        record.clear();
        block.for_each(|piece| member.write_all(piece))?;
        member.write_all(RECORD_END)?;
        member.finish().map(drop)
    }

    /// Returns the object's own URL. `None` if the object is requested from the origin by its name.
    fn own_url<'o>(&self, object: &Object<'o>) -> Option<HttpUrl<'o>> {
        let named = self.names_are_urls.then_some(object.name);
        HttpUrl::parse(object.facts.url.or(named)?)
    }

    fn write_request(&mut self, object: &Object<'_>) {
        let own = self.own_url(object);
        let request = &mut self.buffers.request;
        request.clear();
        match own {
            Some(url) => self.template.write_url(&url, request),
            None => self.template.write(object.name, request),
        }
    }

    fn write_uri_of(&mut self, object: &Object<'_>) {
        let own = self.own_url(object);
        let uri = &mut self.buffers.uri;
        uri.clear();
        if let Some(url) = own {
            return write_uri(url.whole, uri);
        }
        uri.extend_from_slice(&self.uri_start);
        self.template.write_target(object.name, uri);
    }

    /// Appends the record as a gzip member.
    fn pack(&mut self, out: &mut Vec<u8>) {
        let record = &mut self.buffers.record;
        self.members.write(record, out);
        record.clear();
        // Do not keep the memory of a large object for the whole job.
        record.shrink_to(BODY_MEMORY_BYTES_MAX);
    }
}

impl Encoder for WarcEncoder {
    fn start(&mut self, out: &mut Vec<u8>) {
        let identity = [self.opened_at.to_le_bytes(), self.key.to_le_bytes(), self.shards.to_le_bytes()];
        let id = uuid(xxh3_128_with_seed(&identity.concat(), self.seed), RecordKind::Info);
        self.shards += 1;
        self.buffers.uri.clear();
        self.buffers.set_date(self.opened_at);
        self.buffers.open("warcinfo", b"application/warc-fields", &id);
        let record = &mut self.buffers.record;
        close(&[WARCINFO.as_bytes()], None, record);
        self.pack(out);
    }

    fn encode(&mut self, object: &Object<'_>, out: &mut Vec<u8>) {
        self.buffers.set_date(object.facts.fetched_at);
        self.write_uri_of(object);
        match self.exchange(object) {
            Some((request, response, reply)) => {
                self.request(object, &request, &response, out);
                self.response(object, &response, &reply, out);
            }
            None => self.resource(object, out),
        }
        self.replies((object.sequence, object.name, object.facts.url), object.facts.replies, out);
    }

    fn encode_file(&mut self, object: &Object<'_>, body: &FileBody, out: &mut dyn Write) -> io::Result<()> {
        self.buffers.set_date(object.facts.fetched_at);
        self.write_uri_of(object);
        let mut small = Vec::new();
        let mut chunk = Vec::new();
        let mut block = FileBlock { head: b"", start: b"", body, end: b"" };
        match self.exchange(object) {
            Some((request, response, reply)) => {
                self.request(object, &request, &response, &mut small);
                out.write_all(&small)?;
                self.buffers.open("response", RESPONSE_TYPE, &response);
                write_object_fields(object, &mut self.buffers.record);
                block.head = object.facts.head.unwrap_or_default();
                if reply.is_chunked {
                    (block.start, block.end) = chunk_around(body.length(), &mut chunk);
                }
            }
            None => self.open_resource(object),
        }
        self.close_with_file(&block, out)?;
        small.clear();
        self.replies((object.sequence, object.name, object.facts.url), object.facts.replies, &mut small);
        out.write_all(&small)
    }

    fn finish(&mut self, _: &mut Vec<u8>) {}
}

impl std::fmt::Debug for WarcEncoder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("WarcEncoder")
            .field("template", &self.template)
            .field("uri_start", &String::from_utf8_lossy(&self.uri_start))
            .finish_non_exhaustive()
    }
}

impl RecordBuffers {
    fn set_date(&mut self, at: Micros) {
        self.date.clear();
        dates::write_utc_micros(at, &mut self.date);
    }

    /// Starts a record with the fields that all records have.
    fn open(&mut self, kind: &str, content_type: &[u8], id: &Uuid) {
        let record = &mut self.record;
        record.clear();
        write_beginning(kind, content_type, &self.uri, record);
        if !self.uri.is_empty() {
            record.extend_from_slice(b"\r\n");
        }
        write_field("WARC-Record-ID", &[b"<urn:uuid:", id, b">"], record);
        write_field("WARC-Date", &[&self.date], record);
    }
}

/// Returns the texts with which nearly all request and reply records of objects start. If targets have their own URLs,
/// these texts are shorter.
pub(super) fn beginnings(uri_start: &[u8], names_are_urls: bool) -> [Vec<u8>; 2] {
    let known = if names_are_urls { b"http" } else { uri_start };
    [("request", REQUEST_TYPE), ("response", RESPONSE_TYPE)].map(|(kind, content_type)| {
        let mut beginning = Vec::new();
        write_beginning(kind, content_type, known, &mut beginning);
        beginning
    })
}

/// Appends the start of a record up to the end of its URI. Many records share this text, which makes them faster to
/// compress.
fn write_beginning(kind: &str, content_type: &[u8], uri: &[u8], record: &mut Vec<u8>) {
    record.extend_from_slice(VERSION);
    write_field("WARC-Type", &[kind.as_bytes()], record);
    record.extend_from_slice(b"Content-Type: ");
    write_value(content_type, record);
    record.extend_from_slice(b"\r\n");
    if !uri.is_empty() {
        record.extend_from_slice(b"WARC-Target-URI: ");
        record.extend_from_slice(uri);
    }
}

/// Ends the fields of a record.
fn write_digests(block: &DigestText, payload: Option<&DigestText>, length: u64, record: &mut Vec<u8>) {
    write_field("WARC-Block-Digest", &[block], record);
    if let Some(payload) = payload {
        write_field("WARC-Payload-Digest", &[payload], record);
    }
    record.extend_from_slice(b"Content-Length: ");
    write_decimal(length, record);
    record.extend_from_slice(b"\r\n\r\n");
}

/// Block of a record whose body is in a file. The payload is everything after the head.
struct FileBlock<'a> {
    head: &'a [u8],
    /// Bytes before the body. Not empty if the head announces chunks.
    start: &'a [u8],
    body: &'a FileBody,
    end: &'a [u8],
}

impl FileBlock<'_> {
    fn length(&self) -> u64 {
        (self.head.len() + self.start.len() + self.end.len()) as u64 + self.body.length()
    }

    fn for_each(&self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        each(self.head)?;
        each(self.start)?;
        self.body.for_each(&mut each)?;
        each(self.end)
    }

    /// Returns the digests of the block and the payload.
    fn digests(&self) -> io::Result<(DigestText, DigestText)> {
        let (mut whole, mut payload) = (Sha1::new(), Sha1::new());
        whole.update(self.head);
        whole.update(self.start);
        payload.update(self.start);
        self.body.for_each(|piece| {
            whole.update(piece);
            payload.update(piece);
            Ok(())
        })?;
        whole.update(self.end);
        payload.update(self.end);
        Ok((digest_text(whole), digest_text(payload)))
    }
}

/// Completes the fields of a record and appends its block. The payload starts with the part whose index is `payload`.
fn close(block: &[&[u8]], payload: Option<usize>, record: &mut Vec<u8>) {
    let payload = payload.map(|from| digest(&block[from..]));
    let length = block.iter().map(|part| part.len() as u64).sum();
    write_digests(&digest(block), payload.as_ref(), length, record);
    for part in block {
        record.extend_from_slice(part);
    }
    record.extend_from_slice(RECORD_END);
}

fn write_object_fields(object: &Object<'_>, record: &mut Vec<u8>) {
    record.extend_from_slice(b"Fetchmill-Sequence: ");
    write_decimal(object.sequence, record);
    record.extend_from_slice(b"\r\nFetchmill-Name: ");
    name::encode(object.name, record);
    record.extend_from_slice(b"\r\n");
    if let Some(url) = object.facts.url {
        record.extend_from_slice(b"Fetchmill-Url: ");
        name::encode(url, record);
        record.extend_from_slice(b"\r\n");
    }
}

/// Writes a field whose value consists of trusted parts.
fn write_field(name: &str, value: &[&[u8]], record: &mut Vec<u8>) {
    record.extend_from_slice(name.as_bytes());
    record.extend_from_slice(b": ");
    for part in value {
        record.extend_from_slice(part);
    }
    record.extend_from_slice(b"\r\n");
}

/// Writes an untrusted value. Everything except printable ASCII is escaped.
fn write_value(value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        match byte {
            b' '..=b'~' => out.push(*byte),
            _ => out.extend_from_slice(&name::escaped(*byte)),
        }
    }
}

/// Writes an untrusted URI. Spaces are escaped as well.
fn write_uri(uri: &[u8], out: &mut Vec<u8>) {
    for byte in uri {
        match byte {
            b'!'..=b'~' => out.push(*byte),
            _ => out.extend_from_slice(&name::escaped(*byte)),
        }
    }
}

/// Returns a hash as a UUID of version 8 (RFC 9562, section 5.8).
fn uuid(hash: u128, kind: RecordKind) -> Uuid {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut bytes = hash.to_be_bytes();
    bytes[6] = 0x80 | bytes[6] & 0x0f;
    bytes[8] = 0x80 | bytes[8] & 0x3f;
    bytes[15] = bytes[15] & 0xf0 | kind as u8;
    let mut text = [b'-'; 36];
    let mut position = 0;
    for byte in bytes {
        if matches!(position, 8 | 13 | 18 | 23) {
            position += 1;
        }
        text[position] = DIGITS[usize::from(byte >> 4)];
        text[position + 1] = DIGITS[usize::from(byte & 15)];
        position += 2;
    }
    text
}
