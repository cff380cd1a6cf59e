//! Compares the codec with hyper's client. Valid replies are damaged in many ways, and both clients receive the same
//! bytes. Each reply that this codec accepts must also be accepted by hyper, with the same status and body. The codec
//! may refuse more replies than hyper.
//!
//! Hyper is configured to accept folded values, blanks before a colon, and lines that are not fields, as this codec
//! does. It then folds, trims or drops the same lines. By default, hyper accepts a status up to 999, blanks after the
//! size of a chunk, chunks with a `Content-Length`, and any 206.
//!
//! `FETCHMILL_SEED` and `FETCHMILL_CASES` select other cases. If a case fails, the message contains its seed.
#![allow(clippy::print_stdout)] // the totals of a run

use std::time::Duration;

use fetchmill_model::http1::{ReplyProgress, ReplyReader, StreamEnd};
use fetchmill_model::limits::HEAD_FIELDS_MAX;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MAX_BODY: u64 = 1 << 20;

/// A random number generator (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const STATUS_LINES: &[&str] = &[
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200",
    "HTTP/1.0 200 OK",
    "HTTP/1.1 404 Not Found",
    "HTTP/1.1 503 Slow Down",
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 304 Not Modified",
    "HTTP/1.1 206 Partial Content",
    "HTTP/1.1 999 Request Denied",
];

const FIELDS: &[&str] = &[
    "Server: x",
    "Date: Sun, 06 Nov 1994 08:49:37 GMT",
    "ETag: \"a, b\"",
    "X-Empty:",
    "Connection: close",
    "Connection: keep-alive",
    "Set-Cookie: a=b; c",
    "Retry-After: 5",
    "X-Latin: \u{e9}",
    "X-Folded: a\r\n b: c",
    "X-Blank : a",
    "X-Control: a\u{1}b",
    "not a field",
    "(X): a",
    "Content-Range: bytes 0-2/3",
];

const INTERIM: &[&str] = &["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"];

/// Texts that are inserted into a reply to damage it.
const SPLINTERS: &[&str] = &[
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    "\0",
    ":",
    ";",
    ",",
    "0",
    "1",
    "f",
    "-",
    "+",
    "0x",
    "0\r\n",
    "0\r\n\r\n",
    "1\r\nx\r\n",
    ";a=b",
    "X: y\r\n",
    "\r\n ",
    "\r\n\t",
    " :",
    "  \r\n",
    "\u{1}",
    "\r\nX\r\n",
    "\r\n Content-Length: 2",
    "\r\nTransfer-Encoding : chunked",
    "\r\nHTTP/1.1 200 OK",
    "Content-Length: 3\r\n",
    "Content-Length: 0\r\n",
    "content-length: 10\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
    "\u{fc}",
];

fn body(random: &mut Random) -> Vec<u8> {
    let length = if random.one_in(10) { random.below(5000) } else { random.below(30) };
    (0..length).map(|_| b"abc\r\n0;: "[random.below(9)]).collect()
}

fn chunked(random: &mut Random, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(1 + random.below(rest.len()));
        let extension = if random.one_in(5) { ";name=\"value\"" } else { "" };
        let zeros = "0".repeat(if random.one_in(5) { random.below(16) } else { 0 });
        out.extend(format!("{zeros}{:x}{extension}\r\n", chunk.len()).into_bytes());
        out.extend(chunk);
        out.extend(b"\r\n");
        rest = behind;
    }
    out.extend(b"0\r\n");
    for _ in 0..if random.one_in(5) { 1 + random.below(3) } else { 0 } {
        out.extend(b"X-Trailer: value\r\n");
    }
    out.extend(b"\r\n");
    out
}

/// Returns a valid reply.
fn reply(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    if random.one_in(8) {
        out.extend(random.pick(INTERIM).repeat(1 + random.below(9)).into_bytes());
    }
    let mut fields: Vec<String> = (0..random.below(5)).map(|_| random.pick(FIELDS).to_owned()).collect();
    let body = body(random);
    let coded = match random.below(5) {
        0 => body,
        1 | 2 => {
            fields.push("Transfer-Encoding: chunked".to_owned());
            chunked(random, &body)
        }
        _ => {
            fields.push(format!("Content-Length: {}", body.len()));
            body
        }
    };
    if !fields.is_empty() {
        let last = fields.len() - 1;
        let other = random.below(fields.len());
        fields.swap(last, other);
    }
    let end = if random.one_in(10) { "\n" } else { "\r\n" };
    for line in [random.pick(STATUS_LINES).to_owned()].iter().chain(&fields) {
        out.extend(line.as_bytes());
        out.extend(end.as_bytes());
    }
    out.extend(end.as_bytes());
    out.extend(coded);
    out
}

