//! Heads: the framing of the body, and heads that are refused.

use super::{Read, assert_refused, assert_reply, read};
use std::borrow::Cow;

use crate::http1::{
    Framing, ReplyProgress, ReplyReader, RetryAfter, Span, field_lines, field_values, odd_head,
};
use crate::outcome::FailureKind::{self, BodyTooLarge, HeadTooLarge, NotHttp, Reset, Truncated};

/// Returns a reply with status 200 and these fields, followed by `abc`.
fn with(fields: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{fields}\r\nabc").into_bytes()
}

#[test]
fn the_framing_follows_the_fields() {
    let accepted = [
        ("Content-Length: 3\r\n", Framing::Length(3), "abc", 0),
        ("content-length:3\r\n", Framing::Length(3), "abc", 0),
        ("Content-Length: \t 3 \t\r\n", Framing::Length(3), "abc", 0),
        ("Content-Length: 0000000000000000003\r\n", Framing::Length(3), "abc", 0),
        ("Content-Length: 3\r\nContent-Length: 3\r\n", Framing::Length(3), "abc", 0),
        ("Content-Length: 3\r\ncontent-length: 03\r\n", Framing::Length(3), "abc", 0),
        ("Content-Length: 2\r\n", Framing::Length(2), "ab", 1),
        ("Content-Length: 0\r\n", Framing::Length(0), "", 3),
        ("Content-Length: 3\n", Framing::Length(3), "abc", 0),
        ("Content_Length: 2\r\n", Framing::Eof, "abc", 0),
        ("X-Content-Length: 2\r\n", Framing::Eof, "abc", 0),
        ("", Framing::Eof, "abc", 0),
        ("X: caf\u{e9}\r\nContent-Length: 3\r\n", Framing::Length(3), "abc", 0),
        ("X:\r\nContent-Length: 3\r\n", Framing::Length(3), "abc", 0),
        ("Content-Encoding: gzip\r\nContent-Length: 3\r\n", Framing::Length(3), "abc", 0),
    ];
    for (fields, framing, body, surplus) in accepted {
        assert_reply(&with(fields), framing, body.as_bytes(), surplus);
    }
}

#[test]
fn all_fields_of_a_name_are_found() {
    let head = with("link: a\r\nX-Link: b\r\nLINK:  c, d \r\nLinks: e\r\n");

    assert_eq!(field_values(&head, "link"), [&b"a"[..], b"c, d"]);
    assert!(field_values(&with(""), "link").is_empty());
    assert!(field_values(b"HTTP/1.1 200", "link").is_empty());
    let folded = with("Link: </a>;\r\n  rel=next\r\nlink : b\r\n");
    assert_eq!(field_values(&folded, "link"), [&b"</a>; rel=next"[..], b"b"]);
}

#[test]
fn an_ambiguous_or_malformed_head_is_refused() {
    let refused = [
        // Lengths (46 cases).
        "Content-Length:\r\n",
        "Content-Length: 5,5\r\n",
        "Content-Length: 3, 3\r\n",
        "Content-Length: 3,\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x3\r\n",
        "Content-Length: 3 3\r\n",
        "Content-Length: 3;\r\n",
        "Content-Length: \"3\"\r\n",
        "Content-Length: 3.0\r\n",
        "Content-Length: 1e1\r\n",
        "Content-Length: three\r\n",
        "Content-Length: \u{663}\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: 18446744073709551619\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length: 00000000000000000003\r\n",
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3\r\nX: y\r\nContent-Length: 0\r\n",
        "Content-Length: 3\r\nContent-Length:\r\n",
        // Codings (45 cases).
        "Content-Length: 3, 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: chunked,\r\n",
        "Transfer-Encoding: ,chunked\r\n",
        "Transfer-Encoding: chu nked\r\n",
        "Transfer-Encoding: chunKed\u{212a}\r\n",
        // Lines (68 cases).
        "Content-Length : 3\r\n",
        "Content-Length\t: 3\r\n",
        "Content-Length\r\n: 3\r\n",
        "Content-Length 3\r\n",
        "X\0: a\r\nContent-Length: 3\r\n",
        "X: a\0b\r\nContent-Length: 3\r\n",
        "X: a\rb\r\nContent-Length: 3\r\n",
        "X: a\r\rContent-Length: 3\r\n\r\n",
    ];
    for fields in refused {
        assert_refused(&with(fields), FailureKind::Framing);
    }
}

