//! Multipart uploads. An upload is created, receives its parts, and is completed or aborted. The object does not exist
//! until the upload is completed.

use std::sync::{MutexGuard, PoisonError};

use bytes::Bytes;

use super::clock;
use super::failure::Failure;
use super::head::RequestHead;
use super::object::{self, ObjectRequest};
use super::reply::Reply;
use super::store::{self, Bucket, Object, Store};
use super::uploads::{self, Part, Uploads};
use super::uri::Query;
use super::xml;

/// Maximum number of uploads in a listing.
const LISTED_MAX: usize = 1000;

fn open(store: &Store) -> MutexGuard<'_, Uploads> {
    store.uploads.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the upload id from a query.
fn id(query: &Query) -> String {
    String::from_utf8_lossy(query.get("uploadId").unwrap_or_default()).into_owned()
}

impl ObjectRequest<'_> {
    /// Opens an upload.
    pub(crate) fn create(&self, reply: &mut Reply<'_>) -> Result<(), Failure> {
        store::check_key(self.key)?;
        let id = open(self.store).start(&self.bucket.name, self.key, self.now)?;
        let mut out = Vec::new();
        xml::root("InitiateMultipartUploadResult", &mut out);
        xml::element("Bucket", &self.bucket.name, &mut out);
        xml::element("Key", self.key, &mut out);
        xml::element("UploadId", id, &mut out);
        xml::close("InitiateMultipartUploadResult", &mut out);
        reply.document(&out);
        Ok(())
    }

    /// Adds a part, replacing any part that has the same number.
    pub(crate) fn put_part(&self, query: &Query, body: &Bytes, reply: &mut Reply<'_>) -> Result<(), Failure> {
        if self.behaviour.fails_upload() {
            return Err(Failure::new(503, "ServiceUnavailable", "Please reduce your request rate."));
        }
        let number = uploads::part_number(query.get("partNumber").unwrap_or_default())?;
        let etag = store::etag_text(body);
        let mut uploads = open(self.store);
        let upload = uploads.get(&id(query), &self.bucket.name, self.key)?;
        self.store.reserve(body.len() as u64)?;
        let part = Part { body: body.clone(), etag: etag.clone(), modified: self.now };
        if let Some(old) = upload.parts.insert(number, part) {
            self.store.release(old.body.len() as u64);
        }
        reply.status(200);
        reply.etag(etag.as_bytes());
        reply.empty(200);
        Ok(())
    }

    /// Creates an object from the parts that the body names. Returns whether it did so.
    pub(crate) fn complete(
        &self,
        head: &RequestHead<'_>,
        query: &Query,
        body: &[u8],
        reply: &mut Reply<'_>,
    ) -> Result<bool, Failure> {
        let id = id(query);
        let mut uploads = open(self.store);
        let upload = uploads.get(&id, &self.bucket.name, self.key)?;
        if let Some(code) = self.behaviour.error_with_200(self.key) {
            reply.failure(&object::error_with_200(code));
            return Ok(false);
        }
        let malformed = || Failure::new(400, "MalformedXML", "The XML you provided was not well-formed");
        let (whole, etag) = upload.assemble(&xml::parts(body).ok_or_else(malformed)?)?;
        let object = Object { body: whole, etag: etag.clone(), modified: self.now };
        self.store.put(self.bucket, self.key, object, object::only_once(head)?)?;
        self.store.release(upload.bytes());
        uploads.open.remove(&id);
        let mut out = Vec::new();
        xml::root("CompleteMultipartUploadResult", &mut out);
        xml::element("Bucket", &self.bucket.name, &mut out);
        xml::element("Key", self.key, &mut out);
        xml::element("ETag", format!("\"{etag}\""), &mut out);
        xml::close("CompleteMultipartUploadResult", &mut out);
        reply.document(&out);
        Ok(true)
    }

    /// Removes an upload and its parts.
    pub(crate) fn abort(&self, query: &Query, reply: &mut Reply<'_>) -> Result<(), Failure> {
        let id = id(query);
        let mut uploads = open(self.store);
        let bytes = uploads.get(&id, &self.bucket.name, self.key)?.bytes();
        uploads.open.remove(&id);
        self.store.release(bytes);
        reply.status(204);
        reply.empty(204);
        Ok(())
    }

    /// Writes the list of parts of an upload.
    pub(crate) fn list_parts(&self, query: &Query, reply: &mut Reply<'_>) -> Result<(), Failure> {
        let id = id(query);
        let mut uploads = open(self.store);
        let upload = uploads.get(&id, &self.bucket.name, self.key)?;
        let mut out = Vec::new();
        xml::root("ListPartsResult", &mut out);
        xml::element("Bucket", &self.bucket.name, &mut out);
        xml::element("Key", self.key, &mut out);
        xml::element("UploadId", &id, &mut out);
        xml::element("IsTruncated", "false", &mut out);
        for (number, part) in &upload.parts {
            xml::open("Part", &mut out);
            xml::element("PartNumber", number.to_string(), &mut out);
            xml::element("LastModified", clock::iso(part.modified), &mut out);
            xml::element("ETag", format!("\"{}\"", part.etag), &mut out);
            xml::element("Size", part.body.len().to_string(), &mut out);
            xml::close("Part", &mut out);
        }
        xml::close("ListPartsResult", &mut out);
        reply.document(&out);
        Ok(())
    }
}

