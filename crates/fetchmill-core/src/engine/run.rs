//! A run of a job: makes the threads, waits for them, and writes the end into the journal.

use std::net::SocketAddr;
use std::sync::Arc;

use super::control::{Control, Stop};
use super::gathered::Gathered;
use super::job::{Report, Shared};
use super::options::{JobOptions, Listing};
use super::recorder::{self, ToJournal};
use super::threads::{join, spawn, waiting_runtime};
use super::{listing, recovery, worker, writer};
use crate::error::{Error, Result};
use crate::journal::{Journal, Place};
use crate::limits;
use crate::sink::failures::FailuresShard;
use crate::sink::{Keeps, Properties, Sink, SinkSetup, Stage};

/// A sink, what it does, and where it stages.
type SinkParts = (Box<dyn Sink>, Properties, Option<Arc<Stage>>);

/// A job before its threads are there.
pub(super) struct Run {
    pub(super) options: JobOptions,
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
        let from = self.listing_start()?;
        if self.journal.has_waiting()? {
            control.planner().resume_waiting();
        }
        let addresses = match self.resolve(&control, matches!(from, listing::From::Nowhere)) {
            Err(_) if control.stop() != Stop::No => return self.report(shared, false),
            resolved => resolved?,
        };
        let (writers, workers) = self.threads(&control, &addresses)?;
        let lister = self.lister(&control, &addresses)?;
        let journal = self.journal;
        let messages = self.messages;
        let recorder = {
            let control = Arc::clone(&control);
            spawn("fetchmill-journal", &Arc::clone(&control), move || {
                recorder::run(journal, &messages, &control)
            })?
        };
        let lister = spawn("fetchmill-list", &control, move || {
            lister.run(from);
            Ok(())
        })?;
        let mut threads = Vec::new();
        for writer in writers {
            threads.push(spawn("fetchmill-sink", &control, move || writer.run())?);
        }
        for setup in workers {
            threads.push(spawn("fetchmill-fetch", &control, move || worker::run(setup))?);
        }
        for thread in threads.into_iter().chain([lister]) {
            join(thread, &control);
        }
        control.end_journal();
        let journal = join(recorder, &control);
        let run = Finished { place: self.place, journal, notices: self.notices };
        run.finish(shared)
    }

    fn report(&self, shared: &Shared, was_finished: bool) -> Result<Report> {
        report(shared, &self.journal, self.notices.clone(), was_finished)
    }

    fn listing_start(&mut self) -> Result<listing::From> {
        match &self.options.listing {
            Listing::Api(_) if self.journal.get("listed_at")?.is_some() => Ok(listing::From::Nowhere),
            Listing::Api(names) => Ok(listing::From::Api(names.clone(), self.journal.get("marker")?)),
            Listing::Autoindex => {
                if self.journal.get("walk")?.is_none() {
                    self.journal.start_walk()?;
                }
                Ok(listing::From::Autoindex)
            }
        }
    }

    fn resolve(&self, control: &Control, is_listed: bool) -> Result<Arc<[SocketAddr]>> {
        let source = &self.options.source;
        let is_over = || control.stop() != Stop::No;
        crate::transport::resolve(&source.host(), source.port(), is_over).map(Into::into).map_err(|reason| {
            let message =
                format!("cannot look up the host {} (dns): {reason}; is the name right?", source.host());
            if is_listed { Error::Temporary(message) } else { Error::Listing(message) }
        })
    }

    fn lister(&self, control: &Arc<Control>, addresses: &Arc<[SocketAddr]>) -> Result<listing::Lister> {
        Ok(listing::Lister {
            control: Arc::clone(control),
            origin: self.options.source.clone(),
            addresses: Arc::clone(addresses),
            template: self.options.template()?,
            timeouts: listing::page_timeouts(self.options.timeouts),
            runtime: waiting_runtime()?,
            connection: None,
            jitter: listing::jitter(control.clock.now()),
            has_listed: self.journal.tally().listed > 0 || self.journal.get("marker")?.is_some(),
        })
    }

    /// A worker's sink, and where it stages when bodies are kept.
    fn sink(&self, index: usize, setup: &SinkSetup) -> Result<SinkParts> {
        let properties = setup.format.properties();
        let stage = Arc::new(Stage::open(&self.place.stage_path().join(index.to_string()))?);
        // What an earlier run left small is merged by the first worker.
        let small = if index == 0 { recovery::sealed_shards(&self.journal)? } else { Vec::new() };
        let sink = setup.open(index as u32, &stage, small)?;
        Ok((sink, properties, (properties.keeps >= Keeps::Bodies).then_some(stage)))
    }

    fn threads(
        &self,
        control: &Arc<Control>,
        addresses: &Arc<[SocketAddr]>,
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
                commit_window: self.options.commit_window,
                runtime: waiting_runtime()?,
                blocks: to_write,
                empty,
                gathered: Gathered::default(),
            });
            workers.push(worker::Setup {
                index,
                control: Arc::clone(control),
                addresses: Arc::clone(addresses),
                template: self.options.template()?,
                connections: limit / count + usize::from(index < limit % count),
                timeouts: self.options.timeouts,
                attempts_max: self.options.attempts,
                max_body: self.options.max_size,
                allow_eof_bodies: self.options.allow_eof_bodies,
                properties,
                stage,
                blocks,
                empty: to_fill,
            });
        }
        Ok((writers, workers))
    }
}

/// A job whose threads have ended.
struct Finished {
    place: Place,
    journal: Option<Journal>,
    notices: Vec<String>,
}

impl Finished {
    fn finish(self, shared: &Shared) -> Result<Report> {
        let control = &shared.control;
        let failure = control.take_failure();
        let Some(mut journal) = self.journal else {
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
            journal.begin()?;
            journal.finish()?;
            journal.commit()?;
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
        notices,
    })
}
