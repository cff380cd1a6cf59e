//! The source of targets, and the kind of a server's listing.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use fetchmill_model::options::words;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::s3::BucketName;
use fetchmill_model::source::OriginUrl;
use fetchmill_model::source::list::ListOptions;
use fetchmill_store::journal::{FOLDERS, INDEX_PAGES, LINK_PAGES, ONE_OBJECT, SITEMAPS};

/// The kind of a server's listing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Listing {
    /// Detected from the server's answers. Until then, the list/get API is used.
    #[default]
    Auto,
    /// The list/get API.
    Api,
    /// Folders in the JSON of nginx (`autoindex_format json`).
    Autoindex,
    /// Folders as index pages.
    Html,
    /// Folders below SOURCE that are linked on any HTML pages.
    Links,
    /// A sitemap, and the sitemaps that it names.
    Sitemap,
    /// JSON pages of any API.
    Json,
    /// No listing: the source is the only object.
    Object,
}

impl Listing {
    /// Returns the name in the identity of a job, if it is a word.
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

/// The source of targets.
#[derive(Debug, Default, Clone)]
pub enum SourceOptions {
    /// A server that lists its own objects, at this place.
    Server(OriginUrl),
    /// A bucket of S3 or a compatible store.
    S3 {
        /// Name of the bucket.
        bucket: BucketName,
        /// Prefix of its keys, as written after the bucket.
        prefix: String,
    },
    /// A list of URLs in a file. `None` means standard input.
    List(Option<PathBuf>),
    /// URLs from a program, one after another. The job gets them as [`Items`](fetchmill_model::source::list::Items).
    #[default]
    Iterable,
}

impl SourceOptions {
    /// Returns the text for reports and for the journal.
    pub fn text(&self) -> String {
        match self {
            SourceOptions::Server(url) => url.text(),
            SourceOptions::S3 { bucket, prefix } => format!("s3://{}/{prefix}", bucket.text()),
            SourceOptions::List(Some(path)) => file_name(path),
            SourceOptions::List(None) => "standard input".to_owned(),
            SourceOptions::Iterable => "an iterable".to_owned(),
        }
    }

    /// Returns the origin of a server that lists its objects, or the common origin of all URLs of a list. The origin of
    /// a bucket is not known here.
    pub(crate) fn only_origin(&self, list: &ListOptions) -> Option<OriginKey> {
        let url = match self {
            SourceOptions::Server(url) => url.text(),
            SourceOptions::S3 { .. } => return None,
            // The template guarantees that no target leads elsewhere.
            SourceOptions::List(_) | SourceOptions::Iterable => format!("{}/", list.fixed_origin()?),
        };
        OriginKey::of_url(&url).map(|(key, _)| key)
    }
}

/// Returns the file name. The name and the content identify a list, so the list may be moved together with its job.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
