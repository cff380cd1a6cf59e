//! The encoding of a reply's body (`Content-Encoding`), and decoders for `--compressed` and for listing pages.
//!
//! A body is decoded as a whole or not at all. A body is malformed if it is truncated, if its checksum does not match,
//! or if bytes follow its end. gzip bodies contain a checksum, zstd bodies can contain one, and brotli bodies never do.

use std::io::{self, BufRead, Read};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

use crate::limits::{DECODED_BYTES_FIRST, READ_BYTES, ZSTD_WINDOW_LOG_MAX};
use crate::name::for_display;

/// Value of `Accept-Encoding` in requests for encoded bodies.
pub const ACCEPTED_ENCODINGS: &str = "gzip, br, zstd";

/// An encoding in [`ACCEPTED_ENCODINGS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentEncoding {
    /// gzip (RFC 1952), with any number of members.
    Gzip,
    /// Brotli (RFC 7932), without large windows.
    Brotli,
    /// Zstandard (RFC 8878), with any number of frames, and with windows up to the limit of RFC 9659.
    Zstd,
}

/// The encoding that a reply names. The error contains the name of an encoding that cannot be decoded.
pub type NamedEncoding = Result<Option<ContentEncoding>, Vec<u8>>;

/// Returns whether a `Content-Encoding` value means that the body is not encoded.
pub fn is_identity(encoding: &[u8]) -> bool {
    encoding.trim_ascii().eq_ignore_ascii_case(b"identity")
}

/// Returns the message for a reply with an encoding that was not requested.
pub fn not_asked_for(name: &[u8]) -> String {
    format!("the Content-Encoding is {}, but only {ACCEPTED_ENCODINGS} were requested", for_display(name))
}

/// Reason why a body could not be decoded.
#[derive(Debug)]
pub enum DecodeError {
    /// The body is not valid in its encoding. Contains a description of the problem.
    Malformed(String),
    /// The decoded body would be too long.
    TooLong,
    /// The body could not be read from its file.
    Storage(io::Error),
}

impl ContentEncoding {
    /// Reads the values of the `Content-Encoding` fields. Returns `None` if the body is not encoded. Nested encodings
    /// are an error, because they were not requested and each would need its own limit.
    pub fn of_fields<'v>(values: impl Iterator<Item = &'v [u8]>) -> NamedEncoding {
        let names = values.flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        let is_encoding = |name: &&[u8]| !name.is_empty() && !is_identity(name);
        let named: Vec<&[u8]> = names.filter(is_encoding).collect();
        match named.as_slice() {
            [] => Ok(None),
            [name] => Self::of_name(name).map(Some).ok_or_else(|| name.to_vec()),
            several => Err(several.join(&b", "[..])),
        }
    }

    fn of_name(name: &[u8]) -> Option<Self> {
        // `x-gzip` is the same as `gzip` (RFC 9110, 8.4.1.3).
        let known = [
            (&b"gzip"[..], ContentEncoding::Gzip),
            (b"x-gzip", ContentEncoding::Gzip),
            (b"br", ContentEncoding::Brotli),
            (b"zstd", ContentEncoding::Zstd),
        ];
        known.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, encoding)| encoding)
    }

    fn name(self) -> &'static str {
        match self {
            ContentEncoding::Gzip => "gzip",
            ContentEncoding::Brotli => "br",
            ContentEncoding::Zstd => "zstd",
        }
    }

    /// Decodes a whole body and passes it to `take` piece by piece until `take` returns `false`. The end of the body
    /// may turn out to be malformed, so the caller must not use any piece before the last one has arrived.
    pub fn decode(
        self,
        mut encoded: impl BufRead,
        bytes_max: u64,
        take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), DecodeError> {
        if encoded.fill_buf().map_err(DecodeError::Storage)?.is_empty() {
            return Err(DecodeError::Malformed(format!("{}: the body is empty", self.name())));
        }
        let given = match self {
            ContentEncoding::Gzip => give(MultiGzDecoder::new(encoded), bytes_max, take),
            ContentEncoding::Brotli => give(BrotliDecoder::new(encoded), bytes_max, take),
            ContentEncoding::Zstd => zstd_decoder(encoded)
                .map_err(DecodeError::Storage)
                .and_then(|decoder| give(decoder, bytes_max, take)),
        };
        given.map_err(|error| match error {
            DecodeError::Malformed(problem) => DecodeError::Malformed(format!("{}: {problem}", self.name())),
            other => other,
        })
    }
}

