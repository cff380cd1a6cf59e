//! The type of the listing, if it is known without a request to the server.

use crate::request::job_request::JobRequest;
use crate::request::source_options::{Listing, SourceOptions};
use fetchmill_model::error::Result;
use fetchmill_model::source::ApiNames;
use fetchmill_model::source::sitemap::is_sitemap;
use fetchmill_store::journal::{JobLocation, folder_listing};

/// Listing types that the journal of a walk can contain.
const OF_FOLDERS: [Listing; 5] =
    [Listing::Autoindex, Listing::Html, Listing::Links, Listing::Sitemap, Listing::Object];

/// Returns the listing type, or `Auto` if it must be detected by requests to the server. If the user did not choose,
/// the type is derived from API options, the name of a sitemap, or the journal of a walk. The journal is used because a
/// job keeps the listing type that it started with.
pub(super) fn known_listing(request: &JobRequest, place: &JobLocation) -> Result<Listing> {
    let url = match &request.source {
        SourceOptions::Server(url) if request.listing == Listing::Auto => url,
        _ => return Ok(request.listing),
    };
    if request.api != ApiNames::default() {
        return Ok(Listing::Api);
    }
    if is_sitemap(url) {
        return Ok(Listing::Sitemap);
    }
    let Some(known) = folder_listing(place)? else { return Ok(Listing::Auto) };
    let found = OF_FOLDERS.into_iter().find(|kind| kind.of_folders() == Some(&known));
    Ok(found.unwrap_or(Listing::Auto))
}
