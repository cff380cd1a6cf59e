//! Converts a JSON array to lines with one value each, as in `jsonl`. An input that does not begin with `[` is left
//! unchanged.
//!
//! The bytes are changed in place and their number never grows, so memory does not depend on the size of the array.

use std::io::{self, ErrorKind, Read};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Maximum amount of white space before the first value, in bytes. An input with more white space does not count as an
/// array.
const BLANK_BYTES_MAX: usize = 4096;
/// Replaces a bare newline in a string, which JSON forbids. The value stays invalid, but it remains on one line.
const NEWLINE_IN_STRING: u8 = 0x1f;

/// The input after conversion. See the module.
pub(super) struct JsonInput<R> {
    input: R,
    state: State,
}

enum State {
    /// Only white space has been read so far.
    Start(Vec<u8>),
    /// The input is left unchanged. These first bytes are returned before the remaining input.
    Lines(Vec<u8>),
    Array(ArrayText),
    Failed(&'static str),
}

impl<R: Read> JsonInput<R> {
    pub(super) fn new(input: R) -> Self {
        JsonInput { input, state: State::Start(Vec::new()) }
    }

    /// Returns whether the input is known to be an array.
    pub(super) fn is_array(&self) -> bool {
        matches!(self.state, State::Array(_))
    }

    /// Reads up to the first byte that is not white space.
    fn begin(&mut self) -> io::Result<()> {
        while let State::Start(head) = &mut self.state {
            let mut byte = [0];
            let is_over = self.input.read(&mut byte)? == 0;
            if !is_over {
                head.push(byte[0]);
            }
            let is_mark = BYTE_ORDER_MARK.starts_with(head) || head == BYTE_ORDER_MARK;
            let is_blank = is_mark || byte[0].is_ascii_whitespace();
            if !is_over && is_blank && head.len() < BLANK_BYTES_MAX {
                continue;
            }
            self.state = match byte[0] {
                b'[' if !is_over => State::Array(ArrayText::default()),
                _ => State::Lines(std::mem::take(head)),
            };
        }
        Ok(())
    }
}

impl<R: Read> Read for JsonInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.begin()?;
        match &mut self.state {
            State::Lines(head) if head.is_empty() => self.input.read(buffer),
            State::Lines(head) => {
                let count = head.len().min(buffer.len());
                buffer[..count].copy_from_slice(&head[..count]);
                head.drain(..count);
                Ok(count)
            }
            State::Array(array) => loop {
                let count = self.input.read(buffer)?;
                if count == 0 {
                    return if array.is_over || buffer.is_empty() {
                        Ok(0)
                    } else {
                        Err(io::Error::new(ErrorKind::UnexpectedEof, "its array is not closed"))
                    };
                }
                let (written, fault) = array.split(&mut buffer[..count]);
                match fault {
                    // The bytes before the error are returned first.
                    Some(fault) => {
                        self.state = State::Failed(fault);
                        return if written > 0 { Ok(written) } else { Err(malformed(fault)) };
                    }
                    None if written > 0 => return Ok(written),
                    None => {}
                }
            },
            State::Failed(fault) => Err(malformed(fault)),
            State::Start(_) => Ok(0),
        }
    }
}

fn malformed(fault: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, fault)
}

/// Position in an array.
#[derive(Default)]
struct ArrayText {
    /// Number of open arrays and objects in the value.
    depth: u64,
    string: StringState,
    /// Whether the current value has begun.
    has_value: bool,
    /// Whether there was a comma before the current value.
    needs_value: bool,
    is_over: bool,
}

/// Whether the position is inside a string.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum StringState {
    #[default]
    Outside,
    Inside,
    /// The position is after a backslash.
    Escaped,
}

impl ArrayText {
    /// Converts the next bytes to lines in place. Returns the number of remaining bytes, and the error that follows
    /// them.
    fn split(&mut self, bytes: &mut [u8]) -> (usize, Option<&'static str>) {
        let mut written = 0;
        for at in 0..bytes.len() {
            match self.next(bytes[at]) {
                Ok(None) => {}
                Ok(Some(byte)) => {
                    bytes[written] = byte;
                    written += 1;
                }
                Err(fault) => return (written, Some(fault)),
            }
        }
        (written, None)
    }

    fn next(&mut self, byte: u8) -> Result<Option<u8>, &'static str> {
        if self.string != StringState::Outside {
            return Ok(Some(self.next_in_string(byte)));
        }
        if byte.is_ascii_whitespace() {
            return Ok(self.has_value.then_some(b' '));
        }
        if self.is_over {
            return Err("there is text after the array; a list must be one array, or one value per line");
        }
        match byte {
            b',' if self.depth == 0 => {
                self.needs_value = true;
                return if std::mem::take(&mut self.has_value) { Ok(Some(b'\n')) } else { Err(NO_VALUE) };
            }
            b']' if self.depth == 0 => {
                self.is_over = true;
                let had_value = std::mem::take(&mut self.has_value);
                return if had_value || !self.needs_value {
                    Ok(had_value.then_some(b'\n'))
                } else {
                    Err(NO_VALUE)
                };
            }
            b'}' if self.depth == 0 => return Err("its array has a } without a matching {"),
            b']' | b'}' => self.depth -= 1,
            b'[' | b'{' => self.depth += 1,
            b'"' => self.string = StringState::Inside,
            _ => {}
        }
        self.has_value = true;
        Ok(Some(byte))
    }

    fn next_in_string(&mut self, byte: u8) -> u8 {
        self.string = match (self.string, byte) {
            (StringState::Inside, b'"') => StringState::Outside,
            (StringState::Inside, b'\\') => StringState::Escaped,
            _ => StringState::Inside,
        };
        if byte == b'\n' { NEWLINE_IN_STRING } else { byte }
    }
}

const NO_VALUE: &str = "its array has a comma without a value";

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `step` bytes at a time.
    fn read(text: &str, step: usize) -> io::Result<String> {
        let mut input = JsonInput::new(text.as_bytes());
        let (mut all, mut buffer) = (Vec::new(), vec![0; step]);
        loop {
            match input.read(&mut buffer)? {
                0 => return Ok(String::from_utf8(all).unwrap()),
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    }

    #[test]
    fn the_values_of_an_array_are_lines() {
        for (text, lines) in [
            ("[]", ""),
            (" [ ] \n", ""),
            ("\u{feff}\n[\"a\"]", "\"a\"\n"),
            ("[\"a,]\\\"[\", {\"b\":\n[1,{}]}\n,3]", "\"a,]\\\"[\"\n{\"b\": [1,{}]} \n3\n"),
            ("[\"a\nb\"]", "\"a\u{1f}b\"\n"),
            ("{\"a\": [1]}\n\"b\"\n", "{\"a\": [1]}\n\"b\"\n"),
            ("\n\u{feff}x[", "\n\u{feff}x["),
            ("", ""),
        ] {
            for step in [1, 2, 100] {
                assert_eq!(read(text, step).unwrap(), lines, "{text:?} {step}");
            }
        }
    }

    #[test]
    fn a_damaged_array_is_an_error() {
        for text in ["[", "[1", "[\"a", "[1,]", "[,1]", "[1,,2]", "[1}", "[1] 2", "[1]\n[2]"] {
            for step in [1, 100] {
                assert!(read(text, step).is_err(), "{text:?}");
            }
        }
    }
}
