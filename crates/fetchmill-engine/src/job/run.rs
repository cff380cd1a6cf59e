//! A run of a job: makes the threads, waits for them, and writes the end into the journal.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::Sender;

use super::cdxj;
use super::health_check::HealthChecker;
use super::job_state::{Interruption, JobReport, JobState};
use super::sampler::{SampledJob, Sampler};
use super::skipped::SkippedByReason;
use super::stop_watch::StopWatch;
use crate::access::s3::{Client, contact};
use crate::control::Control;
use crate::control::journal_link::JournalRequest;
use crate::control::stop::Stop;
use crate::control::threads::{join, spawn};
use crate::event_queues::network_runtime;
use crate::fetch::dispatch::host_gate::HostGate;
use crate::fetch::dispatch::worker_registry::WorkerRegistry;
use crate::fetch::dispatch::{DispatchRules, Dispatcher, PoisonCandidates, Supervisor};
use crate::fetch::{list_worker, worker};
use crate::list_input::OpenedList;
use crate::listing::folders::FolderFormat;
use crate::listing::relisting::Relisting;
use crate::listing::server::ServerListerSetup;
use crate::plan::courtesy::courtesy;
use crate::plan::job_origins::ListingServer;
use crate::request::options::{JobOptions, Listing, SourceOptions, Workers};
use crate::writer::recorder;
use crate::writer::recovery;
use crate::writer::upload::Uploader;
use crate::{listing, writer};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::s3::{Selection, list_query};
use fetchmill_model::source::folder::folder_path;
use fetchmill_model::source::list::Filters;
use fetchmill_model::source::sitemap::sitemap_path;
use fetchmill_net::{NameResolver, PoolSettings};
use fetchmill_store::journal::{JobLocation, Journal};
use fetchmill_store::results;
use fetchmill_store::sink::{Format, SinkSetup, UploadQueue};

/// A job before its threads are there.
pub(crate) struct Run {
    pub(crate) options: JobOptions,
    /// The list, when the source is one.
    pub(crate) list: Option<OpenedList>,
    pub(crate) place: Arc<JobLocation>,
    pub(crate) journal: Journal,
    pub(crate) messages: crossbeam_channel::Receiver<JournalRequest>,
    pub(crate) notices: Vec<String>,
    /// Connections that may rest beside those that make requests.
    pub(crate) resting_max: usize,
    pub(crate) was_finished: bool,
    pub(crate) worker_registry: Arc<WorkerRegistry>,
    /// Where shards wait for their upload; none before that is prepared, or when the destination is a folder.
    pub(crate) upload_queue: Option<Arc<UploadQueue>>,
    /// The first page of the listing, once it was asked for to find out how the server lists.
    pub(crate) first_page: Option<Vec<u8>>,
    /// Where rows go that are given to the program.
    pub(crate) rows_chunks: Option<Sender<Vec<u8>>>,
}

