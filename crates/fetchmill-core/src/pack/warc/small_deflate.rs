//! Deflate (RFC 1951) for small records of ASCII: one block with a code that is always the same, so that nothing is
//! counted and computed for a record of some hundred bytes. docs/decisions/0035 says how the code was made.

use crate::limits::WARC_SMALL_RECORD_BYTES_MAX;

/// How a block starts: it is the last, and the lengths of the codes, [`LITERAL_LENGTHS`] and [`DISTANCE_LENGTHS`], as
/// section 3.2.7 packs them.
const BLOCK_START: [u8; 52] = [
    0xe5, 0x55, 0xe7, 0x76, 0xd3, 0x30, 0x14, 0xfe, 0x8d, 0xcf, 0xf1, 0x3b, 0x88, 0xb2, 0xa1, 0xb2, 0x25,
    0x79, 0x8b, 0x52, 0x48, 0x93, 0x8e, 0x74, 0x93, 0xba, 0x14, 0xca, 0x54, 0xe4, 0x1b, 0xc7, 0xd4, 0xb1,
    0x8d, 0x2d, 0x03, 0x61, 0x3d, 0x3b, 0xc7, 0x69, 0xa0, 0xec, 0xbd, 0xd1, 0x1e, 0xf7, 0x7e, 0x77, 0x69,
    0x00,
];
/// Bits of the block's start in its last byte.
const BLOCK_START_BITS: u32 = 410 % 8;
/// Bits of the code of each byte below 128; none where there is no code.
const LITERAL_LENGTHS: &[u8; 128] = b"0000000009600600000000000000000059899999999985665556666666598989\
                                      9787788887888888897868989989999995756476769867666966569997999990";
/// The same of the end of the block, and of lengths of matches by their class.
const LENGTH_LENGTHS: &[u8; 29] = b"90678799899999999999999999999";
/// The same of distances by their class: those of small records.
const DISTANCE_LENGTHS: &[u8; 22] = b"5555555555443444445555";

/// Matches are as long as a hashed word at least, and no longer than the last class of lengths but one has them: the
/// one length of the last class, 258, has no code.
const MATCH_MIN: usize = 4;
const MATCH_MAX: usize = 257;
/// What the first class of lengths means.
const LENGTH_FIRST: usize = 3;
/// Places for words already seen: 2 KiB, cleared for each record.
const HASH_BITS: u32 = 10;
/// Of a code.
const BITS_MAX: usize = 9;
/// What is written at once; a writer needs as much room behind its end.
const STORE_BYTES: usize = 8;

/// The bits of a symbol, the first in the lowest place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Code {
    bits: u16,
    /// 0: there is no code.
    count: u8,
}

/// Packs small records of ASCII.
#[derive(Debug)]
pub(super) struct SmallDeflate {
    literals: [Code; 256],
    end: Code,
    lengths: [Code; LENGTH_LENGTHS.len() - 1],
    distances: [Code; DISTANCE_LENGTHS.len()],
}

impl SmallDeflate {
    pub(super) fn new() -> Self {
        let mut lengths = [0; 256 + LENGTH_LENGTHS.len()];
        lengths[..128].copy_from_slice(&LITERAL_LENGTHS.map(|digit| digit - b'0'));
        lengths[256..].copy_from_slice(&LENGTH_LENGTHS.map(|digit| digit - b'0'));
        let codes = canonical(lengths);
        SmallDeflate {
            literals: std::array::from_fn(|byte| codes[byte]),
            end: codes[256],
            lengths: std::array::from_fn(|class| codes[257 + class]),
            distances: canonical(DISTANCE_LENGTHS.map(|digit| digit - b'0')),
        }
    }

    /// Appends the record as deflate packs it. False when it is too long, or there is no code for one of its bytes:
    /// what was appended means nothing then.
    pub(super) fn write(&self, record: &[u8], out: &mut Vec<u8>) -> bool {
        if record.len() > WARC_SMALL_RECORD_BYTES_MAX {
            return false;
        }
        let start = out.len();
        // A match takes at most 28 bits, and there are four bytes in it at least.
        out.resize(start + BLOCK_START.len() + (record.len() + 1) * BITS_MAX / 8 + 1 + STORE_BYTES, 0);
        let mut writer = BitWriter::behind_block_start(&mut out[start..]);
        let mut seen = [0_u16; 1 << HASH_BITS];
        let mut position = 0;
        while let Some(word) = record[position..].first_chunk::<MATCH_MIN>() {
            let place = &mut seen[hash(*word)];
            let earlier = usize::from(*place);
            *place = position as u16;
            if earlier < position && record[earlier..].starts_with(word) {
                let length = common(record, earlier, position);
                self.put_match(length, position - earlier, &mut writer);
                position += length;
            } else if !self.put_literal(word[0], &mut writer) {
                return false;
            } else {
                position += 1;
            }
        }
        if !record[position..].iter().all(|byte| self.put_literal(*byte, &mut writer)) {
            return false;
        }
        writer.put(u32::from(self.end.bits), u32::from(self.end.count));
        let end = start + writer.finish();
        out.truncate(end);
        true
    }

