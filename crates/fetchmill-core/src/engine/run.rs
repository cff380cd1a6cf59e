//! A run of a job: makes the threads, waits for them, and writes the end into the journal.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::Sender;

use super::control::{Control, Stop};
use super::desk::{Desk, Rules, Steward, Suspects};
use super::job::{Report, Shared};
use super::lobby::Lobby;
use super::options::{JobOptions, Listing, SourceOptions, Workers};
use super::recorder::{self, ToJournal};
use super::s3::{Client, Uploader, contact};
use super::threads::{join, spawn, waiting_runtime};
use super::{listing, recovery, scribe, worker, writer};
use crate::error::{Error, Result};
use crate::journal::{Journal, Place};
use crate::limits;
use crate::outcome::FailureKind;
use crate::results;
use crate::s3::Selection;
use crate::sink::{Depot, SinkSetup};
use crate::source::list::Filters;
use crate::transport::{PoolSettings, Resolver};

/// A job before its threads are there.
pub(super) struct Run {
    pub(super) options: JobOptions,
    /// The list, when the source is one.
    pub(super) list: Option<listing::List>,
    pub(super) place: Arc<Place>,
    pub(super) journal: Journal,
    pub(super) messages: crossbeam_channel::Receiver<ToJournal>,
    pub(super) notices: Vec<String>,
    pub(super) was_finished: bool,
    pub(super) lobby: Arc<Lobby>,
    /// Where shards wait for their upload; none before that is prepared, or when the destination is a folder.
    pub(super) depot: Option<Arc<Depot>>,
    /// Where rows go that are given to the program.
    pub(super) parcels: Option<Sender<Vec<u8>>>,
}

impl Run {
    /// Until the job has ended.
    pub(super) fn run(mut self, shared: &Shared) -> Result<Report> {
        if !self.options.retry_failed && self.was_finished {
            return self.report(shared, true);
        }
        let control = Arc::clone(&shared.control);
        if self.journal.has_waiting()? {
            control.planner().resume_waiting();
        }
        let is_listed = self.journal.get("listed_at")?.is_some();
        let pool = self.options.pool_settings(control.store())?;
        control.store().prepare(pool.clone(), 0);
        if let Err(error) = self.open_store(&control, &pool) {
            if control.stop() != Stop::No {
                return self.report(shared, false);
            }
            return Err(error);
        }
        let server = match self.server(&control, is_listed) {
            Err(_) if control.stop() != Stop::No => return self.report(shared, false),
            server => server?,
        };
        let upload = match self.prepare_upload(&control, &pool) {
            Err(_) if control.stop() != Stop::No => return self.report(shared, false),
            upload => upload?,
        };
        let is_given = matches!(self.options.source, SourceOptions::Iterable { .. });
        let threads = self.start_workers(&control, server.as_ref(), &pool)?;
        let from = self.listing_start(&control, server, pool)?;
        let estate = self.estate()?;
        let journal = self.journal;
        let messages = self.messages;
        let recorder = {
            let control = Arc::clone(&control);
            spawn("fetchmill-journal", &Arc::clone(&control), move || {
                recorder::run(journal, &messages, &control, &estate)
            })?
        };
        let lister = {
            let control = Arc::clone(&control);
            spawn("fetchmill-list", &Arc::clone(&control), move || {
                listing::run(&control, from);
                Ok(())
            })?
        };
        let uploading = upload.map(|upload| upload.start(&control)).transpose()?;
        for thread in threads {
            join(thread, &control);
        }
        join_lister(lister, &control, is_given);
        if let Some(uploading) = uploading {
            self.depot.iter().for_each(|depot| depot.complete());
            join(uploading, &control);
        }
        control.end_journal();
        let journal = join(recorder, &control);
        let run = Finished { place: self.place, journal, options: self.options, notices: self.notices };
        run.finish(shared)
    }

    /// Who uploads shards, when the destination is a bucket: below its prefix there is nothing but this job's.
    fn prepare_upload(&mut self, control: &Arc<Control>, pool: &PoolSettings) -> Result<Option<Uploader>> {
        let Some(upload) = self.options.upload.clone() else { return Ok(None) };
        let setup = self.options.sink_setup(&self.place, control.workers())?;
        let Some(shelf) = setup.shelf() else { return Ok(None) };
        let depot = Arc::new(recovery::depot(&self.journal, &setup, control.workers())?);
        let uploader = Uploader {
            access: Arc::clone(control.store()),
            pool: pool.clone(),
            upload,
            shelf,
            depot: Arc::clone(&depot),
            begun: self.journal.uploads()?.into_keys().collect(),
            give_up_after: self.options.give_up_after,
        };
        uploader.access.load(&|| control.stop() != Stop::No)?;
        if !self.journal.is_destination_claimed()? {
            uploader.claim(control)?;
            self.journal.claim_destination()?;
        }
        self.depot = Some(depot);
        Ok(Some(uploader))
    }

