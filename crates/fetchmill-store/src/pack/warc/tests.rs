//! Tests that other readers understand the records, and that the decoder restores the objects.

use std::io::Write as _;

use proptest::prelude::*;

use super::*;
use crate::pack::{Damage, Decoder as _, Encoder as _};
use fetchmill_model::object::kept_reply::KeptReply;
use fetchmill_model::object::{Facts, Object, StoredObject, UnfetchedTarget};

const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nETag: \"x\"\r\nLast-Modified: Sun, 06 Nov 1994 \
                      08:49:37 GMT\r\nX-Odd:  \xe9 \r\nContent-Length: 5\r\n\r\n";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn encoder() -> WarcEncoder {
    let secrets = [("Authorization", "Bearer canary"), ("Accept", "plain")];
    let template = RequestTemplate::new("example.org:8080", "/files/", "?v=1", &secrets).unwrap();
    let origin = WarcOrigin { template, uri_start: "http://example.org:8080".into(), names_are_urls: false };
    WarcEncoder::new(&origin, 1_795_208_880_123_456, 7)
}

fn object<'a>(name: &'a [u8], body: &'a [u8], head: Option<&'a [u8]>) -> Object<'a> {
    let facts = Facts { fetched_at: 1_795_208_880_123_456, head, ..Facts::default() };
    Object { sequence: 12, name, body, crc32c: crc32c::crc32c(body), facts }
}

fn record(object: &Object<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encoder().encode(object, &mut out);
    out
}

/// Returns the contents of the members.
fn members(mut packed: &[u8]) -> Vec<Vec<u8>> {
    let mut members = Vec::new();
    while !packed.is_empty() {
        let mut content = vec![0; 100_000];
        let length = libdeflater::Decompressor::new().gzip_decompress(packed, &mut content).unwrap();
        content.truncate(length);
        // Each member after the first starts after the footer of the previous one.
        let footer = [libdeflater::crc32(&content).to_le_bytes(), (length as u32).to_le_bytes()].concat();
        packed = &packed[memchr::memmem::find(packed, &footer).unwrap() + 8..];
        members.push(content);
    }
    members
}

fn texts(packed: &[u8]) -> Vec<String> {
    members(packed).iter().map(|member| String::from_utf8_lossy(member).into_owned()).collect()
}

/// Returns a field of a record.
fn field<'a>(record: &'a str, name: &str) -> Option<&'a str> {
    let head = record.split("\r\n\r\n").next()?;
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn pack_text(text: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::default();
    let mut out = vec![0; compressor.gzip_compress_bound(text.len())];
    let length = compressor.gzip_compress(text, &mut out).unwrap();
    out.truncate(length);
    out
}

#[test]
fn an_object_is_a_request_and_a_response() {
    let packed = record(&object(b"a b/..", b"hello", Some(HEAD)));

    let [request, response]: [String; 2] = texts(&packed).try_into().unwrap();
    let id = field(&response, "WARC-Record-ID").unwrap();
    assert_eq!(id.len(), "<urn:uuid:>".len() + 36);
    assert_eq!((&id[24..25], &id[10 + 14..10 + 15]), ("8", "8"));
    assert_eq!(field(&request, "WARC-Type"), Some("request"));
    assert_eq!(field(&response, "WARC-Type"), Some("response"));
    assert_eq!(field(&request, "WARC-Concurrent-To"), Some(id));
    // Only the last digits of the identifiers differ.
    let of_request = field(&request, "WARC-Record-ID").unwrap();
    assert_ne!(of_request, id);
    assert_eq!(of_request[..of_request.len() - 2], id[..id.len() - 2]);
    for record in [&request, &response] {
        assert!(record.starts_with("WARC/1.1\r\n"));
        assert_eq!(field(record, "WARC-Date"), Some("2026-11-20T21:08:00.123456Z"));
        let uri = "http://example.org:8080/files/a%20b/%2E%2E?v=1";
        assert_eq!(field(record, "WARC-Target-URI"), Some(uri));
        assert!(record.ends_with("\r\n\r\n"));
    }
    assert!(request.contains("\r\n\r\nGET /files/a%20b/%2E%2E?v=1 HTTP/1.1\r\nHost: example.org:8080\r\n"));
    assert_eq!(field(&response, "Fetchmill-Sequence"), Some("12"));
    assert_eq!(field(&response, "Fetchmill-Name"), Some("a%20b/%2E%2E"));
    let message = [HEAD, b"hello\r\n\r\n"].concat();
    assert!(members(&packed)[1].ends_with(&[b"\r\n\r\n", &message[..]].concat()));
    // The digest of `hello`, computed by another tool.
    let payload = "sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N";
    assert_eq!(field(&response, "WARC-Payload-Digest"), Some(payload));
}

