//! Stores small objects, such as the records in the directory of a shared job, in a bucket. Each call opens a
//! connection, and retries until it succeeds or times out. All names are relative to the destination's prefix.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::store::{UploadClient, UploadEnd};
use crate::access::s3::{Access, BucketReply, BucketRequest, S3Settings};
use crate::control::clock::Clock;
use crate::control::stop::{StopSignal, Wakers};
use crate::event_queues::network_runtime;
use crate::request::stream_options::StreamOptions;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::s3::{
    ErrorDocument, ListQuery, StoreError, UploadDestination,
    multipart::{self, OpenUpload, UploadsPage},
    read_page, upload_query,
};
use fetchmill_net::certain::RestedConnection;
use fetchmill_net::{PoolSettings, RANGE};

/// Number of uploads that are aborted within one `patience`.
const ABORTED_AT_ONCE: usize = 100;

type BucketResult<T> = std::result::Result<T, UploadEnd>;

/// Client of the bucket. See the [module documentation](self). It can be shared between threads.
#[derive(Debug)]
pub struct Bucket {
    place: UploadDestination,
    access: Arc<Access>,
    pool: PoolSettings,
    clock: Clock,
    stop: Arc<StopSignal>,
}

/// An object, or a part of an object.
#[derive(Debug)]
pub struct BucketObject {
    /// Bytes of the object or part.
    pub body: Vec<u8>,
    /// Modification time according to the store's clock, in seconds since 1970.
    pub modified: u64,
}

/// Object in a page of the listing.
#[derive(Debug)]
pub struct StoredKey {
    /// Name without the prefix.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// ETag, which changes when the object is replaced.
    pub etag: String,
    /// Modification time according to the store's clock, in seconds since 1970.
    pub modified: u64,
}

/// Page of the listing.
#[derive(Debug)]
pub struct BucketPage {
    /// Objects in the order of the store.
    pub keys: Vec<StoredKey>,
    /// Token of the next page. `None` on the last page.
    pub token: Option<String>,
    /// Current time of the store in seconds since 1970.
    pub sent: u64,
}

impl Bucket {
    /// Finds credentials, but does not send any requests to the bucket.
    pub fn open(dest: &Path, options: &StreamOptions) -> Result<Self> {
        let Some(place) = UploadDestination::of(dest)? else {
            return Err(Error::Usage(format!(
                "{} is not a bucket: it must begin with s3://",
                dest.display()
            )));
        };
        options.check()?;
        let access = Access::new(S3Settings::of_process(&options.s3)?);
        let pool = options.pool_settings(&access)?;
        access.prepare(pool.clone(), 0);
        let clock = Clock::start();
        let stop = StopSignal::new(clock, Wakers::new(0));
        Ok(Bucket { place, access, pool, clock, stop })
    }

    /// Returns the bucket and prefix as an `s3://` URL.
    pub fn text(&self) -> String {
        self.place.text()
    }

    /// Reads an object from an offset, up to the size of one upload part. Returns `None` if the object does not exist.
    pub fn get(&self, name: &str, start: u64, patience: Duration) -> Result<Option<BucketObject>> {
        let key = self.key(name);
        let range = format!("bytes={start}-{}", start.saturating_add(limits::UPLOAD_PART_BYTES as u64 - 1));
        let fields = [(RANGE.to_owned(), range)];
        self.run(patience, async |client| {
            let ask = BucketRequest { fields: &fields, ..self.request("GET", Some(&key), "", None) };
            let reply = client.ask(&mut RestedConnection::default(), &ask).await?;
            let modified = reply.modified_at().unwrap_or(0);
            match reply.status {
                200 if start > 0 => Err(Error::Temporary(format!(
                    "cannot read {} in parts: the store ignores the range and sends the whole object",
                    self.place.text_of(&key)
                ))
                .into()),
                200 | 206 => Ok(Some(BucketObject { body: reply.body, modified })),
                // The offset is at the end of the object or after it.
                416 => Ok(Some(BucketObject { body: Vec::new(), modified })),
                404 if meaning(&reply) != StoreError::NoBucket => Ok(None),
                _ => Err(self.refused(client, "read", &key, &reply)),
            }
        })
    }