    /// What the sinks of so many workers have in common.
    fn sink_setup(&self, workers: usize) -> Result<SinkSetup> {
        let setup = self.options.sink_setup(&self.place, workers)?;
        Ok(SinkSetup { depot: self.depot.clone(), ..setup })
    }

    fn estate(&self) -> Result<recovery::Estate> {
        Ok(recovery::Estate {
            place: Arc::clone(&self.place),
            setup: self.options.sink_setup(&self.place, 1)?,
            naming: self.options.naming(),
        })
    }

    fn report(&self, shared: &Shared, was_finished: bool) -> Result<Report> {
        let mut notices = self.notices.clone();
        if let Some(target) = self.options.results().filter(|target| was_finished && !target.path.exists()) {
            notices.push(format!(
                "{} is not there any more; remove {} to write it again",
                target.path.display(),
                self.place.state.display()
            ));
        }
        report(shared, &self.journal, notices, was_finished)
    }

    /// Says hello to the bucket of the job: where it is, is in the options from then on.
    fn open_store(&mut self, control: &Arc<Control>, pool: &PoolSettings) -> Result<()> {
        let SourceOptions::S3 { bucket, prefix, .. } = &self.options.source else { return Ok(()) };
        let store = control.store();
        store.load(&|| control.stop() != Stop::No)?;
        let (clock, over) = (Arc::clone(control), Arc::clone(control));
        let client = Client::new(
            Arc::clone(store),
            pool.clone(),
            1,
            move || clock.clock.now(),
            move || over.stop() != Stop::No,
        );
        let runtime = waiting_runtime()?;
        runtime.block_on(contact(&client, bucket, prefix.as_bytes()))?;
        let place = store.place(bucket)?;
        self.options.s3.region = Some(place.region);
        Ok(())
    }

    /// Where the listing goes on.
    fn listing_start(
        &mut self,
        control: &Arc<Control>,
        server: Option<worker::Server>,
        pool: PoolSettings,
    ) -> Result<listing::From> {
        let is_listed = self.journal.get("listed_at")?.is_some();
        if let SourceOptions::S3 { bucket, prefix, bounds } = &self.options.source {
            if is_listed {
                return Ok(listing::From::Nowhere);
            }
            let filters = Filters::new(&self.options.include, &self.options.exclude)?;
            return Ok(listing::From::Bucket(Box::new(listing::s3::Setup {
                control: Arc::clone(control),
                pool,
                bucket: bucket.clone(),
                prefix: prefix.clone(),
                selection: Selection { filters, bounds: *bounds },
                ranges: self.journal.start_ranges()?,
            })));
        }
        let SourceOptions::Server { url, listing } = &self.options.source else {
            return match self.list.take() {
                Some(list) if !is_listed => Ok(listing::From::List(Box::new(list))),
                _ => Ok(listing::From::Nowhere),
            };
        };
        let Some(server) = server else { return Ok(listing::From::Nowhere) };
        let setup = listing::server::Setup {
            control: Arc::clone(control),
            origin: url.clone(),
            server,
            pool,
            filters: Filters::new(&self.options.include, &self.options.exclude)?,
            has_listed: self.journal.tally().listed > 0 || self.journal.get("marker")?.is_some(),
        };
        let place = match listing {
            Listing::Api(_) if is_listed => return Ok(listing::From::Nowhere),
            Listing::Api(names) => listing::server::Place::Api(names.clone(), self.journal.get("marker")?),
            Listing::Autoindex => {
                if self.journal.get("walk")?.is_none() {
                    self.journal.start_walk()?;
                }
                listing::server::Place::Autoindex
            }
        };
        Ok(listing::From::Server(Box::new(setup), place))
    }