impl Run {
    /// Until the job has ended.
    pub(crate) fn run(mut self, shared: &Arc<JobState>) -> Result<JobReport> {
        if !self.options.retry_failed.is_some() && self.was_finished {
            return self.report(shared, true);
        }
        let (control, stop_watch) = (Arc::clone(&shared.control), StopWatch::start(shared)?);
        if self.journal.has_waiting()? {
            control.plan.lock().resume_waiting();
        }
        let is_listed = self.journal.get("listed_at")?.is_some();
        let pool = match self.credentials(&control) {
            Err(_) if control.stop.get() != Stop::No => return self.report(shared, false),
            pool => pool?,
        };
        // Where it leads to is seen to before anybody is asked for anything.
        let uploader = match self.prepare_upload(&control, &pool) {
            Err(_) if control.stop.get() != Stop::No => return self.report(shared, false),
            uploader => uploader?,
        };
        let server = self.server(&control, is_listed);
        let server = match server.and_then(|server| self.find_listing(&control, server, &pool)) {
            Err(_) if control.stop.get() != Stop::No => return self.report(shared, false),
            server => server?,
        };
        let only = server.as_ref().filter(|_| !self.options.leads_anywhere());
        control.heed_courtesy(courtesy(&self.options, only));
        let is_given = matches!(self.options.source, SourceOptions::Iterable);
        self.journal.set("waits", "[]")?;
        let threads = self.start_workers(&control, server.as_ref(), &pool)?;
        let health_checker = self.start_health_checker(&control, server.clone(), &pool)?;
        let from = self.listing_start(&control, server, pool)?;
        let recovery = self.recovery()?;
        let sampled = self.sampled_job(&control);
        let journal = self.journal;
        let messages = self.messages;
        let recorder = {
            let control = Arc::clone(&control);
            spawn("fetchmill-journal", &Arc::clone(&control.stop), move || {
                recorder::run(journal, &messages, &control, &recovery)
            })?
        };
        let lister = start_lister(&control, from)?;
        let sampler = Sampler::start(shared, sampled)?;
        let uploading = uploader.clone().map(|uploader| uploader.start(&control)).transpose()?;
        for thread in threads {
            join(thread);
        }
        join_lister(lister, is_given);
        control.health_checks.end();
        join(health_checker);
        if let Some(uploading) = uploading {
            self.upload_queue.iter().for_each(|upload_queue| upload_queue.complete());
            join(uploading);
        }
        drop(sampler);
        control.journal.end();
        let journal = join(recorder);
        drop(stop_watch);
        FinishedJob { place: self.place, journal, options: self.options, uploader, notices: self.notices }
            .finish(shared)
    }

    /// Finds the credentials of the job: a bucket's, or the token that a command prints. How connections are made with them.
    fn credentials(&mut self, control: &Arc<Control>) -> Result<PoolSettings> {
        let pool = self.options.pool_settings(&control.store)?;
        control.store.prepare(pool.clone(), 0);
        self.open_store(control, &pool)?;
        let (Some(tokens), Some(command)) = (&control.tokens, &self.options.bearer_command) else {
            return Ok(pool);
        };
        tokens.load(command, &|| control.stop.get() != Stop::No)?;
        Ok(tokens.shown_by(pool))
    }

    /// Who uploads shards, when the destination is a bucket: below its prefix there is nothing but this job's.
    fn prepare_upload(&mut self, control: &Arc<Control>, pool: &PoolSettings) -> Result<Option<Uploader>> {
        let Some(upload) = self.options.upload.clone() else { return Ok(None) };
        let setup = self.options.sink_setup(&self.place, control.plan.workers())?;
        let Some(shard_folder) = setup.shard_folder() else { return Ok(None) };
        let upload_queue = Arc::new(recovery::upload_queue(&self.journal, &setup, control.plan.workers())?);
        let uploader = Uploader {
            access: Arc::clone(&control.store),
            pool: pool.clone(),
            upload,
            shard_folder,
            upload_queue: Arc::clone(&upload_queue),
            begun: self.journal.uploads()?.into_keys().collect(),
            give_up_after: self.options.give_up_after,
        };
        uploader.access.load(&|| control.stop.get() != Stop::No)?;
        if !self.journal.is_destination_claimed()? {
            uploader.claim(control)?;
            self.journal.claim_destination()?;
        }
        self.withdraw_failures(&uploader, control)?;
        self.upload_queue = Some(upload_queue);
        Ok(Some(uploader))
    }

    /// What an earlier run has uploaded of failures is removed before more is fetched. A run that is to fetch nothing makes
    /// the same object once more.
    fn withdraw_failures(&self, uploader: &Uploader, control: &Arc<Control>) -> Result<()> {
        let is_settled = self.journal.tally().pending() == 0 && self.journal.get("listed_at")?.is_some();
        if is_settled && !self.options.retry_failed.is_some() {
            return Ok(());
        }
        for file in self.journal.unfetched()? {
            uploader.withdraw_failures(control, &file.data)?;
        }
        self.journal.forget_unfetched()
    }