/// If records started differently, compressing them would take longer, and no other test would fail.
#[test]
fn records_begin_as_they_are_expected_to() {
    let listed = WarcOrigin::of_list(&[]).unwrap();
    let mut of_list = Vec::new();
    WarcEncoder::new(&listed, 0, 7).encode(&object(b"https://a/x", b"hello", Some(HEAD)), &mut of_list);
    let of_server = record(&object(b"a", b"hello", Some(HEAD)));

    for (packed, names_are_urls) in [(of_server, false), (of_list, true)] {
        let records = members(&packed);
        let beginnings = encode::beginnings(b"http://example.org:8080/files/", names_are_urls);
        assert_eq!(records.len(), beginnings.len());
        for (record, beginning) in records.iter().zip(&beginnings) {
            assert!(record.starts_with(beginning), "{}", String::from_utf8_lossy(record));
        }
    }
}

#[test]
fn a_secret_is_in_no_record() {
    let [request, _]: [String; 2] = texts(&record(&object(b"a", b"hello", Some(HEAD)))).try_into().unwrap();
    assert!(!request.contains("canary") && !request.to_ascii_lowercase().contains("authorization"));
    assert!(request.contains("\r\nAccept: plain\r\n"));
}

/// Name, URL, target URI, and start of the request.
type Case<'c> = (&'c [u8], Option<&'c [u8]>, &'c str, &'c str);

#[test]
fn an_object_of_a_list_has_its_own_url() {
    let secrets = [("Cookie", "canary"), ("Accept", "plain")];
    let mut encoder = WarcEncoder::new(&WarcOrigin::of_list(&secrets).unwrap(), 1_795_208_880_123_456, 7);
    let cases: [Case<'_>; 5] = [
        (b"https://a/x?y", None, "https://a/x?y", "/x?y HTTP/1.1\r\nHost: a\r\n"),
        (b"key", Some(b"http://a:81"), "http://a:81", "/ HTTP/1.1\r\nHost: a:81\r\n"),
        (
            b"key",
            Some(b"http://[::1]/a b\r\n"),
            "http://[::1]/a%20b%0D%0A",
            "/a%20b%0D%0A HTTP/1.1\r\nHost: [::1]\r\n",
        ),
        (b"key", None, "http://localhost/key", "/key HTTP/1.1\r\nHost: localhost\r\n"),
        (
            b"https://\r\n/",
            None,
            "http://localhost/https%3A//%0D%0A/",
            "/https%3A//%0D%0A/ HTTP/1.1\r\nHost: localhost\r\n",
        ),
    ];
    for (name, url, uri, request_start) in cases {
        let mut object = object(name, b"hello", Some(HEAD));
        object.facts.url = url;
        let mut packed = Vec::new();

        encoder.encode(&object, &mut packed);

        let [request, response]: [String; 2] = texts(&packed).try_into().unwrap();
        assert_eq!(field(&request, "WARC-Target-URI"), Some(uri));
        assert_eq!(field(&response, "WARC-Target-URI"), Some(uri));
        assert!(request.contains(&format!("\r\n\r\nGET {request_start}User-Agent: ")), "{request}");
        assert!(request.contains("\r\nAccept: plain\r\n") && !request.contains("canary"));
        let stored = WarcDecoder.decode(&packed).unwrap();
        assert_eq!((&stored.name[..], stored.url.as_deref()), (name, url));
    }
}