    /// The only origin of the job, with its addresses, when there is one.
    fn server(&self, control: &Control, is_listed: bool) -> Result<Option<worker::Server>> {
        let Some((key, template)) = self.options.server()? else { return Ok(None) };
        control.set_server(key.clone());
        let is_of_store = matches!(self.options.source, SourceOptions::S3 { .. });
        if is_of_store {
            // It has many addresses, which change: they are looked up while the job runs.
            return Ok(Some(worker::Server { key, template, addresses: None }));
        }
        if self.options.proxy_setup().is_some_and(|setup| setup.is_for(key.host())) {
            // The proxy looks it up.
            return Ok(Some(worker::Server { key, template, addresses: None }));
        }
        let resolver = Resolver::new();
        let is_over = async {
            let mut tick = tokio::time::interval(limits::TICK);
            while control.stop() == Stop::No {
                tick.tick().await;
            }
        };
        let found = waiting_runtime()?.block_on(async {
            tokio::select! {
                // One name: as everything else on this machine looks it up.
                found = resolver.resolve(key.host(), key.port()) => found,
                () = is_over => Err(FailureKind::Dns),
            }
        });
        let addresses = found.map_err(|kind| {
            let message =
                format!("cannot look up the host {} ({}); is the name right?", key.host(), kind.name());
            if is_listed { Error::Temporary(message) } else { Error::Listing(message) }
        })?;
        Ok(Some(worker::Server { key, template, addresses: Some(addresses) }))
    }

    /// The worker's own writer, and the worker's way to it.
    fn writer(
        &self,
        control: &Arc<Control>,
        setup: &SinkSetup,
        index: usize,
    ) -> Result<(writer::Writer, writer::Inlet)> {
        // What an earlier run left small is merged by the first worker.
        let small = if index == 0 { recovery::sealed_shards(&self.journal)? } else { Vec::new() };
        writer::open(&self.place, &self.options, control, setup, index, small)
    }

    /// The threads of the engine, which end with the job.
    fn start_workers(
        &mut self,
        control: &Arc<Control>,
        server: Option<&worker::Server>,
        pool: &PoolSettings,
    ) -> Result<Vec<JoinHandle<Option<()>>>> {
        match self.options.workers {
            _ if self.options.lists_only() => self.start_scribe(control),
            Workers::Native => self.start_native(control, server, pool),
            Workers::Desk => self.start_desk(control),
            Workers::Processes(_) => self.start_stewards(control),
        }
    }

    fn start_native(
        &self,
        control: &Arc<Control>,
        server: Option<&worker::Server>,
        pool: &PoolSettings,
    ) -> Result<Vec<JoinHandle<Option<()>>>> {
        let count = control.workers();
        let limit = self.options.limit as usize;
        let setup = self.sink_setup(count)?;
        let (mut writers, mut workers) = (Vec::new(), Vec::new());
        for index in 0..count {
            let (writer, inlet) = self.writer(control, &setup, index)?;
            writers.push(writer);
            workers.push(worker::Setup {
                index,
                control: Arc::clone(control),
                server: server.cloned(),
                naming: self.options.naming(),
                pool: PoolSettings {
                    connections: limit / count + usize::from(index < limit % count),
                    idle_max: limits::HOST_IDLE_CONNECTIONS.div_ceil(count),
                    ..pool.clone()
                },
                hosts: self.options.host_rules(count),
                has_second_look: self.options.has_second_look(),
                attempts_max: self.options.attempts,
                redirects_max: self.options.redirects_max(),
                allow_eof_bodies: self.options.allow_eof_bodies,
                enough: self.options.rows.as_ref().map(|_| self.options.max_size),
                properties: inlet.properties,
                stage: inlet.stage,
                blocks: inlet.blocks,
                empty: inlet.empty,
            });
        }
        let mut threads = Vec::new();
        for writer in writers {
            threads.push(spawn("fetchmill-sink", control, move || writer.run())?);
        }
        for setup in workers {
            threads.push(spawn("fetchmill-fetch", control, move || worker::run(setup))?);
        }
        Ok(threads)
    }

    /// One thread that makes rows of what is listed.
    fn start_scribe(&mut self, control: &Arc<Control>) -> Result<Vec<JoinHandle<Option<()>>>> {
        let setup = self.options.sink_setup(&self.place, 1)?;
        let (writer, inlet) = self.writer(control, &setup, 0)?;
        let home = scribe::Home::of(&self.options)?;
        let setup = scribe::Setup { control: Arc::clone(control), home, inlet, parcels: self.parcels.take() };
        Ok(vec![
            spawn("fetchmill-sink", control, move || writer.run())?,
            spawn("fetchmill-rows", control, move || scribe::run(setup))?,
        ])
    }

