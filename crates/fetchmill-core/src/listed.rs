//! A listed key as bytes, as it stands in the names of a page and so in the journal: what the listing says of it, then
//! the key.
//!
//! One byte says how long the ETag is, plus one; 0 says that nothing is known but the key. Then the ETag, the size and
//! the time as LEB128, the key. Whatever the bytes, they can be read: a journal may be damaged.

/// What a listing says of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListedKey<'a> {
    /// UTF-8 in a store that is well; taken as it is.
    pub key: &'a [u8],
    /// Bytes of the object.
    pub size: Option<u64>,
    /// Without its quotes; empty when the listing has none.
    pub etag: &'a [u8],
    /// When it was written, seconds since 1970 UTC; 0 when the listing does not say it.
    pub modified: u64,
}

/// A longer ETag is not kept: it is an MD5 in hexadecimal, with the number of parts behind it.
const ETAG_BYTES_MAX: usize = 128;

impl<'a> ListedKey<'a> {
    /// Of which only the key is known.
    pub fn named(key: &'a [u8]) -> Self {
        ListedKey { key, ..ListedKey::default() }
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Some(size) = self.size {
            let etag = Some(self.etag).filter(|etag| etag.len() <= ETAG_BYTES_MAX).unwrap_or_default();
            out.push(etag.len() as u8 + 1);
            out.extend_from_slice(etag);
            write_number(size, out);
            write_number(self.modified, out);
        } else {
            out.push(0);
        }
        out.extend_from_slice(self.key);
    }

    /// The reverse of [`ListedKey::write`].
    pub fn read(bytes: &'a [u8]) -> Self {
        let Some((&length, rest)) = bytes.split_first() else { return ListedKey::default() };
        let Some(etag_len) = usize::from(length).checked_sub(1) else { return ListedKey::named(rest) };
        let Some((etag, rest)) = rest.split_at_checked(etag_len) else { return ListedKey::named(rest) };
        let (size, rest) = read_number(rest);
        let (modified, key) = read_number(rest);
        ListedKey { key, size: Some(size), etag, modified }
    }
}

/// As LEB128.
fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The reverse of [`write_number`], and what stands behind it.
fn read_number(mut rest: &[u8]) -> (u64, &[u8]) {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let Some((&byte, behind)) = rest.split_first() else { break };
        rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    (number, rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_listed_key_comes_back(
            key in proptest::collection::vec(any::<u8>(), 0..40),
            size in any::<Option<u64>>(),
            etag in proptest::collection::vec(any::<u8>(), 0..=ETAG_BYTES_MAX),
            modified in any::<u64>(),
        ) {
            let (etag, modified) = if size.is_some() { (etag, modified) } else { (Vec::new(), 0) };
            let listed = ListedKey { key: &key, size, etag: &etag, modified };
            let mut written = Vec::new();
            listed.write(&mut written);

            prop_assert_eq!(ListedKey::read(&written), listed);
        }

        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = ListedKey::read(&bytes);
        }
    }
}