    /// Writes an object and replaces any existing one. Returns the store's time in seconds since 1970.
    pub fn put(&self, name: &str, body: &[u8], patience: Duration) -> Result<u64> {
        let key = self.key(name);
        self.run(patience, async |client| {
            let ask = self.request("PUT", Some(&key), "", Some(body));
            let reply = client.ask(&mut RestedConnection::default(), &ask).await?;
            match reply.status {
                200 => self.clock_of(&reply),
                _ => Err(self.refused(client, "write", &key, &reply)),
            }
        })
    }

    /// Makes one attempt to create an object that must not exist yet. `None` means that the result is unknown. In that
    /// case, read the object to find out.
    pub fn create(&self, name: &str, body: &[u8], patience: Duration) -> Result<Option<bool>> {
        let key = self.key(name);
        let fields = [("If-None-Match".to_owned(), "*".to_owned())];
        let ended = self.run(patience, async |client| {
            let ask = BucketRequest { fields: &fields, ..self.request("PUT", Some(&key), "", Some(body)) };
            let Ok(reply) = client.try_once(&ask).await? else { return Ok(None) };
            match reply.status {
                200 => Ok(Some(true)),
                412 => Ok(Some(false)),
                501 => Err(Error::Usage(format!(
                    "{}: the store does not support If-None-Match, so two workers could both believe that \
                     they are first; use another store",
                    self.text()
                ))
                .into()),
                409 | 429 | 500.. => Ok(None),
                _ => Err(self.refused(client, "write", &key, &reply)),
            }
        });
        match ended {
            Err(Error::Temporary(_)) => Ok(None),
            ended => ended,
        }
    }

    /// Lists a page of the names that start with `begin`. `token` comes from the previous page.
    pub fn list(&self, begin: &str, token: Option<&str>, patience: Duration) -> Result<BucketPage> {
        let prefix = self.key(begin);
        let query = ListQuery {
            prefix: prefix.as_bytes(),
            token,
            max_keys: limits::S3_PAGE_KEYS,
            ..ListQuery::default()
        };
        let query = query.text();
        self.run(patience, async |client| {
            let reply = client
                .ask(&mut RestedConnection::default(), &self.request("GET", None, &query, None))
                .await?;
            let mut keys = Vec::new();
            let page = read_page(&reply.body, &mut |found| {
                let listed = found.listed;
                let name = std::str::from_utf8(listed.key).ok();
                if let Some(name) = name.and_then(|name| name.strip_prefix(&self.place.prefix)) {
                    keys.push(StoredKey {
                        name: name.to_owned(),
                        size: listed.size.unwrap_or(0),
                        etag: String::from_utf8_lossy(listed.etag).into_owned(),
                        modified: listed.modified,
                    });
                }
            });
            match page {
                Ok(page) if reply.status == 200 => {
                    Ok(BucketPage { keys, token: page.token, sent: self.clock_of(&reply)? })
                }
                _ => Err(self.refused(client, "list", &prefix, &reply)),
            }
        })
    }

    /// Deletes an object if it exists.
    pub fn delete(&self, name: &str, patience: Duration) -> Result<()> {
        let key = self.key(name);
        self.run(patience, async |client| {
            let ask = self.request("DELETE", Some(&key), "", None);
            let reply = client.ask(&mut RestedConnection::default(), &ask).await?;
            match reply.status {
                200..=299 => Ok(()),
                404 if meaning(&reply) != StoreError::NoBucket => Ok(()),
                _ => Err(self.refused(client, "remove", &key, &reply)),
            }
        })
    }

    /// Uploads a file under a new name. Large files are uploaded in parts.
    pub fn put_file(&self, name: &str, path: &Path, patience: Duration) -> Result<()> {
        let key = self.key(name);
        self.access.load(&|| false)?;
        let client = self.client(patience, limits::PAGE_TIMEOUT)?;
        finish(network_runtime()?.block_on(client.put_file(path, &key, false)))
    }

