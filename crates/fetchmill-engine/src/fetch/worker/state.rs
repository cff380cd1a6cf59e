//! The parts of a worker, and the state that its tasks share.

use std::sync::Arc;

use super::entry_reader::EntryReader;
use super::exhaustion::Exhaustion;
use super::held_outcomes::HeldOutcomes;
use super::in_flight::InFlight;
use super::load::WorkerLoad;
use super::origin_lookup::OriginLookup;
use super::outcome_buffer::OutcomeBuffer;
use super::part_etags::PartEtags;
use super::pending_report::PendingReport;
use super::robots_gate::RobotsGate;
use super::sink_queue::SinkQueue;
use super::start_quota::StartQuota;
use super::target_supply::TargetSupply;
use super::waiters::Waiters;
use super::worker_clock::WorkerClock;
use crate::access::s3::BucketResolver;
use crate::control::Control;
use crate::control::body_memory::BodyMemory;
use crate::fetch::idle_connections::IdleConnections;
use crate::fetch::target::CurrentTarget;
use crate::plan::job_origins::ListingServer;
use crate::request::custom_request::JobRequests;
use fetchmill_model::outcome::Runs;
use fetchmill_model::planner::hosts::HostRules;
use fetchmill_model::target::entry::Naming;
use fetchmill_model::target::stored_name::StoredNames;
use fetchmill_model::verdict::Rules;
use fetchmill_net::certain::RestingConnections;
use fetchmill_net::{IoBuffers, Pool, PoolSettings};
use fetchmill_store::sink::{Properties, Stage};

/// Settings of a worker, and its shared parts.
pub(crate) struct WorkerSetup {
    pub(crate) index: usize,
    pub(crate) control: Arc<Control>,
    /// The job's only origin, if the source is a server that lists its own objects.
    pub(crate) server: Option<ListingServer>,
    pub(crate) naming: Naming,
    pub(crate) names: StoredNames,
    /// Connection settings of this worker. The number of tasks never exceeds the number of connections.
    pub(crate) pool: PoolSettings,
    /// Maximum number of resting connections, not counting the connections of tasks.
    pub(crate) resting_max: usize,
    pub(crate) rules: Rules,
    /// Methods, bodies and header fields of the requests.
    pub(crate) requests: JobRequests,
    /// Whether a fetched target can still fail later. If so, its entry is sent to the sink as well.
    pub(crate) keeps_entries: bool,
    /// Targets without an outcome that an earlier run might have requested.
    pub(crate) interrupted: Arc<Runs>,
    /// Whether to accept encoded replies and store them decoded.
    pub(crate) decodes: bool,
    /// Whether to skip objects whose replies opt out (`--opt-out`).
    pub(crate) opts_out: bool,
    /// Rules per host, in a job with many hosts.
    pub(crate) hosts: HostRules,
    /// In a check, the maximum number of body bytes to read. Every outcome of a check is a row.
    pub(crate) enough: Option<u64>,
    pub(crate) properties: Properties,
    /// Memory budget for bodies.
    pub(crate) body_memory: Arc<BodyMemory>,
    /// Stage for bodies that are too large for memory.
    pub(crate) stage: Option<Arc<Stage>>,
}

/// State shared by the tasks of a worker. No part of it stays borrowed across an await.
pub(super) struct Worker {
    pub(super) setup: WorkerSetup,
    pub(super) pool: Pool,
    pub(super) origins: OriginLookup,
    pub(super) entries: EntryReader,
    pub(super) clock: WorkerClock,
    pub(super) supply: TargetSupply,
    pub(super) in_flight: InFlight,
    pub(super) load: WorkerLoad,
    /// ETags of the objects whose parts were fetched most recently.
    pub(super) part_etags: PartEtags,
    pub(super) waiters: Waiters,
    pub(super) start_quota: StartQuota,
    pub(super) idle_connections: IdleConnections,
    /// Resting connections, at most one per task plus `resting_max`.
    pub(super) resting: RestingConnections<HeldOutcomes>,
    /// Lock that queues this worker's connections for the pace of the origin.
    pub(super) pace_line: tokio::sync::Mutex<()>,
    pub(super) buffers: IoBuffers,
    pub(super) outcomes: OutcomeBuffer,
    pub(super) sink: SinkQueue,
    pub(super) report: PendingReport,
    pub(super) exhaustion: Exhaustion,
}

/// Creates the waiters of a worker, without any targets.
fn waiters_of(setup: &WorkerSetup) -> Waiters {
    let workers = setup.control.plan.workers();
    let robots = setup.control.robots.as_ref().map(|board| RobotsGate::new(board, workers));
    Waiters::new(setup.hosts, setup.rules, workers).with_robots(robots)
}

impl Worker {
    pub(super) fn new(mut setup: WorkerSetup, sink: SinkQueue) -> Self {
        let clock = WorkerClock::new(setup.control.clock.now());
        let pool = Pool::new(setup.pool.clone(), clock.share());
        let server = setup.server.take();
        let server =
            server.map(|ListingServer { key, template, addresses }| pool.add(key, template, addresses));
        Worker {
            pool,
            origins: OriginLookup::new(server),
            entries: EntryReader::new(BucketResolver::new(Arc::clone(&setup.control.store))),
            clock,
            supply: TargetSupply::default(),
            in_flight: InFlight::new(setup.control.plan.share(setup.index)),
            load: WorkerLoad::default(),
            part_etags: PartEtags::default(),
            waiters: waiters_of(&setup),
            start_quota: StartQuota::default(),
            idle_connections: IdleConnections::default(),
            resting: RestingConnections::default(),
            pace_line: tokio::sync::Mutex::default(),
            buffers: IoBuffers::default(),
            outcomes: OutcomeBuffer::default(),
            sink,
            report: PendingReport::default(),
            exhaustion: Exhaustion::default(),
            setup,
        }
    }

    /// Returns whether this is a check, in which every outcome is a row.
    pub(super) fn has_rows(&self) -> bool {
        self.setup.enough.is_some()
    }

    pub(super) fn control(&self) -> &Control {
        &self.setup.control
    }

    /// Returns whether this attempt rechecks a target that seemed dead.
    pub(super) fn is_second_look(&self, target: &CurrentTarget) -> bool {
        target.is_second_look(&self.setup.rules)
    }
}
