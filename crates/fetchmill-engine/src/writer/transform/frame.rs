//! The protocol between a writer and its transform process. Numbers are little-endian.
//!
//! The first message is the setup: its length (u32) and its bytes. The answer says that the process is ready, or why it
//! is not.
//!
//! Each request after that consists of the length of what follows (u32), the number of replies (u32), and the replies
//! ([`TransformRequest::add`]). The replies are answered in order. Each answer consists of a letter, the length of the
//! columns (u32), the length of the body (u64), the columns and the body. The value of a column consists of a length
//! (u32, all ones if there is no value) and its bytes.

use std::io::{self, Read};
use std::path::Path;

use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::{TRANSFORM_COLUMNS_BYTES_MAX, TRANSFORM_DETAIL_BYTES_MAX};
use fetchmill_model::object::Facts;

const NONE: u32 = u32::MAX;
const NO_DATE: i64 = i64::MIN;
/// Size of the head of an answer: a letter and two lengths.
const ANSWER_HEAD_BYTES: usize = 13;

/// A reply in the form in which the function receives it.
pub(super) struct ReplyView<'s> {
    pub(super) name: &'s [u8],
    pub(super) url: &'s [u8],
    /// File that contains the body, if it was too large for memory.
    pub(super) path: Option<&'s Path>,
    pub(super) body: &'s [u8],
    pub(super) facts: Facts<'s>,
}

/// A request while it is being written.
pub(super) struct TransformRequest<'r> {
    out: &'r mut Vec<u8>,
    replies: u32,
}

impl<'r> TransformRequest<'r> {
    /// Starts a request in a buffer that is reused.
    pub(super) fn new(out: &'r mut Vec<u8>) -> Self {
        out.clear();
        out.extend_from_slice(&[0; 8]);
        TransformRequest { out, replies: 0 }
    }

    /// Adds a reply. It begins with the status (u16) and the date (i64). The lengths of name, URL, content type,
    /// encoding, ETag and path (u32) follow, then the length of the body (u64). The values come last, in the same
    /// order.
    pub(super) fn add(&mut self, reply: &ReplyView<'_>) {
        use std::os::unix::ffi::OsStrExt as _;
        let facts = &reply.facts;
        let path = reply.path.map(|path| path.as_os_str().as_bytes());
        let texts =
            [Some(reply.name), Some(reply.url), facts.content_type, facts.content_encoding, facts.etag, path];
        self.out.extend_from_slice(&facts.status.to_le_bytes());
        let date = facts.last_modified.map_or(NO_DATE, |seconds| seconds as i64);
        self.out.extend_from_slice(&date.to_le_bytes());
        for text in texts {
            let length = text.map_or(NONE, |text| text.len() as u32);
            self.out.extend_from_slice(&length.to_le_bytes());
        }
        self.out.extend_from_slice(&(reply.body.len() as u64).to_le_bytes());
        for bytes in texts.into_iter().flatten().chain([reply.body]) {
            self.out.extend_from_slice(bytes);
        }
        self.replies += 1;
    }

    /// Fills in the lengths in the head of the request.
    pub(super) fn finish(self) -> Result<()> {
        let length = u32::try_from(self.out.len() - 4)
            .map_err(|_| Error::Internal("the batch is too large for a transform".into()))?;
        self.out[..4].copy_from_slice(&length.to_le_bytes());
        self.out[4..8].copy_from_slice(&self.replies.to_le_bytes());
        Ok(())
    }
}

/// Result for a reply. The buffers of the caller contain its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransformAnswer {
    /// Store the body and the columns.
    Stored,
    Dropped,
    /// The transform failed. The body contains the reason.
    Failed,
}

struct TransformAnswerHead {
    letter: u8,
    columns: usize,
    body: u64,
}

fn read_head(from: &mut impl Read) -> io::Result<TransformAnswerHead> {
    let mut head = [0; ANSWER_HEAD_BYTES];
    from.read_exact(&mut head)?;
    let [letter, a, b, c, d, body @ ..] = head;
    let columns = u32::from_le_bytes([a, b, c, d]) as usize;
    Ok(TransformAnswerHead { letter, columns, body: u64::from_le_bytes(body) })
}

/// Reads whether the process is ready. If it is not, the inner `Err` contains the reason.
pub(super) fn read_ready(from: &mut impl Read) -> io::Result<std::result::Result<(), String>> {
    let head = read_head(from)?;
    let mut text = Vec::new();
    read_part(from, head.body.min(TRANSFORM_DETAIL_BYTES_MAX as u64), &mut text)?;
    match head.letter {
        b'R' => Ok(Ok(())),
        b'E' => Ok(Err(one_line(&text))),
        _ => Err(wrong("it is not ready and gave no reason")),
    }
}