    /// What the sinks of so many workers have in common.
    fn sink_setup(&self, workers: usize) -> Result<SinkSetup> {
        let setup = self.options.sink_setup(&self.place, workers)?;
        Ok(SinkSetup { upload_queue: self.upload_queue.clone(), ..setup })
    }

    fn recovery(&self) -> Result<recovery::ProcessRecovery> {
        Ok(recovery::ProcessRecovery {
            place: Arc::clone(&self.place),
            setup: self.options.sink_setup(&self.place, 1)?,
            naming: self.options.naming(),
            names: self.options.stored_names(),
        })
    }

    fn report(&self, shared: &JobState, was_finished: bool) -> Result<JobReport> {
        let mut notices = self.notices.clone();
        if let Some(target) = self.options.results().filter(|target| was_finished && !target.path.exists()) {
            notices.push(format!(
                "{} is not there any more; remove {} to write it again",
                target.path.display(),
                self.place.state.display()
            ));
        }
        report(shared, &self.journal, (notices, &self.options), was_finished)
    }

    /// Says hello to the bucket of the job: where it is, is in the options from then on.
    fn open_store(&mut self, control: &Arc<Control>, pool: &PoolSettings) -> Result<()> {
        let SourceOptions::S3 { bucket, prefix } = &self.options.source else { return Ok(()) };
        let store = &control.store;
        store.load(&|| control.stop.get() != Stop::No)?;
        let (clock, stop) = (control.clock, Arc::clone(&control.stop));
        let client = Client::new(
            Arc::clone(store),
            pool.clone(),
            1,
            move || clock.now(),
            move || stop.get() != Stop::No,
        );
        network_runtime()?.block_on(contact(&client, bucket, prefix.as_bytes()))?;
        let place = store.place(bucket)?;
        self.options.s3.region = Some(place.region);
        Ok(())
    }

    /// Asks the server how it lists, when nobody has said it: that is in the options, and in the journal, from then on.
    /// The server, as its objects are asked for. An error also when the job is to end.
    fn find_listing(
        &mut self,
        control: &Arc<Control>,
        server: Option<ListingServer>,
        pool: &PoolSettings,
    ) -> Result<Option<ListingServer>> {
        if !self.options.is_listing_unknown() {
            return Ok(server);
        }
        let Some(server) = server else { return Ok(None) };
        if self.journal.is_begun()? {
            // What walks folders was recognised when it was opened.
            self.options.listing = Listing::Api;
            return Ok(Some(server));
        }
        let Some(setup) = self.server_lister(control, server.clone(), pool.clone())? else {
            return Ok(Some(server));
        };
        let Some(detected) = listing::detect::detect(setup, &self.options.api)? else {
            let failure = control.stop.take_failure();
            return Err(failure.unwrap_or_else(|| Error::Internal("the job is ending".into())));
        };
        (self.options.listing, self.first_page) = (detected.listing, detected.first_page);
        self.journal.change_identity(&self.options.identity())?;
        let template = self.options.server()?.map(|(_, template)| template);
        Ok(template.map(|template| ListingServer { template, ..server }))
    }

    /// What lists a server that does so itself.
    fn server_lister(
        &mut self,
        control: &Arc<Control>,
        server: ListingServer,
        pool: PoolSettings,
    ) -> Result<Option<ServerListerSetup>> {
        let SourceOptions::Server(url) = &self.options.source else { return Ok(None) };
        Ok(Some(ServerListerSetup {
            control: Arc::clone(control),
            origin: url.clone(),
            server,
            pool,
            filters: Filters::new(&self.options.list.include, &self.options.list.exclude)?,
            give_up_after: self.options.give_up_after.as_millis() as u64,
            has_listed: self.journal.tally().listed > 0 || self.journal.get("marker")?.is_some(),
            first_page: self.first_page.take(),
            relisting: self.relisting(),
            is_relisting: self.journal.is_relisting()?,
            is_of_objects: !self.options.leads_anywhere(),
        }))
    }

