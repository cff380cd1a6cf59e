//! Multipart uploads that are neither completed nor aborted.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use md5::{Digest, Md5};

use super::failure::Failure;
use super::sign;

/// Maximum number of open uploads.
const OPEN_MAX: usize = 5000;
const PARTS_MAX: u32 = 10_000;
/// Minimum size in bytes of every part except the last one, as in AWS.
const PART_BYTES_MIN: usize = 5 * 1024 * 1024;

/// A part of an upload.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) body: Bytes,
    /// The `ETag`, without its quotes.
    pub(crate) etag: String,
    /// Modification time in milliseconds since 1970.
    pub(crate) modified: i64,
}

/// An open upload.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) bucket: String,
    pub(crate) key: String,
    /// Time at which the upload was started, in milliseconds since 1970.
    pub(crate) started: i64,
    pub(crate) parts: BTreeMap<u32, Part>,
}

impl Upload {
    /// Returns the total size of the parts in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.values().map(|part| part.body.len() as u64).sum()
    }

    /// Joins the named parts into one body. Returns the body and its `ETag`, which is the MD5 of the parts' MD5s,
    /// followed by the number of parts.
    pub(crate) fn assemble(&self, named: &[(u32, String)]) -> Result<(Bytes, String), Failure> {
        if named.is_empty() {
            return Err(Failure::new(400, "MalformedXML", "You must specify at least one part"));
        }
        if !named.is_sorted_by(|(one, _), (next, _)| one < next) {
            let message =
                "The list of parts was not in ascending order. Parts must be ordered by part number.";
            return Err(Failure::new(400, "InvalidPartOrder", message));
        }
        let (mut body, mut sums) = (BytesMut::new(), Md5::new());
        for (position, (number, etag)) in named.iter().enumerate() {
            let Some(part) = self.parts.get(number).filter(|part| part.etag == *etag) else {
                let message = "One or more of the specified parts could not be found.";
                return Err(Failure::new(400, "InvalidPart", message).with("PartNumber", number.to_string()));
            };
            if position + 1 < named.len() && part.body.len() < PART_BYTES_MIN {
                let message = "Your proposed upload is smaller than the minimum allowed size";
                return Err(Failure::new(400, "EntityTooSmall", message)
                    .with("PartNumber", number.to_string())
                    .with("ProposedSize", part.body.len().to_string())
                    .with("MinSizeAllowed", PART_BYTES_MIN.to_string()));
            }
            body.extend_from_slice(&part.body);
            sums.update(Md5::digest(&part.body));
        }
        let sum = String::from_utf8(sign::hex(&sums.finalize())).unwrap_or_default();
        Ok((body.freeze(), format!("{sum}-{}", named.len())))
    }
}

/// All open uploads by id.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    pub(crate) open: BTreeMap<String, Upload>,
    started: u64,
}

impl Uploads {
    /// Opens an upload and returns its id.
    pub(crate) fn start(&mut self, bucket: &str, key: &str, now: i64) -> Result<String, Failure> {
        if self.open.len() >= OPEN_MAX {
            return Err(Failure::too_large("This store allows at most 5,000 open uploads."));
        }
        self.started += 1;
        let id = format!("{:016x}.{:x}_-", crate::hash::mix(self.started), self.started);
        let upload =
            Upload { bucket: bucket.to_owned(), key: key.to_owned(), started: now, parts: BTreeMap::new() };
        self.open.insert(id.clone(), upload);
        Ok(id)
    }

    /// Returns the upload with this id, if it belongs to this key.
    pub(crate) fn get(&mut self, id: &str, bucket: &str, key: &str) -> Result<&mut Upload, Failure> {
        let is_its = |upload: &&mut Upload| upload.bucket == bucket && upload.key == key;
        self.open.get_mut(id).filter(is_its).ok_or_else(|| Failure::no_such_upload(id))
    }
}

/// Parses the number of a part.
pub(crate) fn part_number(text: &[u8]) -> Result<u32, Failure> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.filter(|number| (1..=PARTS_MAX).contains(number)).ok_or_else(|| {
        Failure::invalid_argument("Part number must be an integer between 1 and 10000, inclusive")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(sizes: &[usize]) -> Upload {
        let mut uploads = Uploads::default();
        let id = uploads.start("bucket", "key", 0).expect("there is room");
        let upload = uploads.get(&id, "bucket", "key").expect("it is open");
        for (position, size) in sizes.iter().enumerate() {
            let part = Part { body: vec![b'x'; *size].into(), etag: format!("e{position}"), modified: 0 };
            upload.parts.insert(position as u32 + 1, part);
        }
        uploads.open.remove(&id).expect("it is open")
    }

    fn code(upload: &Upload, named: &[(u32, &str)]) -> String {
        let named: Vec<_> = named.iter().map(|(number, etag)| (*number, (*etag).to_owned())).collect();
        upload.assemble(&named).expect_err("refused").code.into_owned()
    }

    #[test]
    fn parts_become_a_body() {
        let upload = upload(&[PART_BYTES_MIN, 3]);

        let (body, etag) = upload.assemble(&[(1, "e0".to_owned()), (2, "e1".to_owned())]).expect("whole");

        assert_eq!(body.len(), PART_BYTES_MIN + 3);
        assert!(etag.ends_with("-2"));
    }

    #[test]
    fn wrong_parts_are_refused() {
        let upload = upload(&[3, 3]);

        assert_eq!(code(&upload, &[]), "MalformedXML");
        assert_eq!(code(&upload, &[(2, "e1"), (1, "e0")]), "InvalidPartOrder");
        assert_eq!(code(&upload, &[(1, "e1")]), "InvalidPart");
        assert_eq!(code(&upload, &[(3, "e0")]), "InvalidPart");
        assert_eq!(code(&upload, &[(1, "e0"), (2, "e1")]), "EntityTooSmall");
    }
}
