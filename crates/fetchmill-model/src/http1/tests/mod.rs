//! Tests of the codec as a transport uses it. Every stream is passed as a whole, byte by byte, and split at each
//! position. The result must always be the same.

mod chunks;
mod heads;
mod properties;
mod requests;
mod sizes;

use std::cell::Cell;

use super::{Framing, Head, MalformedReply, ReplyProgress, ReplyReader, StreamEnd};
use crate::outcome::FailureKind;

pub(super) const MAX_BODY: u64 = 1000;

thread_local! {
    static PARSES: Cell<usize> = const { Cell::new(0) };
}

/// Counts a run of `httparse`.
pub(super) fn count_parse() {
    PARSES.with(|parses| parses.set(parses.get() + 1));
}

/// Returns the number of `httparse` runs on this thread so far.
fn parses() -> usize {
    PARSES.with(Cell::get)
}

/// Result of reading a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Read {
    /// A reply, its body, and the number of bytes of the stream that belong to it.
    Reply(Head, Vec<u8>, usize),
    Unanswered,
    Refused(MalformedReply),
}

/// Reads one reply from `stream`, which is split at `cuts` and then closed.
pub(super) fn read_cut(stream: &[u8], cuts: impl Iterator<Item = usize>) -> Read {
    let mut reader = ReplyReader::new(MAX_BODY);
    let mut body = Vec::new();
    let mut start = 0;
    for end in cuts.chain([stream.len()]) {
        match reader.read(&stream[start..end], &mut body) {
            Ok(ReplyProgress::NeedMore { consumed }) => start += consumed,
            Ok(ReplyProgress::Done { consumed }) => return reply(&reader, body, start + consumed),
            Err(malformed) => {
                assert_eq!(reader.read(b"", &mut body), Err(malformed), "an error stays");
                assert_eq!(reader.read(b"x", &mut body), Err(malformed), "an error stays");
                assert_eq!(reader.end_of_stream(), Err(malformed), "an error stays");
                return Read::Refused(malformed);
            }
        }
    }
    match reader.end_of_stream() {
        Ok(StreamEnd::Complete) => reply(&reader, body, start),
        Ok(StreamEnd::Unanswered) => Read::Unanswered,
        Err(malformed) => Read::Refused(malformed),
    }
}

fn reply(reader: &ReplyReader, body: Vec<u8>, consumed: usize) -> Read {
    Read::Reply(*reader.head().expect("a reply has a head"), body, consumed)
}

/// Reads one reply, and checks that the result does not depend on how the stream is split.
pub(super) fn read(stream: &[u8]) -> Read {
    let whole = read_cut(stream, std::iter::empty());
    assert_eq!(read_cut(stream, 1..stream.len()), whole, "byte by byte: {}", stream.escape_ascii());
    for cut in 0..stream.len() {
        assert_eq!(read_cut(stream, [cut].into_iter()), whole, "cut at {cut}: {}", stream.escape_ascii());
    }
    whole
}

/// Checks that a stream is refused with this kind.
pub(super) fn assert_refused(stream: &[u8], kind: FailureKind) {
    match read(stream) {
        Read::Refused(malformed) if malformed.kind == kind => {}
        other => panic!("{} should be {kind:?}, is {other:?}", stream.escape_ascii()),
    }
}

/// Checks that a stream is a reply with this framing and body, followed by `surplus` unused bytes.
pub(super) fn assert_reply(stream: &[u8], framing: Framing, body: &[u8], surplus: usize) -> Head {
    match read(stream) {
        Read::Reply(head, got, consumed) => {
            let case = stream.escape_ascii();
            assert_eq!(head.framing, framing, "{case}");
            assert_eq!(got.escape_ascii().to_string(), body.escape_ascii().to_string(), "{case}");
            assert_eq!(consumed, stream.len() - surplus, "{case}");
            head
        }
        other => panic!("{} should be a reply but is {other:?}", stream.escape_ascii()),
    }
}