#[test]
fn odd_lines_that_name_a_guarded_field_or_begin_another_reply_are_refused() {
    let refused = [
        "Content-Length: 3\r\nConnection : close\r\n",
        "Content-Length: 3\r\nContent-Encoding\t: gzip\r\n",
        "Content-Length: 3\r\nConnection: close\x01\r\n",
        "Content-Length: 3\r\nConnection: keep-alive,\r\n close\r\n",
        "Content-Length: 3\r\n 0\r\n",
        "Content-Length: 3\r\nContent-Range: bytes\r\n\t0-2/3\r\n",
        "Content-Length: 3\r\n Content-Length: 2\r\n",
        "Content-Length: 3\r\nX: a\r\n\tTransfer-Encoding: chunked\r\n",
        "Content-Length: 3\r\n(Content-Length): 2\r\n",
        "Content-Length: 3\r\nContent Length: 2\r\n",
        "Content-Length: 3\r\n\x0bTransfer-Encoding: chunked\r\n",
        "Content-Length: 3\r\nTransfer_Encoding : chunked\r\n",
        "Content-Length: 3\r\nTransfer-Encoding\u{a0}: chunked\r\n",
        "Content-Length: 3\r\nTransfer-Encoding\r\n",
        "Content-Length: 3\r\nHTTP/1.1 200 OK\r\n",
        "Content-Length: 3\r\nhttp/1.0 200 OK\r\n",
        "Content-Length: 3\r\n HTTP/1.1 200 OK\r\n",
        "Content-Length: 3\r\nX: a\r\n\tHTTP/1.1: b\r\n",
        "Content-Length: 3\r\n\x01HTTP/1.1 404 Not Found\r\n",
        "Content-Length: 3\r\n \r\n",
        "Content-Length: 3\r\nX: a\r\n\t \r\n",
        "Content-Length: 3\r\nnot a\0field\r\n",
        "Content-Length: 3\r\nnot a\rfield\r\n",
        "Content-Length: 3\r\nX: a\r\n b\rc\r\n",
    ];
    for fields in refused {
        assert_refused(&with(fields), FailureKind::Framing);
    }
}

#[test]
fn odd_lines_are_dropped_or_read_as_what_they_mean() {
    let accepted: [(&str, &[(&str, &str)]); 14] = [
        ("X: a;\r\n   b\r\n", &[("X", "a; b")]),
        ("X: a\r\n\tb: c\r\n d\r\nY: e\r\n", &[("X", "a b: c d"), ("Y", "e")]),
        ("X:\r\n a\r\n", &[("X", "a")]),
        ("X: a\n b\n", &[("X", "a b")]),
        ("not a field\r\nY: b\r\n", &[("Y", "b")]),
        ("not a field\r\n nor this\r\nY: b\r\n", &[("Y", "b")]),
        ("<br>Warning: in line 3\r\nY: b\r\n", &[("Y", "b")]),
        (": a\r\nY: b\r\n", &[("Y", "b")]),
        ("(X): a\r\nY: b\r\n", &[("Y", "b")]),
        ("X\u{e9}: a\r\nY: b\r\n", &[("Y", "b")]),
        ("X : a\r\nY\t : b\r\n", &[("X", "a"), ("Y", "b")]),
        (
            "Proxy-Connection : a\r\nConnection-Info : b\r\n",
            &[("Proxy-Connection", "a"), ("Connection-Info", "b")],
        ),
        ("X: a\x01b\r\nY: \x7f\r\n", &[("X", "a\x01b"), ("Y", "\x7f")]),
        ("X: \u{e9}\x0b\r\n", &[("X", "\u{e9}\x0b")]),
    ];
    for (lines, fields) in accepted {
        for text in [format!("{lines}Content-Length: 3\r\n"), format!("Content-Length: 3\r\n{lines}")] {
            let stream = with(&text);
            let head = assert_reply(&stream, Framing::Length(3), b"abc", 0);
            assert!(head.keep_alive && !head.is_suspect, "{text}");
            let found: Vec<_> = field_lines(&stream).filter(|line| !line.is("content-length")).collect();
            let found: Vec<_> = found.iter().map(|line| (line.name, line.unfolded())).collect();
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| (name.as_bytes(), Cow::Borrowed(value.as_bytes())))
                .collect();
            assert_eq!(found, fields, "{text}");
            assert_eq!(odd_head(&stream), Some((200, stream.len() - 3)), "{text}");
        }
    }
}