    /// How the listing begins again, should its marker have expired: with the names of all targets, which are stored as they
    /// are listed. What a transform has dropped has none.
    fn relisting(&self) -> Option<Relisting> {
        let options = &self.options;
        let keeps_names = options.rows.is_none()
            && options.format != Format::Null
            && options.transform.is_none()
            && options.stored_names().are_listed();
        keeps_names.then(|| Relisting::new(Arc::clone(&self.place), options.naming()))
    }

    /// Where the listing goes on.
    fn listing_start(
        &mut self,
        control: &Arc<Control>,
        server: Option<ListingServer>,
        pool: PoolSettings,
    ) -> Result<listing::ListingStart> {
        let is_listed = self.journal.get("listed_at")?.is_some();
        if let SourceOptions::S3 { bucket, prefix } = &self.options.source {
            if is_listed {
                return Ok(listing::ListingStart::Nowhere);
            }
            let filters = Filters::new(&self.options.list.include, &self.options.list.exclude)?;
            return Ok(listing::ListingStart::Bucket(Box::new(listing::s3::BucketListerSetup {
                control: Arc::clone(control),
                pool,
                bucket: bucket.clone(),
                prefix: prefix.clone(),
                selection: Selection { filters, bounds: self.options.bounds },
                ranges: self.journal.start_ranges()?,
                give_up_after: self.options.give_up_after.as_millis() as u64,
            })));
        }
        if let Some(list) = self.list.take() {
            return Ok(if is_listed {
                listing::ListingStart::Nowhere
            } else {
                listing::ListingStart::List(Box::new(list))
            });
        }
        let Some(server) = server else { return Ok(listing::ListingStart::Nowhere) };
        let Some(setup) = self.server_lister(control, server, pool)? else {
            return Ok(listing::ListingStart::Nowhere);
        };
        let setup = Box::new(setup);
        let format = match self.options.listing {
            Listing::Auto | Listing::Api | Listing::Json if is_listed => {
                return Ok(listing::ListingStart::Nowhere);
            }
            Listing::Auto | Listing::Api => {
                let names = Box::new(self.options.api.clone());
                return Ok(listing::ListingStart::Api(setup, names, self.journal.get("marker")?));
            }
            Listing::Json => {
                let Some(pages) = self.options.json_pages() else {
                    return Ok(listing::ListingStart::Nowhere);
                };
                return Ok(listing::ListingStart::Json(setup, Box::new(pages?), self.journal.get("marker")?));
            }
            Listing::Autoindex => FolderFormat::Json,
            Listing::Html => FolderFormat::Html { heeds_robots: self.options.robots },
            Listing::Sitemap => FolderFormat::Sitemap,
        };
        if self.journal.get("walk")?.is_none() {
            self.journal.start_walk()?;
        }
        Ok(listing::ListingStart::Folders(setup, format))
    }

    /// The only origin of the job, with its addresses, when there is one.
    fn server(&self, control: &Control, is_listed: bool) -> Result<Option<ListingServer>> {
        let Some((key, template)) = self.options.server()? else { return Ok(None) };
        if !self.options.leads_anywhere() {
            control.origins.set_server(key.clone());
        }
        let is_of_store = matches!(self.options.source, SourceOptions::S3 { .. });
        if is_of_store {
            // It has many addresses, which change: they are looked up while the job runs.
            return Ok(Some(ListingServer { key, template, addresses: None }));
        }
        if self.options.http.proxy_of(&key).is_some() {
            // The proxy looks it up.
            return Ok(Some(ListingServer { key, template, addresses: None }));
        }
        let clock = Rc::new(Cell::new(control.clock.now()));
        let resolver = NameResolver::new(&self.options.http.names_of_server(), &clock);
        let is_over = async {
            let mut tick = tokio::time::interval(limits::TICK);
            while control.stop.get() == Stop::No {
                tick.tick().await;
                clock.set(control.clock.now());
                resolver.tick();
            }
        };
        let found = network_runtime()?.block_on(async {
            tokio::select! {
                found = resolver.resolve(key.host(), key.port()) => found,
                () = is_over => Err(FailureKind::Dns),
            }
        });
        let addresses = found.map_err(|kind| {
            let message =
                format!("cannot look up the host {} ({}); is the name right?", key.host(), kind.name());
            if is_listed { Error::Temporary(message) } else { Error::Listing(message) }
        })?;
        Ok(Some(ListingServer { key, template, addresses: Some(addresses) }))
    }

