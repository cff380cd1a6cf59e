//! A run of a job: makes the threads, waits for them, and writes the end into the journal.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::control::{Control, Stop};
use super::gathered::Gathered;
use super::job::{Report, Shared};
use super::options::{JobOptions, Listing, SourceOptions};
use super::recorder::{self, ToJournal};
use super::threads::{join, spawn, waiting_runtime};
use super::transform::Transform;
use super::{listing, recovery, transform, worker, writer};
use crate::error::{Error, Result};
use crate::journal::{Journal, Place};
use crate::limits;
use crate::outcome::FailureKind;
use crate::planner::hosts::HostRules;
use crate::planner::origin::Millis;
use crate::results;
use crate::sink::failures::FailuresShard;
use crate::sink::{Keeps, Properties, Sink, SinkSetup, Stage};
use crate::source::list::Filters;
use crate::transport::{NameSetup, Paces, PoolSettings, Resolver, TlsSetup};

/// A sink, what it does, and where it stages.
type SinkParts = (Box<dyn Sink>, Properties, Option<Arc<Stage>>);

/// A job before its threads are there.
pub(super) struct Run {
    pub(super) options: JobOptions,
    /// The list, when the source is one.
    pub(super) list: Option<listing::List>,
    pub(super) place: Place,
    pub(super) journal: Journal,
    pub(super) messages: crossbeam_channel::Receiver<ToJournal>,
    pub(super) notices: Vec<String>,
    pub(super) was_finished: bool,
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
        let pool = self.pool()?;
        let server = match self.server(&control, is_listed) {
            Err(_) if control.stop() != Stop::No => return self.report(shared, false),
            server => server?,
        };
        let (writers, workers) = self.threads(&control, server.as_ref(), &pool)?;
        let is_given = matches!(self.options.source, SourceOptions::Iterable { .. });
        let from = self.listing_start(&control, server, pool)?;
        let journal = self.journal;
        let messages = self.messages;
        let recorder = {
            let control = Arc::clone(&control);
            spawn("fetchmill-journal", &Arc::clone(&control), move || {
                recorder::run(journal, &messages, &control)
            })?
        };
        let lister = {
            let control = Arc::clone(&control);
            spawn("fetchmill-list", &Arc::clone(&control), move || {
                listing::run(&control, from);
                Ok(())
            })?
        };
        let mut threads = Vec::new();
        for writer in writers {
            threads.push(spawn("fetchmill-sink", &control, move || writer.run())?);
        }
        for setup in workers {
            threads.push(spawn("fetchmill-fetch", &control, move || worker::run(setup))?);
        }
        for thread in threads {
            join(thread, &control);
        }
        join_lister(lister, &control, is_given);
        control.end_journal();
        let journal = join(recorder, &control);
        let run = Finished { place: self.place, journal, options: self.options, notices: self.notices };
        run.finish(shared)
    }

    fn report(&self, shared: &Shared, was_finished: bool) -> Result<Report> {
        let mut notices = self.notices.clone();
        if let Some(target) = self.options.results().filter(|target| was_finished && !target.path.exists()) {
            notices.push(format!(
                "{} is not there any more; remove {} to check again",
                target.path.display(),
                self.place.state.display()
            ));
        }
        report(shared, &self.journal, notices, was_finished)
    }

    /// Where the listing goes on.
    fn listing_start(
        &mut self,
        control: &Arc<Control>,
        server: Option<worker::Server>,
        pool: PoolSettings,
    ) -> Result<listing::From> {
        let is_listed = self.journal.get("listed_at")?.is_some();
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

    /// What all connections have in common.
    fn pool(&self) -> Result<PoolSettings> {
        Ok(PoolSettings {
            tls: Arc::new(TlsSetup::new(self.options.tls.clone())),
            names: NameSetup::new(
                self.options.system_resolver,
                &self.options.resolvers,
                self.options.threads.unwrap_or(1),
            ),
            idle_max: 0,
            proxy: self.options.proxy_setup().map(Arc::new),
            timeouts: self.options.timeouts,
            // What is not read of a body in a check may be as long as it likes.
            max_body: if self.options.rows.is_some() { u64::MAX } else { self.options.max_size },
            connections: 0,
            fields: self.options.fields()?,
            paces: self.options.rate_per_host.filter(|rate| *rate > 0.0).map(Paces::new).map(Arc::new),
            reach: self.options.reach(),
            times_phases: self.options.rows.is_some(),
        })
    }

    /// What holds for each host of a job over many.
    fn host_rules(&self, workers: usize) -> HostRules {
        let rate = self.options.rate_per_host.unwrap_or(limits::HOST_RATE);
        HostRules {
            connections: self.options.limit_per_host.unwrap_or(limits::HOST_CONNECTIONS),
            rate: (rate > 0.0).then_some(rate),
            probes: self.options.attempts - 1,
            dead_for: limits::HOST_DEAD_FOR.as_millis() as Millis,
            held_max: limits::HOSTS_HELD_MAX / workers,
        }
    }

    /// A worker's sink, and where it stages when bodies are kept.
    fn sink(&self, index: usize, setup: &SinkSetup) -> Result<SinkParts> {
        let properties = self.options.properties();
        let stage = Arc::new(Stage::open(&self.place.stage_path().join(index.to_string()))?);
        // What an earlier run left small is merged by the first worker.
        let small = if index == 0 { recovery::sealed_shards(&self.journal)? } else { Vec::new() };
        let sink = setup.open(index as u32, &stage, small)?;
        Ok((sink, properties, (properties.keeps >= Keeps::Bodies).then_some(stage)))
    }

    /// What a worker's writer gives replies to before it stores them.
    fn transform(
        &self,
        index: usize,
        control: &Arc<Control>,
        stage: Option<&Arc<Stage>>,
        server: Option<&worker::Server>,
    ) -> Option<Transform> {
        let (options, stage) = (self.options.transform.as_ref()?, stage?);
        let columns = self.options.format.columns(&self.options.columns);
        let list_columns = self.options.columns.kept().len() - options.columns.len();
        Some(Transform::new(transform::Setup {
            worker: index,
            control: Arc::clone(control),
            options: options.clone(),
            list_columns,
            max_size: self.options.max_size,
            stage: Arc::clone(stage),
            server: server.map(|server| (server.key.text().to_owned(), server.template.clone())),
            stores_url: columns.has_url(),
            stores_bodies: self.options.format.properties().keeps >= Keeps::Bodies,
        }))
    }

    fn threads(
        &self,
        control: &Arc<Control>,
        server: Option<&worker::Server>,
        pool: &PoolSettings,
    ) -> Result<(Vec<writer::Writer>, Vec<worker::Setup>)> {
        let count = control.workers();
        let limit = self.options.limit as usize;
        let (mut writers, mut workers) = (Vec::new(), Vec::new());
        let setup = self.options.sink_setup(&self.place, count)?;
        for index in 0..count {
            let (blocks, to_write) = tokio::sync::mpsc::channel((limits::BLOCKS_QUEUED_MAX / count).max(1));
            let (empty, to_fill) = tokio::sync::mpsc::unbounded_channel();
            let (sink, properties, stage) = self.sink(index, &setup)?;
            writers.push(writer::Writer {
                worker: index as u32,
                control: Arc::clone(control),
                sink,
                failures: FailuresShard::new(
                    &self.place.failures_path(),
                    recovery::shard_name("worker", index as u32),
                    self.options.is_durable,
                ),
                has_rows: self.options.rows.is_some(),
                commit_window: self.options.commit_window,
                runtime: waiting_runtime()?,
                blocks: to_write,
                empty,
                gathered: Gathered::default(),
                transform: self.transform(index, control, stage.as_ref(), server),
            });
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
                hosts: self.host_rules(count),
                has_second_look: self.options.has_second_look(),
                attempts_max: self.options.attempts,
                redirects_max: self.options.redirects_max(),
                allow_eof_bodies: self.options.allow_eof_bodies,
                enough: self.options.rows.as_ref().map(|_| self.options.max_size),
                properties,
                stage,
                blocks,
                empty: to_fill,
            });
        }
        Ok((writers, workers))
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
    place: Place,
    journal: Option<Journal>,
    options: JobOptions,
    notices: Vec<String>,
}

impl Finished {
    /// Every target has an outcome: the last transaction, before which a check writes its results. Asked to stop, it
    /// leaves that to the next run.
    fn conclude(&self, journal: &mut Journal, control: &Control) -> Result<()> {
        let has_rows = self.options.rows.is_some();
        if has_rows {
            let goes_on = || control.stop() == Stop::No;
            if results::conclude(&self.place, journal, self.options.results(), &goes_on)?.is_none() {
                return Ok(());
            }
        }
        journal.begin()?;
        journal.finish()?;
        journal.commit()?;
        if has_rows { results::remove_shards(&self.place) } else { Ok(()) }
    }

    fn finish(mut self, shared: &Shared) -> Result<Report> {
        let control = &shared.control;
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