/// Reads the next answer with its columns and body. A body that exceeds `max_size` bytes is a failure.
pub(super) fn read_answer(
    from: &mut impl Read,
    columns: &mut Vec<u8>,
    body: &mut Vec<u8>,
    max_size: u64,
) -> io::Result<TransformAnswer> {
    let head = read_head(from)?;
    let (answer, body_max) = match head.letter {
        b'S' => (TransformAnswer::Stored, max_size),
        b'N' => (TransformAnswer::Dropped, 0),
        b'F' => (TransformAnswer::Failed, TRANSFORM_DETAIL_BYTES_MAX as u64),
        _ => return Err(wrong("its answer is not valid")),
    };
    if answer != TransformAnswer::Stored && (head.columns > 0 || head.body > body_max) {
        return Err(wrong("its answer has unexpected data"));
    }
    if head.columns > TRANSFORM_COLUMNS_BYTES_MAX || head.body > body_max {
        io::copy(&mut from.take(head.body.saturating_add(head.columns as u64)), &mut io::sink())?;
        columns.clear();
        body.clear();
        body.extend_from_slice(too_large(&head, max_size).as_bytes());
        return Ok(TransformAnswer::Failed);
    }
    read_part(from, head.columns as u64, columns)?;
    read_part(from, head.body, body)?;
    if are_values(columns) { Ok(answer) } else { Err(wrong("its columns are damaged")) }
}

fn too_large(head: &TransformAnswerHead, max_size: u64) -> String {
    if head.columns > TRANSFORM_COLUMNS_BYTES_MAX {
        return format!("the columns must be at most {TRANSFORM_COLUMNS_BYTES_MAX} bytes ({})", head.columns);
    }
    format!("the result has {} bytes, but --max-size is {max_size}", head.body)
}

/// Reads exactly `length` bytes. Allocates memory only as the bytes arrive.
fn read_part(from: &mut impl Read, length: u64, into: &mut Vec<u8>) -> io::Result<()> {
    into.clear();
    from.take(length).read_to_end(into)?;
    if into.len() as u64 == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Iterates over column values, up to the first invalid byte.
pub(super) fn values(columns: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = columns;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length);
        if length == NONE {
            rest = behind;
            return Some(None);
        }
        let (value, behind) = behind.split_at_checked(length as usize)?;
        rest = behind;
        Some(Some(value))
    })
}

/// Returns whether the bytes are a valid sequence of UTF-8 values.
fn are_values(columns: &[u8]) -> bool {
    let mut length = 0;
    for value in values(columns) {
        if value.is_some_and(|value| std::str::from_utf8(value).is_err()) {
            return false;
        }
        length += 4 + value.map_or(0, <[u8]>::len);
    }
    length == columns.len()
}

/// Returns the output of a process as one line, for a message.
pub(super) fn one_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).split(char::is_control).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(letter: u8, columns: &[u8], body: &[u8]) -> Vec<u8> {
        let lengths = [&(columns.len() as u32).to_le_bytes()[..], &(body.len() as u64).to_le_bytes()];
        [&[letter], lengths.concat().as_slice(), columns, body].concat()
    }

    fn read(mut bytes: &[u8], max_size: u64) -> io::Result<(TransformAnswer, Vec<u8>, Vec<u8>, usize)> {
        let (mut columns, mut body) = (Vec::new(), Vec::new());
        let answer = read_answer(&mut bytes, &mut columns, &mut body, max_size)?;
        Ok((answer, columns, body, bytes.len()))
    }

    #[test]
    fn an_answer_comes_back_and_what_is_too_large_is_a_failure() {
        let columns = [&2_u32.to_le_bytes()[..], b"ab", &NONE.to_le_bytes(), &0_u32.to_le_bytes()].concat();
        let whole = answer(b'S', &columns, b"body");

        assert_eq!(read(&whole, 4).unwrap(), (TransformAnswer::Stored, columns.clone(), b"body".to_vec(), 0));
        assert_eq!(values(&columns).collect::<Vec<_>>(), [Some(&b"ab"[..]), None, Some(b"")]);
        let (failed, _, detail, left) = read(&whole, 3).unwrap();
        assert_eq!((failed, left), (TransformAnswer::Failed, 0));
        assert_eq!(detail, b"the result has 4 bytes, but --max-size is 3");
        let (failed, ..) = read(&answer(b'S', &vec![0; TRANSFORM_COLUMNS_BYTES_MAX + 4], b""), 3).unwrap();
        assert_eq!(failed, TransformAnswer::Failed);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let value = [&1_u32.to_le_bytes()[..], b"\xff"].concat();
        for wrong in [
            answer(b'X', b"", b""),
            answer(b'N', b"", b"x"),
            answer(b'F', &NONE.to_le_bytes(), b"why"),
            answer(b'F', b"", &[b'x'; TRANSFORM_DETAIL_BYTES_MAX + 1]),
            answer(b'S', b"\x01\0\0\0", b""),
            answer(b'S', &value, b""),
        ] {
            assert_eq!(read(&wrong, 100).unwrap_err().kind(), io::ErrorKind::InvalidData, "{wrong:?}");
        }
        let mut endless = answer(b'S', b"", b"");
        endless[5..].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(read(&endless, u64::MAX).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_message_has_one_line() {
        assert_eq!(one_line(b"a\nb\x1b[1m\xff"), "a b [1m\u{fffd}");
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_end(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = read(&bytes, 50);
            prop_assert!(values(&bytes).count() <= bytes.len());
        }
    }
}
