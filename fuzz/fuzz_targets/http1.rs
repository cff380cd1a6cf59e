//! Any stream of bytes as replies: no panic, the same result however it is cut, and a reply that is accepted is what
//! a naive reader built on `httparse` makes of it.
//!
//! The first eight bytes of an input choose the cuts, the rest is the stream.
#![no_main]

use fetchmill_model::http1::{Framing, Head, MalformedReply, ReplyProgress, ReplyReader, StreamEnd};
use libfuzzer_sys::fuzz_target;

const MAX_BODY: u64 = 4096;

#[derive(Debug, PartialEq)]
enum Read {
    Reply(Head, Vec<u8>, usize),
    Unanswered,
    Refused(MalformedReply),
}

fuzz_target!(|data: &[u8]| {
    let Some((seed, stream)) = data.split_first_chunk::<8>() else {
        return;
    };
    let whole = read(stream, || usize::MAX);
    let mut seed = u64::from_le_bytes(*seed) | 1;
    let cut = read(stream, || {
        // Xorshift: steps of 1 to 64 bytes.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        1 + (seed >> 32) as usize % 64
    });
    assert_eq!(whole, cut, "cut at random");
    assert_eq!(whole, read(stream, || 1), "byte by byte");
    if let Read::Reply(head, body, consumed) = whole {
        check(stream, &head, &body, consumed);
    }
});

fn read(stream: &[u8], mut step: impl FnMut() -> usize) -> Read {
    let mut reader = ReplyReader::new(MAX_BODY);
    let mut body = Vec::new();
    let (mut start, mut end) = (0, 0);
    while end < stream.len() {
        end = end.saturating_add(step()).min(stream.len());
        match reader.read(&stream[start..end], &mut body) {
            Ok(ReplyProgress::NeedMore { consumed }) => start += consumed,
            Ok(ReplyProgress::Done { consumed }) => {
                return Read::Reply(*reader.head().expect("a head"), body, start + consumed);
            }
            Err(malformed) => return Read::Refused(malformed),
        }
    }
    match reader.end_of_stream() {
        Ok(StreamEnd::Complete) => Read::Reply(*reader.head().expect("a head"), body, start),
        Ok(StreamEnd::Unanswered) => Read::Unanswered,
        Err(malformed) => Read::Refused(malformed),
    }
}

/// Reads the reply again, without care.
fn check(stream: &[u8], head: &Head, body: &[u8], consumed: usize) {
    let mut rest = stream;
    let status = loop {
        let mut fields = [httparse::EMPTY_HEADER; 128];
        let mut reply = httparse::Response::new(&mut fields);
        // Odd lines are folded, trimmed or dropped.
        let parsed = httparse::ParserConfig::default()
            .allow_obsolete_multiline_headers_in_responses(true)
            .allow_spaces_after_header_name_in_responses(true)
            .ignore_invalid_headers_in_responses(true)
            .parse_response(&mut reply, rest);
        match parsed {
            Ok(httparse::Status::Complete(length)) => rest = &rest[length..],
            other => panic!("httparse says {other:?}"),
        }
        match reply.code {
            Some(100..200) => {}
            status => break status,
        }
    };
    assert_eq!(status, Some(head.status));
    let (expected, rest) = match head.framing {
        Framing::None => (Vec::new(), rest),
        Framing::Length(length) => (rest[..length as usize].to_vec(), &rest[length as usize..]),
        Framing::Eof => (rest.to_vec(), &rest[rest.len()..]),
        Framing::Chunked => dechunked(rest),
        Framing::EndOfStream => panic!("a reply of HTTP/2"),
    };
    assert_eq!(body, expected);
    assert_eq!(consumed, stream.len() - rest.len());
}

fn dechunked(mut rest: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut body = Vec::new();
    loop {
        let Ok(httparse::Status::Complete((length, size))) = httparse::parse_chunk_size(rest) else {
            panic!("httparse sees no chunk");
        };
        rest = &rest[length..];
        if size == 0 {
            break;
        }
        let (data, behind) = rest.split_at(size as usize);
        body.extend(data);
        rest = behind.strip_prefix(b"\r\n").expect("CR LF behind a chunk");
    }
    let mut fields = [httparse::EMPTY_HEADER; 128];
    match httparse::parse_headers(rest, &mut fields) {
        Ok(httparse::Status::Complete((length, _))) => (body, &rest[length..]),
        other => panic!("httparse says of the trailers {other:?}"),
    }
}