    /// The worker's own writer, and the worker's way to it.
    fn writer(
        &self,
        control: &Arc<Control>,
        setup: &SinkSetup,
        index: usize,
    ) -> Result<(writer::SinkWriter, writer::BlockInput)> {
        // What an earlier run left small is merged by the first worker.
        let small = if index == 0 { recovery::sealed_shards(&self.journal)? } else { Vec::new() };
        writer::open(&self.place, &self.options, control, setup, index, small)
    }

    /// The threads of the engine, which end with the job.
    fn start_workers(
        &mut self,
        control: &Arc<Control>,
        server: Option<&ListingServer>,
        pool: &PoolSettings,
    ) -> Result<Vec<JoinHandle<Option<()>>>> {
        match self.options.workers {
            _ if self.options.lists_only() => self.start_list_worker(control),
            Workers::Native => self.start_native(control, server, pool),
            Workers::Dispatcher => self.start_dispatcher(control),
            Workers::Processes(_) => self.start_supervisors(control),
        }
    }

    fn start_native(
        &self,
        control: &Arc<Control>,
        server: Option<&ListingServer>,
        pool: &PoolSettings,
    ) -> Result<Vec<JoinHandle<Option<()>>>> {
        let count = control.plan.workers();
        let limit = self.options.http.concurrency.most();
        let setup = self.sink_setup(count)?;
        let resting_max = self.resting_max.div_ceil(count);
        // With one origin, the connections that have rested are those that rest next.
        let rested = if control.origins.are_many() { 0 } else { resting_max };
        let interrupted = Arc::new(self.journal.begun_requests());
        // Pages are not decoded, and so are asked for without.
        let fields = self.options.object_fields()?;
        let template = self.options.object_server()?.map(|(_, template)| template);
        let server =
            server.zip(template).map(|(server, template)| ListingServer { template, ..server.clone() });
        let (mut writers, mut workers) = (Vec::new(), Vec::new());
        for index in 0..count {
            let (writer, block_input) = self.writer(control, &setup, index)?;
            writers.push(writer);
            workers.push(worker::WorkerSetup {
                index,
                control: Arc::clone(control),
                server: server.clone(),
                naming: self.options.naming(),
                names: self.options.stored_names(),
                pool: PoolSettings {
                    connections: limit / count + usize::from(index < limit % count),
                    idle_max: limits::HOST_IDLE_CONNECTIONS.div_ceil(count).max(rested),
                    fields: fields.clone(),
                    ..pool.clone()
                },
                resting_max,
                hosts: self.options.host_rules(count),
                rules: self.options.rules(),
                requests: self.options.requests()?,
                decodes: self.options.compressed,
                keeps_entries: self.options.transform.is_some() || block_input.properties.names_are_paths,
                interrupted: Arc::clone(&interrupted),
                enough: self.options.rows.as_ref().map(|_| self.options.http.max_size),
                properties: block_input.properties,
                body_memory: block_input.body_memory,
                stage: block_input.stage,
                blocks: block_input.blocks,
                empty: block_input.empty,
            });
        }
        let mut threads = Vec::new();
        for writer in writers {
            threads.push(spawn("fetchmill-sink", &control.stop, move || writer.run())?);
        }
        for setup in workers {
            threads.push(spawn("fetchmill-fetch", &control.stop, move || worker::run(setup))?);
        }
        Ok(threads)
    }

