//! Writes a record as a gzip member.

use libdeflater::{CompressionLvl, Compressor};

use super::small_deflate::SmallDeflate;
use fetchmill_model::limits::WARC_SMALL_RECORD_BYTES_MAX;

/// Compression level of libdeflate. Level 6 takes two fifths longer without making small records any smaller.
const LEVEL: i32 = 1;
/// The header that libdeflate writes: deflate, no time, the fastest level, and an unknown system.
pub(super) const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];

/// Writes records as gzip members. Small ASCII records are compressed with a fixed code. All others are compressed with
/// libdeflate, which clears 128 KiB before it starts and computes a code for each record
/// (docs/internals/decisions/0035).
pub(super) struct MemberWriter {
    small: SmallDeflate,
    compressor: Compressor,
}

impl MemberWriter {
    /// Creates a writer for records. Many of them are expected to start with one of these texts.
    pub(super) fn new(beginnings: &[Vec<u8>]) -> Self {
        MemberWriter {
            small: SmallDeflate::new(beginnings),
            compressor: Compressor::new(CompressionLvl::new(LEVEL).unwrap_or_default()),
        }
    }

    /// Appends the record as a member.
    pub(super) fn write(&mut self, record: &[u8], out: &mut Vec<u8>) {
        if record.len() > WARC_SMALL_RECORD_BYTES_MAX || !self.write_small(record, out) {
            self.write_any(record, out);
        }
    }

    /// Writes a small record. If the record contains a byte that has no code, returns `false` and appends nothing.
    fn write_small(&self, record: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        out.extend_from_slice(&HEADER);
        if !self.small.write(record, out) {
            out.truncate(start);
            return false;
        }
        out.extend_from_slice(&libdeflater::crc32(record).to_le_bytes());
        out.extend_from_slice(&(record.len() as u32).to_le_bytes());
        true
    }

    fn write_any(&mut self, record: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let mut room = self.compressor.gzip_compress_bound(record.len());
        // The estimate is an upper bound, so the first attempt always succeeds.
        let length = loop {
            out.resize(start + room, 0);
            match self.compressor.gzip_compress(record, &mut out[start..]) {
                Ok(length) => break length,
                Err(_) => room *= 2,
            }
        };
        out.truncate(start + length);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    fn member(record: &[u8]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        MemberWriter::new(&[]).write(record, &mut out);
        assert!(out.starts_with(b"before"));
        out.split_off(6)
    }

    /// Reads the member with two libraries. They must agree on the content, checksum, size and end.
    fn assert_comes_back(record: &[u8]) {
        let packed = member(record);
        let mut content = vec![0; record.len()];
        let length = libdeflater::Decompressor::new().gzip_decompress(&packed, &mut content).unwrap();
        assert_eq!((length, &content[..]), (record.len(), record));
        let followed = [&packed[..], b"next"].concat();
        let mut reader = flate2::bufread::GzDecoder::new(&followed[..]);
        content.clear();
        reader.read_to_end(&mut content).unwrap();
        assert_eq!(content, record);
        assert_eq!(reader.into_inner(), b"next");
    }

    /// Returns bytes without repetitions. Every run gets the same bytes.
    fn noise(length: usize) -> Vec<u8> {
        let block = |number: u64| xxhash_rust::xxh3::xxh3_128_with_seed(b"noise", number).to_le_bytes();
        (0..).flat_map(block).take(length).collect()
    }

    #[test]
    fn records_of_any_size_come_back() {
        let text =
            b"WARC-Type: response\r\nContent-Type: text/plain\r\nfile-000000000017, 92bfe03a295bdd79\r\n";
        let near = WARC_SMALL_RECORD_BYTES_MAX;
        for length in [0, 1, 3, 4, 5, 100, near - 1, near, near + 1, 64 << 10, 5 << 20] {
            assert_comes_back(&noise(length));
            assert_comes_back(&vec![b'0'; length]);
            assert_comes_back(&text.iter().copied().cycle().take(length).collect::<Vec<_>>());
            let letters = noise(length).iter().map(|byte| b' ' + byte % 95).collect::<Vec<_>>();
            assert_comes_back(&letters);
        }
    }

    #[test]
    fn a_small_record_needs_no_code_of_its_own() {
        let record = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n";
        let (mut small, mut any) = (Vec::new(), Vec::new());
        assert!(MemberWriter::new(&[]).write_small(record, &mut small));
        MemberWriter::new(&[]).write_any(record, &mut any);
        assert_eq!(member(record), small);
        assert_eq!(small[..HEADER.len()], any[..HEADER.len()]);
        assert_eq!(small[small.len() - 8..], any[any.len() - 8..]);
    }

    #[test]
    fn a_byte_that_the_code_lacks_leaves_the_record_to_libdeflate() {
        for byte in [0, 0x1f, 0x7f, 0x80, 0xff] {
            let record = [&[b'a'; 200][..], &[byte], &[b'a'; 200]].concat();
            assert!(!MemberWriter::new(&[]).write_small(&record, &mut Vec::new()), "{byte}");
            assert_comes_back(&record);
        }
    }

    #[test]
    fn a_large_record_is_left_to_libdeflate() {
        let record = b"{\"name\": \"a\"}, ".repeat(1000);
        let mut any = Vec::new();
        MemberWriter::new(&[]).write_any(&record, &mut any);
        assert_eq!(member(&record), any);
    }

    proptest! {
        #[test]
        fn any_record_comes_back(record in prop::collection::vec(any::<u8>(), 0..3000)) {
            assert_comes_back(&record);
        }

        #[test]
        fn any_text_comes_back(words in prop::collection::vec("[ -~\r\n\t]{1,300}", 0..8), order: [prop::sample::Index; 12]) {
            // The words repeat many times, so there are matches of all lengths and distances.
            let text: String = order.iter().filter(|_| !words.is_empty()).map(|at| at.get(&words).as_str()).collect();
            assert_comes_back(text.as_bytes());
            let end = text.len().min(WARC_SMALL_RECORD_BYTES_MAX);
            prop_assert!(MemberWriter::new(&[]).write_small(&text.as_bytes()[..end], &mut Vec::new()));
        }
    }
}