#[test]
fn a_fold_of_no_field_is_dropped() {
    let stream = with(" X: a\r\nContent-Length: 3\r\n");
    assert_reply(&stream, Framing::Length(3), b"abc", 0);
    assert_eq!(field_lines(&stream).count(), 1);
}

#[test]
fn of_an_odd_field_nothing_odd_is_kept() {
    let kept = |fields: &str| {
        let stream = with(&format!("{fields}Content-Length: 3\r\n"));
        let kept = assert_reply(&stream, Framing::Length(3), b"abc", 0).kept;
        let value =
            |span: Option<Span>| span.map(|span| String::from_utf8_lossy(span.in_head(&stream)).into_owned());
        [value(kept.content_type), value(kept.etag), value(kept.last_modified), value(kept.location)]
    };
    let some = |value: &str| Some(value.to_owned());
    assert_eq!(kept("Content-Type : a/b\r\nETAG\t: \"e\"\r\n"), [some("a/b"), some("\"e\""), None, None]);
    assert_eq!(
        kept("Content-Type: a/b;\r\n c=d\r\nETag: \"\x01\"\r\nLast-Modified: \x7f\r\n"),
        [None, None, None, None]
    );
    assert_eq!(kept("Location: /a\x01\r\n /b\r\n"), [None, None, None, some("/a\x01\r\n /b")]);
}

#[test]
fn chunks_count_more_than_a_length_and_make_the_reply_suspect() {
    for fields in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 99\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\nConnection: keep-alive\r\n",
    ] {
        let stream = format!("HTTP/1.1 200 OK\r\n{fields}\r\n1\r\na\r\n0\r\n\r\nrest");
        let head = assert_reply(stream.as_bytes(), Framing::Chunked, b"a", 4);
        assert!(head.is_suspect && !head.keep_alive, "{fields}");
        let refused = format!("HTTP/1.0 200 OK\r\n{fields}\r\n1\r\na\r\n0\r\n\r\n");
        assert_refused(refused.as_bytes(), FailureKind::Framing);
    }
}

#[test]
fn a_206_counts_only_as_the_whole_object() {
    let reply =
        |fields: &str, body: &str| format!("HTTP/1.1 206 Partial Content\r\n{fields}\r\n{body}").into_bytes();
    let length = "Content-Length: 3\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    let whole = "Content-Range: bytes 0-2/3\r\n";
    let head = assert_reply(&reply(&format!("{length}{whole}"), "abc"), Framing::Length(3), b"abc", 0);
    assert!(head.keep_alive && head.status == 206);
    assert_reply(&reply(&format!("{chunked}{whole}"), "3\r\nabc\r\n0\r\n\r\n"), Framing::Chunked, b"abc", 0);
    assert_reply(&reply(whole, "abc"), Framing::Eof, b"abc", 0);
    for (fields, body) in [
        (length.to_owned(), "abc"),
        (format!("{length}Content-Range: bytes 0-2/*\r\n"), "abc"),
        (format!("{length}Content-Range: bytes 0-2/9\r\n"), "abc"),
        (format!("{length}Content-Range: bytes 1-3/4\r\n"), "abc"),
        (format!("{length}Content-Range: bytes 0-3/4\r\n"), "abc"),
        (format!("{length}Content-Range: bytes 0-1/2\r\n"), "abc"),
        (format!("{length}Content-Range: bytes */3\r\n"), "abc"),
        (format!("{length}Content-Range: 0-2/3\r\n"), "abc"),
        (format!("{length}Content-Range: bytes 0--1/0\r\n"), "abc"),
        (format!("{length}{whole}{whole}"), "abc"),
        (format!("{length}{whole}Content-Type: multipart/byteranges; boundary=b\r\n"), "abc"),
        (format!("{length}{whole}Content-Type : Multipart/x\r\n"), "abc"),
        (format!("{chunked}{whole}"), "2\r\nab\r\n0\r\n\r\n"),
        (format!("{chunked}{whole}"), "4\r\nabcd\r\n0\r\n\r\n"),
        (whole.to_owned(), "ab"),
        (whole.to_owned(), "abcd"),
    ] {
        assert_refused(&reply(&fields, body), FailureKind::Framing);
    }
}

