//! What a listing says of an object, as bytes, as it stands in the names of a page and so in the journal: a key of a
//! bucket ([`ListedKey`]), a file of a server's folder ([`SizedName`]).
//!
//! Of a key: what the listing says of it, then the key.
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

/// What a folder's listing says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SizedName<'a> {
    /// Its path; any bytes.
    pub name: &'a [u8],
    /// Bytes of the file.
    pub size: Option<u64>,
}

/// What a name never begins with that was listed before sizes were kept: these are their own bytes.
const SIZED: u8 = 0;

impl<'a> SizedName<'a> {
    /// What stands before a name: [`SIZED`], and the size plus one as LEB128, or 0 when it is not known.
    pub fn prefix(size: Option<u64>, out: &mut Vec<u8>) {
        out.push(SIZED);
        write_number(size.and_then(|size| size.checked_add(1)).unwrap_or(0), out);
    }

    /// The reverse: [`SizedName::prefix`] and the name, or only the name.
    pub fn read(bytes: &'a [u8]) -> Self {
        let Some(rest) = bytes.strip_prefix(&[SIZED]) else { return SizedName { name: bytes, size: None } };
        let (number, name) = read_number(rest);
        SizedName { name, size: number.checked_sub(1) }
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

    #[test]
    fn a_name_without_a_size_is_its_bytes() {
        assert_eq!(SizedName::read(b"a/b"), SizedName { name: b"a/b", size: None });
        assert_eq!(SizedName::read(b""), SizedName::default());
        // What is written where nothing is known.
        assert_eq!(SizedName::read(b"\0\0a"), SizedName { name: b"a", size: None });
    }

    proptest! {
        #[test]
        fn a_sized_name_comes_back(name in proptest::collection::vec(any::<u8>(), 0..40), size in any::<Option<u64>>()) {
            let mut written = Vec::new();
            SizedName::prefix(size, &mut written);
            written.extend_from_slice(&name);

            let size = size.filter(|size| *size < u64::MAX);
            prop_assert_eq!(SizedName::read(&written), SizedName { name: &name, size });
        }

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
            let _ = (ListedKey::read(&bytes), SizedName::read(&bytes));
        }
    }
}
