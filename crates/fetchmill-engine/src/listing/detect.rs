//! How a server lists its objects, when nobody has said it: told by what it answers.
//!
//! The first page of the list/get API is asked for. Where there is none, the source itself is: it is a folder, in nginx's
//! JSON or as an index page. The page that has told it is the first one of the listing, and is not asked for again.

use super::page_body::FetchedPage;
use super::page_failure::TRY_LINKS;
use super::server::{PageReach, ServerLister, ServerListerSetup};
use crate::request::source_options::Listing;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::source::folder::folder_path;
use fetchmill_model::source::{ApiNames, html};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// What was found.
pub(crate) struct DetectedListing {
    pub(crate) listing: Listing,
    /// The listing's first page, unless it is too large to be kept.
    pub(crate) first_page: Option<FetchedPage>,
}

/// Asks the server; `None` when the job is to end.
pub(crate) fn detect(setup: ServerListerSetup, api: &ApiNames) -> Result<Option<DetectedListing>> {
    let mut lister = ServerLister::new(setup)?;
    let path = api.page_path(&lister.origin, None)?;
    let Some(answer) = lister.fetch(&path, PageReach::SameOrigin)? else { return Ok(None) };
    let (why, error) = match answer {
        Ok(FetchedPage { is_whole: false, .. }) => return Err(lister.too_large(&path)),
        Ok(page) => match api.read_page(&page.bytes, None) {
            Ok(_) => return Ok(Some(DetectedListing { listing: Listing::Api, first_page: Some(page) })),
            Err(bad) => ("something else than names".to_owned(), lister.unreadable(&path, &bad)),
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
    let Some(answer) = lister.fetch(&top, PageReach::SameOrigin)? else { return Ok(None) };
    // Where the source itself is not there, either, the first answer is what matters.
    let Ok(page) = answer else { return Err(error) };
    let bytes = &page.bytes;
    let listing = match bytes.strip_prefix(BOM).unwrap_or(bytes).trim_ascii_start().first() {
        Some(b'[') => Listing::Autoindex,
        Some(b'<') => match html::is_index(bytes) {
            Ok(()) => Listing::Html,
            Err(title) => return Err(unknown(&lister, &top, &path, &why, &title)),
        },
        _ => return Err(error),
    };
    Ok(Some(DetectedListing { listing, first_page: Some(page).filter(|page| page.is_whole) }))
}

fn unknown(lister: &ServerLister, top: &str, path: &str, why: &str, title: &str) -> Error {
    Error::Listing(format!(
        "{} is listed in no way that is known: {} gives {why}, and the page itself is no index ({title}); --listing and \
         --list-path say how the server lists{TRY_LINKS}",
        lister.url(top),
        lister.url(path)
    ))
}
