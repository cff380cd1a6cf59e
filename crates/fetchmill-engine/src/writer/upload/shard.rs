//! Uploads a shard. Its file and its manifest each become an object, uploaded in one request or in parts. An object
//! becomes visible only when it is complete.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::store::{UploadClient, UploadEnd};
use crate::access::s3::{BucketReply, BucketRequest};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::UPLOAD_PART_BYTES;
use fetchmill_model::outcome::{ShardEnd, ShardNumber};
use fetchmill_model::s3::{START_UPLOAD_QUERY, multipart, part_query, upload_query};
use fetchmill_net::RANGE;
use fetchmill_net::certain::RestedConnection;
use fetchmill_store::sink::ShardFolder;

type UploadResult<T> = std::result::Result<T, UploadEnd>;

/// Object that already exists under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExistingObject {
    Nothing,
    Same,
    Other,
}

/// A file that is being uploaded.
struct FileUpload<'a> {
    path: &'a Path,
    file: File,
    length: u64,
    key: &'a str,
}

impl<'a> FileUpload<'a> {
    fn open(path: &'a Path, key: &'a str) -> Result<Self> {
        let fail = |error| Error::storage("read", path, error);
        let file = File::open(path).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        Ok(FileUpload { path, file, length, key })
    }

    fn parts(&self) -> usize {
        self.length.div_ceil(UPLOAD_PART_BYTES as u64) as usize
    }

    /// Returns the part with this index. The part after the last one is empty.
    fn part(&self, index: usize) -> Result<Vec<u8>> {
        let start = index as u64 * UPLOAD_PART_BYTES as u64;
        let mut part = vec![0; self.length.saturating_sub(start).min(UPLOAD_PART_BYTES as u64) as usize];
        self.file
            .read_exact_at(&mut part, start)
            .map_err(|error| Error::storage("read", self.path, error))?;
        Ok(part)
    }
}

impl UploadClient {
    /// Uploads a shard and its manifest, unless both already exist.
    pub(super) async fn put_shard(
        &self,
        shard_folder: &ShardFolder,
        number: ShardNumber,
        was_begun: bool,
    ) -> UploadResult<()> {
        let (data, manifest) = (shard_folder.shard_path(number), shard_folder.manifest_path(number));
        let leaf = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let keys = [self.upload.shard_key(&leaf(&data)), self.upload.manifest_key(&leaf(&manifest))];
        for (path, key) in [&data, &manifest].into_iter().zip(&keys) {
            self.put_file(path, key, was_begun).await?;
        }
        Ok(())
    }

    /// Uploads a file, unless it already exists.
    pub(super) async fn put_file(&self, path: &Path, key: &str, was_begun: bool) -> UploadResult<()> {
        self.begin();
        let sending = FileUpload::open(path, key)?;
        if !was_begun || self.must_send(&sending).await? {
            self.send(&sending).await?;
        }
        Ok(())
    }

    /// If a file no longer exists on disk, removes its uploaded parts or the complete object from the store.
    pub(super) async fn withdraw(&self, key: &str, file: &ShardEnd) -> UploadResult<()> {
        self.begin();
        if file.end > UPLOAD_PART_BYTES as u64 {
            self.abort_uploads(key).await?;
        }
        match self.look_for(key, file).await? {
            ExistingObject::Nothing => return Ok(()),
            ExistingObject::Other => return Err(self.foreign(key)),
            ExistingObject::Same => {}
        }
        let answer =
            self.ask(&mut RestedConnection::default(), &self.object("DELETE", key, "", None)).await?;
        match answer.status {
            200..=299 | 404 => Ok(()),
            _ => Err(self.refused("remove", key, &answer)),
        }
    }

    async fn send(&self, sending: &FileUpload<'_>) -> UploadResult<()> {
        if sending.length <= UPLOAD_PART_BYTES as u64 {
            self.put(sending).await
        } else {
            self.put_in_parts(sending).await
        }
    }