    /// Aborts the multipart uploads of all names that start with `begin`. Each page, and each group of uploads, can
    /// take up to `patience`.
    pub fn abort_uploads(&self, begin: &str, patience: Duration) -> Result<()> {
        let prefix = self.key(begin);
        let mut after = None;
        let mut found = Vec::new();
        // Some stores need the last upload of a page to find the next page, so nothing is aborted before the last page.
        loop {
            let page = self.list_uploads(&prefix, after.as_ref(), patience)?;
            found.extend(page.uploads.into_iter().filter(|upload| upload.key.starts_with(&prefix)));
            if page.next.is_none() || page.next == after {
                break;
            }
            after = page.next;
        }
        found.chunks(ABORTED_AT_ONCE).try_for_each(|uploads| self.abort(uploads, patience))
    }

    /// Lists one page of the open uploads whose keys start with `prefix`.
    fn list_uploads(
        &self,
        prefix: &str,
        after: Option<&OpenUpload>,
        patience: Duration,
    ) -> Result<UploadsPage> {
        let query = multipart::uploads_query(prefix, after);
        self.run(patience, async |client| {
            let reply = client
                .ask(&mut RestedConnection::default(), &self.request("GET", None, &query, None))
                .await?;
            let page = multipart::uploads_page(&reply.body).filter(|_| reply.status == 200);
            page.ok_or_else(|| self.refused(client, "list the uploads of", prefix, &reply))
        })
    }

    fn abort(&self, uploads: &[OpenUpload], patience: Duration) -> Result<()> {
        self.run(patience, async |client| {
            let connection = &mut RestedConnection::default();
            for OpenUpload { key, id } in uploads {
                let query = upload_query(id);
                let reply = client.ask(connection, &self.request("DELETE", Some(key), &query, None)).await?;
                if !matches!(reply.status, 200..=299 | 404) {
                    return Err(self.refused(client, "abort the upload of", key, &reply));
                }
            }
            Ok(())
        })
    }

    fn key(&self, name: &str) -> String {
        self.place.shard_key(name)
    }

    fn request<'a>(
        &'a self,
        method: &'a str,
        key: Option<&'a str>,
        query: &'a str,
        body: Option<&'a [u8]>,
    ) -> BucketRequest<'a> {
        let (bucket, key) = (&self.place.bucket, key.map(str::as_bytes));
        BucketRequest { method, bucket, key, query, fields: &[], body }
    }

    fn client(&self, patience: Duration, head_timeout: Duration) -> Result<UploadClient> {
        let signal = (self.clock, Arc::clone(&self.stop));
        UploadClient::new(&self.access, &self.pool, self.place.clone(), signal, patience, head_timeout)
    }

    /// Runs requests to the store on this thread.
    fn run<T>(
        &self,
        patience: Duration,
        work: impl AsyncFnOnce(&UploadClient) -> BucketResult<T>,
    ) -> Result<T> {
        self.access.load(&|| false)?;
        let client = self.client(patience, patience.min(limits::RECORD_TIMEOUT))?;
        let ended =
            network_runtime()?.block_on(async { tokio::time::timeout(patience, work(&client)).await });
        ended.map_or_else(
            |_| {
                let seconds = patience.as_secs_f64();
                Err(Error::Temporary(format!("{} did not answer within {seconds:.1} s", self.text())))
            },
            finish,
        )
    }

    /// Returns the store's time.
    fn clock_of(&self, reply: &BucketReply) -> BucketResult<u64> {
        let said = reply.sent_at();
        said.ok_or_else(|| {
            Error::Usage(format!("{}: the store's replies have no Date header", self.text())).into()
        })
    }

    /// Returns the error for a refusal that would not change if the request were repeated.
    fn refused(&self, client: &UploadClient, action: &str, key: &str, reply: &BucketReply) -> UploadEnd {
        Error::Usage(client.refusal(action, &self.place.text_of(key), reply)).into()
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.access.close();
    }
}

fn meaning(reply: &BucketReply) -> StoreError {
    ErrorDocument::read(&reply.body).unwrap_or_default().meaning(reply.status)
}

fn finish<T>(ended: BucketResult<T>) -> Result<T> {
    ended.map_err(|end| match end {
        UploadEnd::Failed(error) => error,
        UploadEnd::Stopped => Error::Internal("a request to a bucket was stopped".into()),
    })
}
