//! The threads that fetch or write rows, each with a writer thread. They end with the job.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::Sender;

use super::contact::Contact;
use crate::control::Control;
use crate::control::threads::spawn;
use crate::fetch::dispatch::host_gate::HostGate;
use crate::fetch::dispatch::worker_registry::WorkerRegistry;
use crate::fetch::dispatch::{DispatchRules, Dispatcher, PoisonCandidates, Supervisor};
use crate::fetch::{list_worker, worker};
use crate::plan::job_origins::ListingServer;
use crate::plan::job_plan::JobPlan;
use crate::request::workers::Workers;
use crate::writer::{self, recovery};
use fetchmill_model::error::Result;
use fetchmill_model::limits;
use fetchmill_model::origin::OriginFields;
use fetchmill_model::outcome::Runs;
use fetchmill_net::PoolSettings;
use fetchmill_store::journal::Journal;
use fetchmill_store::sink::SinkSetup;

/// Handles of threads that return nothing.
pub(super) type Threads = Vec<JoinHandle<Option<()>>>;

/// Engine of a run before its threads start.
pub(super) struct Engine<'r> {
    pub(super) control: &'r Arc<Control>,
    pub(super) contact: &'r Contact,
    pub(super) journal: &'r Journal,
    pub(super) worker_registry: &'r WorkerRegistry,
}

impl Engine<'_> {
    /// Starts the threads. If the program takes rows, they are sent to `rows_chunks`.
    pub(super) fn start(&self, rows_chunks: Option<Sender<Vec<u8>>>) -> Result<Threads> {
        match self.plan().request.workers {
            _ if self.plan().request.lists_only() => self.start_list_worker(rows_chunks),
            Workers::Native => self.start_native(),
            Workers::Dispatcher => self.start_dispatcher(),
            Workers::Processes(_) => self.start_supervisors(),
        }
    }

    fn plan(&self) -> &JobPlan {
        &self.contact.plan
    }

    /// Returns the setup of the sinks for `workers` workers. If there is an uploader, all sinks share it.
    fn sink_setup(&self, workers: usize) -> Result<SinkSetup> {
        let uploader = self.contact.uploader.as_ref();
        let upload_queue = uploader.map(|uploader| Arc::clone(&uploader.upload_queue));
        Ok(SinkSetup { upload_queue, ..self.plan().sink_setup(workers)? })
    }

    /// Creates a worker's writer, and the worker's connection to the writer.
    fn writer(&self, setup: &SinkSetup, index: usize) -> Result<(writer::SinkWriter, writer::BlockInput)> {
        // The first worker merges small shards that earlier runs left.
        let small = if index == 0 { recovery::sealed_shards(self.journal)? } else { Vec::new() };
        writer::open(self.plan(), self.control, setup, index, small)
    }

    /// Starts the thread that converts listed targets to rows.
    fn start_list_worker(&self, rows_chunks: Option<Sender<Vec<u8>>>) -> Result<Threads> {
        let plan = self.plan();
        let (writer, block_input) = self.writer(&plan.sink_setup(1)?, 0)?;
        let setup = list_worker::ListWorkerSetup {
            control: Arc::clone(self.control),
            row_source: self.row_source()?,
            block_input,
            rows_chunks,
            is_manifest: plan.request.rows.as_ref().is_some_and(|rows| rows.is_manifest),
        };
        let stop = &self.control.stop;
        Ok(vec![
            spawn("fetchmill-sink", stop, move || writer.run())?,
            spawn("fetchmill-rows", stop, move || list_worker::run(setup))?,
        ])
    }

    /// Returns the source of rows.
    fn row_source(&self) -> Result<list_worker::RowSource> {
        let plan = self.plan();
        if plan.request.stores_items() {
            return Ok(list_worker::RowSource::Items(list_worker::ItemRows::of(&plan.stored_columns())));
        }
        list_worker::TargetUrls::of(plan).map(list_worker::RowSource::Targets)
    }

    /// Opens a dispatcher for an engine in this process.
    fn start_dispatcher(&self) -> Result<Threads> {
        let (writer, block_input) = self.writer(&self.sink_setup(1)?, 0)?;
        let block_sender = block_input.into_block_sender();
        self.control.stop.close_at_abort(block_sender.shared_sender());
        let rules = DispatchRules::new(self.plan(), 1)?;
        let hosts = HostGate::of_job(self.plan(), 1);
        let dispatcher = Dispatcher::own(0, Arc::clone(self.control), rules, hosts, block_sender)?;
        self.worker_registry.open(dispatcher);
        Ok(vec![spawn("fetchmill-sink", &self.control.stop, move || writer.run())?])
    }

    /// Starts one supervisor for each of the engine's processes.
    fn start_supervisors(&self) -> Result<Threads> {
        let poison_candidates = PoisonCandidates::default();
        let mut threads = Vec::new();
        for (worker, attachments) in self.worker_registry.take_attachments().into_iter().enumerate() {
            let supervisor = Supervisor {
                worker,
                control: Arc::clone(self.control),
                listing: self.plan().listing,
                attachments,
                poison_candidates: Arc::clone(&poison_candidates),
            };
            threads.push(spawn("fetchmill-supervisor", &self.control.stop, move || supervisor.run())?);
        }
        Ok(threads)
    }

    /// Starts the native threads of this crate: first the writers, then the workers.
    fn start_native(&self) -> Result<Threads> {
        let count = self.control.plan.workers();
        let common = NativeWorkers::of(self, count)?;
        let sinks = self.sink_setup(count)?;
        let (mut writers, mut workers) = (Vec::new(), Vec::new());
        for index in 0..count {
            let (writer, block_input) = self.writer(&sinks, index)?;
            writers.push(writer);
            workers.push(self.worker(index, &common, block_input)?);
        }
        let mut threads = Vec::new();
        for writer in writers {
            threads.push(spawn("fetchmill-sink", &self.control.stop, move || writer.run())?);
        }
        for (setup, sink) in workers {
            threads.push(spawn("fetchmill-fetch", &self.control.stop, move || worker::run(setup, sink))?);
        }
        Ok(threads)
    }

    /// Returns the setup of a native worker, and the queue to its sink.
    fn worker(
        &self,
        index: usize,
        common: &NativeWorkers,
        block_input: writer::BlockInput,
    ) -> Result<(worker::WorkerSetup, worker::SinkQueue)> {
        let (plan, count) = (self.plan(), common.count);
        let request = &plan.request;
        let memory = Arc::clone(&block_input.body_memory);
        let sink = worker::SinkQueue::new(block_input.blocks, block_input.empty, memory);
        let setup = worker::WorkerSetup {
            index,
            control: Arc::clone(self.control),
            server: common.server.clone(),
            naming: plan.naming(),
            names: plan.stored_names(),
            pool: common.pool_of(index, &self.contact.pool),
            resting_max: common.resting_max,
            hosts: plan.host_rules(count),
            rules: request.attempt_rules(plan.listing),
            requests: request.requests()?,
            decodes: request.http.compressed,
            opts_out: request.http.opt_out,
            keeps_entries: request.transform.is_some() || block_input.properties.names_are_paths,
            interrupted: Arc::clone(&common.interrupted),
            enough: request.rows.as_ref().map(|_| request.http.max_size),
            properties: block_input.properties,
            body_memory: block_input.body_memory,
            stage: block_input.stage,
        };
        Ok((setup, sink))
    }
}