fn damage(random: &mut Random, stream: &mut Vec<u8>) {
    for _ in 0..random.below(4) {
        let at = random.below(stream.len() + 1);
        // Most of the relevant bytes are at the start.
        let at = if random.one_in(2) { at } else { at.min(random.below(120)) };
        let end = (at + random.below(4)).min(stream.len());
        match random.below(5) {
            0 => drop(stream.drain(at..end)),
            1 => stream.truncate(at),
            2 if at < stream.len() => stream[at] ^= 1 << random.below(8),
            _ => drop(
                stream.splice(at..if random.one_in(2) { at } else { end }, random.pick(SPLINTERS).bytes()),
            ),
        }
    }
}

/// Returns the status and body that this codec reads if the stream is split at random.
fn ours(random: &mut Random, stream: &[u8]) -> Option<(u16, Vec<u8>)> {
    let mut reader = ReplyReader::new(MAX_BODY);
    let mut body = Vec::new();
    let (mut start, mut end) = (0, 0);
    while end < stream.len() {
        end = (end + 1 + random.below(stream.len())).min(stream.len());
        match reader.read(&stream[start..end], &mut body).ok()? {
            ReplyProgress::NeedMore { consumed } => start += consumed,
            ReplyProgress::Done { .. } => return Some((reader.head()?.status, body)),
        }
    }
    match reader.end_of_stream().ok()? {
        StreamEnd::Complete => Some((reader.head()?.status, body)),
        StreamEnd::Unanswered => None,
    }
}

/// Returns the status and body that hyper's client reads.
async fn hypers(stream: &[u8]) -> Option<(u16, Vec<u8>)> {
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        // Hyper's default limit is 100.
        .max_headers(HEAD_FIELDS_MAX)
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_spaces_after_header_name_in_responses(true)
        .ignore_invalid_headers_in_responses(true)
        .handshake::<_, Empty<&[u8]>>(TokioIo::new(near))
        .await
        .ok()?;
    let connection = tokio::spawn(connection);
    let request = hyper::Request::get("/").header("host", "h").body(Empty::new()).ok()?;
    let server = async {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            far.read_buf(&mut request).await.ok()?;
        }
        far.write_all(stream).await.ok()?;
        drop(far);
        Some(())
    };
    let client = async {
        let reply = sender.send_request(request).await.ok()?;
        let status = reply.status().as_u16();
        let body = reply.into_body().collect().await.ok()?.to_bytes().to_vec();
        Some((status, body))
    };
    let both = async { tokio::join!(server, client).1 };
    let result = tokio::time::timeout(Duration::from_secs(10), both).await.expect("hyper hangs");
    connection.abort();
    result
}

/// Returns the same stream without control bytes in the reasons of status lines. This codec drops such bytes, as curl
/// does, whereas hyper refuses the reply.
fn with_plain_reasons(stream: &[u8]) -> Vec<u8> {
    let is_odd = |byte: u8| byte == 0x7f || (byte < 0x20 && !matches!(byte, 0 | b'\t' | b'\r' | b'\n'));
    let lines = stream.split_inclusive(|byte| *byte == b'\n');
    let plain = lines.map(|line| {
        let is_status = line.starts_with(b"HTTP/1.");
        line.iter().copied().filter(|byte| !(is_status && is_odd(*byte))).collect::<Vec<_>>()
    });
    plain.collect::<Vec<_>>().concat()
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

#[tokio::test(flavor = "current_thread")]
async fn what_ours_accepts_hyper_accepts() {
    let seed = number("FETCHMILL_SEED", 1);
    let cases = number("FETCHMILL_CASES", 8000);
    let (mut both, mut neither, mut stricter) = (0, 0, 0);
    for case in 0..cases {
        let mut random = Random(seed ^ (case << 20));
        let mut stream = reply(&mut random);
        damage(&mut random, &mut stream);
        let ours = ours(&mut random, &stream);
        let hypers = match hypers(&stream).await {
            None if ours.is_some() => hypers(&with_plain_reasons(&stream)).await,
            found => found,
        };
        match (&ours, &hypers) {
            (None, None) => neither += 1,
            (None, Some(_)) => stricter += 1,
            _ => {
                assert_eq!(ours, hypers, "seed {seed}, case {case}: {}", stream.escape_ascii());
                both += 1;
            }
        }
    }
    println!("seed {seed}: both accept {both}, both refuse {neither}, only this codec refuses {stricter}");
    assert!(both > cases / 4 && neither > cases / 10, "the cases are too easy or too hard");
}