#[test]
fn an_object_that_was_redirected_has_the_url_that_answered() {
    let mut object = object(b"a", b"hello", None);
    object.facts.url = Some(b"https://b/new");

    let packed = record(&object);

    let [resource]: [String; 1] = texts(&packed).try_into().unwrap();
    assert_eq!(field(&resource, "WARC-Target-URI"), Some("https://b/new"));
    assert_eq!(WarcDecoder.decode(&packed).unwrap().url.as_deref(), Some(&b"https://b/new"[..]));
}

#[test]
fn records_are_packed() {
    assert!(record(&object(b"a", &[b'a'; 10_000], Some(HEAD))).len() < 2_000);
}

#[test]
fn a_body_that_came_in_chunks_is_one_chunk() {
    for (body, payload) in
        [(&b"0123456789abcdef"[..], "10\r\n0123456789abcdef\r\n0\r\n\r\n"), (b"", "0\r\n\r\n")]
    {
        let packed = record(&object(b"a", body, Some(CHUNKED)));
        let [_, response]: [String; 2] = texts(&packed).try_into().unwrap();
        assert!(response.ends_with(&format!("chunked\r\n\r\n{payload}\r\n\r\n")), "{response}");
        let length = (CHUNKED.len() + payload.len()).to_string();
        assert_eq!(field(&response, "Content-Length"), Some(&length[..]));
        let stored = WarcDecoder.decode(&packed).unwrap();
        assert_eq!((&stored.body[..], stored.head.as_deref()), (body, Some(CHUNKED)));
    }
}

#[test]
fn what_is_read_is_what_the_head_says() {
    let stored = WarcDecoder.decode(&record(&object(b"\xff/\r\n", b"hello", Some(HEAD)))).unwrap();
    let expected = StoredObject {
        name: b"\xff/\r\n".to_vec(),
        body: b"hello".to_vec(),
        status: 200,
        fetched_at: 1_795_208_880_123_456,
        content_type: Some(b"text/plain".to_vec()),
        etag: Some(b"\"x\"".to_vec()),
        last_modified: Some(784_111_777),
        head: Some(HEAD.to_vec()),
        ..StoredObject::default()
    };
    assert_eq!(stored, expected);
}

#[test]
fn without_a_head_an_object_is_a_resource() {
    for head in [None, Some(&b"no head"[..]), Some(b"HTTP/1.1 200 OK\r\n\r\nmore")] {
        let mut object = object(b"a", b"hello", head);
        object.facts.content_type = Some(b" text/plain\r\nWARC-Type: forged\xff");
        let packed = record(&object);
        let [resource]: [String; 1] = texts(&packed).try_into().unwrap();
        assert_eq!(field(&resource, "WARC-Type"), Some("resource"));
        let escaped = "text/plain%0D%0AWARC-Type: forged%FF";
        assert_eq!(field(&resource, "Content-Type"), Some(escaped));
        assert!(resource.ends_with("\r\n\r\nhello\r\n\r\n"));
        let stored = WarcDecoder.decode(&packed).unwrap();
        assert_eq!((stored.status, stored.head), (0, None));
        assert_eq!(stored.content_type.as_deref(), Some(escaped.as_bytes()));

        object.facts.content_type = None;
        assert_eq!(WarcDecoder.decode(&record(&object)).unwrap().content_type, None);
    }
}

#[test]
fn a_shard_starts_with_a_record_about_it() {
    let mut encoder = encoder();
    let (mut first, mut second, mut nothing) = (Vec::new(), Vec::new(), Vec::new());
    encoder.start(&mut first);
    encoder.start(&mut second);
    encoder.finish(&mut nothing);

    let [info]: [String; 1] = texts(&first).try_into().unwrap();
    assert_eq!(field(&info, "WARC-Type"), Some("warcinfo"));
    assert_eq!(field(&info, "WARC-Target-URI"), None);
    assert!(info.contains(concat!("\r\n\r\nsoftware: fetchmill/", env!("CARGO_PKG_VERSION"), "\r\n")));
    assert_ne!(first, second);
    assert!(nothing.is_empty());
    assert!(WarcDecoder.decode(&first).is_err());
}

