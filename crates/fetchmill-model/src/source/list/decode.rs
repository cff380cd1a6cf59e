//! Decompresses a list. Its first bytes determine the compression.

use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use zstd::stream::read::Decoder;

use super::Compression;
use super::zip_member::is_zip;
use crate::limits::{LIST_XZ_KIB_MAX, LIST_ZSTD_WINDOW_LOG_MAX, MIB, READ_BYTES};

/// Number of first bytes that determine the compression.
pub(super) const MAGIC_BYTES: usize = 4;

/// Number of bytes read from an input. The number is shared because the input is moved into a decoder.
pub(super) type BytesRead = Arc<AtomicU64>;

/// An input whose bytes are counted.
struct CountedInput {
    input: Box<dyn Read + Send>,
    read: BytesRead,
}

impl Read for CountedInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

type Input = BufReader<io::Chain<io::Cursor<Vec<u8>>, Box<dyn Read + Send>>>;

/// An input that detects its own compression. If the source has no data at the moment, the `WouldBlock` error is passed
/// on and no data is lost.
pub(super) struct DecodedInput {
    state: DecodeState,
    read: BytesRead,
    promised: Option<Compression>,
}

enum DecodeState {
    /// The first bytes have not all arrived yet.
    Start(Vec<u8>, Box<dyn Read + Send>),
    Plain(Input),
    Gzip(Box<MultiGzDecoder<Input>>),
    Zstd(Box<Decoder<'static, Input>>),
    Xz(Box<XzReader<PatientInput>>),
    Bzip2(Box<MultiBzDecoder<Input>>),
    Broken,
}

impl DecodedInput {
    /// Creates an input. `promised` is the compression that the file name implies.
    pub(super) fn new(input: Box<dyn Read + Send>, promised: Option<Compression>) -> Self {
        let read = BytesRead::default();
        let input = Box::new(CountedInput { input, read: Arc::clone(&read) });
        DecodedInput { state: DecodeState::Start(Vec::new(), input), read, promised }
    }

    /// Returns the counter of the bytes read, before decompression.
    pub(super) fn bytes_read(&self) -> BytesRead {
        Arc::clone(&self.read)
    }

    fn begin(&mut self) -> io::Result<()> {
        let DecodeState::Start(head, input) = &mut self.state else { return Ok(()) };
        while head.len() < MAGIC_BYTES {
            let mut byte = [0];
            match input.read(&mut byte) {
                Ok(0) => break,
                Ok(_) => head.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let DecodeState::Start(head, input) = std::mem::replace(&mut self.state, DecodeState::Broken) else {
            return Ok(());
        };
        let found = compression_of(&head);
        if self.promised.is_some() && found != self.promised {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the content does not have the compression that the file name implies",
            ));
        }
        let input = BufReader::with_capacity(READ_BYTES, io::Cursor::new(head).chain(input));
        self.state = match found {
            None => DecodeState::Plain(input),
            Some(Compression::Gzip) => DecodeState::Gzip(Box::new(MultiGzDecoder::new(input))),
            Some(Compression::Zstd) => {
                let mut decoder = Decoder::with_buffer(input)?;
                decoder.window_log_max(LIST_ZSTD_WINDOW_LOG_MAX)?;
                DecodeState::Zstd(Box::new(decoder))
            }
            Some(Compression::Xz) => {
                let decoder = XzReader::new_mem_limit(PatientInput(input), true, LIST_XZ_KIB_MAX);
                DecodeState::Xz(Box::new(decoder))
            }
            Some(Compression::Bzip2) => DecodeState::Bzip2(Box::new(MultiBzDecoder::new(input))),
            Some(Compression::Zip) => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "a zip archive cannot be read from a stream; store the archive in a file",
                ));
            }
        };
        Ok(())
    }
}

/// Returns a decompressed stream. The compression is determined by the first bytes or by `promised`.
pub fn decoded(input: Box<dyn Read + Send>, promised: Option<Compression>) -> impl Read {
    DecodedInput::new(input, promised)
}

impl Read for DecodedInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.begin()?;
        match &mut self.state {
            DecodeState::Plain(input) => input.read(buffer),
            DecodeState::Gzip(decoder) => decoder.read(buffer),
            DecodeState::Zstd(decoder) => decoder.read(buffer).map_err(explain_window),
            DecodeState::Xz(decoder) => decoder.read(buffer).map_err(explain_dictionary),
            DecodeState::Bzip2(decoder) => decoder.read(buffer),
            DecodeState::Start(..) | DecodeState::Broken => Err(io::Error::other("an earlier read failed")),
        }
    }
}

/// An input that waits if no data is available at the moment. The xz decoder cannot be called again after a
/// `WouldBlock` error.
struct PatientInput(Input);

impl Read for PatientInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}

/// Rewrites an xz memory error in terms that users understand.
fn explain_dictionary(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::OutOfMemory {
        return error;
    }
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "the xz dictionary needs more than {} MiB of memory; compress the list again with xz -9 or lower",
            LIST_XZ_KIB_MAX / 1024
        ),
    )
}

/// Rewrites a misleading zstd error in terms that users understand. A window that is too large does not mean that the
/// file is damaged.
fn explain_window(error: io::Error) -> io::Error {
    if !error.to_string().contains("too much memory") {
        return error;
    }
    let most = 1_usize << LIST_ZSTD_WINDOW_LOG_MAX;
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "the zstd window needs more than {} MiB of memory; compress the list again with \
             --long={LIST_ZSTD_WINDOW_LOG_MAX} or lower",
            most / MIB
        ),
    )
}

/// Returns the compression of a list from its first six bytes. A zstd stream can begin with a skippable frame, for
/// which there are 16 magic numbers.
pub fn compression_of(head: &[u8]) -> Option<Compression> {
    match head {
        [0x1f, 0x8b, ..] => Some(Compression::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Compression::Zstd),
        [0xfd, b'7', b'z', b'X', ..] => Some(Compression::Xz),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some(Compression::Bzip2),
        _ if is_zip(head) => Some(Compression::Zip),
        _ => None,
    }
}
