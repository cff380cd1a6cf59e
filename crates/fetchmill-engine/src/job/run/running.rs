//! A job while its threads run. This module starts all threads except those of the engine and waits for all of them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::Receiver;

use super::contact::Contact;
use super::engine::Threads;
use crate::control::Control;
use crate::control::journal_link::JournalRequest;
use crate::control::telemetry::HostBounds;
use crate::control::threads::{join, spawn};
use crate::job::health_check::HealthChecker;
use crate::job::job_state::JobState;
use crate::job::sampler::{SampledJob, Sampler};
use crate::listing::{self, ListingStart};
use crate::plan::job_plan::JobPlan;
use crate::request::source_options::{Listing, SourceOptions};
use crate::request::workers::Workers;
use crate::writer::upload::Uploader;
use crate::writer::{recorder, recovery};
use fetchmill_model::error::Result;
use fetchmill_model::limits;
use fetchmill_model::s3::ListQuery;
use fetchmill_model::source::folder::folder_path;
use fetchmill_model::source::sitemap::sitemap_path;
use fetchmill_store::journal::Journal;
use fetchmill_store::sink::UploadQueue;

/// Handles of a job's threads. See the [module documentation](self).
pub(super) struct RunningJob {
    /// Threads of the engine.
    pub(super) fetching: Threads,
    pub(super) lister: Lister,
    pub(super) health_checker: JoinHandle<Option<()>>,
    pub(super) sampler: Sampler,
    /// Thread that uploads shards. `None` if the destination is a folder.
    pub(super) uploading: Option<Uploading>,
    pub(super) recorder: JoinHandle<Option<Journal>>,
}

impl RunningJob {
    /// Waits for all threads and returns the journal. Returns `None` if the journal's thread failed.
    pub(super) fn wait(self, control: &Control) -> Option<Journal> {
        for thread in self.fetching {
            join(thread);
        }
        self.lister.join();
        control.health_checks.end();
        join(self.health_checker);
        if let Some(uploading) = self.uploading {
            uploading.join();
        }
        drop(self.sampler);
        control.journal.end();
        join(self.recorder)
    }
}

/// Thread of the listing.
pub(super) struct Lister {
    thread: JoinHandle<Option<()>>,
    /// Whether the thread reads items from a program.
    is_given: bool,
}

impl Lister {
    pub(super) fn start(control: &Arc<Control>, plan: &JobPlan, from: ListingStart) -> Result<Self> {
        let own = Arc::clone(control);
        let thread = spawn("fetchmill-list", &control.stop, move || {
            listing::run(&own, from);
            Ok(())
        })?;
        Ok(Lister { thread, is_given: matches!(plan.request.source, SourceOptions::Iterable) })
    }

    /// Waits for the thread. A thread that reads items from a program can wait forever for the next item. This function
    /// does not wait for such a thread, which ends when the next item arrives.
    fn join(self) {
        let until = Instant::now() + limits::DRAIN;
        while self.is_given && !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(limits::TICK);
        }
        if !self.is_given || self.thread.is_finished() {
            join(self.thread);
        }
    }
}

/// Thread of the uploader.
pub(super) struct Uploading {
    thread: JoinHandle<Option<()>>,
    upload_queue: Arc<UploadQueue>,
}

impl Uploading {
    pub(super) fn start(control: &Arc<Control>, uploader: Uploader) -> Result<Self> {
        let upload_queue = Arc::clone(&uploader.upload_queue);
        Ok(Uploading { thread: uploader.start(control)?, upload_queue })
    }

    /// Waits until all shards are uploaded. No more shards follow.
    fn join(self) {
        self.upload_queue.complete();
        join(self.thread);
    }
}

/// Starts the journal's thread.
pub(super) fn start_recorder(
    control: &Arc<Control>,
    plan: &JobPlan,
    journal: Journal,
    messages: Receiver<JournalRequest>,
) -> Result<JoinHandle<Option<Journal>>> {
    let recovery = recovery::ProcessRecovery {
        place: Arc::clone(&plan.place),
        setup: plan.sink_setup(1)?,
        naming: plan.naming(),
        names: plan.stored_names(),
    };
    let own = Arc::clone(control);
    spawn("fetchmill-journal", &control.stop, move || recorder::run(journal, &messages, &own, &recovery))
}

/// Starts the thread that samples the job.
pub(super) fn start_sampler(shared: &Arc<JobState>, plan: &JobPlan) -> Result<Sampler> {
    let request = &plan.request;
    let hosts = plan.host_rules(shared.control.plan.workers());
    let sampled = SampledJob {
        rate: request.http.rate,
        bwlimit: request.bwlimit,
        is_python: request.workers == Workers::Dispatcher,
        counts_capacity: request.workers == Workers::Native && !request.lists_only(),
        rate_of_only_host: request.http.host_rate(),
        per_host: HostBounds { connections: hosts.connections, rate: hosts.rate },
    };
    Sampler::start(shared, sampled)
}

/// Starts the thread that checks an origin when it seems to be in trouble.
pub(super) fn start_health_checker(
    control: &Arc<Control>,
    contact: &Contact,
) -> Result<JoinHandle<Option<()>>> {
    let first_page = first_page_url(&contact.plan, control)?;
    if first_page.is_some() {
        control.plan.lock().can_ask_first_page();
    }
    let questions = control.health_checks.open();
    let checker = HealthChecker {
        control: Arc::clone(control),
        server: contact.server.clone(),
        pool: contact.pool.clone(),
        naming: contact.plan.naming(),
        first_page,
    };
    spawn("fetchmill-health", &control.stop, move || checker.run(&questions))
}

/// Returns the URL of the listing's first page, if the state of that page reveals the state of the origin.
fn first_page_url(plan: &JobPlan, control: &Control) -> Result<Option<String>> {
    let url = match &plan.request.source {
        SourceOptions::Server(url) => url,
        SourceOptions::S3 { bucket, prefix } => {
            let place = control.store.place(bucket)?;
            let query = ListQuery { prefix: prefix.as_bytes(), max_keys: 1, ..ListQuery::default() }.text();
            return Ok(Some(format!("{}{}?{query}", place.key.text(), place.bucket_path())));
        }
        SourceOptions::List(_) | SourceOptions::Iterable => return Ok(None),
    };
    let path = match plan.listing {
        Listing::Auto | Listing::Api => plan.request.api.page_path(url, None)?,
        Listing::Autoindex | Listing::Html | Listing::Links => folder_path(url, b""),
        Listing::Sitemap => sitemap_path(url, b""),
        // The objects might be on other origins, or the source is the only object. In both cases, the page would reveal
        // nothing.
        Listing::Json | Listing::Object => return Ok(None),
    };
    Ok(Some(format!("{}://{}{path}", url.scheme(), url.authority())))
}