#[test]
fn the_same_object_has_the_same_record_in_any_shard() {
    let object = object(b"a", b"hello", Some(HEAD));
    let mut encoder = encoder();
    let (mut first, mut again) = (Vec::new(), Vec::new());
    encoder.encode(&object, &mut first);
    encoder.start(&mut again);
    again.clear();
    encoder.encode(&object, &mut again);
    assert_eq!(first, again);
    let id = |object: &Object<'_>| field(&texts(&record(object))[1], "WARC-Record-ID").unwrap().to_owned();
    assert_ne!(id(&object), id(&Object { sequence: 13, ..object }));
    assert_ne!(id(&object), id(&Object { name: b"b", ..object }));
}

#[test]
fn other_records_are_damage() {
    let [request, response]: [String; 2] =
        texts(&record(&object(b"a", b"", Some(CHUNKED)))).try_into().unwrap();
    let pair = |request: &str, response: &str| {
        WarcDecoder.decode(&[pack_text(request.as_bytes()), pack_text(response.as_bytes())].concat())
    };
    assert!(pair(&request, &response).is_ok());
    assert!(pair(&response, &request).is_err());
    assert!(pair(&request, &request).is_err());
    assert!(WarcDecoder.decode(&pack_text(request.as_bytes())).is_err());
    assert!(WarcDecoder.decode(&pack_text(response.as_bytes())).is_err());
    for (old, new) in [
        ("WARC/1.1", "WARC/1.0"),
        ("Fetchmill-Name: a", "Fetchmill-Name: %61"),
        ("Fetchmill-Name: a\r\n", ""),
        ("Fetchmill-Name: a\r\n", "Fetchmill-Name: a\r\nFetchmill-Name: a\r\n"),
        ("WARC-Date: 2026", "WARC-Date: 1926"),
        ("Content-Length: ", "Content-Length: 1"),
        ("sha1:", "sha1:A"),
        ("0\r\n\r\n\r\n\r\n", "0\r\n\r\n\r\n"),
        ("chunked\r\n\r\n0", "chunked\r\n\r\n1"),
    ] {
        let changed = response.replacen(old, new, 1);
        assert_ne!(changed, response, "{old}");
        assert!(pair(&request, &changed).is_err(), "{new}");
    }
}

#[test]
fn a_member_that_claims_to_be_huge_is_damage() {
    let mut packed = pack_text(b"WARC/1.1\r\n");
    let end = packed.len();
    packed[end - 4..].fill(0xff);
    assert!(WarcDecoder.decode(&packed).is_err());
    assert!(WarcDecoder.decode(&pack_text(&vec![0; 10_000_000])).is_err());
}

/// Heads of any length, or no head.
fn heads() -> impl Strategy<Value = Option<Vec<u8>>> {
    let field = ("[A-Za-z-]{1,20}", "[!-~\u{e9}]{0,40}");
    let head = (200_u16..600, prop::collection::vec(field, 0..10), any::<bool>());
    prop::option::of(head.prop_map(|(status, fields, is_chunked)| {
        let mut head = format!("HTTP/1.1 {status} X\r\n").into_bytes();
        for (name, value) in fields {
            write!(head, "x-{name}: {value}\r\n").unwrap();
        }
        head.extend_from_slice(if is_chunked { b"transfer-encoding: chunked\r\n\r\n" } else { b"\r\n" });
        head
    }))
}

proptest! {
    #[test]
    fn any_object_comes_back(
        name in prop::collection::vec(any::<u8>(), 0..60), body in prop::collection::vec(any::<u8>(), 0..5000),
        head in heads(), fetched_at in 0_u64..1 << 57,
    ) {
        let mut object = object(&name, &body, head.as_deref());
        object.facts.fetched_at = fetched_at;
        let is_empty_reply = object.facts.head.and_then(message::parse_head).is_some_and(|(reply, _)| reply.status == 204);
        prop_assume!(!is_empty_reply || body.is_empty());
        let stored = WarcDecoder.decode(&record(&object)).unwrap();
        prop_assert_eq!(stored.name, name);
        prop_assert_eq!(stored.body, body);
        prop_assert_eq!(stored.head, head);
        prop_assert_eq!(stored.fetched_at, fetched_at);
    }

    #[test]
    fn a_record_that_changed_is_no_panic_and_no_other_object(
        name in prop::collection::vec(any::<u8>(), 0..60), body in prop::collection::vec(any::<u8>(), 0..600),
        head in heads(), position: prop::sample::Index, byte: u8, cut: prop::sample::Index,
    ) {
        let whole = record(&object(&name, &body, head.as_deref()));
        let stored = WarcDecoder.decode(&whole).unwrap();
        prop_assert!(WarcDecoder.decode(&whole[..cut.index(whole.len())]).is_err());
        prop_assert!(WarcDecoder.decode(&[&whole[..], &[0]].concat()).is_err());
        let mut changed = whole.clone();
        changed[position.index(whole.len())] = byte;
        if let Ok(other) = WarcDecoder.decode(&changed) {
            prop_assert_eq!(other, stored);
        }
    }

    #[test]
    fn any_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), text: bool) {
        let bytes = if text { pack_text(&[b"WARC/1.1\r\n", &bytes[..]].concat()) } else { bytes };
        prop_assert!(WarcDecoder.decode(&bytes).is_err());
    }
}

