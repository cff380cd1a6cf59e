//! Chunked bodies that are valid, and chunked bodies that are refused.

use super::{assert_refused, assert_reply};
use crate::http1::Framing;
use crate::limits::{CHUNK_EXTENSION_BYTES_MAX, HEAD_FIELDS_MAX, TRAILER_BYTES_MAX};
use crate::outcome::FailureKind::{self, BodyTooLarge, Truncated};

fn chunked(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}").into_bytes()
}

#[test]
fn the_data_of_all_chunks_is_the_body() {
    let accepted = [
        ("0\r\n\r\n", "", 0),
        ("00000\r\n\r\n", "", 0),
        ("3\r\nabc\r\n0\r\n\r\n", "abc", 0),
        ("003\r\nabc\r\n0\r\n\r\n", "abc", 0),
        ("0000000000000003\r\nabc\r\n0\r\n\r\n", "abc", 0),
        ("1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n", "abc", 0),
        ("a\r\n0123456789\r\n0\r\n\r\n", "0123456789", 0),
        ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789", 0),
        ("3\r\n\r\n0\r\n0\r\n\r\n", "\r\n0", 0),
        ("3;name=value\r\nabc\r\n0;last\r\n\r\n", "abc", 0),
        ("3;a=\"b;c\"; d\t\r\nabc\r\n0\r\n\r\n", "abc", 0),
        ("3;\r\nabc\r\n0\r\n\r\n", "abc", 0),
        ("3;\u{fc}\r\nabc\r\n0\r\n\r\n", "abc", 0),
        ("3\r\nabc\r\n0\r\nX: y\r\n\r\n", "abc", 0),
        ("3\r\nabc\r\n0\r\nX:\r\nY: \t z\r\n\r\n", "abc", 0),
        ("3\r\nabc\r\n0\r\nContent-Length: 7\r\n\r\n", "abc", 0),
        ("3\r\nabc\r\n0\r\n\r\nHTTP/1.1", "abc", 8),
        ("0\r\n\r\n\r\n", "", 2),
    ];
    for (body, expected, surplus) in accepted {
        assert_reply(&chunked(body), Framing::Chunked, expected.as_bytes(), surplus);
    }
    assert_reply(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding:\tCHUNKED \r\n\r\n0\r\n\r\n",
        Framing::Chunked,
        b"",
        0,
    );
}

#[test]
fn malformed_chunks_are_refused() {
    let refused = [
        // Sizes.
        "\r\nabc\r\n0\r\n\r\n",
        " 3\r\nabc\r\n0\r\n\r\n",
        "3 3\r\nabc\r\n0\r\n\r\n",
        "3 x\r\nabc\r\n0\r\n\r\n",
        "3 \nabc\r\n0\r\n\r\n",
        "3\x0b\r\nabc\r\n0\r\n\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "3h\r\nabc\r\n0\r\n\r\n",
        "g\r\n",
        "3_0\r\n",
        ";x\r\n",
        "00000000000000003\r\nabc\r\n0\r\n\r\n",
        "10000000000000000\r\n",
        "10000000000000003\r\nabc\r\n0\r\n\r\n",
        "ffffffffffffffff0\r\n",
        // Line endings.
        "3\nabc\r\n0\r\n\r\n",
        "3\rabc\r\n0\r\n\r\n",
        "3\rXabc\r\n0\r\n\r\n",
        "3\r\r\nabc\r\n0\r\n\r\n",
        "3;x\nabc\r\n0\r\n\r\n",
        "3;x\ry\r\nabc\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabc\r0\r\n\r\n",
        "3\r\nabc\rX0\r\n\r\n",
        "3\r\nabcX\n0\r\n\r\n",
        "3\r\nabc0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabcXX0\r\n\r\n",
        "3\r\nabc\r\n\r\n0\r\n\r\n",
        "0\n\n",
        "0\r\n\n",
        "0\r\n\rX",
        // Extensions and trailers.
        "3;\0\r\nabc\r\n0\r\n\r\n",
        "3;\x7f\r\nabc\r\n0\r\n\r\n",
        "0\r\n X: y\r\n\r\n",
        "0\r\nX: y\r\n z\r\n\r\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\nX\r\n\r\n",
        "0\r\n: y\r\n\r\n",
        "0\r\nX: y\n\r\n",
        "0\r\nX: y\n\n",
        "0\r\nX: y\rz\r\n\r\n",
        "0\r\nX: \0\r\n\r\n",
        "0\r\nX\u{fc}: y\r\n\r\n",
    ];
    for body in refused {
        assert_refused(&chunked(body), FailureKind::Framing);
    }
}