impl ContentEncoding {
    /// Returns a reader that decodes the body. An error without an OS error number means that the input is malformed.
    pub fn reader<'r>(self, encoded: impl BufRead + 'r) -> io::Result<Box<dyn Read + 'r>> {
        Ok(match self {
            ContentEncoding::Gzip => Box::new(MultiGzDecoder::new(encoded)),
            ContentEncoding::Brotli => Box::new(BrotliDecoder::new(encoded)),
            ContentEncoding::Zstd => Box::new(zstd_decoder(encoded)?),
        })
    }
}

/// Passes all decoded bytes to `take` in pieces.
fn give(
    mut decoder: impl Read,
    bytes_max: u64,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Result<(), DecodeError> {
    let mut piece = vec![0; DECODED_BYTES_FIRST];
    let mut left = bytes_max;
    loop {
        let length = match decoder.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            // An error of the decoder itself has no OS error number.
            Err(error) if error.raw_os_error().is_some() => return Err(DecodeError::Storage(error)),
            Err(error) => return Err(DecodeError::Malformed(problem_of(&error))),
        };
        left = left.checked_sub(length as u64).ok_or(DecodeError::TooLong)?;
        if !take(&piece[..length]) {
            return Ok(());
        }
        if length == piece.len() {
            // With larger pieces, a large body needs fewer writes.
            piece.resize(READ_BYTES, 0);
        }
    }
}

/// Returns the problem in terms that users understand. Misleading messages of the decoders are replaced.
fn problem_of(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return "the body ends before its encoding does".to_owned();
    }
    let text = error.to_string();
    if text.contains("too much memory") {
        return format!("its window is larger than {} MiB", (1_u64 << ZSTD_WINDOW_LOG_MAX) >> 20);
    }
    text
}

fn zstd_decoder<R: BufRead>(encoded: R) -> io::Result<ZstdDecoder<'static, R>> {
    let mut decoder = ZstdDecoder::with_buffer(encoded)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// A decoder for brotli. The library's own reader would accept any bytes after the end of the body.
struct BrotliDecoder<R> {
    encoded: R,
    state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
    is_at_end: bool,
}

impl<R: BufRead> BrotliDecoder<R> {
    fn new(encoded: R) -> Self {
        // The strict state does not allow large windows.
        let state = BrotliState::new_strict(
            StandardAlloc::default(),
            StandardAlloc::default(),
            StandardAlloc::default(),
        );
        BrotliDecoder { encoded, state: Box::new(state), is_at_end: false }
    }

    /// Checks that no bytes follow the end of the body.
    fn end(&mut self) -> io::Result<()> {
        self.is_at_end = true;
        if self.encoded.fill_buf()?.is_empty() { Ok(()) } else { Err(malformed("bytes after its end")) }
    }
}

impl<R: BufRead> Read for BrotliDecoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut given = 0;
        while given == 0 && !self.is_at_end {
            let encoded = self.encoded.fill_buf()?;
            let (mut left, mut taken, mut room, mut total) = (encoded.len(), 0, into.len(), 0);
            let result = BrotliDecompressStream(
                &mut left,
                &mut taken,
                encoded,
                &mut room,
                &mut given,
                into,
                &mut total,
                &mut self.state,
            );
            self.encoded.consume(taken);
            match result {
                BrotliResult::ResultSuccess => self.end()?,
                BrotliResult::NeedsMoreInput if taken + given == 0 => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
                BrotliResult::ResultFailure => return Err(malformed("the body is damaged")),
            }
        }
        Ok(given)
    }
}