    /// What whoever samples the job must know of it.
    fn sampled_job(&self, control: &Control) -> SampledJob {
        SampledJob {
            rate: self.options.http.rate,
            bwlimit: self.options.bwlimit,
            is_python: self.options.workers == Workers::Dispatcher,
            counts_capacity: self.options.workers == Workers::Native && !self.options.lists_only(),
            per_host: self.options.host_rules(control.plan.workers()).connections,
        }
    }

    /// Who asks whether the origin is well, when it seems not to be.
    fn start_health_checker(
        &self,
        control: &Arc<Control>,
        server: Option<ListingServer>,
        pool: &PoolSettings,
    ) -> Result<JoinHandle<Option<()>>> {
        let first_page = match &self.options.source {
            SourceOptions::Server(url) => {
                let path = match self.options.listing {
                    Listing::Auto | Listing::Api => Some(self.options.api.page_path(url, None)?),
                    Listing::Autoindex | Listing::Html => Some(folder_path(url, b"")),
                    Listing::Sitemap => Some(sitemap_path(url, b"")),
                    // Its objects may be anywhere else: that it is well says nothing of them.
                    Listing::Json => None,
                };
                path.map(|path| format!("{}://{}{path}", url.scheme(), url.authority()))
            }
            SourceOptions::S3 { bucket, prefix } => {
                let place = control.store.place(bucket)?;
                let query = list_query(prefix.as_bytes(), None, None, 1);
                Some(format!("{}{}?{query}", place.key.text(), place.bucket_path()))
            }
            SourceOptions::List(_) | SourceOptions::Iterable => None,
        };
        if first_page.is_some() {
            control.plan.lock().can_ask_first_page();
        }
        let naming = self.options.naming();
        let pool = pool.clone();
        let questions = control.health_checks.open();
        let checker = HealthChecker { control: Arc::clone(control), server, pool, naming, first_page };
        spawn("fetchmill-health", &control.stop, move || checker.run(&questions))
    }

    /// One thread that makes rows of what is listed.
    fn start_list_worker(&mut self, control: &Arc<Control>) -> Result<Vec<JoinHandle<Option<()>>>> {
        let setup = self.options.sink_setup(&self.place, 1)?;
        let (writer, block_input) = self.writer(control, &setup, 0)?;
        let target_urls = list_worker::TargetUrls::of(&self.options)?;
        let setup = list_worker::ListWorkerSetup {
            control: Arc::clone(control),
            target_urls,
            block_input,
            rows_chunks: self.rows_chunks.take(),
        };
        Ok(vec![
            spawn("fetchmill-sink", &control.stop, move || writer.run())?,
            spawn("fetchmill-rows", &control.stop, move || list_worker::run(setup))?,
        ])
    }

    /// One dispatcher, for an engine in this process.
    fn start_dispatcher(&mut self, control: &Arc<Control>) -> Result<Vec<JoinHandle<Option<()>>>> {
        let setup = self.sink_setup(1)?;
        let (writer, block_input) = self.writer(control, &setup, 0)?;
        let block_sender = block_input.into_block_sender();
        control.stop.close_at_abort(block_sender.shared_sender());
        let rules = DispatchRules::new(&self.options, 1)?;
        let dispatcher =
            Dispatcher::own(0, Arc::clone(control), rules, HostGate::of_job(&self.options, 1), block_sender)?;
        self.worker_registry.open(dispatcher);
        Ok(vec![spawn("fetchmill-sink", &control.stop, move || writer.run())?])
    }

    /// A supervisor for each process of the engine.
    fn start_supervisors(&mut self, control: &Arc<Control>) -> Result<Vec<JoinHandle<Option<()>>>> {
        let poison_candidates = PoisonCandidates::default();
        let mut threads = Vec::new();
        for (worker, attachments) in self.worker_registry.take_attachments().into_iter().enumerate() {
            let (control, poison_candidates) = (Arc::clone(control), Arc::clone(&poison_candidates));
            let listing = self.options.listing;
            let supervisor =
                Supervisor { worker, control: Arc::clone(&control), listing, attachments, poison_candidates };
            threads.push(spawn("fetchmill-supervisor", &control.stop, move || supervisor.run())?);
        }
        Ok(threads)
    }
}

