//! Limits on the size of a head, and on the work that a server can cause with a head.

use super::{Read, parses, read_cut};
use crate::http1::{ReplyProgress, ReplyReader};
use crate::limits::{HEAD_BYTES_MAX, HEAD_FIELDS_MAX, HEAD_LINE_BYTES_MAX};
use crate::outcome::FailureKind;

const END: &str = "Content-Length: 0\r\n\r\n";

/// Returns a head of exactly `bytes` bytes, in lines of 8 KiB.
fn head_of(bytes: usize) -> String {
    let mut head = String::from("HTTP/1.1 200 OK\r\n");
    while head.len() + END.len() < bytes {
        let line = (bytes - head.len() - END.len()).min(8192);
        assert!(line > 4, "choose another size");
        head.extend(["X:", &"y".repeat(line - 4), "\r\n"]);
    }
    head + END
}

/// Checks that the result does not depend on how the stream arrives, and returns the result.
fn read_in_steps(stream: &str) -> Read {
    let stream = stream.as_bytes();
    let whole = read_cut(stream, std::iter::empty());
    for step in [1, 7, 1000, 16384] {
        assert_eq!(read_cut(stream, (1..stream.len()).step_by(step)), whole, "steps of {step}");
    }
    whole
}

fn assert_too_large(stream: &str) {
    match read_in_steps(stream) {
        Read::Refused(malformed) => assert_eq!(malformed.kind, FailureKind::HeadTooLarge),
        other => panic!("should be too large but is {other:?}"),
    }
}

fn assert_read(stream: &str) {
    assert!(matches!(read_in_steps(stream), Read::Reply(..)));
}

#[test]
fn a_head_is_bounded() {
    assert_read(&head_of(HEAD_BYTES_MAX));
    assert_too_large(&head_of(HEAD_BYTES_MAX + 1));
    assert_too_large(&head_of(HEAD_BYTES_MAX + 1000));

    // The head is refused as soon as it exceeds the limit.
    assert_too_large(&head_of(HEAD_BYTES_MAX + 1000)[..HEAD_BYTES_MAX]);
}

#[test]
fn interim_heads_count() {
    let interim = format!("HTTP/1.1 103 Early Hints\r\nX: {}\r\n\r\n", "y".repeat(8000));
    let left = HEAD_BYTES_MAX - 7 * interim.len();
    assert_read(&(interim.repeat(7) + &head_of(left)));
    assert_too_large(&(interim.repeat(7) + &head_of(left + 1)));
}

#[test]
fn a_line_is_bounded() {
    let with_line = |bytes: usize| format!("HTTP/1.1 200 OK\r\nX:{}\r\n{END}", "y".repeat(bytes - 4));
    assert_read(&with_line(HEAD_LINE_BYTES_MAX));
    assert_too_large(&with_line(HEAD_LINE_BYTES_MAX + 1));
    assert_too_large(&format!("HTTP/1.1 200 {}\r\n{END}", "y".repeat(HEAD_LINE_BYTES_MAX)));

    let unfinished = with_line(HEAD_LINE_BYTES_MAX + 1);
    let unfinished = &unfinished[..unfinished.len() - END.len() - 1];
    assert_too_large(unfinished);
}

#[test]
fn the_number_of_fields_is_bounded() {
    let with_fields = |count: usize| format!("HTTP/1.1 200 OK\r\n{}{END}", "X: y\r\n".repeat(count - 1));
    assert_read(&with_fields(HEAD_FIELDS_MAX));
    assert_too_large(&with_fields(HEAD_FIELDS_MAX + 1));
    assert_too_large(&with_fields(9000));
}

#[test]
fn a_head_that_trickles_costs_linear_work() {
    let stream = head_of(HEAD_BYTES_MAX);
    let before = parses();

    assert!(matches!(read_cut(stream.as_bytes(), 1..stream.len()), Read::Reply(..)));

    // `httparse` runs once for the first byte and once after the end. The bytes in between are not parsed one by one.
    assert!(parses() - before <= 2, "{} runs", parses() - before);
}

#[test]
fn a_common_reply_takes_one_run() {
    let stream = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    let mut reader = ReplyReader::new(100);
    let mut body = Vec::new();
    let before = parses();

    assert_eq!(reader.read(stream, &mut body), Ok(ReplyProgress::Done { consumed: stream.len() }));

    assert_eq!(parses() - before, 1);
}

#[test]
fn a_reader_is_small() {
    assert!(size_of::<ReplyReader>() < 200);
}

#[test]
fn replies_follow_each_other_in_one_input() {
    let one = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1";
    let two = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n2\r\n0\r\n\r\n";
    let stream = [&one[..], two, one].concat();
    let mut reader = ReplyReader::new(100);
    let mut body = Vec::new();
    let mut rest = &stream[..];

    while !rest.is_empty() {
        reader.start();
        match reader.read(rest, &mut body) {
            Ok(ReplyProgress::Done { consumed }) => rest = &rest[consumed..],
            other => panic!("{other:?}"),
        }
        assert_eq!(
            reader.read(rest, &mut body),
            Ok(ReplyProgress::Done { consumed: 0 }),
            "until it is started"
        );
    }

    assert_eq!(body, b"121");
}
