//! The thread of the listing. It sends pages to the journal ahead of fetching, starting with the unfinished pages of an
//! earlier run.

pub(super) mod detect;
pub(super) mod folders;
mod hand_over;
pub(super) mod item_columns;
mod json;
mod list;
mod page_body;
mod page_failure;
mod page_requester;
pub(super) mod relisting;
mod robots;
pub(super) mod s3;
pub(super) mod server;

use std::sync::Arc;

use self::hand_over::hand_over_live_pages;
pub(super) use self::page_body::FetchedPage;
use super::control::Control;
use super::control::stop::Stop;
use super::list_input::OpenedList;
use fetchmill_model::error::Error;
use fetchmill_model::source::ApiNames;
use fetchmill_model::source::json::JsonPages;

/// Point where the listing continues.
pub(super) enum ListingStart {
    /// At a list/get API, after a marker. `None` means at the start.
    Api(Box<server::ServerListerSetup>, Box<ApiNames>, Option<String>),
    /// At JSON pages, at this point. `None` means at the start.
    Json(Box<server::ServerListerSetup>, Box<JsonPages>, Option<String>),
    /// At a web server whose folders are in the journal.
    Folders(Box<server::ServerListerSetup>, folders::FolderFormat),
    /// In a bucket.
    Bucket(Box<s3::BucketListerSetup>),
    /// In a list.
    List(Box<OpenedList>),
    /// Nowhere, because the listing is complete.
    Nowhere,
}

/// Runs the listing until it is complete or the job ends.
pub(super) fn run(control: &Arc<Control>, from: ListingStart) {
    let names_urls = match &from {
        ListingStart::List(..) => true,
        ListingStart::Json(_, pages, _) => !pages.stores_items(),
        _ => false,
    };
    let listed = hand_over_live_pages(control, names_urls).and_then(|()| match from {
        ListingStart::Api(setup, names, marker) => server::list(*setup, &names, marker),
        ListingStart::Json(setup, pages, from) => json::list(*setup, &pages, from),
        ListingStart::Folders(setup, format) => folders::list(*setup, format),
        ListingStart::Bucket(setup) => s3::list(*setup),
        ListingStart::List(list) => list::read(control, *list),
        ListingStart::Nowhere => Ok(()),
    });
    match listed {
        Ok(()) if control.stop.get() == Stop::No => control.end_listing(),
        Ok(()) => {}
        Err(error @ (Error::Listing(_) | Error::Temporary(_) | Error::Security(_))) => {
            control.fail_listing(error);
        }
        Err(error) => control.stop.fail(error),
    }
}
