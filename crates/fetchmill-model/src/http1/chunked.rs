//! A decoder for the chunked transfer coding. It reads framing bytes one by one and data in slices.
//!
//! The decoder is strict where parsers differ:
//! - A size consists of 1 to 16 hex digits, followed by CR or `;`.
//! - Every line ends with CR LF.
//! - The data of a chunk is followed by CR LF and nothing else.
//! - The last chunk is required.
//!
//! Extensions and trailers are bounded and discarded. Old servers pad a size with blanks. A reply with such blanks is
//! suspect.

use super::body_sink::BodySink;
use super::malformed::{MalformedReply, body_too_large};
use super::odd_head::is_text;
use crate::http1::header_field::is_token;
use crate::limits::{CHUNK_EXTENSION_BYTES_MAX, HEAD_FIELDS_MAX, TRAILER_BYTES_MAX};

/// State that the decoder keeps between inputs.
#[derive(Debug, Default)]
pub(super) struct ChunkedDecoder {
    step: ChunkState,
    /// Number of size digits read so far.
    digits: u8,
    /// The size read so far while the decoder reads a size line, and after that the number of bytes left in the chunk.
    size: u64,
    /// Total size of all chunks whose size lines were read.
    total: u64,
    extension_bytes: usize,
    trailer_bytes: usize,
    trailer_fields: usize,
    is_padded: bool,
}

/// The element to which the next byte belongs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    #[default]
    SizeStart,
    Size,
    Padding,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

impl ChunkedDecoder {
    /// Returns whether the end of the trailers was reached.
    pub(super) fn is_done(&self) -> bool {
        self.step == ChunkState::Done
    }

    /// Returns whether any size was followed by blanks.
    pub(super) fn is_padded(&self) -> bool {
        self.is_padded
    }

    /// Returns the total size of the chunks so far.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Passes the data in `input` to `body`. Returns the number of consumed bytes, which is less than the input only if
    /// the body has ended.
    pub(super) fn read(
        &mut self,
        input: &[u8],
        max_body: u64,
        body: &mut impl BodySink,
    ) -> Result<usize, MalformedReply> {
        let mut rest = input;
        while let Some((&byte, behind)) = rest.split_first() {
            match self.step {
                ChunkState::Done => break,
                ChunkState::Data => {
                    let count = usize::try_from(self.size).map_or(rest.len(), |size| size.min(rest.len()));
                    let (data, behind) = rest.split_at(count);
                    body.piece(data);
                    self.size -= count as u64;
                    if self.size == 0 {
                        self.step = ChunkState::DataCr;
                    }
                    rest = behind;
                }
                ChunkState::SizeStart
                | ChunkState::Size
                | ChunkState::Padding
                | ChunkState::Extension
                | ChunkState::SizeLf => {
                    self.size_line(byte, max_body)?;
                    rest = behind;
                }
                ChunkState::DataCr | ChunkState::DataLf => {
                    self.step = match (self.step, byte) {
                        (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
                        (ChunkState::DataLf, b'\n') => ChunkState::SizeStart,
                        _ => return Err(MalformedReply::framing("a chunk is not followed by CR LF")),
                    };
                    rest = behind;
                }
                _ => {
                    self.trailer(byte)?;
                    rest = behind;
                }
            }
        }
        Ok(input.len() - rest.len())
    }

    /// Handles a byte of a size line.
    fn size_line(&mut self, byte: u8, max_body: u64) -> Result<(), MalformedReply> {
        match (self.step, byte) {
            (ChunkState::SizeStart | ChunkState::Size, digit) if digit.is_ascii_hexdigit() => {
                if self.digits == 16 {
                    return Err(MalformedReply::framing("a chunk size has more than 16 digits"));
                }
                self.size = self.size << 4 | u64::from(hex(digit));
                self.digits += 1;
                self.step = ChunkState::Size;
            }
            (ChunkState::Size | ChunkState::Padding | ChunkState::Extension, b'\r') => {
                self.step = ChunkState::SizeLf;
            }
            (ChunkState::Size | ChunkState::Padding, b';') => self.step = ChunkState::Extension,
            (ChunkState::Size | ChunkState::Padding, b' ' | b'\t') => {
                self.is_padded = true;
                self.step = ChunkState::Padding;
                self.count_extension()?;
            }
            (ChunkState::Extension, byte) if is_text(byte) => self.count_extension()?,
            (ChunkState::SizeLf, b'\n') => return self.size_known(max_body),
            _ => return Err(MalformedReply::framing("a chunk size is malformed")),
        }
        Ok(())
    }

    fn count_extension(&mut self) -> Result<(), MalformedReply> {
        self.extension_bytes += 1;
        if self.extension_bytes > CHUNK_EXTENSION_BYTES_MAX {
            return Err(MalformedReply::framing("chunk extensions are larger than 4 KiB"));
        }
        Ok(())
    }

    fn size_known(&mut self, max_body: u64) -> Result<(), MalformedReply> {
        self.digits = 0;
        if self.size == 0 {
            self.step = ChunkState::TrailerStart;
            return Ok(());
        }
        self.total = self.total.saturating_add(self.size);
        if self.total > max_body {
            return Err(body_too_large());
        }
        self.step = ChunkState::Data;
        Ok(())
    }

    /// Handles a byte after the last chunk.
    fn trailer(&mut self, byte: u8) -> Result<(), MalformedReply> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > TRAILER_BYTES_MAX {
            return Err(MalformedReply::framing("trailers are larger than 8 KiB"));
        }
        self.step = match (self.step, byte) {
            (ChunkState::TrailerStart, b'\r') => ChunkState::EndLf,
            (ChunkState::TrailerStart, byte) if is_token(byte) => {
                self.trailer_fields += 1;
                if self.trailer_fields > HEAD_FIELDS_MAX {
                    return Err(MalformedReply::framing("the reply has more than 128 trailers"));
                }
                ChunkState::TrailerName
            }
            (ChunkState::TrailerName, b':') => ChunkState::TrailerValue,
            (ChunkState::TrailerName, byte) if is_token(byte) => ChunkState::TrailerName,
            (ChunkState::TrailerValue, b'\r') => ChunkState::TrailerLf,
            (ChunkState::TrailerValue, byte) if is_text(byte) => ChunkState::TrailerValue,
            (ChunkState::TrailerLf, b'\n') => ChunkState::TrailerStart,
            (ChunkState::EndLf, b'\n') => ChunkState::Done,
            _ => return Err(MalformedReply::framing("a trailer is malformed")),
        };
        Ok(())
    }
}

/// Returns the value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
