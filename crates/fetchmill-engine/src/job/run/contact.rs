//! The first contact with source and destination, before anything is listed or fetched. It determines the credentials,
//! the region of a bucket, the addresses of a server, and the type of its listing. It also claims a destination bucket.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use super::listing_start::{PageAccess, server_lister};
use crate::access::s3::{Client, contact as contact_bucket};
use crate::control::Control;
use crate::control::stop::Stop;
use crate::event_queues::network_runtime;
use crate::listing::FetchedPage;
use crate::listing::detect::detect;
use crate::listing::item_columns::find_columns;
use crate::plan::courtesy::of_host;
use crate::plan::job_origins::ListingServer;
use crate::plan::job_plan::JobPlan;
use crate::request::source_options::{Listing, SourceOptions};
use crate::writer::recovery;
use crate::writer::upload::Uploader;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::target::extra_columns::column_types;
use fetchmill_net::{NameResolver, PoolSettings};
use fetchmill_store::journal::Journal;

/// Results of the first contact. See the [module documentation](self).
pub(super) struct Contact {
    /// Plan of the job, including the region of the bucket and the type of the listing.
    pub(super) plan: JobPlan,
    /// Connection settings, including the bearer token, if any.
    pub(super) pool: PoolSettings,
    /// The job's origin, if it has only one.
    pub(super) server: Option<ListingServer>,
    /// Uploader of shards. `None` if the destination is a folder.
    pub(super) uploader: Option<Uploader>,
    /// First page of the listing, if it was requested to detect the listing's type.
    pub(super) first_page: Option<FetchedPage>,
}

impl Contact {
    /// Makes the first contact. Fails if the job ends in the meantime.
    pub(super) fn make(plan: &JobPlan, journal: &mut Journal, control: &Arc<Control>) -> Result<Self> {
        let pool = plan.pool_settings(&control.store)?;
        control.store.prepare(pool.clone(), 0);
        let plan = contact_store(plan, control, &pool)?;
        let pool = with_tokens(&plan, control, pool)?;
        // Check the destination before any request is sent to the source.
        let uploader = prepare_upload(&plan, journal, control, &pool)?;
        let server = find_server(&plan, control, journal.is_listed()?)?;
        let contact = Contact { plan, pool, server, uploader, first_page: None };
        contact.with_listing(journal, control)?.with_item_columns(journal, control)
    }

    /// Applies the limit that protects the job's only origin. If a list determines the origin, the limit is applied
    /// later, when the first connection is open.
    pub(super) fn settle_courtesy(&self, control: &Control) {
        let request = &self.plan.request;
        let only = self.server.as_ref().filter(|_| !request.leads_anywhere());
        if request.http.concurrency_max.is_some() {
            control.heed_courtesy(None);
        } else if let Some(server) = only {
            let is_bucket = matches!(request.source, SourceOptions::S3 { .. });
            control.heed_courtesy(of_host(server.key.host(), server.addresses.as_deref(), is_bucket));
        }
    }

    /// Detects the columns of items that are stored as table rows and records them in the journal.
    fn with_item_columns(self, journal: &Journal, control: &Arc<Control>) -> Result<Self> {
        let Some(pages) = self.plan.request.json_pages().filter(|_| self.plan.needs_item_columns()) else {
            return Ok(self);
        };
        let access = PageAccess { server: self.server.clone(), pool: self.pool.clone(), first_page: None };
        let Some(setup) = server_lister(&self.plan, journal, control, access)? else { return Ok(self) };
        let given = column_types(&self.plan.request.list.column_types)?;
        let Some((columns, first_page)) = find_columns(setup, &pages?, &given)? else {
            let failure = control.stop.take_failure();
            return Err(failure.unwrap_or_else(|| Error::Internal("the job is ending".into())));
        };
        let plan = self.plan.with_columns(columns);
        journal.change_identity(&plan.identity())?;
        Ok(Contact { plan, first_page: Some(first_page), ..self })
    }

    /// Detects the type of the server's listing if it is unknown, and records it in the journal.
    fn with_listing(self, journal: &Journal, control: &Arc<Control>) -> Result<Self> {
        let Some(server) = self.server.as_ref().filter(|_| self.plan.is_listing_unknown()) else {
            return Ok(self);
        };
        if journal.is_begun()? {
            // A job that walks folders was detected when it was opened.
            return Ok(Contact { plan: self.plan.listed_as(Listing::Api), ..self });
        }
        let access = PageAccess { server: Some(server.clone()), pool: self.pool.clone(), first_page: None };
        let Some(setup) = server_lister(&self.plan, journal, control, access)? else { return Ok(self) };
        let Some(detected) = detect(setup, &self.plan.request.api)? else {
            let failure = control.stop.take_failure();
            return Err(failure.unwrap_or_else(|| Error::Internal("the job is ending".into())));
        };
        let plan = self.plan.listed_as(detected.listing);
        journal.change_identity(&plan.identity())?;
        let template = plan.server()?.map(|(_, template)| template);
        let server = template.map(|template| ListingServer { template, ..server.clone() });
        Ok(Contact { plan, server, first_page: detected.first_page, ..self })
    }
}

