//! A customer-provided encryption key (SSE-C), which is sent with requests for objects.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};

/// Size of an AES-256 key in bytes.
const KEY_BYTES: usize = 32;

/// A customer-provided key. It never appears outside requests.
#[derive(Clone, PartialEq, Eq)]
pub struct CustomerKey {
    key: String,
    md5: String,
}

impl std::fmt::Debug for CustomerKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("CustomerKey(..)")
    }
}

impl CustomerKey {
    /// Parses the contents of a file, which must be the 32 bytes of a key or their Base64 form. Returns `None` if the
    /// contents are neither.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let key = if bytes.len() == KEY_BYTES {
            bytes.to_vec()
        } else {
            STANDARD.decode(bytes.trim_ascii()).ok()?
        };
        let md5 = STANDARD.encode(Md5::digest(&key));
        (key.len() == KEY_BYTES).then(|| CustomerKey { key: STANDARD.encode(key), md5 })
    }

    /// Returns the header fields to send with requests for objects.
    pub fn fields(&self) -> [(&'static str, &str); 3] {
        [
            ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
            ("x-amz-server-side-encryption-customer-key", &self.key),
            ("x-amz-server-side-encryption-customer-key-md5", &self.md5),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_32_bytes_or_their_base64() {
        let raw = CustomerKey::of_bytes(&[b'k'; 32]).unwrap();

        let text = CustomerKey::of_bytes(b"a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=\n").unwrap();

        assert_eq!(raw, text);
        // Computed with: echo -n kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk | openssl md5 -binary | base64
        assert_eq!(raw.fields()[2].1, "mT2HRsMGJ5IX5C+0rreZ8Q==");
        assert_eq!(format!("{raw:?}"), "CustomerKey(..)");
        for other in [&b""[..], &[b'k'; 31], b"a2s=", &[0xff; 44]] {
            assert_eq!(CustomerKey::of_bytes(other), None);
        }
    }
}