    #[inline]
    fn put_literal(&self, byte: u8, writer: &mut BitWriter<'_>) -> bool {
        let code = self.literals[usize::from(byte)];
        writer.put(u32::from(code.bits), u32::from(code.count));
        writer.store_if_half_full();
        code.count > 0
    }

    #[inline]
    fn put_match(&self, length: usize, distance: usize, writer: &mut BitWriter<'_>) {
        put_class(&self.lengths, length - LENGTH_FIRST, 2, writer);
        put_class(&self.distances, distance - 1, 1, writer);
        writer.store();
    }
}

/// Writes a value as its class and what the class leaves open: a class has the value's highest bit and `kept` more.
#[inline]
fn put_class(codes: &[Code], value: usize, kept: u32, writer: &mut BitWriter<'_>) {
    let value = value as u32;
    let open = (value | 1 << kept).ilog2() - kept;
    let code = codes[((open << kept) + (value >> open)) as usize];
    let rest = value & ((1 << open) - 1);
    writer.put(u32::from(code.bits) | rest << code.count, u32::from(code.count) + open);
}

/// How far the record repeats at `position` what it has at `earlier`.
#[inline]
fn common(record: &[u8], earlier: usize, position: usize) -> usize {
    let pairs = record[earlier..].iter().zip(&record[position..]);
    pairs.take(MATCH_MAX).take_while(|(a, b)| a == b).count()
}

/// The place of a word: the highest bits of a product (Knuth's).
#[inline]
fn hash(word: [u8; MATCH_MIN]) -> usize {
    (u32::from_le_bytes(word).wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS)) as usize
}

/// The codes of symbols, by the lengths of these codes (section 3.2.2).
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

/// Writes bits into room that is large enough.
struct BitWriter<'o> {
    out: &'o mut [u8],
    stored: usize,
    bits: u64,
    count: u32,
}

impl<'o> BitWriter<'o> {
    fn behind_block_start(out: &'o mut [u8]) -> Self {
        let [whole @ .., last] = &BLOCK_START;
        out[..whole.len()].copy_from_slice(whole);
        BitWriter { out, stored: whole.len(), bits: u64::from(*last), count: BLOCK_START_BITS }
    }

    /// Adds at most 32 bits; behind [`BitWriter::store_if_half_full`] there is room for as many.
    #[inline]
    fn put(&mut self, bits: u32, count: u32) {
        self.bits |= u64::from(bits) << self.count;
        self.count += count;
    }

    #[inline]
    fn store_if_half_full(&mut self) {
        if self.count >= 32 {
            self.store();
        }
    }

    /// Stores whole bytes; fewer than eight bits stay.
    #[inline]
    fn store(&mut self) {
        self.out[self.stored..][..STORE_BYTES].copy_from_slice(&self.bits.to_le_bytes());
        self.stored += (self.count / 8) as usize;
        self.bits >>= self.count & !7;
        self.count &= 7;
    }

    /// The length of what was written.
    fn finish(mut self) -> usize {
        self.store();
        self.stored + usize::from(self.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What shares of all sequences of bits the codes take.
    fn share(codes: &[Code]) -> f64 {
        codes.iter().filter(|code| code.count > 0).map(|code| 0.5_f64.powi(code.count.into())).sum()
    }

    /// Inflate refuses a code that leaves sequences of bits without a meaning.
    #[test]
    fn the_codes_are_complete() {
        let small = SmallDeflate::new();
        let symbols = [&small.literals[..], &[small.end], &small.lengths].concat();
        assert!((share(&symbols) - 1.0).abs() < 1e-12);
        assert!((share(&small.distances) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_needs_a_code_has_one() {
        let small = SmallDeflate::new();
        assert!((b' '..=b'~').chain(*b"\t\r\n").all(|byte| small.literals[usize::from(byte)].count > 0));
        // The first class of lengths is shorter than any match.
        assert!(small.lengths[1..].iter().chain(&small.distances).all(|code| code.count > 0));
    }

    #[test]
    fn matches_of_all_lengths_and_distances_come_back() {
        let small = SmallDeflate::new();
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
                let mut back = vec![0; text.len()];
                let read = libdeflater::Decompressor::new().deflate_decompress(&out, &mut back);
                assert_eq!((read.unwrap(), back), (text.len(), text));
            }
        }
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let text = vec![b'a'; WARC_SMALL_RECORD_BYTES_MAX + 1];
        assert!(!SmallDeflate::new().write(&text, &mut Vec::new()));
        assert!(SmallDeflate::new().write(&text[1..], &mut Vec::new()));
    }
}