#[test]
fn a_status_line_is_taken_to_the_letter() {
    let accepted =
        ["HTTP/1.1 200 OK", "HTTP/1.1 200", "HTTP/1.1 200 ", "HTTP/1.1 200 \u{fc}ber", "HTTP/1.1 200 O\x01K"];
    for line in accepted {
        let stream = format!("{line}\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(assert_reply(stream.as_bytes(), Framing::Length(3), b"abc", 0).status, 200);
    }
    for status in [600, 999] {
        let stream = format!("HTTP/1.1 {status} What\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(assert_reply(stream.as_bytes(), Framing::Length(3), b"abc", 0).status, status);
    }
    let refused = [
        ("HTTP/1.1 20 OK", FailureKind::Framing),
        ("HTTP/1.1 2000 OK", FailureKind::Framing),
        ("HTTP/1.1 099 OK", FailureKind::Framing),
        ("HTTP/1.1 000 OK", FailureKind::Framing),
        ("HTTP/1.1 -20 OK", FailureKind::Framing),
        ("HTTP/1.1  200 OK", FailureKind::Framing),
        ("HTTP/1.1 200\tOK", FailureKind::Framing),
        ("HTTP/1.1 200 O\0K", FailureKind::Framing),
        ("HTTP/1.1 200 O\rK", FailureKind::Framing),
        ("HTTP/1.1 101 Switching Protocols", FailureKind::Framing),
        ("HTTP/1.1 206 Partial Content", FailureKind::Framing),
        ("HTTP/1.1\t200 OK", NotHttp),
        ("HTTP/1.1", NotHttp),
        ("HTTP/1.2 200 OK", NotHttp),
        ("HTTP/1.10 200 OK", NotHttp),
        ("HTTP/0.9 200 OK", NotHttp),
        ("HTTP/2.0 200 OK", NotHttp),
        ("HTTP/2 200", NotHttp),
        ("http/1.1 200 OK", NotHttp),
        (" HTTP/1.1 200 OK", NotHttp),
        ("ICY 200 OK", NotHttp),
        ("", NotHttp),
        ("\n", NotHttp),
    ];
    for (line, kind) in refused {
        assert_refused(format!("{line}\r\nContent-Length: 3\r\n\r\nabc").as_bytes(), kind);
    }
}

#[test]
fn what_is_not_http_is_refused_at_its_first_wrong_byte() {
    let cases: [(&[u8], usize); 6] = [
        (b"SSH-2.0-OpenSSH_9.6\r\n", 1),
        (b"<html>", 1),
        (b"\x16\x03\x01\x02\x00", 1),
        (b"\x15\x03\x01", 1),
        (b"HTTP/3", 6),
        (b"HTTPS/1.1", 5),
    ];
    for (stream, needed) in cases {
        assert_refused(stream, NotHttp);
        assert_refused(&stream[..needed], NotHttp);
        if needed > 1 {
            assert_refused(&stream[..needed - 1], Reset);
        }
    }
}

#[test]
fn some_statuses_have_no_body() {
    let cases = [
        ("HTTP/1.1 204 No Content\r\n\r\n", true),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", false),
        ("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", false),
        ("HTTP/1.1 304 Not Modified\r\n\r\n", true),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", true),
        ("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", false),
        ("HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n", false),
    ];
    for (stream, keep_alive) in cases {
        assert_eq!(assert_reply(stream.as_bytes(), Framing::None, b"", 0).keep_alive, keep_alive, "{stream}");
        let surplus = format!("{stream}HTTP/1.1 200 OK\r\n");
        assert_reply(surplus.as_bytes(), Framing::None, b"", 17);
    }
    assert_refused(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5,5\r\n\r\n", FailureKind::Framing);
}

#[test]
fn a_connection_is_kept_when_both_sides_can_tell_the_end() {
    let cases = [
        ("1.1", "Content-Length: 3\r\n", true),
        ("1.1", "Content-Length: 3\r\nConnection: close\r\n", false),
        ("1.1", "Content-Length: 3\r\nConnection: CLOSE\r\n", false),
        ("1.1", "Content-Length: 3\r\nConnection: foo ,\tclose\r\n", false),
        ("1.1", "Content-Length: 3\r\nConnection: keep-alive\r\n", true),
        ("1.1", "Content-Length: 3\r\nConnection: keep-alive, close\r\n", false),
        ("1.1", "Content-Length: 3\r\nConnection: close\r\nConnection: keep-alive\r\n", false),
        ("1.1", "Content-Length: 3\r\nConnection: closed\r\n", true),
        ("1.1", "Content-Length: 3\r\nConnection: \u{fc}\r\n", true),
        ("1.1", "Content-Length: 3\r\nProxy-Connection: close\r\n", true),
        ("1.1", "", false),
        ("1.1", "Connection: keep-alive\r\n", false),
        ("1.0", "Content-Length: 3\r\n", false),
        ("1.0", "Content-Length: 3\r\nConnection: Keep-Alive\r\n", true),
        ("1.0", "Content-Length: 3\r\nConnection: Keep-Alive, close\r\n", false),
        ("1.0", "Connection: keep-alive\r\n", false),
    ];
    for (version, fields, keep_alive) in cases {
        let stream = format!("HTTP/{version} 200 OK\r\n{fields}\r\nabc");
        match read(stream.as_bytes()) {
            Read::Reply(head, ..) => assert_eq!(head.keep_alive, keep_alive, "{stream}"),
            other => panic!("{stream} is {other:?}"),
        }
    }
    assert_refused(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", FailureKind::Framing);
}

#[test]
fn interim_replies_are_skipped() {
    let last = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    for interim in [
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.0 100 Continue\n\n",
        "HTTP/1.1 102 Processing\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n",
    ] {
        let head = assert_reply(format!("{interim}{last}").as_bytes(), Framing::Length(3), b"abc", 0);
        assert!(head.keep_alive);
        assert_reply(format!("{}{last}", interim.repeat(8)).as_bytes(), Framing::Length(3), b"abc", 0);
        assert_refused(format!("{}{last}", interim.repeat(9)).as_bytes(), HeadTooLarge);
        assert_refused(interim.as_bytes(), Reset);
        assert_refused(format!("{interim}garbage").as_bytes(), NotHttp);
    }
    for interim in [
        "HTTP/1.1 100 Continue\r\nContent-Length: 3\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ] {
        assert_refused(format!("{interim}{last}").as_bytes(), FailureKind::Framing);
    }
}

#[test]
fn the_end_of_the_stream_means_what_was_missing() {
    assert_eq!(read(b""), Read::Unanswered);
    assert_refused(b"HTTP", Reset);
    assert_refused(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r", Reset);
    assert_refused(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", Truncated);
    assert_refused(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", Truncated);
    assert_reply(b"HTTP/1.1 200 OK\r\n\r\n", Framing::Eof, b"", 0);
}

#[test]
fn each_cut_of_a_reply_is_noticed() {
    let stream = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    for end in 1..stream.len() {
        assert!(matches!(read(&stream[..end]), Read::Refused(malformed) if malformed.kind.is_retryable()));
    }
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    assert_refused(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", BodyTooLarge);
    assert_refused(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", Truncated);
    assert_refused(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n", BodyTooLarge);

    // If no length is stated, a body is refused as soon as it exceeds the limit.
    let unbounded = |length: usize| format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(length));
    assert_reply(unbounded(1000).as_bytes(), Framing::Eof, &[b'x'; 1000], 0);
    assert_refused(unbounded(1001).as_bytes(), BodyTooLarge);
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let seconds = |seconds| Some(RetryAfter::Seconds(seconds));
    let date = |at, sent| Some(RetryAfter::Date { at, sent });
    let cases = [
        ("Retry-After: 120\r\n", seconds(120)),
        ("retry-after: 0\r\n", seconds(0)),
        ("Retry-After: 99999999999999999999999\r\n", seconds(u64::MAX)),
        ("Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n", date(784_111_777, None)),
        (
            "Date: Sun, 06 Nov 1994 08:49:07 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            date(784_111_777, Some(784_111_747)),
        ),
        ("Retry-After: Thu, 29 Feb 2024 00:00:00 GMT\r\nDate: yesterday\r\n", date(1_709_164_800, None)),
        ("Retry-After: Thu, 01 Jan 1970 00:00:00 GMT\r\n", date(0, None)),
        ("Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n", date(253_402_300_799, None)),
        ("Retry-After:\r\n", None),
        ("Retry-After: -1\r\n", None),
        ("Retry-After: +1\r\n", None),
        ("Retry-After: 1.5\r\n", seconds(2)),
        ("Retry-After: 4.0\r\n", seconds(4)),
        ("Retry-After: 4.x\r\n", None),
        ("Retry-After: 120 s\r\n", None),
        ("Retry-After: soon\r\n", None),
        ("Retry-After: Sunday, 06-Nov-94 08:49:37 GMT\r\n", date(784_111_777, None)),
        ("Retry-After: Sun Nov  6 08:49:37 1994\r\n", date(784_111_777, None)),
        ("Retry-After: Sun, 06 Nov 1994 08:49:37 UTC\r\n", date(784_111_777, None)),
        ("Retry-After: Sun, 06 Nov 1994 24:49:37 GMT\r\n", None),
        ("Retry-After: Sun, 00 Nov 1994 08:49:37 GMT\r\n", None),
        ("Retry-After: Sun, 06 Nox 1994 08:49:37 GMT\r\n", None),
        ("Retry-After: Xun, 06 Nov 1994 08:49:37 GMT\r\n", None),
        ("Retry-After: Sun, 06 Nov 1969 08:49:37 GMT\r\n", None),
        ("Retry-After: Sun, 06 Nov 1994 08:49:3\u{b2} GMT\r\n", None),
    ];
    for (fields, expected) in cases {
        let stream = format!("HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n{fields}\r\n");
        let head = assert_reply(stream.as_bytes(), Framing::Length(0), b"", 0);
        assert_eq!(head.retry_after, expected, "{fields}");
    }
}

#[test]
fn a_date_is_compared_with_the_clock_of_the_server() {
    let at = RetryAfter::Date { at: 100, sent: Some(70) };
    assert_eq!(at.wait(1_000_000), 30);
    assert_eq!(RetryAfter::Date { at: 100, sent: None }.wait(90), 10);
    assert_eq!(RetryAfter::Date { at: 100, sent: None }.wait(110), 0);
    assert_eq!(RetryAfter::Seconds(5).wait(110), 5);
}

#[test]
fn an_answer_to_head_has_no_body_whatever_its_fields_say() {
    for fields in
        ["Content-Length: 3\r\n", "Content-Length: 99999999999\r\n", "Transfer-Encoding: chunked\r\n", ""]
    {
        let mut reader = ReplyReader::new(1000);
        reader.start_bodiless();
        let stream = with(fields);

        let progress = reader.read(&stream, &mut Vec::new());

        assert_eq!(progress, Ok(ReplyProgress::Done { consumed: stream.len() - 3 }), "{fields}");
        let head = reader.head().unwrap();
        assert_eq!((head.framing, head.keep_alive), (Framing::None, true), "{fields}");
    }
    let mut reader = ReplyReader::new(1000);
    reader.start_bodiless();
    reader.start();
    let stream = with("Content-Length: 3\r\n");
    assert_eq!(reader.read(&stream, &mut Vec::new()), Ok(ReplyProgress::Done { consumed: stream.len() }));
}
