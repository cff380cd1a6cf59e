//! Detects the type of a server's listing from its answers.
//!
//! The list/get API is tried first. If the server does not offer this API, the source itself is requested. It can be a
//! folder (nginx JSON or an index page) or an object. A source without a trailing slash is requested as given, and then
//! with a slash. The page that determines the type is also the first page of the listing, so it is not requested again.

use super::page_body::{BOM, FetchedPage};
use super::page_failure::TRY_LINKS;
use super::server::{PageReach, ServerLister, ServerListerSetup};
use crate::request::source_options::Listing;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::source::folder::folder_path;
use fetchmill_model::source::one_object::is_object;
use fetchmill_model::source::sitemap::sitemap_path;
use fetchmill_model::source::{ApiNames, PendingFolder, autoindex, html};

/// Result of the detection.
pub(crate) struct DetectedListing {
    pub(crate) listing: Listing,
    /// First page of the listing, unless it is too large to keep.
    pub(crate) first_page: Option<FetchedPage>,
}

impl DetectedListing {
    /// Creates the result for a listing that starts with this page.
    fn with(listing: Listing, page: FetchedPage) -> Self {
        DetectedListing { listing, first_page: Some(page).filter(|page| page.is_whole) }
    }
}

/// Kind that a page appears to have.
enum DetectedKind {
    Listing(Listing),
    /// An HTML page that is not an index, with its title.
    Html(String),
    Other,
}

impl DetectedKind {
    fn of(bytes: &[u8]) -> Self {
        match bytes.strip_prefix(BOM).unwrap_or(bytes).trim_ascii_start().first() {
            Some(b'[') => DetectedKind::Listing(Listing::Autoindex),
            Some(b'<') => match html::is_index(bytes) {
                Ok(()) => DetectedKind::Listing(Listing::Html),
                Err(title) => DetectedKind::Html(title),
            },
            _ => DetectedKind::Other,
        }
    }
}

/// Detects the listing. Returns `None` if the job is ending.
pub(crate) fn detect(setup: ServerListerSetup, api: &ApiNames) -> Result<Option<DetectedListing>> {
    let mut lister = ServerLister::new(setup)?;
    let path = api.page_path(&lister.origin, None)?;
    let Some(answer) = lister.fetch(&path, PageReach::SameOrigin)? else { return Ok(None) };
    let (why, error) = match answer {
        Ok(FetchedPage { is_whole: false, .. }) => return Err(lister.too_large(&path)),
        Ok(page) => match api.read_page(&page.bytes, None) {
            Ok(_) => return Ok(Some(DetectedListing::with(Listing::Api, page))),
            Err(bad) => ("a page without names".to_owned(), lister.unreadable(&path, &bad)),
        },
        Err(failed) => {
            let error = lister.no_listing(&path, &failed.failure, failed.attempts);
            if !failed.is_refusal() {
                return Err(error);
            }
            (failed.failure.reason, error)
        }
    };
    let top = folder_path(&lister.origin, b"");
    let given = sitemap_path(&lister.origin, b"");
    let answer = if is_object(&lister.origin) { lister.fetch_if_listing(&given)? } else { None };
    let page = match answer {
        Some(Ok(page)) if page.url != lister.url(&top) => return Ok(Some(of_given(&lister, page))),
        // The server redirected the request to the folder.
        Some(Ok(page)) => page,
        _ => match lister.fetch(&top, PageReach::SameOrigin)? {
            None => return Ok(None),
            Some(Ok(page)) => page,
            // If the source does not exist either, the first answer is reported.
            Some(Err(_)) => return Err(error),
        },
    };
    match DetectedKind::of(&page.bytes) {
        DetectedKind::Listing(listing) => Ok(Some(DetectedListing::with(listing, page))),
        DetectedKind::Html(title) => Err(unknown(&lister, &top, &path, &why, &title)),
        DetectedKind::Other => Err(error),
    }
}

/// Returns the kind of a source without a trailing slash, based on its reply.
fn of_given(lister: &ServerLister, page: FetchedPage) -> DetectedListing {
    let object = DetectedListing { listing: Listing::Object, first_page: None };
    // A page from another origin does not list this origin.
    if !page.url.starts_with(&lister.url("/")) {
        return object;
    }
    match DetectedKind::of(&page.bytes) {
        DetectedKind::Listing(Listing::Autoindex) if page.is_whole && !is_autoindex(&page.bytes) => object,
        DetectedKind::Listing(listing) => DetectedListing::with(listing, page),
        DetectedKind::Html(_) | DetectedKind::Other => object,
    }
}

/// Returns whether all items of an array are folder entries.
fn is_autoindex(page: &[u8]) -> bool {
    autoindex::read_folder(page, &PendingFolder::default(), |_| Ok(())).is_ok()
}

fn unknown(lister: &ServerLister, top: &str, path: &str, why: &str, title: &str) -> Error {
    Error::Listing(format!(
        "{}: unknown kind of listing: {} returned {why}, and the page itself is not an index ({title}); set \
         --listing and --list-path{TRY_LINKS}",
        lister.url(top),
        lister.url(path)
    ))
}
