//! Reads gzip members.

use libdeflater::{DecompressionError, Decompressor};

use crate::pack::Damage;
use fetchmill_model::limits::MIB;

/// Highest compression ratio of deflate.
const RATIO_MAX: usize = 1032;
/// Size of the buffer for the first attempt to decompress a member of unknown size, such as a request.
const GUESS_BYTES: usize = 4096;
/// Size of the trailer of a member: checksum and size.
const FOOTER_BYTES: usize = 8;
/// Maximum size of a buffer that is kept for the next member.
const KEPT_BYTES_MAX: usize = MIB;

const DAMAGE: Damage = Damage("a gzip member is damaged");

/// Reads many members, most of them small. Verifies the checksum of each.
pub(super) struct MemberReader {
    inflater: Decompressor,
    /// Content of the last member, at the start of the buffer. The buffer may be longer and is reused.
    buffer: Vec<u8>,
}

impl MemberReader {
    pub(super) fn new() -> Self {
        MemberReader { inflater: Decompressor::new(), buffer: Vec::new() }
    }

    /// Decompresses the first member. Returns its content and the bytes after it.
    pub(super) fn unpack<'m>(&mut self, members: &'m [u8]) -> Result<(&[u8], &'m [u8]), Damage> {
        // Do not keep the memory of a large object.
        if self.buffer.len() > KEPT_BYTES_MAX {
            self.buffer = Vec::new();
        }
        let (length, behind) = inflate(&mut self.inflater, members, &mut self.buffer)?;
        Ok((self.buffer.get(..length).ok_or(DAMAGE)?, behind))
    }
}

/// Decompresses the first member. Returns its content and the bytes after it.
pub(super) fn unpack(members: &[u8]) -> Result<(Vec<u8>, &[u8]), Damage> {
    let mut content = Vec::new();
    let (length, behind) = inflate(&mut Decompressor::new(), members, &mut content)?;
    content.truncate(length);
    Ok((content, behind))
}

/// Decompresses the first member to the start of `buffer`, which grows as needed. Returns the size of the content, and
/// the bytes after the member.
fn inflate<'m>(
    inflater: &mut Decompressor,
    members: &'m [u8],
    buffer: &mut Vec<u8>,
) -> Result<(usize, &'m [u8]), Damage> {
    // The size is stored modulo 4 GiB, so larger contents cannot be checked.
    let most = members.len().saturating_mul(RATIO_MAX).min(u32::MAX as usize);
    // This is the size of the last member. It is accurate if there is only one member, and often sufficient for the
    // first of two.
    let last = members.last_chunk::<4>().ok_or(DAMAGE)?;
    let mut room = (u32::from_le_bytes(*last) as usize).max(GUESS_BYTES).min(most);
    loop {
        if buffer.len() < room {
            // The system provides zeroed pages, and pages that are never used take no memory.
            *buffer = vec![0; room];
        }
        match inflater.gzip_decompress(members, buffer) {
            Ok(length) => {
                let content = buffer.get(..length).ok_or(DAMAGE)?;
                return Ok((length, behind_member(members, content).ok_or(DAMAGE)?));
            }
            Err(DecompressionError::InsufficientSpace) if room < most => {
                room = room.saturating_mul(4).min(most);
            }
            Err(_) => return Err(DAMAGE),
        }
    }
}

/// Returns the bytes after a member. libdeflate does not report where a member ends, but its trailer can be computed
/// from the content.
fn behind_member<'a>(members: &'a [u8], content: &[u8]) -> Option<&'a [u8]> {
    let mut footer = [0; FOOTER_BYTES];
    footer[..4].copy_from_slice(&libdeflater::crc32(content).to_le_bytes());
    footer[4..].copy_from_slice(&(content.len() as u32).to_le_bytes());
    let end = memchr::memmem::find(members, &footer)? + FOOTER_BYTES;
    members.get(end..)
}
