//! A small hash for everything that must look random but be reproducible: bodies, faults and delays.
//!
//! It applies the finalizer of splitmix64 to each word. It is not meant to resist attackers.

/// The increment of splitmix64: 2^64 divided by the golden ratio.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a word. Different words stay different, because this is a bijection.
pub(crate) const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Hashes bytes as little-endian words of eight bytes. The length comes first, as a word, and the last word is padded
/// with zeros.
pub(crate) fn of_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = mix(seed ^ (bytes.len() as u64).wrapping_mul(GOLDEN));
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        hash = mix(hash ^ u64::from_le_bytes(*word));
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        hash = mix(hash ^ u64::from_le_bytes(word));
    }
    hash
}

/// Converts a hash to a number from 0 to just below 1.
pub(crate) fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

/// Converts a hash to an integer below `bound` by taking the upper half of a wide product.
pub(crate) fn below(hash: u64, bound: u64) -> u64 {
    ((u128::from(hash) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_at_the_end_count() {
        assert_ne!(of_bytes(0, b"a"), of_bytes(0, b"a\0"));
        assert_ne!(of_bytes(0, b""), of_bytes(0, b"\0\0\0\0\0\0\0\0"));
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        assert!(unit(u64::MAX) < 1.0);
        assert!((unit(0) - 0.0).abs() < f64::EPSILON);
        assert_eq!((below(0, 6), below(u64::MAX, 6)), (0, 5));
    }
}