/// Writes a page of the open uploads of a bucket, sorted by key and time.
pub(crate) fn list_uploads(
    store: &Store,
    bucket: &Bucket,
    query: &Query,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let prefix = query.get("prefix").unwrap_or_default();
    let encoded = query.get("encoding-type") == Some(b"url");
    let most = uploads_max(query)?;
    let uploads = open(store);
    let is_asked = |(_, upload): &(&String, &uploads::Upload)| {
        upload.bucket == bucket.name && upload.key.as_bytes().starts_with(prefix)
    };
    let mut found: Vec<_> = uploads.open.iter().filter(is_asked).collect();
    found.sort_by(|(_, one), (_, other)| (&one.key, one.started).cmp(&(&other.key, other.started)));
    if let Some(marker) = query.get("key-marker") {
        let id = query.get("upload-id-marker").unwrap_or_default();
        let at = found.iter().position(|(its, one)| one.key.as_bytes() == marker && its.as_bytes() == id);
        let first =
            at.map_or_else(|| found.partition_point(|(_, one)| one.key.as_bytes() <= marker), |at| at + 1);
        found.drain(..first);
    }
    let is_truncated = found.len() > most;
    found.truncate(most);
    let mut out = Vec::new();
    xml::root("ListMultipartUploadsResult", &mut out);
    xml::element("Bucket", &bucket.name, &mut out);
    xml::key("Prefix", prefix, encoded, &mut out);
    if encoded {
        xml::element("EncodingType", "url", &mut out);
    }
    xml::element("MaxUploads", most.to_string(), &mut out);
    xml::element("IsTruncated", is_truncated.to_string(), &mut out);
    if let Some((id, upload)) = found.last().filter(|_| is_truncated) {
        xml::key("NextKeyMarker", upload.key.as_bytes(), encoded, &mut out);
        xml::element("NextUploadIdMarker", id, &mut out);
    }
    for (id, upload) in found {
        xml::open("Upload", &mut out);
        xml::key("Key", upload.key.as_bytes(), encoded, &mut out);
        xml::element("UploadId", id, &mut out);
        xml::element("Initiated", clock::iso(upload.started), &mut out);
        xml::element("StorageClass", "STANDARD", &mut out);
        xml::close("Upload", &mut out);
    }
    xml::close("ListMultipartUploadsResult", &mut out);
    reply.document(&out);
    Ok(())
}

/// Returns how many uploads the client accepts in a page.
fn uploads_max(query: &Query) -> Result<usize, Failure> {
    let Some(text) = query.get("max-uploads") else { return Ok(LISTED_MAX) };
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<usize>().ok());
    let number = number.filter(|number| *number > 0);
    let refused =
        || Failure::invalid_argument("Argument max-uploads must be an integer between 1 and 2147483647");
    number.map(|number| number.min(LISTED_MAX)).ok_or_else(refused)
}
