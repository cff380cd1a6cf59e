//! What a comparison with the origin needs: how an object is asked for, and its bytes as they are stored.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::Path;

use super::entries::{are_of_list, before_name, is_export};
use super::stored::open_root;
use super::verify::Sampled;
use crate::durable;
use crate::error::{Error, Result};
use crate::http1::RequestTemplate;
use crate::journal::{Books, KEYS, Place, TRANSFORM};
use crate::kept::Columns;
use crate::manifest::Row;
use crate::name;
use crate::object::StoredObject;
use crate::pack::WarcOrigin;
use crate::reader::{ReadError, ShardReader};
use crate::s3::{BucketName, BucketPlace, Endpoint, REGION_DEFAULT};
use crate::sink::{Format, Shelf};
use crate::source::{ApiNames, OriginUrl};

/// What the source of an export is called: this, and the source of what was exported.
pub const EXPORT_OF: &str = "export of ";

/// Where the objects of a job are asked for.
#[derive(Debug, Clone)]
pub enum Asked {
    /// At one origin, each by its name.
    Origin(Requests),
    /// Each at the URL that is stored with it, or else at its name with this before it: those of a list.
    Own(&'static str),
}

impl Asked {
    /// As the job did; or at another origin. It is refused where the answer would mean nothing.
    pub fn of(books: &Books, against: Option<&str>) -> Result<Self> {
        let refuse = |why: &str| Err(Error::Usage(why.to_owned()));
        if books.part("format") == Format::Null.name() {
            return refuse(
                "the format null keeps no objects to compare; verify without --sample and --against",
            );
        }
        if !books.part(TRANSFORM).is_empty() {
            return refuse(
                "a function has transformed the objects of this job: they are not what the origin sends; verify \
                 without --sample and --against",
            );
        }
        if books.part("listing") == KEYS {
            return refuse(
                "objects of a bucket cannot be asked for again yet: verify without --sample and --against, or fetch \
                 it into another destination",
            );
        }
        if !are_of_list(books) {
            return Requests::new(&books.identity, against).map(Asked::Origin);
        }
        if against.is_some() {
            return refuse(
                "--against needs a job of one origin, this one is of a list; --sample asks each URL of it",
            );
        }
        if books.traits.https {
            return refuse(
                "--sample asks over http only, and the list of this job has https:// URLs; verify without it",
            );
        }
        if Columns::of_identity(&books.identity).has_url() {
            return Ok(Asked::Own(""));
        }
        match before_name(books).filter(|_| !is_export(books)) {
            Some(before) => Ok(Asked::Own(before)),
            None => refuse(
                "--sample needs the URLs of the objects, and nothing here tells them; verify without it",
            ),
        }
    }

    /// The URL of an object.
    pub fn url(&self, object: &StoredObject) -> String {
        match self {
            Asked::Origin(requests) => format!("{}{}", requests.origin, requests.path(&object.name)),
            Asked::Own(before) => match &object.url {
                Some(url) => String::from_utf8_lossy(url).into_owned(),
                None => format!("{before}{}", String::from_utf8_lossy(&object.name)),
            },
        }
    }

    /// Whether redirects are followed.
    pub fn follows(&self) -> bool {
        matches!(self, Asked::Own(_))
    }
}

/// How the objects of a job with one origin are asked for.
#[derive(Debug, Clone)]
pub struct Requests {
    /// Scheme, host and port.
    origin: String,
    authority: String,
    before: String,
    behind: String,
}

impl Requests {
    /// As the job asked for them, by its identity; of another source when one is given.
    pub fn new(identity: &BTreeMap<String, String>, source: Option<&str>) -> Result<Self> {
        let part = |name: &str| identity.get(name).map_or("", String::as_str);
        let own = part("source").trim_start_matches(EXPORT_OF);
        let origin = OriginUrl::parse(source.unwrap_or(own))?;
        let (before, behind) = match part("listing").rsplit_once(' ') {
            Some((listing, get_path)) if listing.starts_with("api ") => {
                let names = ApiNames { get_path: get_path.to_owned(), ..ApiNames::default() };
                let (before, behind) = names.around_name()?;
                (before.to_owned(), behind.to_owned())
            }
            _ => ("/".to_owned(), String::new()),
        };
        let before = format!("{}{before}", origin.path());
        Ok(Requests {
            origin: format!("{}://{}", origin.scheme(), origin.authority()),
            authority: origin.authority(),
            before,
            behind,
        })
    }

