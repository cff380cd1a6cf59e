//! Deflate (RFC 1951) for small ASCII records. Each record is one block with a fixed code. This avoids computing
//! statistics and a code for only a few hundred bytes. docs/internals/decisions/0035 describes how the code was
//! derived.

use fetchmill_model::limits::WARC_SMALL_RECORD_BYTES_MAX;

/// Start of a block. It marks the block as the last one, and contains the code lengths [`LITERAL_LENGTHS`] and
/// [`DISTANCE_LENGTHS`], encoded as in section 3.2.7.
const BLOCK_START: [u8; 52] = [
    0xe5, 0x55, 0xe7, 0x76, 0xd3, 0x30, 0x14, 0xfe, 0x8d, 0xcf, 0xf1, 0x3b, 0x88, 0xb2, 0xa1, 0xb2, 0x25,
    0x79, 0x8b, 0x52, 0x48, 0x93, 0x8e, 0x74, 0x93, 0xba, 0x14, 0xca, 0x54, 0xe4, 0x1b, 0xc7, 0xd4, 0xb1,
    0x8d, 0x2d, 0x03, 0x61, 0x3d, 0x3b, 0xc7, 0x69, 0xa0, 0xec, 0xbd, 0xd1, 0x1e, 0xf7, 0x7e, 0x77, 0x69,
    0x00,
];
/// Number of bits used in the last byte of the block's start.
const BLOCK_START_BITS: u32 = 410 % 8;
/// Code length in bits for each byte below 128. 0 means that the byte has no code.
const LITERAL_LENGTHS: &[u8; 128] = b"0000000009600600000000000000000059899999999985665556666666598989\
                                      9787788887888888897868989989999995756476769867666966569997999990";
/// Code lengths for the end of the block and the length classes of matches.
const LENGTH_LENGTHS: &[u8; 29] = b"90678799899999999999999999999";
/// Code lengths for the distance classes that occur in small records.
const DISTANCE_LENGTHS: &[u8; 22] = b"5555555555443444445555";

/// Minimum and maximum length of a match: one hashed word, and the longest length in the second-to-last class. The last
/// class contains only the length 258, which has no code here.
const MATCH_MIN: usize = 4;
const MATCH_MAX: usize = 257;
/// Length that the first class represents.
const LENGTH_FIRST: usize = 3;
/// Size of the hash table, as a power of two. The table takes 2 KiB, which are copied for each record.
const HASH_BITS: u32 = 10;
/// Maximum code length in bits.
const BITS_MAX: usize = 9;
/// Number of bytes per store. A writer needs this much space after its end.
const STORE_BYTES: usize = 8;
/// Number of literals that are combined before a store. They fit in addition to the bits that the previous store left,
/// which are fewer than eight.
const LITERALS_AT_ONCE: usize = 6;

const _: () = assert!(LITERALS_AT_ONCE * BITS_MAX + 7 < STORE_BYTES * u8::BITS as usize);

/// Code of a symbol. The lowest bit comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Code {
    bits: u16,
    /// Number of bits. 0 means that the symbol has no code.
    count: u8,
}

/// Compresses small ASCII records.
#[derive(Debug)]
pub(super) struct SmallDeflate {
    codes: Codes,
    beginnings: Vec<Beginning>,
    /// Initial state for records that start with none of the known texts.
    nothing: Beginning,
}

/// The codes of all records.
#[derive(Debug)]
struct Codes {
    literals: [Code; 256],
    end: Code,
    lengths: [Code; LENGTH_LENGTHS.len() - 1],
    distances: [Code; DISTANCE_LENGTHS.len()],
}

/// A text that many records start with, compressed once for all of them.
#[derive(Debug)]
struct Beginning {
    text: Vec<u8>,
    packed: Vec<u8>,
    /// Bits that do not fill a byte yet.
    bits: u64,
    count: u32,
    finder: MatchFinder,
}

/// Finds repetitions in a record.
#[derive(Debug, Clone)]
struct MatchFinder {
    /// Last position of each word, by hash. An unused entry refers to the first word. This is harmless, because the
    /// words are compared.
    seen: [u16; 1 << HASH_BITS],
    /// Position of the next word to look for.
    position: usize,
    /// Position up to which the record has been written.
    written: usize,
}

