//! Determines where the listing continues and sets up its thread.

use std::sync::Arc;

use crate::control::Control;
use crate::list_input::OpenedList;
use crate::listing::folders::FolderFormat;
use crate::listing::relisting::Relisting;
use crate::listing::s3::BucketListerSetup;
use crate::listing::server::ServerListerSetup;
use crate::listing::{FetchedPage, ListingStart};
use crate::plan::job_origins::ListingServer;
use crate::plan::job_plan::JobPlan;
use crate::request::source_options::{Listing, SourceOptions};
use fetchmill_model::error::Result;
use fetchmill_model::s3::{BucketName, Selection};
use fetchmill_model::source::list::Filters;
use fetchmill_net::PoolSettings;
use fetchmill_store::journal::Journal;
use fetchmill_store::sink::Format;

/// Access to the listing's pages.
pub(super) struct PageAccess {
    /// Server that lists its objects. `None` if the source is a list.
    pub(super) server: Option<ListingServer>,
    pub(super) pool: PoolSettings,
    /// The first page, if it was already requested.
    pub(super) first_page: Option<FetchedPage>,
}

/// Returns the point where the listing continues. If a walk over folders is new, records its start in the journal.
pub(super) fn listing_start(
    plan: &JobPlan,
    journal: &mut Journal,
    control: &Arc<Control>,
    list: Option<OpenedList>,
    access: PageAccess,
) -> Result<ListingStart> {
    let is_listed = journal.is_listed()?;
    match &plan.request.source {
        SourceOptions::Server(_) => of_server(plan, journal, control, access),
        _ if is_listed => Ok(ListingStart::Nowhere),
        SourceOptions::S3 { bucket, prefix } => {
            let setup = bucket_lister(plan, journal, control, access.pool, (bucket, prefix))?;
            Ok(ListingStart::Bucket(Box::new(setup)))
        }
        SourceOptions::List(_) | SourceOptions::Iterable => {
            Ok(list.map_or(ListingStart::Nowhere, |list| ListingStart::List(Box::new(list))))
        }
    }
}

fn of_server(
    plan: &JobPlan,
    journal: &mut Journal,
    control: &Arc<Control>,
    access: PageAccess,
) -> Result<ListingStart> {
    let Some(setup) = server_lister(plan, journal, control, access)? else {
        return Ok(ListingStart::Nowhere);
    };
    let setup = Box::new(setup);
    let format = match plan.listing {
        Listing::Auto | Listing::Api | Listing::Json if journal.is_listed()? => {
            return Ok(ListingStart::Nowhere);
        }
        Listing::Auto | Listing::Api => {
            let names = Box::new(plan.request.api.clone());
            return Ok(ListingStart::Api(setup, names, journal.get("marker")?));
        }
        Listing::Json => {
            let Some(pages) = plan.request.json_pages() else { return Ok(ListingStart::Nowhere) };
            return Ok(ListingStart::Json(setup, Box::new(pages?), journal.get("marker")?));
        }
        Listing::Autoindex => FolderFormat::Json,
        Listing::Html => FolderFormat::Html { obeys_robots: plan.request.robots.unwrap_or(true) },
        Listing::Links => FolderFormat::Links { obeys_robots: plan.request.robots.unwrap_or(true) },
        Listing::Sitemap => FolderFormat::Sitemap,
        Listing::Object => FolderFormat::Object,
    };
    if journal.get("walk")?.is_none() {
        journal.start_walk()?;
    }
    Ok(ListingStart::Folders(setup, format))
}

/// Returns the setup of a server's lister, or `None` if the source is not a server.
pub(super) fn server_lister(
    plan: &JobPlan,
    journal: &Journal,
    control: &Arc<Control>,
    access: PageAccess,
) -> Result<Option<ServerListerSetup>> {
    let SourceOptions::Server(url) = &plan.request.source else { return Ok(None) };
    let PageAccess { server: Some(server), pool, first_page } = access else { return Ok(None) };
    Ok(Some(ServerListerSetup {
        control: Arc::clone(control),
        origin: url.clone(),
        server,
        pool: PoolSettings { fields: plan.page_fields()?, ..pool },
        filters: filters(plan)?,
        give_up_after: plan.request.give_up_after.as_millis() as u64,
        has_listed: journal.has_listed()?,
        first_page,
        relisting: relisting(plan),
        is_relisting: journal.is_relisting()?,
        is_of_objects: !plan.request.leads_anywhere(),
        redirects_max: plan.request.redirects_of_pages(),
        folder: Arc::new(plan.place.state.clone()),
    }))
}

fn bucket_lister(
    plan: &JobPlan,
    journal: &mut Journal,
    control: &Arc<Control>,
    pool: PoolSettings,
    (bucket, prefix): (&BucketName, &str),
) -> Result<BucketListerSetup> {
    Ok(BucketListerSetup {
        control: Arc::clone(control),
        pool,
        bucket: bucket.clone(),
        prefix: prefix.to_owned(),
        selection: Selection { filters: filters(plan)?, bounds: plan.request.bounds.clone() },
        cursor: journal.start_bucket(!bucket.is_directory())?,
        relisting: relisting(plan),
        is_relisting: journal.is_relisting()?,
        give_up_after: plan.request.give_up_after.as_millis() as u64,
    })
}

fn filters(plan: &JobPlan) -> Result<Filters> {
    Filters::new(&plan.request.list.include, &plan.request.list.exclude)
}

/// Returns how to restart the listing if its marker has expired. This is possible only if all targets are stored under
/// their listed names. Targets that a transform drops have no stored names.
fn relisting(plan: &JobPlan) -> Option<Relisting> {
    let request = &plan.request;
    let keeps_names = request.rows.is_none()
        && !request.stores_items()
        && request.format != Format::Null
        && request.transform.is_none()
        && plan.stored_names().are_listed();
    keeps_names.then(|| Relisting::new(Arc::clone(&plan.place), plan.naming()))
}