#[test]
fn a_padded_size_makes_the_reply_suspect() {
    for body in ["3  \r\nabc\r\n0\r\n\r\n", "3\t;x\r\nabc\r\n0\r\n\r\n", "3\r\nabc\r\n0     \r\n\r\n"] {
        let head = assert_reply(&chunked(body), Framing::Chunked, b"abc", 0);
        assert!(head.is_suspect && !head.keep_alive, "{body}");
    }
    let padded = |blanks: usize| format!("1{}\r\na\r\n0\r\n\r\n", " ".repeat(blanks));
    assert_reply(&chunked(&padded(CHUNK_EXTENSION_BYTES_MAX)), Framing::Chunked, b"a", 0);
    assert_refused(&chunked(&padded(CHUNK_EXTENSION_BYTES_MAX + 1)), FailureKind::Framing);
}

#[test]
fn the_last_chunk_must_come() {
    let body = "3;x\r\nabc\r\n0\r\nX: y\r\n\r\n";
    for end in 0..body.len() {
        assert_refused(&chunked(&body[..end]), Truncated);
    }
}

#[test]
fn a_chunk_that_is_too_large_is_refused_before_it_is_read() {
    assert_refused(&chunked("3e9\r\n"), BodyTooLarge);
    assert_refused(&chunked("3e8\r\n"), Truncated);
    assert_refused(&chunked("1\r\na\r\n3e8\r\n"), BodyTooLarge);
    assert_refused(&chunked("ffffffffffffffff\r\n"), BodyTooLarge);
    assert_refused(&chunked("1\r\na\r\nffffffffffffffff\r\n"), BodyTooLarge);
}

#[test]
fn extensions_and_trailers_are_bounded() {
    let extension = |length: usize| format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(length));
    assert_reply(&chunked(&extension(CHUNK_EXTENSION_BYTES_MAX)), Framing::Chunked, b"a", 0);
    assert_refused(&chunked(&extension(CHUNK_EXTENSION_BYTES_MAX + 1)), FailureKind::Framing);

    // The limit applies to the extensions of all chunks together.
    let many = format!("{}0\r\n\r\n", "1;xxx\r\na\r\n".repeat(900));
    assert_reply(&chunked(&many), Framing::Chunked, &[b'a'; 900], 0);
    let many = format!("{}0\r\n\r\n", "1;xxxxx\r\na\r\n".repeat(900));
    assert_refused(&chunked(&many), FailureKind::Framing);

    // The last empty line also counts.
    let trailer = |length: usize| format!("0\r\nX:{}\r\n\r\n", "y".repeat(length - 6));
    assert_reply(&chunked(&trailer(TRAILER_BYTES_MAX)), Framing::Chunked, b"", 0);
    assert_refused(&chunked(&trailer(TRAILER_BYTES_MAX + 1)), FailureKind::Framing);

    let trailers = |count: usize| format!("0\r\n{}\r\n", "X:\r\n".repeat(count));
    assert_reply(&chunked(&trailers(HEAD_FIELDS_MAX)), Framing::Chunked, b"", 0);
    assert_refused(&chunked(&trailers(HEAD_FIELDS_MAX + 1)), FailureKind::Framing);
}