impl SmallDeflate {
    /// Creates a compressor for records that often start with one of these texts. The first text that matches is used.
    pub(super) fn new(beginnings: &[Vec<u8>]) -> Self {
        let codes = Codes::new();
        let short = beginnings.iter().filter(|text| text.len() <= WARC_SMALL_RECORD_BYTES_MAX);
        SmallDeflate {
            beginnings: short.map(|text| Beginning::new(text, &codes)).collect(),
            nothing: Beginning::nothing(),
            codes,
        }
    }

    /// Appends the compressed record. If the record is too long or contains a byte that has no code, returns `false`
    /// and appends nothing.
    pub(super) fn write(&self, record: &[u8], out: &mut Vec<u8>) -> bool {
        if record.len() > WARC_SMALL_RECORD_BYTES_MAX || !has_codes(record) {
            return false;
        }
        let fitting = self.beginnings.iter().find(|beginning| record.starts_with(&beginning.text));
        let beginning = fitting.unwrap_or(&self.nothing);
        let start = out.len();
        out.resize(start + packed_max(record.len()), 0);
        let mut writer = BitWriter::behind(beginning, &mut out[start..]);
        let mut finder = beginning.finder.clone();
        finder.put_all(record, &self.codes, &mut writer);
        self.codes.put_literals(&record[finder.written..], &mut writer);
        let end = self.codes.end;
        writer.put(u32::from(end.bits), u32::from(end.count));
        let end = start + writer.finish();
        out.truncate(end);
        true
    }
}

impl Beginning {
    fn nothing() -> Self {
        let [packed @ .., last] = &BLOCK_START;
        Beginning {
            text: Vec::new(),
            packed: packed.to_vec(),
            bits: u64::from(*last),
            count: BLOCK_START_BITS,
            finder: MatchFinder { seen: [0; 1 << HASH_BITS], position: 1, written: 0 },
        }
    }

    fn new(text: &[u8], codes: &Codes) -> Self {
        let nothing = Beginning::nothing();
        let mut packed = vec![0; packed_max(text.len())];
        let mut writer = BitWriter::behind(&nothing, &mut packed);
        let mut finder = nothing.finder;
        finder.put_all(text, codes, &mut writer);
        // A word at the end of the text extends beyond the text, so it is handled later.
        let known = finder.position.min(text.len());
        codes.put_literals(&text[finder.written..known], &mut writer);
        finder.written = known;
        let BitWriter { stored, bits, count, .. } = writer;
        packed.truncate(stored);
        Beginning { text: text.to_vec(), packed, bits, count, finder }
    }
}

impl MatchFinder {
    /// Writes everything up to the last match. Every word is recorded, but matches are searched for only at every
    /// second one. A longer match is still found at its second byte, so only matches of four bytes can be missed.
    #[inline]
    fn put_all(&mut self, record: &[u8], codes: &Codes, writer: &mut BitWriter<'_>) {
        let (mut position, mut written) = (self.position, self.written);
        while let Some(word) = word_at(record, position) {
            let earlier = self.note(word, position);
            if word_at(record, earlier) != Some(word) {
                if let Some(between) = word_at(record, position + 1) {
                    self.note(between, position + 1);
                }
                position += 2;
                continue;
            }
            let is_longer = position > written && earlier > 0 && record[position - 1] == record[earlier - 1];
            let (from, distance) = (position - usize::from(is_longer), position - earlier);
            let length = common(record, from - distance, from);
            codes.put_literals(&record[written..from], writer);
            codes.put_match(length, distance, writer);
            position = from + length;
            written = position;
        }
        (self.position, self.written) = (position, written);
    }

    /// Records the position of a word. Returns the word's previous position, or an arbitrary position.
    #[inline]
    fn note(&mut self, word: u32, position: usize) -> usize {
        usize::from(std::mem::replace(&mut self.seen[hash(word)], position as u16))
    }
}

impl Codes {
    fn new() -> Self {
        let mut lengths = [0; 256 + LENGTH_LENGTHS.len()];
        lengths[..128].copy_from_slice(&LITERAL_LENGTHS.map(|digit| digit - b'0'));
        lengths[256..].copy_from_slice(&LENGTH_LENGTHS.map(|digit| digit - b'0'));
        let codes = canonical(lengths);
        Codes {
            literals: std::array::from_fn(|byte| codes[byte]),
            end: codes[256],
            lengths: std::array::from_fn(|class| codes[257 + class]),
            distances: canonical(DISTANCE_LENGTHS.map(|digit| digit - b'0')),
        }
    }

