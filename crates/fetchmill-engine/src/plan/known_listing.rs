//! The kind of listing, as far as it is known without a request to the server.

use crate::request::job_request::JobRequest;
use crate::request::source_options::{Listing, SourceOptions};
use fetchmill_model::error::Result;
use fetchmill_model::source::ApiNames;
use fetchmill_model::source::sitemap::is_sitemap;
use fetchmill_store::journal::{JobLocation, folder_listing};

/// Kinds of listing that the journal of a walk may name.
const OF_FOLDERS: [Listing; 5] =
    [Listing::Autoindex, Listing::Html, Listing::Links, Listing::Sitemap, Listing::Object];

/// Returns the kind of listing. `Auto` if the server must be asked. If the user has not chosen a kind, it follows from
/// options of the API, from the name of a sitemap, or from the journal of a walk: a job continues as it began.
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
