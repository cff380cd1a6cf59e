//! Requests for the objects of a job at their origin.

use std::collections::BTreeMap;

use super::entries::{EntryOfName, are_of_list, are_stripped, is_export, request_of};
use crate::journal::{JournalSnapshot, KEYS, TRANSFORM};
use crate::pack::WarcOrigin;
use crate::sink::Format;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::RequestTemplate;
use fetchmill_model::name;
use fetchmill_model::object::StoredObject;
use fetchmill_model::s3::{BucketAddress, BucketName, Endpoint, REGION_DEFAULT};
use fetchmill_model::source::{ApiNames, OriginUrl};
use fetchmill_model::target::extra_columns::ExtraColumns;

/// Prefix of the source of an export. The source of the exported job follows it.
pub const EXPORT_OF: &str = "export of ";

/// The origin at which the objects of a job can be requested.
#[derive(Debug, Clone)]
pub enum ObjectOrigin {
    /// All objects are at one origin and are requested by name.
    Origin(ObjectRequests),
    /// Each object has its own URL, which is stored with the object or derived from its name. This applies to objects
    /// from a list.
    Own(EntryOfName),
}

impl ObjectOrigin {
    /// Returns the job's origin, or the origin that the user gave. Fails if a comparison with that origin would be
    /// meaningless.
    pub fn of(snapshot: &JournalSnapshot, against: Option<&str>) -> Result<Self> {
        let refuse = |why: &str| Err(Error::Usage(why.to_owned()));
        if snapshot.part("format") == Format::Null.name() {
            return refuse(
                "the format null stores no objects that could be compared; verify without --sample and \
                 --against",
            );
        }
        if !snapshot.part(TRANSFORM).is_empty() {
            return refuse(
                "the objects of this job were transformed by a function and differ from the origin's; verify \
                 without --sample and --against",
            );
        }
        if ExtraColumns::of_identity(&snapshot.identity).has_items() {
            return refuse(
                "API items have no URLs that could be fetched again; verify without --sample and --against",
            );
        }
        if snapshot.part("listing") == KEYS {
            return refuse(
                "objects in a bucket cannot yet be fetched again for comparison; verify without --sample \
                 and --against, or fetch the bucket into another destination",
            );
        }
        if !are_of_list(snapshot) && are_stripped(snapshot) {
            return refuse(
                "a leading path was removed from the names in this job, so the objects' URLs are unknown; \
                 verify without --sample and --against",
            );
        }
        if !are_of_list(snapshot) {
            return ObjectRequests::new(&snapshot.identity, against).map(ObjectOrigin::Origin);
        }
        if against.is_some() {
            return refuse(
                "--against needs a job with one origin, but this job fetched a list; use --sample, which \
                 fetches the list's URLs",
            );
        }
        if request_of(snapshot).is_some() {
            return refuse(
                "--sample fetches whole objects with GET, but this job used other requests; verify without \
                 --sample",
            );
        }
        if snapshot.traits.https {
            return refuse(
                "--sample supports only http, but the list of this job has https:// URLs; verify without \
                 --sample",
            );
        }
        if ExtraColumns::of_identity(&snapshot.identity).has_url() {
            return Ok(ObjectOrigin::Own(EntryOfName::URL));
        }
        match EntryOfName::of(snapshot).filter(|_| !is_export(snapshot)) {
            Some(entries) => Ok(ObjectOrigin::Own(entries)),
            None => refuse(
                "--sample needs the objects' URLs, but this job did not store them; verify without --sample",
            ),
        }
    }

    /// Returns the URL of an object.
    pub fn url(&self, object: &StoredObject) -> String {
        match self {
            ObjectOrigin::Origin(requests) => format!("{}{}", requests.origin, requests.path(&object.name)),
            ObjectOrigin::Own(entries) => {
                let url = object.url.clone().unwrap_or_else(|| entries.entry(&object.name));
                String::from_utf8_lossy(&url).into_owned()
            }
        }
    }

    /// Returns whether to follow redirects.
    pub fn follows(&self) -> bool {
        matches!(self, ObjectOrigin::Own(_))
    }
}

/// Requests for the objects of a job with one origin.
#[derive(Debug, Clone)]
pub struct ObjectRequests {
    /// Scheme, host and port.
    origin: String,
    authority: String,
    before: String,
    behind: String,
}

impl ObjectRequests {
    /// Derives the requests of the job from its identity. If `source` is given, the objects are requested there
    /// instead.
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
        Ok(ObjectRequests {
            origin: format!("{}://{}", origin.scheme(), origin.authority()),
            authority: origin.authority(),
            before,
            behind,
        })
    }

    /// Returns the path with which an object is requested.
    pub fn path(&self, name: &[u8]) -> String {
        let mut encoded = Vec::new();
        name::encode(name, &mut encoded);
        format!("{}{}{}", self.before, String::from_utf8_lossy(&encoded), self.behind)
    }
}

/// Returns the origin for request records. `identity` is that of the job that sent the requests.
pub fn warc_origin(identity: &BTreeMap<String, String>) -> Result<WarcOrigin> {
    if let Some(place) = bucket_place(identity) {
        let template = RequestTemplate::new(place.key.authority(), &place.prefix, "", &[])?;
        return Ok(WarcOrigin { template, uri_start: place.key.text().to_owned(), names_are_urls: false });
    }
    let is_list = identity.get("listing").is_some_and(|listing| listing.starts_with("list "));
    let requests = if is_list || ExtraColumns::of_identity(identity).has_url() {
        None
    } else {
        ObjectRequests::new(identity, None).ok()
    };
    // Objects from a list, or from an exported list, have no common origin.
    let Some(ObjectRequests { authority, before, behind, .. }) = requests else {
        return WarcOrigin::of_list(&[]);
    };
    let template = RequestTemplate::new(&authority, &before, &behind, &[])?;
    Ok(WarcOrigin { template, uri_start: format!("http://{authority}"), names_are_urls: false })
}

/// Returns the address of a bucket's objects. Uses the default region, because the journal does not store the region.
fn bucket_place(identity: &BTreeMap<String, String>) -> Option<BucketAddress> {
    let source = identity.get("source")?;
    let (bucket, _) =
        source.strip_prefix(EXPORT_OF).unwrap_or(source).strip_prefix("s3://")?.split_once('/')?;
    let url = identity.get("endpoint").map(|url| OriginUrl::parse(url)).transpose().ok()?;
    let endpoint = Endpoint { url, ..Endpoint::default() };
    BucketAddress::of(&endpoint, &BucketName::parse(bucket).ok()?, REGION_DEFAULT).ok()
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
        let requests = ObjectRequests::new(&api, None).unwrap();
        assert_eq!(requests.origin, "http://a:81");
        assert_eq!(requests.path(b"x y/z"), "/base/get/x%20y/z?raw");

        let walk = ObjectRequests::new(&identity("autoindex"), Some("http://b:82")).unwrap();
        assert_eq!(walk.origin, "http://b:82");
        assert_eq!(walk.path(b"x"), "/x");
    }
}
