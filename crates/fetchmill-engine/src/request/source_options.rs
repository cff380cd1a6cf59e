//! The source of the targets, and the type of a server's listing.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use fetchmill_model::options::words;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::s3::BucketName;
use fetchmill_model::source::OriginUrl;
use fetchmill_model::source::list::ListOptions;
use fetchmill_store::journal::{FOLDERS, INDEX_PAGES, LINK_PAGES, ONE_OBJECT, SITEMAPS};

/// Type of a server's listing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Listing {
    /// Detected from the server's answers. Until then, it is treated like the list/get API.
    #[default]
    Auto,
    /// The list/get API.
    Api,
    /// Folders as nginx JSON (`autoindex_format json`).
    Autoindex,
    /// Folders as HTML index pages.
    Html,
    /// Folders below SOURCE, found through links on any HTML page.
    Links,
    /// A sitemap, and all sitemaps that it lists.
    Sitemap,
    /// JSON pages of any API.
    Json,
    /// No listing. The source is the only object.
    Object,
}

impl Listing {
    /// Returns the name of the listing type in the identity of a job, if it has one.
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

/// Source of the targets.
#[derive(Debug, Default, Clone)]
pub enum SourceOptions {
    /// A server that lists its own objects at this URL.
    Server(OriginUrl),
    /// A bucket in S3 or a compatible store.
    S3 {
        /// Bucket name.
        bucket: BucketName,
        /// Prefix of the keys, as written after the bucket name.
        prefix: String,
    },
    /// A file with a list of URLs. `None` means standard input.
    List(Option<PathBuf>),
    /// URLs from a program, passed to the job as [`Items`](fetchmill_model::source::list::Items).
    #[default]
    Iterable,
}

impl SourceOptions {
    /// Returns the source in the form that reports and the journal use.
    pub fn text(&self) -> String {
        match self {
            SourceOptions::Server(url) => url.text(),
            SourceOptions::S3 { bucket, prefix } => format!("s3://{}/{prefix}", bucket.text()),
            SourceOptions::List(Some(path)) => file_name(path),
            SourceOptions::List(None) => "standard input".to_owned(),
            SourceOptions::Iterable => "an iterable".to_owned(),
        }
    }

    /// Returns the origin of a server that lists its objects, or the common origin of all URLs in a list. The origin of
    /// a bucket is not known yet.
    pub(crate) fn only_origin(&self, list: &ListOptions) -> Option<OriginKey> {
        let url = match self {
            SourceOptions::Server(url) => url.text(),
            SourceOptions::S3 { .. } => return None,
            // Because of the template, all targets are at this origin.
            SourceOptions::List(_) | SourceOptions::Iterable => format!("{}/", list.fixed_origin()?),
        };
        OriginKey::of_url(&url).map(|(key, _)| key)
    }
}

/// Returns the file name. A list is identified by its name and content, so it can be moved together with its job.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