fn start_lister(control: &Arc<Control>, from: listing::ListingStart) -> Result<JoinHandle<Option<()>>> {
    let control = Arc::clone(control);
    spawn("fetchmill-list", &Arc::clone(&control.stop), move || {
        listing::run(&control, from);
        Ok(())
    })
}

/// Waits for the listing's thread. One that reads a program's items may wait for the next one for ever: it is left
/// behind, and ends when that comes.
fn join_lister(lister: JoinHandle<Option<()>>, is_given: bool) {
    let until = Instant::now() + limits::DRAIN;
    while is_given && !lister.is_finished() && Instant::now() < until {
        std::thread::sleep(limits::TICK);
    }
    if !is_given || lister.is_finished() {
        join(lister);
    }
}

/// A job whose threads have ended.
struct FinishedJob {
    place: Arc<JobLocation>,
    journal: Option<Journal>,
    options: JobOptions,
    uploader: Option<Uploader>,
    notices: Vec<String>,
}

impl FinishedJob {
    /// Every target has an outcome: the last transaction, before which a job of rows writes its results, and one of shards
    /// what it says of targets without an object. Asked to stop, it leaves that to the next run.
    fn conclude(&self, journal: &mut Journal, control: &Arc<Control>) -> Result<()> {
        let kept_rows = self.options.rows.as_ref().filter(|rows| !rows.is_given);
        if let Some(rows) = kept_rows {
            let goes_on = || control.stop.get() == Stop::No;
            let results = self.options.results();
            if results::conclude(&self.place, journal, rows.kind, results, &goes_on)?.is_none() {
                return Ok(());
            }
        }
        if self.options.cdxj && !self.write_indexes(journal, control)? {
            return Ok(());
        }
        if self.options.upload.is_some() {
            journal.must_be_uploaded()?;
        }
        if self.options.rows.is_none() && !self.write_unfetched(journal, control)? {
            return Ok(());
        }
        self.remove_strays()?;
        journal.begin()?;
        journal.finish()?;
        journal.commit()?;
        if kept_rows.is_some() { results::remove_shards(&self.place) } else { Ok(()) }
    }

    /// A run that has lost the job may have begun shards before it saw that; no journal has them.
    fn remove_strays(&self) -> Result<()> {
        let shard_folder = self.options.sink_setup(&self.place, 1)?.shard_folder();
        let contested = shard_folder.filter(|_| self.place.is_contested());
        contested.map_or(Ok(()), |shard_folder| shard_folder.clear_open(""))
    }

    /// Whether every shard has its index now: not when it is asked to stop meanwhile.
    fn write_indexes(&self, journal: &Journal, control: &Control) -> Result<bool> {
        let asked = control.stop.get();
        let goes_on = || control.stop.get() == asked;
        let shard_folder = self.options.sink_setup(&self.place, 1)?.shard_folder();
        shard_folder.map_or(Ok(true), |shard_folder| cdxj::write_indexes(journal, &shard_folder, &goes_on))
    }