fn malformed(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const TEXT: &[u8] = b"It is decoded as a whole or not at all. It is decoded as a whole or not at all. \
        It is decoded as a whole or not at all. It is decoded as a whole or not at all. \
        It is decoded as a whole or not at all. ";
    /// [`TEXT`] as encoded by the reference implementation of brotli with its largest window.
    const IN_BROTLI: &str =
        "1fc700f88dd45ef147502db7b1bf3d53b011444299202e6cd9892e0a6607374014443f15c2e79ee6b30e06e704";
    const ALL: [ContentEncoding; 3] = [ContentEncoding::Gzip, ContentEncoding::Brotli, ContentEncoding::Zstd];

    fn encoded(encoding: ContentEncoding) -> Vec<u8> {
        match encoding {
            ContentEncoding::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
                encoder.write_all(TEXT).unwrap();
                encoder.finish().unwrap()
            }
            ContentEncoding::Brotli => {
                let digits = IN_BROTLI.as_bytes().chunks(2);
                digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
            }
            ContentEncoding::Zstd => {
                let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
                encoder.include_checksum(true).unwrap();
                encoder.write_all(TEXT).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    fn decoded(encoding: ContentEncoding, body: &[u8], bytes_max: u64) -> Result<Vec<u8>, DecodeError> {
        let mut all = Vec::new();
        encoding.decode(body, bytes_max, |piece| {
            all.extend_from_slice(piece);
            true
        })?;
        Ok(all)
    }

    fn is_malformed(encoding: ContentEncoding, body: &[u8]) -> bool {
        matches!(decoded(encoding, body, u64::MAX), Err(DecodeError::Malformed(_)))
    }

    #[test]
    fn a_whole_body_is_decoded_up_to_its_bound() {
        for encoding in ALL {
            let body = encoded(encoding);
            let length = TEXT.len() as u64;

            assert_eq!(decoded(encoding, &body, length).unwrap(), TEXT, "{encoding:?}");
            assert!(
                matches!(decoded(encoding, &body, length - 1), Err(DecodeError::TooLong)),
                "{encoding:?}"
            );
        }
    }

    #[test]
    fn a_body_that_is_cut_short_anywhere_or_has_bytes_behind_its_end_is_malformed() {
        for encoding in ALL {
            let body = encoded(encoding);
            for end in 0..body.len() {
                assert!(is_malformed(encoding, &body[..end]), "{encoding:?} cut at {end}");
            }
            for behind in [&b"\0"[..], b"\n", b"not so", b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"] {
                assert!(is_malformed(encoding, &[&body, behind].concat()), "{encoding:?} before {behind:?}");
            }
        }
    }

    #[test]
    fn checksums_find_each_wrong_bit_of_a_body() {
        for encoding in [ContentEncoding::Gzip, ContentEncoding::Zstd] {
            let body = encoded(encoding);
            let mut harmless = 0;
            for bit in 0..body.len() * 8 {
                let mut wrong = body.clone();
                wrong[bit / 8] ^= 1 << (bit % 8);
                match decoded(encoding, &wrong, 1 << 20) {
                    // Some bits of the header do not affect the body, and neither do the padding bits in the last byte.
                    Ok(text) => {
                        assert_eq!(text, TEXT, "{encoding:?} bit {bit}");
                        harmless += 1;
                    }
                    Err(error) => {
                        assert!(matches!(error, DecodeError::Malformed(_)), "{encoding:?} {error:?}");
                    }
                }
            }
            assert!(harmless < 64, "{encoding:?}: {harmless}");
        }
    }

    #[test]
    fn members_and_frames_follow_one_another_and_brotli_ends() {
        for encoding in ALL {
            let twice = [encoded(encoding), encoded(encoding)].concat();
            if encoding == ContentEncoding::Brotli {
                assert!(is_malformed(encoding, &twice));
            } else {
                assert_eq!(
                    decoded(encoding, &twice, u64::MAX).unwrap(),
                    [TEXT, TEXT].concat(),
                    "{encoding:?}"
                );
            }
        }
    }

    #[test]
    fn windows_are_bounded() {
        let framed = |exponent: u8| {
            // A frame with a window descriptor and one empty block that is marked as the last one (RFC 8878, 3.1.1).
            [&[0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3][..], &[1, 0, 0]].concat()
        };
        let largest = ZSTD_WINDOW_LOG_MAX as u8 - 10;
        assert_eq!(decoded(ContentEncoding::Zstd, &framed(largest), 0).unwrap(), b"");
        let Err(DecodeError::Malformed(problem)) = decoded(ContentEncoding::Zstd, &framed(largest + 1), 0)
        else {
            panic!("a window of 16 MiB")
        };
        assert_eq!(problem, "zstd: its window is larger than 8 MiB");
        // A brotli stream with a large window begins with bits that are otherwise reserved (RFC 9841).
        let large = [&[0x11, 0x1e][..], &encoded(ContentEncoding::Brotli)[1..]].concat();
        assert!(is_malformed(ContentEncoding::Brotli, &large));
    }

    #[test]
    fn the_encoding_is_one_that_was_asked_for() {
        let of =
            |values: &[&'static str]| ContentEncoding::of_fields(values.iter().map(|value| value.as_bytes()));
        for (values, encoding) in [
            (&[][..], None),
            (&["identity"], None),
            (&["", " , "], None),
            (&["gzip"], Some(ContentEncoding::Gzip)),
            (&["X-GZIP"], Some(ContentEncoding::Gzip)),
            (&["identity, br"], Some(ContentEncoding::Brotli)),
            (&["identity", "ZStd"], Some(ContentEncoding::Zstd)),
        ] {
            assert_eq!(of(values), Ok(encoding), "{values:?}");
        }
        for values in [&["deflate"][..], &["gzip, br"], &["gzip", "gzip"], &["aws-chunked"], &["gzipp"]] {
            assert_eq!(of(values), Err(values.join(", ").into_bytes()), "{values:?}");
        }
    }
}