    /// One desk, for an engine in this process.
    fn start_desk(&mut self, control: &Arc<Control>) -> Result<Vec<JoinHandle<Option<()>>>> {
        let setup = self.sink_setup(1)?;
        let (writer, inlet) = self.writer(control, &setup, 0)?;
        let post = inlet.into_post();
        control.close_at_abort(post.outlet());
        let rules = Rules::new(&self.options, 1)?;
        let desk = Desk::own(0, Arc::clone(control), rules, self.options.host_gate(1), post)?;
        self.lobby.open(desk);
        Ok(vec![spawn("fetchmill-sink", control, move || writer.run())?])
    }

    /// A steward for each process of the engine.
    fn start_stewards(&mut self, control: &Arc<Control>) -> Result<Vec<JoinHandle<Option<()>>>> {
        let suspects = Suspects::default();
        let mut threads = Vec::new();
        for (worker, attachments) in self.lobby.take_attachments().into_iter().enumerate() {
            let (control, suspects) = (Arc::clone(control), Arc::clone(&suspects));
            let steward = Steward { worker, control: Arc::clone(&control), attachments, suspects };
            threads.push(spawn("fetchmill-steward", &control, move || steward.run())?);
        }
        Ok(threads)
    }
}

/// Waits for the listing's thread. One that reads a program's items may wait for the next one for ever: it is left
/// behind, and ends when that comes.
fn join_lister(lister: JoinHandle<Option<()>>, control: &Control, is_given: bool) {
    let until = Instant::now() + limits::DRAIN;
    while is_given && !lister.is_finished() && Instant::now() < until {
        std::thread::sleep(limits::TICK);
    }
    if !is_given || lister.is_finished() {
        join(lister, control);
    }
}

/// A job whose threads have ended.
struct Finished {
    place: Arc<Place>,
    journal: Option<Journal>,
    options: JobOptions,
    notices: Vec<String>,
}

impl Finished {
    /// Every target has an outcome: the last transaction, before which a job of rows writes its results. Asked to stop, it
    /// leaves that to the next run.
    fn conclude(&self, journal: &mut Journal, control: &Control) -> Result<()> {
        let kept_rows = self.options.rows.as_ref().filter(|rows| !rows.is_given);
        if let Some(rows) = kept_rows {
            let goes_on = || control.stop() == Stop::No;
            let results = self.options.results();
            if results::conclude(&self.place, journal, rows.kind, results, &goes_on)?.is_none() {
                return Ok(());
            }
        }
        if self.options.upload.is_some() {
            journal.must_be_uploaded()?;
        }
        journal.begin()?;
        journal.finish()?;
        journal.commit()?;
        if kept_rows.is_some() { results::remove_shards(&self.place) } else { Ok(()) }
    }

    fn finish(mut self, shared: &Shared) -> Result<Report> {
        let control = &shared.control;
        control.store().close();
        self.notices.extend(control.take_notices());
        let failure = control.take_failure();
        let Some(mut journal) = self.journal.take() else {
            return Err(failure.unwrap_or_else(|| Error::Internal("the journal's thread has ended".into())));
        };
        let is_complete = failure.is_none() && control.stop() == Stop::No;
        if is_complete {
            let tally = journal.tally();
            if tally.pending() > 0 {
                return Err(Error::Internal(format!(
                    "{} targets have no outcome: {tally:?}",
                    tally.pending()
                )));
            }
            self.conclude(&mut journal, control)?;
        }
        // After an error a journaled window may still be there: the next run puts it in its place.
        if control.stop() != Stop::Abort && journal.staged()?.is_empty() {
            recovery::remove_stage(&self.place.stage_path())?;
        }
        match failure {
            Some(error) => Err(error),
            None => report(shared, &journal, self.notices, false),
        }
    }
}

fn report(shared: &Shared, journal: &Journal, notices: Vec<String>, was_finished: bool) -> Result<Report> {
    let sum = shared.control.sum();
    Ok(Report {
        tally: journal.tally(),
        kinds: journal.kinds()?,
        elapsed: shared.control.clock.elapsed(),
        attempts: sum.attempts,
        listed_at: journal.get("listed_at")?,
        was_finished,
        is_interrupted: shared.control.stop() != Stop::No,
        is_resumed: shared.is_resumed,
        summary: results::read_summary(journal)?,
        notices,
    })
}