    #[inline]
    fn put_literals(&self, bytes: &[u8], writer: &mut BitWriter<'_>) {
        let (groups, rest) = bytes.as_chunks::<LITERALS_AT_ONCE>();
        for group in groups {
            for byte in group {
                self.put_literal(*byte, writer);
            }
            writer.store();
        }
        for byte in rest {
            self.put_literal(*byte, writer);
        }
        writer.store();
    }

    #[inline]
    fn put_literal(&self, byte: u8, writer: &mut BitWriter<'_>) {
        let code = self.literals[usize::from(byte)];
        writer.put(u32::from(code.bits), u32::from(code.count));
    }

    #[inline]
    fn put_match(&self, length: usize, distance: usize, writer: &mut BitWriter<'_>) {
        put_class(&self.lengths, length - LENGTH_FIRST, 2, writer);
        put_class(&self.distances, distance - 1, 1, writer);
        writer.store();
    }
}

/// Returns whether all bytes have a code. The bytes with codes are printable characters, tab, CR and LF.
#[inline]
fn has_codes(record: &[u8]) -> bool {
    record.iter().fold(true, |all, byte| all & matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n'))
}

/// Returns the largest possible compressed size. A match takes up to 28 bits and covers at least four bytes.
fn packed_max(bytes: usize) -> usize {
    BLOCK_START.len() + (bytes + 1) * BITS_MAX / 8 + 1 + STORE_BYTES
}

/// Writes a value as its class and its low bits. The class is determined by the value's highest bit and the next `kept`
/// bits.
#[inline]
fn put_class(codes: &[Code], value: usize, kept: u32, writer: &mut BitWriter<'_>) {
    let value = value as u32;
    let open = (value | 1 << kept).ilog2() - kept;
    let code = codes[((open << kept) + (value >> open)) as usize];
    let rest = value & ((1 << open) - 1);
    writer.put(u32::from(code.bits) | rest << code.count, u32::from(code.count) + open);
}

/// Returns how many bytes at `position` repeat those at `earlier`. Compares eight bytes at a time.
#[inline]
fn common(record: &[u8], earlier: usize, position: usize) -> usize {
    let most = (record.len() - position).min(MATCH_MAX);
    let (before, here) = (&record[earlier..][..most], &record[position..][..most]);
    let mut length = 0;
    while let (Some(one), Some(other)) = (before[length..].first_chunk(), here[length..].first_chunk()) {
        let differing = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differing != 0 {
            return length + (differing.trailing_zeros() / u8::BITS) as usize;
        }
        length += size_of::<u64>();
    }
    length + before[length..].iter().zip(&here[length..]).take_while(|(one, other)| one == other).count()
}

/// Returns the four bytes at a position. `None` if there are fewer.
#[inline]
fn word_at(record: &[u8], position: usize) -> Option<u32> {
    let word = record.get(position..position + MATCH_MIN)?.first_chunk()?;
    Some(u32::from_le_bytes(*word))
}

/// Returns the index of a word in the table: the highest bits of a product (Knuth's method).
#[inline]
fn hash(word: u32) -> usize {
    (word.wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS)) as usize
}

/// Returns the codes for these code lengths (section 3.2.2).
fn canonical<const SYMBOLS: usize>(lengths: [u8; SYMBOLS]) -> [Code; SYMBOLS] {
    let mut codes = [Code::default(); SYMBOLS];
    let mut next = 0_u16;
    for count in 1..=BITS_MAX as u8 {
        next <<= 1;
        for (code, _) in codes.iter_mut().zip(lengths).filter(|(_, length)| *length == count) {
            *code = Code { bits: next.reverse_bits() >> (u16::BITS - u32::from(count)), count };
            next += 1;
        }
    }
    codes
}

/// Writes bits to a buffer, which must be large enough.
struct BitWriter<'o> {
    out: &'o mut [u8],
    stored: usize,
    bits: u64,
    count: u32,
}

impl<'o> BitWriter<'o> {
    fn behind(beginning: &Beginning, out: &'o mut [u8]) -> Self {
        let packed = &beginning.packed;
        out[..packed.len()].copy_from_slice(packed);
        BitWriter { out, stored: packed.len(), bits: beginning.bits, count: beginning.count }
    }