fn index_lines(record: &[u8], place: u64, file_name: &str) -> std::result::Result<Vec<Vec<u8>>, Damage> {
    Ok(CdxjLines::new(file_name).of(record, place)?.map(<[u8]>::to_vec).collect())
}

proptest! {
    /// A record has the same lines whether or not its data looks like members.
    #[test]
    fn data_that_looks_like_members_changes_no_line(
        copies in 0_usize..5,
        redirects in 0_usize..3,
        has_head: bool,
        noise in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        // The data is incompressible, so that the members in the body are stored unchanged.
        let mut state = 1_u64;
        let (mut body, mut writer) = (noise, member::MemberWriter::new(&[]));
        for _ in 0..copies {
            writer.write(b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n\r\n\r\n", &mut body);
            body.extend((0..3000).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            }));
        }
        let mut replies = Vec::new();
        for _ in 0..redirects {
            let head = b"HTTP/1.1 301 Go\r\n\r\n";
            KeptReply { url: Some(b"http://example.org/"), fetched_at: 1, head, body: &body, is_cut: false }
                .write(&mut replies);
        }
        let packed = redirected(&object(b"a", &body, has_head.then_some(HEAD)), &replies);
        let lines = index_lines(&packed, 7, "x").unwrap();
        let responses = texts(&packed).iter().filter(|text| field(text, "WARC-Type") != Some("request")).count();
        prop_assert_eq!(lines.len(), responses);
        for line in lines {
            let line = String::from_utf8(line).unwrap();
            let fields: serde_json::Value = serde_json::from_str(&line[line.find('{').unwrap()..]).unwrap();
            let [offset, length] = ["offset", "length"].map(|name| fields[name].as_str().unwrap().parse::<usize>().unwrap());
            let member = texts(&packed[offset - 7..offset - 7 + length]);
            prop_assert_eq!(member.len(), 1);
            prop_assert_ne!(field(&member[0], "WARC-Type"), Some("request"));
        }
    }
}

fn line(object: &Object<'_>) -> String {
    let lines = index_lines(&record(object), 1000, "shard-000007.warc.gz").unwrap();
    let [line] = <[_; 1]>::try_from(lines).unwrap();
    String::from_utf8(line).unwrap()
}

#[test]
fn a_line_of_an_index_leads_to_the_response() {
    let object = object(b"A b", b"hello", Some(HEAD));
    let packed = record(&object);
    let [_, response]: [String; 2] = texts(&packed).try_into().unwrap();
    let line = line(&object);
    let (start, json) = line.split_once(" {").unwrap();
    assert_eq!(start, "org,example:8080)/files/a%20b?v=1 20261120210800");
    let fields: serde_json::Value = serde_json::from_str(&format!("{{{json}")).unwrap();
    let offset = fields["offset"].as_str().unwrap().parse::<usize>().unwrap() - 1000;
    let length = fields["length"].as_str().unwrap().parse::<usize>().unwrap();
    assert_eq!(offset + length, packed.len());
    assert_eq!(texts(&packed[offset..]), std::slice::from_ref(&response));
    assert_eq!(fields["url"].as_str(), field(&response, "WARC-Target-URI"));
    assert_eq!(fields["digest"].as_str(), field(&response, "WARC-Payload-Digest"));
    assert_eq!((&fields["mime"], &fields["status"]), (&"text/plain".into(), &"200".into()));
    assert_eq!(fields["filename"], "shard-000007.warc.gz");
}