/// Settings that all native workers share.
struct NativeWorkers {
    count: usize,
    /// The job's only origin and its request template, if the source is a server that lists its own objects.
    server: Option<ListingServer>,
    fields: OriginFields,
    /// Total maximum number of requests in flight.
    limit: usize,
    /// Maximum number of resting connections per worker, not counting connections in use.
    resting_max: usize,
    /// Maximum number of connections that each worker keeps without a target.
    idle_max: usize,
    /// Targets whose requests an earlier run started but did not finish.
    interrupted: Arc<Runs>,
}

impl NativeWorkers {
    fn of(engine: &Engine<'_>, count: usize) -> Result<Self> {
        let plan = engine.plan();
        let resting_max = plan.machine.resting_max.div_ceil(count);
        // With one origin, connections that have rested are kept, because they are used again and then rest again.
        let rested = if engine.control.origins.are_many() { 0 } else { resting_max };
        // Listing pages are not decoded, so no encoding is requested for them.
        let template = plan.object_server()?.map(|(_, template)| template);
        let server = engine.contact.server.as_ref().zip(template);
        Ok(NativeWorkers {
            count,
            server: server.map(|(server, template)| ListingServer { template, ..server.clone() }),
            fields: plan.object_fields()?,
            limit: plan.machine.concurrency.most(),
            resting_max,
            idle_max: limits::HOST_IDLE_CONNECTIONS.div_ceil(count).max(rested),
            interrupted: Arc::new(engine.journal.begun_requests()),
        })
    }

    /// Returns the connection settings of one worker.
    fn pool_of(&self, index: usize, pool: &PoolSettings) -> PoolSettings {
        PoolSettings {
            connections: self.limit / self.count + usize::from(index < self.limit % self.count),
            idle_max: self.idle_max,
            fields: self.fields.clone(),
            ..pool.clone()
        }
    }
}