    fn object<'a>(
        &'a self,
        method: &'a str,
        key: &'a str,
        query: &'a str,
        body: Option<&'a [u8]>,
    ) -> BucketRequest<'a> {
        BucketRequest {
            method,
            bucket: &self.upload.bucket,
            key: Some(key.as_bytes()),
            query,
            fields: &[],
            body,
        }
    }

    /// Returns the header fields that make the store reject a key that already exists.
    fn condition(&self) -> Vec<(String, String)> {
        let condition = || ("If-None-Match".to_owned(), "*".to_owned());
        self.is_conditional.get().then(condition).into_iter().collect()
    }

    /// Sends a request that creates an object. If the store does not support the condition, repeats the request without
    /// it.
    async fn make(&self, ask: BucketRequest<'_>) -> UploadResult<BucketReply> {
        let connection = &mut RestedConnection::default();
        let answer = self.ask(connection, &BucketRequest { fields: &self.condition(), ..ask }).await?;
        if answer.status != 501 || !self.is_conditional.replace(false) {
            return Ok(answer);
        }
        self.ask(connection, &ask).await
    }

    async fn put(&self, sending: &FileUpload<'_>) -> UploadResult<()> {
        let body = sending.part(0)?;
        let answer = self.make(self.object("PUT", sending.key, "", Some(&body))).await?;
        match answer.status {
            200 => Ok(()),
            // An earlier attempt, whose answer was lost, might have created the object.
            412 => self.must_be_same(sending).await,
            _ => Err(self.refused("upload", sending.key, &answer)),
        }
    }

    async fn put_in_parts(&self, sending: &FileUpload<'_>) -> UploadResult<()> {
        let connection = &mut RestedConnection::default();
        let begin = self.object("POST", sending.key, START_UPLOAD_QUERY, Some(b""));
        let answer = self.ask(connection, &begin).await?;
        let Some(id) = multipart::upload_id(&answer.body).filter(|_| answer.status == 200) else {
            return Err(self.refused("upload", sending.key, &answer));
        };
        let sent = self.send_parts(sending, &id).await;
        if sent.is_err() {
            self.ask_once(&self.object("DELETE", sending.key, &upload_query(&id), None)).await;
        }
        sent
    }

    async fn send_parts(&self, sending: &FileUpload<'_>, id: &str) -> UploadResult<()> {
        let etags = RefCell::new(vec![String::new(); sending.parts()]);
        let next = Cell::new(0);
        // The number of these futures is `UPLOAD_PARTS_IN_FLIGHT`.
        let one = self.send_some(sending, id, &next, &etags);
        let other = self.send_some(sending, id, &next, &etags);
        tokio::try_join!(one, other)?;
        self.complete(sending, id, &etags.into_inner()).await
    }

    /// Sends parts until none are left.
    async fn send_some(
        &self,
        sending: &FileUpload<'_>,
        id: &str,
        next: &Cell<usize>,
        etags: &RefCell<Vec<String>>,
    ) -> UploadResult<()> {
        let connection = &mut RestedConnection::default();
        while next.get() < sending.parts() {
            let index = next.replace(next.get() + 1);
            let body = sending.part(index)?;
            let query = part_query(index as u32 + 1, id);
            let answer = self.ask(connection, &self.object("PUT", sending.key, &query, Some(&body))).await?;
            match answer.etag.clone().filter(|_| answer.status == 200) {
                Some(etag) => etags.borrow_mut()[index] = etag,
                None => return Err(self.refused("upload a part of", sending.key, &answer)),
            }
        }
        Ok(())
    }

    async fn complete(&self, sending: &FileUpload<'_>, id: &str, etags: &[String]) -> UploadResult<()> {
        let document = multipart::complete_document(etags);
        let query = upload_query(id);
        let answer = self.make(self.object("POST", sending.key, &query, Some(document.as_bytes()))).await?;
        match answer.status {
            200 if multipart::is_completed(&answer.body) => Ok(()),
            412 => {
                self.ask_once(&self.object("DELETE", sending.key, &query, None)).await;
                self.must_be_same(sending).await
            }
            // An earlier attempt completed the upload.
            404 => self.must_be_same(sending).await,
            _ => Err(self.refused("complete", sending.key, &answer)),
        }
    }

    /// Returns whether to repeat an upload that an earlier run started. Discards the parts that were sent by that run.
    async fn must_send(&self, sending: &FileUpload<'_>) -> UploadResult<bool> {
        if sending.length > UPLOAD_PART_BYTES as u64 {
            self.abort_uploads(sending.key).await?;
        }
        match self.look(sending).await? {
            ExistingObject::Nothing => Ok(true),
            ExistingObject::Same => Ok(false),
            ExistingObject::Other => Err(self.foreign(sending.key)),
        }
    }

    async fn abort_uploads(&self, key: &str) -> UploadResult<()> {
        let connection = &mut RestedConnection::default();
        let mut after = None;
        let mut found = Vec::new();
        // Some stores need the last upload of a page to find the next page, so nothing is aborted before the last page.
        loop {
            let query = multipart::uploads_query(key, after.as_ref());
            let list = BucketRequest { key: None, ..self.object("GET", key, &query, None) };
            let answer = self.ask(connection, &list).await?;
            let page = multipart::uploads_page(&answer.body).filter(|_| answer.status == 200);
            let Some(page) = page else { return Err(self.refused("list the uploads of", key, &answer)) };
            // Uploads of longer keys with this prefix come after the uploads of the key itself.
            let is_last = page.uploads.last().is_none_or(|upload| upload.key != key);
            found.extend(page.uploads.into_iter().filter(|upload| upload.key == key));
            if is_last || page.next.is_none() || page.next == after {
                break;
            }
            after = page.next;
        }
        for upload in found {
            let query = upload_query(&upload.id);
            let answer = self.ask(connection, &self.object("DELETE", key, &query, None)).await?;
            if !matches!(answer.status, 200..=299 | 404) {
                return Err(self.refused("abort the upload of", key, &answer));
            }
        }
        Ok(())
    }

    fn foreign(&self, key: &str) -> UploadEnd {
        UploadEnd::Failed(Error::Journal(format!(
            "{} exists, but does not belong to this job; move it away, then run the same command again to \
             resume",
            self.upload.text_of(key)
        )))
    }

    /// Checks that the object in the store has the same content.
    async fn must_be_same(&self, sending: &FileUpload<'_>) -> UploadResult<()> {
        match self.look(sending).await? {
            ExistingObject::Same => Ok(()),
            ExistingObject::Other => Err(self.foreign(sending.key)),
            ExistingObject::Nothing => Err(UploadEnd::Failed(Error::Temporary(format!(
                "{} exists according to the store, but cannot be found; run the same command again to resume",
                self.upload.text_of(sending.key)
            )))),
        }
    }

    /// Requests a part of the existing object by its index.
    async fn read(
        &self,
        connection: &mut RestedConnection,
        key: &str,
        index: usize,
    ) -> UploadResult<BucketReply> {
        let start = index * UPLOAD_PART_BYTES;
        let range = format!("bytes={start}-{}", start + UPLOAD_PART_BYTES - 1);
        let fields = [(RANGE.to_owned(), range)];
        let ask = BucketRequest { fields: &fields, ..self.object("GET", key, "", None) };
        self.ask(connection, &ask).await
    }

    /// Compares the existing object byte by byte, because the ETag from a store depends on the object's encryption.
    async fn look(&self, sending: &FileUpload<'_>) -> UploadResult<ExistingObject> {
        let connection = &mut RestedConnection::default();
        // Read one part more than the file has, to check that the object ends there.
        for index in 0..=sending.parts() {
            let part = sending.part(index)?;
            let answer = self.read(connection, sending.key, index).await?;
            match answer.status {
                404 => return Ok(ExistingObject::Nothing),
                416 if part.is_empty() => return Ok(ExistingObject::Same),
                200 | 206 if answer.body == part && part.len() < UPLOAD_PART_BYTES => {
                    return Ok(ExistingObject::Same);
                }
                206 if answer.body == part => {}
                200 | 206 | 416 => return Ok(ExistingObject::Other),
                _ => return Err(self.refused("read", sending.key, &answer)),
            }
        }
        Ok(ExistingObject::Other)
    }

    /// Compares the existing object by length and checksum, because the file no longer exists.
    async fn look_for(&self, key: &str, file: &ShardEnd) -> UploadResult<ExistingObject> {
        let connection = &mut RestedConnection::default();
        let (mut length, mut crc32c) = (0_u64, 0);
        // The object ends with the first part that is not full.
        for index in 0..=(file.end / UPLOAD_PART_BYTES as u64) as usize {
            let answer = self.read(connection, key, index).await?;
            match answer.status {
                404 => return Ok(ExistingObject::Nothing),
                416 => break,
                200 | 206 => {
                    length += answer.body.len() as u64;
                    crc32c = crc32c::crc32c_append(crc32c, &answer.body);
                }
                _ => return Err(self.refused("read", key, &answer)),
            }
        }
        let is_same = (length, crc32c) == (file.end, file.crc32c);
        Ok(if is_same { ExistingObject::Same } else { ExistingObject::Other })
    }
}