    /// The path of an object's request.
    pub fn path(&self, name: &[u8]) -> String {
        let mut encoded = Vec::new();
        name::encode(name, &mut encoded);
        format!("{}{}{}", self.before, String::from_utf8_lossy(&encoded), self.behind)
    }
}

/// For records of requests, by the identity of the job that made them.
pub fn warc_origin(identity: &BTreeMap<String, String>) -> Result<WarcOrigin> {
    if let Some(place) = bucket_place(identity) {
        let template = RequestTemplate::new(place.key.authority(), &place.prefix, "", &[])?;
        return Ok(WarcOrigin { template, uri_start: place.key.text().to_owned(), names_are_urls: false });
    }
    let requests =
        if Columns::of_identity(identity).has_url() { None } else { Requests::new(identity, None).ok() };
    // What came from a list, or from an export of one, has no origin but its own.
    let Some(Requests { authority, before, behind, .. }) = requests else { return WarcOrigin::of_list(&[]) };
    let template = RequestTemplate::new(&authority, &before, &behind, &[])?;
    Ok(WarcOrigin { template, uri_start: format!("http://{authority}"), names_are_urls: false })
}

/// Where the objects of a bucket came from, in the region that buckets have which say nothing else: the journal does not
/// keep another.
fn bucket_place(identity: &BTreeMap<String, String>) -> Option<BucketPlace> {
    let source = identity.get("source")?;
    let (bucket, _) =
        source.strip_prefix(EXPORT_OF).unwrap_or(source).strip_prefix("s3://")?.split_once('/')?;
    let url = identity.get("endpoint").map(|url| OriginUrl::parse(url)).transpose().ok()?;
    let endpoint = Endpoint { url, ..Endpoint::default() };
    BucketPlace::of(&endpoint, &BucketName::parse(bucket).ok()?, REGION_DEFAULT).ok()
}

/// Reads drawn objects.
#[derive(Debug)]
pub struct SampleReader {
    place: Place,
    books: Books,
    format: Format,
    open: Option<ShardReader>,
}

impl SampleReader {
    /// Of a destination that no process works on.
    pub fn open(dest: &Path, state: Option<&Path>) -> Result<Self> {
        let place = Place::look(dest, state)?;
        let books = Books::read(&place)?;
        let format = Format::from_name(books.part("format")).unwrap_or(Format::Null);
        Ok(SampleReader { place, books, format, open: None })
    }

    /// An object; `None` when it is not what was written, which the verification has told.
    pub fn read(&mut self, sampled: &Sampled) -> Result<Option<StoredObject>> {
        match sampled.shard {
            Some((number, row)) => self.read_in_shard(number, row, sampled),
            None => self.read_file(sampled),
        }
    }

    fn read_file(&self, sampled: &Sampled) -> Result<Option<StoredObject>> {
        let root = open_root(&self.place)?;
        let mut path = Vec::new();
        if name::to_path(&sampled.name, &mut path).is_err() {
            return Ok(None);
        }
        let Ok(Some(file)) = durable::open_file_beneath(root.as_fd(), &path) else { return Ok(None) };
        let mut body = Vec::new();
        let read = file.take(sampled.length.saturating_add(1)).read_to_end(&mut body);
        let is_good = read.is_ok() && crc32c::crc32c(&body) == sampled.crc32c;
        Ok(is_good.then(|| StoredObject { name: sampled.name.to_vec(), body, ..StoredObject::default() }))
    }

    fn read_in_shard(&mut self, number: u64, row: u64, sampled: &Sampled) -> Result<Option<StoredObject>> {
        if self.open.as_ref().is_none_or(|open| open.number() != number) {
            let shard = self.books.shards.iter().find(|shard| shard.number == number);
            let (Some(shard), Some(extension)) = (shard, self.format.extension()) else { return Ok(None) };
            let shelf = Shelf::new(&self.place.dest, extension, true);
            self.open = ShardReader::open(&shelf, self.format, shard).ok();
        }
        let Some(open) = &self.open else { return Ok(None) };
        let Sampled { sequence, name, length, crc32c, place, .. } = sampled;
        let row_of = Row { sequence: *sequence, name, length: *length, crc32c: *crc32c, place: *place };
        match open.read(row, &row_of) {
            Ok(object) => Ok(Some(object)),
            Err(ReadError::Damaged(_) | ReadError::Failed(Error::Journal(_))) => Ok(None),
            Err(ReadError::Failed(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(listing: &str) -> BTreeMap<String, String> {
        let parts = [("source", "http://a:81/base"), ("listing", listing)];
        parts.into_iter().map(|(part, value)| (part.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn objects_are_asked_for_as_the_job_did() {
        let api = identity("api /list FileNames NextMarker next-marker /get/{name}?raw");
        let requests = Requests::new(&api, None).unwrap();
        assert_eq!(requests.origin, "http://a:81");
        assert_eq!(requests.path(b"x y/z"), "/base/get/x%20y/z?raw");

        let walk = Requests::new(&identity("autoindex"), Some("http://b:82")).unwrap();
        assert_eq!(walk.origin, "http://b:82");
        assert_eq!(walk.path(b"x"), "/x");
    }
}
