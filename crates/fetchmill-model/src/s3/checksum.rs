//! Compares a body with a hash from a list or with a checksum from a store. If there are several checksums of the whole
//! object, only the cheapest one is compared. Per megabyte, CRC-64/NVME, CRC-32C and CRC-32 take up to about 0.1 ms,
//! SHA takes 0.5 ms, and MD5 takes 1.5 ms.

use std::fmt;

use aws_lc_rs::digest::{self, Context};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use md5::{Digest as _, Md5};

use crate::target::expected_hash::ExpectedHash;

/// Size of the longest supported checksum, SHA-256.
const BYTES_MAX: usize = 32;

/// The expected checksum of an object, and the checksum of the bytes received so far.
pub struct BodyChecksum {
    running: ChecksumState,
    said: [u8; BYTES_MAX],
}

enum ChecksumState {
    /// CRC-64/NVME or CRC-32.
    Crc(Box<crc_fast::Digest>, usize),
    Crc32c(u32),
    /// SHA-1 or SHA-256.
    Sha(Context),
    Md5(Md5),
}

impl fmt::Debug for BodyChecksum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BodyChecksum").finish_non_exhaustive()
    }
}

/// Checksums that a head states.
#[derive(Default)]
struct GivenChecksums<'h> {
    crc64nvme: Option<&'h [u8]>,
    crc32c: Option<&'h [u8]>,
    crc32: Option<&'h [u8]>,
    sha256: Option<&'h [u8]>,
    sha1: Option<&'h [u8]>,
    etag: Option<&'h [u8]>,
    /// Whether the checksums are composed from the checksums of the parts.
    is_composite: bool,
    /// Whether the `ETag` is not an MD5, even if it looks like one.
    has_own_etag: bool,
}

impl BodyChecksum {
    /// Returns the checksum of the whole object from a reply's head, or `None` if the head states none. `head` must be
    /// in its original form.
    pub fn of_head(head: &[u8]) -> Option<Self> {
        let mut said = GivenChecksums::default();
        for line in head.split(|byte| *byte == b'\n') {
            if let Some(colon) = memchr::memchr(b':', line) {
                said.note(&line[..colon], line[colon + 1..].trim_ascii());
            }
        }
        said.checksum()
    }

    /// Returns the expected hash of an object in a list.
    pub fn of_hash(hash: &ExpectedHash) -> Self {
        let running = match hash {
            ExpectedHash::Md5(_) => ChecksumState::Md5(Md5::new()),
            ExpectedHash::Sha256(_) => ChecksumState::Sha(Context::new(&digest::SHA256)),
        };
        let (mut said, bytes) = ([0; BYTES_MAX], hash.bytes());
        said[..bytes.len()].copy_from_slice(bytes);
        BodyChecksum { running, said }
    }

    /// Adds the next bytes of the body.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.running {
            ChecksumState::Crc(digest, _) => digest.update(bytes),
            ChecksumState::Crc32c(crc) => *crc = crc32c::crc32c_append(*crc, bytes),
            ChecksumState::Sha(context) => context.update(bytes),
            ChecksumState::Md5(digest) => digest.update(bytes),
        }
    }

    /// Returns whether the body has the expected checksum.
    pub fn matches(self) -> bool {
        let said = &self.said;
        match self.running {
            ChecksumState::Crc(digest, length) => {
                digest.finalize().to_be_bytes()[8 - length..] == said[..length]
            }
            ChecksumState::Crc32c(crc) => crc.to_be_bytes() == said[..4],
            ChecksumState::Sha(context) => {
                let found = context.finish();
                *found.as_ref() == said[..found.as_ref().len()]
            }
            ChecksumState::Md5(digest) => digest.finalize()[..] == said[..16],
        }
    }
}

/// Returns whether a body contradicts its head. `head` must be in its original form.
pub fn is_damaged(head: &[u8], body: &[u8]) -> bool {
    BodyChecksum::of_head(head).is_some_and(|mut checksum| {
        checksum.update(body);
        !checksum.matches()
    })
}