    /// Whether what stands beside the shards is in its place now: not when it is asked to stop meanwhile.
    fn write_unfetched(&self, journal: &Journal, control: &Arc<Control>) -> Result<bool> {
        let asked = control.stop.get();
        let goes_on = || control.stop.get() == asked;
        let (setup, names) = (self.options.sink_setup(&self.place, 1)?, self.options.stored_names());
        let was_begun = !journal.unfetched()?.is_empty();
        let written = results::write_unfetched(&self.place, journal, (&setup, &names), &goes_on)?;
        let (Some(uploader), Some(paths)) = (&self.uploader, &written) else { return Ok(written.is_some()) };
        for path in paths {
            if !uploader.put_failures(control, path, was_begun)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether nothing has asked it to stop; or only a rule, when all was done already.
    fn has_come_to_its_end(&self, journal: &Journal, control: &Control) -> Result<bool> {
        let is_stored = self.options.rows.is_none() && self.options.upload.is_none();
        Ok(match control.stop.get() {
            Stop::No => true,
            Stop::Drain if is_stored && control.stop.reason().is_some() => {
                journal.tally().pending() == 0 && journal.get("listed_at")?.is_some()
            }
            Stop::Drain | Stop::Abort => false,
        })
    }

    fn finish(self, shared: &JobState) -> Result<JobReport> {
        let control = &shared.control;
        control.tokens.iter().for_each(|tokens| tokens.close());
        let finished = self.write_end(shared);
        // Until here something may be uploaded.
        control.store.close();
        finished
    }

    fn write_end(mut self, shared: &JobState) -> Result<JobReport> {
        let control = &shared.control;
        self.notices.extend(control.take_notices());
        control.stop.heed_panic();
        // Whatever failed first in a folder that is not there any more.
        let moved = self.place.must_be_in_place().err();
        if moved.is_none() {
            // Or in one that another run has taken over: what is on the disk is that run's.
            self.place.must_be_ours()?;
        }
        let failure = moved.or_else(|| control.stop.take_failure());
        let Some(mut journal) = self.journal.take() else {
            return Err(failure.unwrap_or_else(|| Error::Internal("the journal's thread has ended".into())));
        };
        if control.stop.get() != Stop::Abort && failure.is_none() {
            // What was not sent stays pending, what was sent has its outcome.
            journal.end_requests()?;
            journal.commit()?;
        }
        let is_complete = failure.is_none() && self.has_come_to_its_end(&journal, control)?;
        if is_complete {
            let tally = journal.tally();
            if tally.pending() > 0 {
                return Err(Error::Internal(format!(
                    "{} targets have no outcome: {tally:?}",
                    tally.pending()
                )));
            }
            self.conclude(&mut journal, control)?;
            let skipped = SkippedByReason::read(&journal)?;
            self.notices.extend(skipped.notice_of_nothing(&self.options.source, tally));
        }
        // After an error a journaled window may still be there: the next run puts it in its place.
        if control.stop.get() != Stop::Abort && journal.staged()?.is_empty() {
            recovery::remove_stage(&self.place.stage_path())?;
        }
        match failure {
            Some(error) => Err(error),
            None => report(shared, &journal, (self.notices, &self.options), false),
        }
    }
}

fn report(
    shared: &JobState,
    journal: &Journal,
    (notices, options): (Vec<String>, &JobOptions),
    was_finished: bool,
) -> Result<JobReport> {
    let sum = shared.control.sum();
    let stop = &shared.control.stop;
    let is_finished = journal.get("finished_at")?.is_some();
    let interruption = match (stop.get(), stop.reason()) {
        (Stop::No, _) => None,
        (_, None) => Some(Interruption::Asked),
        (_, Some(reason)) => Some(Interruption::Rule(reason)).filter(|_| !is_finished),
    };
    let tally = journal.tally();
    let skipped = SkippedByReason::read(journal)?;
    let kinds = journal.kinds()?;
    let of_list = matches!(options.source, SourceOptions::List(_)).then_some(&kinds);
    Ok(JobReport {
        tally,
        found_nothing: is_finished && skipped.found_nothing(tally, of_list),
        skipped,
        kinds,
        doubtful: journal.doubtful()?,
        elapsed: shared.control.clock.elapsed(),
        attempts: sum.attempts,
        listed_at: journal.get("listed_at")?,
        was_finished,
        interruption,
        is_tolerated: interruption.is_none() && shared.rules.tolerate(journal.tally()),
        is_resumed: shared.is_resumed,
        limited_by: shared.control.telemetry.main_cause(),
        summary: results::read_summary(journal)?,
        notices,
    })
}