    /// Adds bits. After [`BitWriter::store`], there is room for [`LITERALS_AT_ONCE`] literals or one match.
    #[inline]
    fn put(&mut self, bits: u32, count: u32) {
        self.bits |= u64::from(bits) << self.count;
        self.count += count;
    }

    /// Stores whole bytes. Fewer than eight bits remain.
    #[inline]
    fn store(&mut self) {
        self.out[self.stored..][..STORE_BYTES].copy_from_slice(&self.bits.to_le_bytes());
        self.stored += (self.count / 8) as usize;
        self.bits >>= self.count & !7;
        self.count &= 7;
    }

    /// Returns the number of bytes written.
    fn finish(mut self) -> usize {
        self.store();
        self.stored + usize::from(self.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the fraction of all bit sequences that the codes use.
    fn share(codes: &[Code]) -> f64 {
        codes.iter().filter(|code| code.count > 0).map(|code| 0.5_f64.powi(code.count.into())).sum()
    }

    /// Inflate rejects a code in which some bit sequences have no meaning.
    #[test]
    fn the_codes_are_complete() {
        let codes = Codes::new();
        let symbols = [&codes.literals[..], &[codes.end], &codes.lengths].concat();
        assert!((share(&symbols) - 1.0).abs() < 1e-12);
        assert!((share(&codes.distances) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_needs_a_code_has_one() {
        let codes = Codes::new();
        for byte in 0..=u8::MAX {
            assert_eq!(has_codes(&[b'a', byte]), codes.literals[usize::from(byte)].count > 0, "{byte}");
        }
        assert!(has_codes(b"\t\r\n ~"));
        // The first length class is shorter than any match.
        assert!(codes.lengths[1..].iter().chain(&codes.distances).all(|code| code.count > 0));
    }

    fn unpacked(packed: &[u8], length: usize) -> Vec<u8> {
        let mut back = vec![0; length];
        let read = libdeflater::Decompressor::new().deflate_decompress(packed, &mut back);
        assert_eq!(read, Ok(length));
        back
    }

    #[test]
    fn what_begins_as_others_do_is_the_same() {
        let text = b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.org/WARC/WARC";
        let record = [&text[..], b"/1.1 aaaaaaaaaaaaaaaaaa http://example.org/"].concat();
        let plain = SmallDeflate::new(&[]);
        for end in 0..=text.len() {
            let small = SmallDeflate::new(&[b"other".to_vec(), text[..end].to_vec()]);
            for length in [end.saturating_sub(1), end, end + 1, end + 5, record.len()] {
                let record = &record[..length.min(record.len())];
                let mut out = b"before".to_vec();
                assert!(small.write(record, &mut out));
                assert_eq!(unpacked(&out[6..], record.len()), record);
                // The text may end in the middle of a match, which costs at most four bytes.
                let mut whole = Vec::new();
                assert!(plain.write(record, &mut whole));
                assert!(out.len() - 6 <= whole.len() + 4, "{} {}", out.len() - 6, whole.len());
            }
        }
    }

    #[test]
    fn a_beginning_that_no_record_can_have_is_left_out() {
        let long = b"ab".repeat(WARC_SMALL_RECORD_BYTES_MAX);
        let small = SmallDeflate::new(&[long, b"\xff".to_vec()]);
        let mut out = Vec::new();
        assert!(!small.write(b"\xff\xff", &mut out));
        assert!(out.is_empty());
        assert!(small.write(b"abab", &mut out));
        assert_eq!(unpacked(&out, 4), b"abab");
    }

    #[test]
    fn matches_of_all_lengths_and_distances_come_back() {
        let small = SmallDeflate::new(&[]);
        for length in MATCH_MIN..=MATCH_MAX {
            for distance in
                [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 100, 500, 1024, 1025, 1536, 1537, 1790]
            {
                let text: Vec<u8> = (0..distance)
                    .map(|at| b'0' + (at * at % 71) as u8)
                    .cycle()
                    .take(distance + length)
                    .collect();
                let mut out = Vec::new();
                assert!(small.write(&text, &mut out));
                assert_eq!(unpacked(&out, text.len()), text);
            }
        }
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let text = vec![b'a'; WARC_SMALL_RECORD_BYTES_MAX + 1];
        assert!(!SmallDeflate::new(&[]).write(&text, &mut Vec::new()));
        assert!(SmallDeflate::new(&[]).write(&text[1..], &mut Vec::new()));
    }
}