impl<'h> GivenChecksums<'h> {
    fn note(&mut self, name: &[u8], value: &'h [u8]) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        match name.len() {
            4 if is("etag") => self.etag = Some(value),
            19 if is("x-amz-checksum-sha1") => self.sha1 = Some(value),
            20 if is("x-amz-checksum-crc32") => self.crc32 = Some(value),
            21 if is("x-amz-checksum-crc32c") => self.crc32c = Some(value),
            21 if is("x-amz-checksum-sha256") => self.sha256 = Some(value),
            24 if is("x-amz-checksum-crc64nvme") => self.crc64nvme = Some(value),
            28 if is("x-amz-server-side-encryption") => self.has_own_etag |= value != b"AES256",
            _ if is("x-amz-checksum-type") => {
                self.is_composite |= !value.eq_ignore_ascii_case(b"FULL_OBJECT");
            }
            _ if is("x-amz-server-side-encryption-customer-algorithm") => self.has_own_etag = true,
            // In single-zone buckets, ETags are not derived from the body.
            _ if is("x-amz-storage-class") => self.has_own_etag |= value == b"EXPRESS_ONEZONE",
            _ => {}
        }
    }

    fn checksum(&self) -> Option<BodyChecksum> {
        let crc = |algorithm, length| {
            move || ChecksumState::Crc(Box::new(crc_fast::Digest::new(algorithm)), length)
        };
        let sha = |algorithm: &'static digest::Algorithm| move || ChecksumState::Sha(Context::new(algorithm));
        self.of(self.crc64nvme, 8, crc(CrcAlgorithm::Crc64Nvme, 8))
            .or_else(|| self.of(self.crc32c, 4, || ChecksumState::Crc32c(0)))
            .or_else(|| self.of(self.crc32, 4, crc(CrcAlgorithm::Crc32IsoHdlc, 4)))
            .or_else(|| self.of(self.sha256, 32, sha(&digest::SHA256)))
            .or_else(|| self.of(self.sha1, 20, sha(&digest::SHA1_FOR_LEGACY_USE_ONLY)))
            .or_else(|| self.of_etag())
    }

    /// Parses a Base64 value. Composite checksums end in `-N`.
    fn of(
        &self,
        value: Option<&[u8]>,
        length: usize,
        running: impl FnOnce() -> ChecksumState,
    ) -> Option<BodyChecksum> {
        let value = value.filter(|value| !self.is_composite && !value.contains(&b'-'))?;
        let bytes = STANDARD.decode(value).ok().filter(|bytes| bytes.len() == length)?;
        let mut said = [0; BYTES_MAX];
        said[..length].copy_from_slice(&bytes);
        Some(BodyChecksum { running: running(), said })
    }

    /// Returns the MD5 in an `ETag`. An `ETag` is an MD5 only if the object was written in one piece and is not
    /// encrypted with KMS or customer keys.
    fn of_etag(&self) -> Option<BodyChecksum> {
        let text = self.etag.filter(|_| !self.has_own_etag)?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        let mut said = [0; BYTES_MAX];
        if text.len() != 32 {
            return None;
        }
        for (byte, digits) in said.iter_mut().zip(text.chunks_exact(2)) {
            let digit = |at: usize| char::from(digits[at]).to_digit(16);
            *byte = (digit(0)? * 16 + digit(1)?) as u8;
        }
        Some(BodyChecksum { running: ChecksumState::Md5(Md5::new()), said })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"123456789";
    // Check values, taken from the CRC catalogues and computed with coreutils.
    const RIGHT: [&str; 6] = [
        "x-amz-checksum-crc64nvme: rosUhgp5mIg=",
        "X-AMZ-Checksum-CRC32C: 4waSgw==",
        "x-amz-checksum-crc32: y/Q5Jg==",
        "x-amz-checksum-sha1: 98O8HYCOBHMq32eZZczDTKeuNEE=",
        "x-amz-checksum-sha256: FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
        "ETag: \"25f9e794323b453885f5181f1b624d0b\"",
    ];

    fn head(fields: &str) -> Vec<u8> {
        format!("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n{fields}\r\n\r\n").into_bytes()
    }

    #[test]
    fn what_came_is_compared_with_what_the_store_says() {
        for field in RIGHT {
            let head = head(field);
            assert!(BodyChecksum::of_head(&head).is_some(), "{field}");
            assert!(!is_damaged(&head, BODY), "{field}");
            assert!(is_damaged(&head, b"123456788"), "{field}");
            let mut by_pieces = BodyChecksum::of_head(&head).unwrap();
            BODY.chunks(2).for_each(|piece| by_pieces.update(piece));
            assert!(by_pieces.matches(), "{field}");
        }
        let full = format!("{}\r\nx-amz-checksum-type: FULL_OBJECT", RIGHT[0]);
        assert!(is_damaged(&head(&full), b"x"));
        let encrypted = format!("{}\r\nx-amz-server-side-encryption: AES256", RIGHT[5]);
        assert!(is_damaged(&head(&encrypted), b"x"));
    }

    #[test]
    fn what_came_is_compared_with_what_a_list_says() {
        for text in [
            "25f9e794323b453885f5181f1b624d0b",
            "15E2B0D3C33891EBB0F1EF609EC419420C20E320CE94C65FBC8C3312448EB225",
            "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
        ] {
            let hash = ExpectedHash::parse(text.as_bytes()).unwrap();
            for (body, is_right) in [(BODY, true), (b"123456788", false), (b"", false)] {
                let mut checksum = BodyChecksum::of_hash(&hash);
                body.chunks(2).for_each(|piece| checksum.update(piece));
                assert_eq!(checksum.matches(), is_right, "{text}");
            }
        }
    }

    #[test]
    fn what_says_nothing_of_the_whole_object_is_left_aside() {
        for fields in [
            "ETag: \"25f9e794323b453885f5181f1b624d0b-2\"",
            "ETag: W/\"25f9e794323b453885f5181f1b624d0b\"",
            "ETag: \"z5f9e794323b453885f5181f1b624d0b\"",
            "ETag: \"25f9e794323b453885f5181f1b624d0b\"\r\nx-amz-server-side-encryption: aws:kms",
            "ETag: \"25f9e794323b453885f5181f1b624d0b\"\r\nx-amz-server-side-encryption-customer-algorithm: AES256",
            "ETag: \"25f9e794323b453885f5181f1b624d0b\"\r\nx-amz-storage-class: EXPRESS_ONEZONE",
            "x-amz-checksum-crc32: y/Q5Jg==-3",
            "x-amz-checksum-crc32: y/Q5Jg==\r\nx-amz-checksum-type: COMPOSITE",
            "x-amz-checksum-crc32: y/Q5",
            "x-amz-checksum-crc32: \u{e4}",
            "",
        ] {
            assert!(BodyChecksum::of_head(&head(fields)).is_none(), "{fields}");
        }
    }

    #[test]
    fn the_cheapest_of_several_is_taken() {
        let both = format!("{}\r\n{}", RIGHT[5].replace("25f", "000"), RIGHT[0]);
        assert!(!is_damaged(&head(&both), BODY));
    }
}
