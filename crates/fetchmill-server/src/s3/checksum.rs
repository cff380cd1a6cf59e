//! Checksums of objects, which S3 sends on request (`x-amz-checksum-mode: ENABLED`). CRCs are computed bit by bit, as
//! they are defined. Therefore, this server shares neither code nor bugs with the client.

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::options::ChecksumName;

/// Polynomials, lowest bit first.
const CRC64_NVME: u64 = 0x9a6c_9329_ac4b_c9b5;
const CRC32C: u64 = 0x82f6_3b78;
const CRC32: u64 = 0xedb8_8320;

/// Returns the fields of a head that contain the checksum.
pub(crate) fn fields(name: ChecksumName, is_composite: bool, body: &[u8]) -> [(&'static str, String); 2] {
    let (field, sum) = match name {
        ChecksumName::Crc64nvme => ("x-amz-checksum-crc64nvme", crc(body, CRC64_NVME, 64)),
        ChecksumName::Crc32c => ("x-amz-checksum-crc32c", crc(body, CRC32C, 32)),
        ChecksumName::Crc32 => ("x-amz-checksum-crc32", crc(body, CRC32, 32)),
        ChecksumName::Sha1 => {
            let sum = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, body);
            ("x-amz-checksum-sha1", sum.as_ref().to_vec())
        }
        ChecksumName::Sha256 => {
            ("x-amz-checksum-sha256", digest::digest(&digest::SHA256, body).as_ref().to_vec())
        }
    };
    let (kind, end) = if is_composite { ("COMPOSITE", "-2") } else { ("FULL_OBJECT", "") };
    [(field, STANDARD.encode(sum) + end), ("x-amz-checksum-type", kind.to_owned())]
}

fn crc(body: &[u8], polynomial: u64, bits: u32) -> Vec<u8> {
    let ones = u64::MAX >> (64 - bits);
    let mut sum = ones;
    for byte in body {
        sum ^= u64::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (polynomial * (sum & 1));
        }
    }
    (sum ^ ones).to_be_bytes()[8 - bits as usize / 8..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_have_their_check_values() {
        for (name, value) in [
            (ChecksumName::Crc64nvme, "rosUhgp5mIg="),
            (ChecksumName::Crc32c, "4waSgw=="),
            (ChecksumName::Crc32, "y/Q5Jg=="),
            (ChecksumName::Sha1, "98O8HYCOBHMq32eZZczDTKeuNEE="),
        ] {
            assert_eq!(fields(name, false, b"123456789")[0].1, value);
        }
    }
}
