//! Determines the real size of a compressed Parquet page. The header can state a smaller size, and some of the
//! library's decoders read to the end of their input anyway.

use std::io::Read;

use ::parquet::basic::Compression;
use flate2::read::MultiGzDecoder;

use crate::limits::READ_BYTES;
use crate::reply::content_encoding::ContentEncoding;

/// Maximum window of a zstd page: 64 MiB, which is below the memory limit of a list.
const ZSTD_WINDOW_LOG_MAX: u32 = 26;

/// Returns whether a compressed page decodes to more than `max` bytes. The decoded bytes are not kept. Malformed pages
/// are left to the library, which decodes as many bytes as this function does and then refuses the page.
pub(super) fn is_longer(codec: Compression, page: &[u8], max: u64) -> bool {
    let decoder: Box<dyn Read + '_> = match codec {
        Compression::GZIP(_) => Box::new(MultiGzDecoder::new(page)),
        Compression::BROTLI(_) => match ContentEncoding::Brotli.reader(page) {
            Ok(decoder) => decoder,
            Err(_) => return false,
        },
        Compression::ZSTD(_) => match zstd_decoder(page) {
            Ok(decoder) => Box::new(decoder),
            Err(_) => return false,
        },
        // If the bytes are not a frame, the library uses a decoder that stops at the size stated in the header.
        Compression::LZ4 => Box::new(lz4_flex::frame::FrameDecoder::new(page)),
        // The decoders for these codecs also stop at that size.
        Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::LZ4_RAW | Compression::LZO => {
            return false;
        }
    };
    has_more(decoder, max)
}

fn zstd_decoder(page: &[u8]) -> std::io::Result<zstd::Decoder<'static, &[u8]>> {
    let mut decoder = zstd::Decoder::with_buffer(page)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

fn has_more(mut decoder: impl Read, max: u64) -> bool {
    let (mut piece, mut left) = (vec![0; READ_BYTES], max);
    loop {
        match decoder.read(&mut piece) {
            Ok(0) | Err(_) => return false,
            Ok(length) => match left.checked_sub(length as u64) {
                Some(rest) => left = rest,
                None => return true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ::parquet::basic::{BrotliLevel, GzipLevel, ZstdLevel};

    use super::*;

    fn lz4_frame(bytes: &[u8]) -> Vec<u8> {
        let mut frame = lz4_flex::frame::FrameEncoder::new(Vec::new());
        frame.write_all(bytes).unwrap();
        frame.finish().unwrap()
    }

    #[test]
    fn a_page_that_decodes_to_more_is_found() {
        let bytes = vec![7; 1 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&bytes).unwrap();
        let pages = [
            (Compression::GZIP(GzipLevel::default()), gzip.finish().unwrap()),
            (Compression::ZSTD(ZstdLevel::default()), zstd::encode_all(bytes.as_slice(), 1).unwrap()),
            (Compression::LZ4, lz4_frame(&bytes)),
        ];
        for (codec, page) in pages {
            assert!(!is_longer(codec, &page, 1 << 20), "{codec}");
            assert!(is_longer(codec, &page, (1 << 20) - 1), "{codec}");
            assert!(!is_longer(codec, &page[..page.len() / 2], 1 << 20), "{codec}");
        }
        let brotli = Compression::BROTLI(BrotliLevel::default());
        for codec in [brotli, Compression::ZSTD(ZstdLevel::default()), Compression::LZ4] {
            assert!(!is_longer(codec, b"no page", 0), "{codec}");
        }
    }
}
