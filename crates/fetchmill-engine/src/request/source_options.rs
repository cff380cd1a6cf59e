//! Where targets come from, and how a server lists them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use fetchmill_model::options::words;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::s3::BucketName;
use fetchmill_model::source::OriginUrl;
use fetchmill_model::source::list::ListOptions;
use fetchmill_store::journal::{FOLDERS, INDEX_PAGES, LINK_PAGES, ONE_OBJECT, SITEMAPS};

/// How a server lists its objects.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Listing {
    /// As what the server answers tells it; the list/get API until then.
    #[default]
    Auto,
    /// The list/get API.
    Api,
    /// Folders, as nginx's `autoindex_format json` lists them.
    Autoindex,
    /// Folders, as index pages list them.
    Html,
    /// Folders, as the links below SOURCE on any pages in HTML show them.
    Links,
    /// A sitemap, and those that it leads to.
    Sitemap,
    /// Pages of JSON of any API.
    Json,
    /// Not at all: it is itself an object.
    Object,
}

impl Listing {
    /// What stands for it in the identity of a job, when that is a word.
    pub(crate) fn of_folders(self) -> Option<&'static str> {
        match self {
            Listing::Auto | Listing::Api | Listing::Json => None,
            Listing::Autoindex => Some(FOLDERS),
            Listing::Html => Some(INDEX_PAGES),
            Listing::Links => Some(LINK_PAGES),
            Listing::Sitemap => Some(SITEMAPS),
            Listing::Object => Some(ONE_OBJECT),
        }
    }
}

words!(Listing);

/// Where targets come from.
#[derive(Debug, Default, Clone)]
pub enum SourceOptions {
    /// A server that lists its objects itself, at this place.
    Server(OriginUrl),
    /// A bucket of S3 or a compatible store.
    S3 {
        /// Which bucket.
        bucket: BucketName,
        /// What its keys begin with, as it is written behind the bucket.
        prefix: String,
    },
    /// A list of URLs in a file; none: on standard input.
    List(Option<PathBuf>),
    /// URLs that a program gives one after the other; the job is given their [`Items`](fetchmill_model::source::list::Items).
    #[default]
    Iterable,
}

impl SourceOptions {
    /// As it stands in reports and in the journal.
    pub fn text(&self) -> String {
        match self {
            SourceOptions::Server(url) => url.text(),
            SourceOptions::S3 { bucket, prefix } => format!("s3://{}/{prefix}", bucket.text()),
            SourceOptions::List(Some(path)) => file_name(path),
            SourceOptions::List(None) => "standard input".to_owned(),
            SourceOptions::Iterable => "an iterable".to_owned(),
        }
    }

    /// Returns the origin of a server that lists its objects, or that all URLs of a list have. That of a bucket is not known
    /// here.
    pub(crate) fn only_origin(&self, list: &ListOptions) -> Option<OriginKey> {
        let url = match self {
            SourceOptions::Server(url) => url.text(),
            SourceOptions::S3 { .. } => return None,
            // The template says that no target leads elsewhere.
            SourceOptions::List(_) | SourceOptions::Iterable => format!("{}/", list.fixed_origin()?),
        };
        OriginKey::of_url(&url).map(|(key, _)| key)
    }
}

/// A list is known by its file's name and what is in it: it may be moved with its job.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