/// Asks the store for the region of the job's bucket. Returns the plan with that region.
fn contact_store(plan: &JobPlan, control: &Arc<Control>, pool: &PoolSettings) -> Result<JobPlan> {
    let SourceOptions::S3 { bucket, prefix } = &plan.request.source else { return Ok(plan.clone()) };
    let store = &control.store;
    store.load(&|| control.stop.get() != Stop::No)?;
    let (clock, stop) = (control.clock, Arc::clone(&control.stop));
    let client =
        Client::new(Arc::clone(store), pool.clone(), 1, move || clock.now(), move || stop.get() != Stop::No);
    network_runtime()?.block_on(contact_bucket(&client, bucket, prefix.as_bytes(), control.retried))?;
    Ok(plan.in_region(store.place(bucket)?.region))
}

/// Runs the command of `--bearer-command`, if the user specified one. Returns connection settings that send the token.
fn with_tokens(plan: &JobPlan, control: &Arc<Control>, pool: PoolSettings) -> Result<PoolSettings> {
    let (Some(tokens), Some(command)) = (&control.tokens, &plan.request.bearer_command) else {
        return Ok(pool);
    };
    tokens.load(command, &|| control.stop.get() != Stop::No)?;
    Ok(tokens.shown_by(pool))
}

/// Returns the uploader of shards if the destination is a bucket. No other job may have objects under the prefix.
fn prepare_upload(
    plan: &JobPlan,
    journal: &mut Journal,
    control: &Arc<Control>,
    pool: &PoolSettings,
) -> Result<Option<Uploader>> {
    let Some(upload) = plan.request.upload.clone() else { return Ok(None) };
    let setup = plan.sink_setup(control.plan.workers())?;
    let Some(shard_folder) = setup.shard_folder() else { return Ok(None) };
    let uploader = Uploader {
        access: Arc::clone(&control.store),
        pool: pool.clone(),
        upload,
        shard_folder,
        upload_queue: Arc::new(recovery::upload_queue(journal, &setup, control.plan.workers())?),
        begun: journal.uploads()?.into_keys().collect(),
        give_up_after: plan.request.give_up_after,
    };
    uploader.access.load(&|| control.stop.get() != Stop::No)?;
    if !journal.is_destination_claimed()? {
        uploader.claim(control)?;
        journal.claim_destination()?;
    }
    // If nothing is left to fetch, the run would upload the same failures file again. The file is kept instead.
    if !journal.is_settled()? || plan.request.retry_failed.is_some() {
        withdraw_failures(&uploader, journal, control)?;
    }
    Ok(Some(uploader))
}

/// Deletes the failures file that an earlier run uploaded, before more targets are fetched.
fn withdraw_failures(uploader: &Uploader, journal: &Journal, control: &Arc<Control>) -> Result<()> {
    for file in journal.unfetched()? {
        uploader.withdraw_failures(control, &file.data)?;
    }
    journal.forget_unfetched()
}

/// Returns the job's origin and its addresses, if the job has only one origin.
fn find_server(plan: &JobPlan, control: &Control, is_listed: bool) -> Result<Option<ListingServer>> {
    let Some((key, template)) = plan.server()? else { return Ok(None) };
    if !plan.request.leads_anywhere() {
        control.origins.set_server(key.clone());
    }
    // A store has many changing addresses, so they are looked up while the job runs. If a proxy is used, the proxy
    // looks them up.
    let is_of_store = matches!(plan.request.source, SourceOptions::S3 { .. });
    if is_of_store || plan.request.http.proxy_of(&key).is_some() {
        return Ok(Some(ListingServer { key, template, addresses: None }));
    }
    let addresses = look_up(plan, control, &key)?.map_err(|kind| {
        let message = format!("cannot look up the host {} ({}); check the name", key.host(), kind.name());
        if is_listed { Error::Temporary(message) } else { Error::Listing(message) }
    })?;
    Ok(Some(ListingServer { key, template, addresses: Some(addresses) }))
}

/// Looks up an origin's host. Stops early if the job is ending.
fn look_up(
    plan: &JobPlan,
    control: &Control,
    key: &OriginKey,
) -> Result<std::result::Result<Arc<[SocketAddr]>, FailureKind>> {
    let clock = Rc::new(Cell::new(control.clock.now()));
    let resolver = NameResolver::new(&plan.request.http.names_of_server(), &clock);
    let is_over = async {
        let mut tick = tokio::time::interval(limits::TICK);
        while control.stop.get() == Stop::No {
            tick.tick().await;
            clock.set(control.clock.now());
            resolver.tick();
        }
    };
    Ok(network_runtime()?.block_on(async {
        tokio::select! {
            found = resolver.resolve(key.host(), key.port()) => found,
            () = is_over => Err(FailureKind::Dns),
        }
    }))
}
