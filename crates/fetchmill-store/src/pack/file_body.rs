//! A body that is stored in a file because it is too large for memory. Formats can read it in pieces, more than once.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Size of a piece in bytes. It is 3 x 64 KiB, so that only the last piece can end in the middle of a base64 group.
const PIECE_BYTES: usize = 192 * 1024;

/// A body in a file.
#[derive(Debug)]
pub struct FileBody {
    file: File,
    length: u64,
}

impl FileBody {
    /// Uses an entire file, whose length must be `length`.
    pub fn new(file: File, length: u64) -> io::Result<Self> {
        if file.metadata()?.len() != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(FileBody { file, length })
    }

    /// Returns the length of the body in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Calls `each` with all bytes, in order. All pieces except the last one are full.
    pub fn for_each(&self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut buffer = vec![0; PIECE_BYTES];
        let mut offset = 0;
        while offset < self.length {
            let count = (self.length - offset).min(PIECE_BYTES as u64);
            let piece = &mut buffer[..count as usize];
            self.file.read_exact_at(piece, offset)?;
            each(piece)?;
            offset += count;
        }
        Ok(())
    }

    /// Reads the whole body, which must fit in memory.
    pub fn to_vec(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.length as usize);
        self.for_each(|piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Returns the CRC-32C of the body.
    pub fn crc32c(&self) -> io::Result<u32> {
        let mut crc32c = 0;
        self.for_each(|piece| {
            crc32c = crc32c::crc32c_append(crc32c, piece);
            Ok(())
        })?;
        Ok(crc32c)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::pack::parquet::{ParquetEncoder, ParquetShard};
    use crate::pack::{
        Decoder, Encoder, JsonlDecoder, JsonlEncoder, TarDecoder, TarEncoder, WarcDecoder, WarcEncoder,
        WarcOrigin,
    };
    use fetchmill_model::object::{Facts, Object, StoredObject};
    use fetchmill_model::target::extra_columns::ExtraColumns;

    const HEADS: [&[u8]; 3] =
        [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"];

    fn file_of(bytes: &[u8]) -> FileBody {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        FileBody::new(file, bytes.len() as u64).unwrap()
    }

    /// Bodies whose pieces end in the middle of a character, in the middle of a base64 group, or at the end of the
    /// body.
    fn bodies() -> Vec<Vec<u8>> {
        let lengths = [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 6 * PIECE_BYTES + 2];
        let mut bodies = Vec::new();
        for length in lengths {
            bodies.push(vec![b'"'; length]);
            bodies.push(vec![0xff; length]);
            bodies.push(
                ["a".repeat(length % 3).as_str(), &"\u{20ac}".repeat(length / 3)].concat().into_bytes(),
            );
            // Text that ends in the middle of a character.
            bodies.push([vec![b'a'; length], vec![0xe2, 0x82]].concat());
        }
        bodies
    }

    fn object<'o>(body: &'o [u8], head: &'o [u8]) -> Object<'o> {
        let head = Some(head).filter(|head| !head.is_empty());
        let facts = Facts { status: 200, fetched_at: 1_000_000, head, ..Facts::default() };
        Object { sequence: 7, name: b"n", body, crc32c: crc32c::crc32c(body), facts }
    }

    fn check(make: impl Fn() -> Box<dyn Encoder>, decoder: &dyn Decoder, are_same_bytes: bool) {
        for (body, head) in bodies().iter().flat_map(|body| HEADS.map(|head| (body, head))) {
            let whole = object(body, head);
            let (mut expected, mut record) = (Vec::new(), Vec::new());
            make().encode(&whole, &mut expected);
            let file = file_of(body);
            assert_eq!(file.crc32c().unwrap(), whole.crc32c);
            make().encode_file(&Object { body: b"", ..whole }, &file, &mut record).unwrap();

            let found: StoredObject = decoder.decode(&record).unwrap();
            assert_eq!(found, decoder.decode(&expected).unwrap());
            assert_eq!(&found.body, body);
            assert!(!are_same_bytes || record == expected);
        }
    }

    #[test]
    fn a_record_of_a_file_is_that_of_its_bytes() {
        check(|| Box::new(TarEncoder::new()), &TarDecoder, true);
        check(|| Box::new(JsonlEncoder::new(&ExtraColumns::default())), &JsonlDecoder, true);
        // A different library compresses this record.
        let origin = WarcOrigin::of_list(&[]).unwrap();
        check(|| Box::new(WarcEncoder::new(&origin, 0, 1)), &WarcDecoder, false);
    }

    #[test]
    fn a_row_of_a_file_is_that_of_its_bytes() {
        let to = tempfile::tempfile().unwrap();
        let mut encoder =
            ParquetEncoder::new(to, 1 << 20, &ExtraColumns::default(), Box::new(tempfile::tempfile)).unwrap();
        for body in bodies() {
            encoder.push(&object(&body, b"")).unwrap();
            encoder.push_file(&Object { body: b"", ..object(&body, b"") }, &file_of(&body)).unwrap();
        }
        let large = bodies().iter().filter(|body| body.len() > 1 << 20).count();
        assert!(large > 0 && encoder.row_groups() <= 4 * large + 4, "{}", encoder.row_groups());
        let shard = ParquetShard::open(encoder.finish().unwrap()).unwrap();
        for (pair, body) in bodies().into_iter().enumerate() {
            let row = |row: usize| shard.row(row as u64).unwrap();
            assert_eq!(row(2 * pair), row(2 * pair + 1));
            assert_eq!(row(2 * pair).body, body);
        }
    }

    #[test]
    fn a_file_of_another_length_is_no_body() {
        for length in [0, 2] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(b"x").unwrap();
            assert_eq!(FileBody::new(file, length).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
