//! The expected hash of an object, as stated by a list. Its length shows whether it is SHA-256 or MD5.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const MD5_BYTES: usize = 16;
const SHA256_BYTES: usize = 32;

/// The expected hash of an object. See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedHash {
    /// MD5.
    Md5([u8; MD5_BYTES]),
    /// SHA-256.
    Sha256([u8; SHA256_BYTES]),
}

impl ExpectedHash {
    /// Creates a hash from its bytes.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let md5 = bytes.try_into().map(ExpectedHash::Md5);
        md5.or_else(|_| bytes.try_into().map(ExpectedHash::Sha256)).ok()
    }

    /// Parses a hash that is written in hexadecimal digits of either case or in Base64.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() == 2 * MD5_BYTES || text.len() == 2 * SHA256_BYTES {
            return Self::of_bytes(&of_digits(text)?);
        }
        Self::of_bytes(&STANDARD.decode(text).ok()?)
    }

    /// Returns the bytes of the hash.
    pub fn bytes(&self) -> &[u8] {
        match self {
            ExpectedHash::Md5(bytes) => bytes,
            ExpectedHash::Sha256(bytes) => bytes,
        }
    }
}

/// Decodes hexadecimal digits, two per byte.
fn of_digits(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some((digit(*high)? * 16 + digit(*low)?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_tells_which_hash_it_is() {
        let (md5, sha256) = (ExpectedHash::Md5([0xab; 16]), ExpectedHash::Sha256([0xab; 32]));
        for (hash, bytes) in [(md5, &[0xab; 16][..]), (sha256, &[0xab; 32])] {
            for text in ["ab", "AB"].map(|digits| digits.repeat(bytes.len())) {
                assert_eq!(ExpectedHash::parse(text.as_bytes()), Some(hash));
            }
            assert_eq!(ExpectedHash::parse(STANDARD.encode(bytes).as_bytes()), Some(hash));
            assert_eq!(ExpectedHash::of_bytes(hash.bytes()), Some(hash));
        }
    }

    #[test]
    fn what_is_no_hash_is_refused() {
        let sha1 = "ab".repeat(20);
        let long = "ab".repeat(33);
        let no_digit = format!("{}g", "a".repeat(31));
        for text in ["", "ab", &sha1, &long, &no_digit, "q6urq6urq6urq6urq6urqw", " q6urq6urq6urq6urq6urqw=="]
        {
            assert_eq!(ExpectedHash::parse(text.as_bytes()), None, "{text}");
        }
    }
}