#[test]
fn a_line_of_an_index_of_a_resource_has_no_status() {
    let packed = record(&object(b"a", b"hello", None));
    let line = line(&object(b"a", b"hello", None));
    let fields: serde_json::Value = serde_json::from_str(&line[line.find('{').unwrap()..]).unwrap();
    assert_eq!(fields.get("status"), None);
    assert_eq!(fields["mime"], "application/octet-stream");
    assert_eq!((&fields["offset"], &fields["length"]), (&"1000".into(), &packed.len().to_string().into()));
}

#[test]
fn a_damaged_record_has_no_line() {
    let mut packed = record(&object(b"a", b"hello", Some(HEAD)));
    let last = packed.len() - 9;
    packed[last] ^= 1;
    assert!(index_lines(&packed, 0, "x").is_err());
    assert!(index_lines(packed.get(..20).unwrap(), 0, "x").is_err());
}

fn redirected(object: &Object<'_>, replies: &[u8]) -> Vec<u8> {
    let facts = Facts { replies: Some(replies), ..object.facts };
    record(&Object { facts, ..*object })
}

#[test]
fn redirects_stand_behind_the_object_that_they_led_to() {
    let mut replies = Vec::new();
    for number in 0..2 {
        let url = format!("http://example.org/{number}");
        let head = b"HTTP/1.1 301 Go\r\nTransfer-Encoding: chunked\r\n\r\n";
        KeptReply { url: Some(url.as_bytes()), fetched_at: 1, head, body: b"moved", is_cut: number > 0 }
            .write(&mut replies);
    }
    for head in [Some(HEAD), None] {
        let object = object(b"a", b"hello", head);
        let packed = redirected(&object, &replies);
        let alone = record(&object);

        assert!(packed.starts_with(&alone));
        assert_eq!(WarcDecoder.decode(&packed).unwrap(), WarcDecoder.decode(&alone).unwrap());
        let records = texts(packed.get(alone.len()..).unwrap());
        let uris: Vec<_> = records.iter().filter_map(|text| field(text, "WARC-Target-URI")).collect();
        assert_eq!(
            uris,
            ["http://example.org/0"; 2].into_iter().chain(["http://example.org/1"; 2]).collect::<Vec<_>>()
        );
        assert_eq!(field(&records[1], "WARC-Truncated"), None);
        assert_eq!(field(&records[3], "WARC-Truncated"), Some("length"));
        assert!(records[3].contains("\r\n\r\n5\r\nmoved\r\n0\r\n\r\n"));
        assert_eq!(index_lines(&packed, 0, "x").unwrap().len(), 3);
        // A record that is damaged, or truncated between two members, causes an error.
        for end in [alone.len() + 1, packed.len() - 1] {
            assert!(WarcDecoder.decode(packed.get(..end).unwrap()).is_err());
        }
        assert!(WarcDecoder.decode(&[packed, alone].concat()).is_err());
    }
}

#[test]
fn what_came_in_place_of_an_object_is_no_object() {
    let mut replies = Vec::new();
    let head = b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n";
    KeptReply { url: None, fetched_at: 1, head, body: b"", is_cut: false }.write(&mut replies);
    let target = UnfetchedTarget {
        sequence: 7,
        name: b"a",
        outcome: "skipped",
        kind: None,
        detail: None,
        status: 304,
        attempts: 1,
        url: None,
        kept: None,
        replies: Some(&replies),
    };
    let mut packed = Vec::new();

    encoder().encode_unfetched(&target, &mut packed);

    let [request, revisit]: [String; 2] = texts(&packed).try_into().unwrap();
    assert!(request.contains("GET /files/a?v=1 HTTP/1.1"));
    assert_eq!(field(&revisit, "WARC-Type"), Some("revisit"));
    assert_eq!(field(&revisit, "WARC-Refers-To-Target-URI"), field(&revisit, "WARC-Target-URI"));
    assert_eq!(field(&revisit, "Fetchmill-Sequence"), Some("7"));
    assert!(WarcDecoder.decode(&packed).is_err());
}
