//! The dispatcher's reports to the job, and its end.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::arrivals::Arrivals;
use super::host_gate::HostGate;
use super::link::{JobLink, LocalLink, TurnReport};
use super::rules::{CorrectedTarget, DispatchRules, MeanBody};
use super::worker_threads::WorkerThreads;
use crate::access::s3::BucketResolver;
use crate::control::Control;
use crate::control::block_sender::BlockSender;
use crate::control::stop::Stop;
use crate::event_queues::waiting_runtime;
use crate::fetch::target::{CurrentTarget, TargetQueue};
use fetchmill_model::error::Result;
use fetchmill_model::http1::request_fields;
use fetchmill_model::limits;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::planner::NextWork;
use fetchmill_model::planner::concurrency::Load;
use fetchmill_model::planner::origin::Observations;
use fetchmill_model::target::Sequence;

/// Time during which a block collects outcomes before it is sent. The sink's commit window starts when the block
/// arrives.
const BLOCK_AFTER: Duration = Duration::from_millis(50);
/// Interval between load reports. An engine reports to the dispatcher several times per interval.
const LOAD_EVERY: Duration = Duration::from_millis(100);
/// Up to 1 / `IDLE_SHARE` of an engine's slots can be empty although it has enough targets.
const IDLE_SHARE: usize = 8;
/// Interval at which a dispatcher measures its answer rate.
const RATE_EVERY: Duration = Duration::from_millis(250);

/// Link between an engine and its job. See the [module documentation](self).
pub struct Dispatcher {
    pub(super) control: Arc<Control>,
    pub(super) link: Box<dyn JobLink>,
    pub(super) rules: DispatchRules,
    pub(super) block_sender: BlockSender,
    pub(super) queue: TargetQueue,
    /// Target that was not handed out because of the rate limit.
    pub(super) paced: Option<CurrentTarget>,
    pub(super) mean_body: MeanBody,
    /// Answered targets to hand out again after a correction. Their number never exceeds the number of targets handed
    /// out.
    pub(super) corrected: VecDeque<CorrectedTarget>,
    /// Targets that were handed out but not answered yet. Their number never exceeds the number that the engine
    /// requested.
    pub(super) held: HashMap<Sequence, CurrentTarget>,
    pub(super) hosts: HostGate,
    /// Time before which the rate allows no request.
    pub(super) paced_until: Option<Instant>,
    pub(super) done: TurnReport,
    /// Source of observations about the origin that arrive before the answers.
    pub(super) arrivals: Option<Arc<Arrivals>>,
    /// Requests in progress, if the engine reports them.
    pub(super) running: Option<RunningRequests>,
    load_told: Instant,
    /// Time of the last report to the job.
    pub(super) told_at: Instant,
    pub(super) rate: AnswerRate,
    pub(super) path: Vec<u8>,
    pub(super) places: BucketResolver,
    pub(super) is_done: bool,
    pub(super) worker_process: Option<WorkerThreads>,
}

/// Requests in progress, as reported by an engine.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RunningRequests {
    requests: usize,
    /// Maximum number of requests, and of targets waiting for a slot, since the last load report. Replies come in
    /// waves, and engines usually report right after a wave. Current numbers would therefore be too low.
    most: usize,
    waiting: usize,
}

/// Recent number of answers per second, which determines how many targets to take.
pub(super) struct AnswerRate {
    answers: u64,
    since: Instant,
    per_second: f64,
}

impl AnswerRate {
    pub(super) fn note(&mut self, answers: u64) {
        self.answers += answers;
        let elapsed = self.since.elapsed();
        if elapsed >= RATE_EVERY {
            let rate = self.answers as f64 / elapsed.as_secs_f64();
            self.per_second = self.per_second * 0.5 + rate * 0.5;
            (self.answers, self.since) = (0, Instant::now());
        }
    }
}

impl Dispatcher {
    /// Creates a dispatcher for the job's own process.
    pub(crate) fn own(
        worker: usize,
        control: Arc<Control>,
        rules: DispatchRules,
        hosts: HostGate,
        block_sender: BlockSender,
    ) -> Result<Self> {
        let link = LocalLink::new(worker, Arc::clone(&control), waiting_runtime()?);
        Ok(Self::new(control, Box::new(link), rules, hosts, block_sender))
    }

    pub(super) fn new(
        control: Arc<Control>,
        link: Box<dyn JobLink>,
        rules: DispatchRules,
        hosts: HostGate,
        block_sender: BlockSender,
    ) -> Self {
        Dispatcher {
            places: BucketResolver::new(Arc::clone(&control.store)),
            control,
            link,
            rules,
            block_sender,
            queue: TargetQueue::default(),
            paced: None,
            mean_body: MeanBody::default(),
            corrected: VecDeque::new(),
            held: HashMap::new(),
            hosts,
            paced_until: None,
            done: TurnReport::default(),
            arrivals: None,
            running: None,
            load_told: Instant::now(),
            told_at: Instant::now(),
            rate: AnswerRate { answers: 0, since: Instant::now(), per_second: 0.0 },
            path: Vec::new(),
            is_done: false,
            worker_process: None,
        }
    }

    /// Returns the header fields of a target's request, except `Host`.
    pub fn fields_of(&self, url: &str) -> Result<Vec<(String, String)>> {
        let Some((key, path)) = OriginKey::of_url(url) else { return Ok(Vec::new()) };
        let fields = self.rules.fields.of(&key);
        let fields = request_fields(&fields)?;
        let signed = self.control.store.signed_fields(&key, path);
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(fields.chain(signed).collect())
    }

    /// From now on, takes observations of the origin from `arrivals` instead of the answers.
    pub fn observe_arrivals(&mut self, arrivals: Arc<Arrivals>) {
        arrivals.retry(self.rules.rules.retried);
        self.arrivals = Some(arrivals);
    }

    /// Records how many of the engine's requests are in flight, and how many targets are waiting for a slot.
    pub fn note_running(&mut self, requests: usize, waiting: usize) {
        let known = self.running.unwrap_or_default();
        self.running = Some(RunningRequests {
            requests,
            most: known.most.max(requests),
            waiting: known.waiting.max(waiting),
        });
    }

    /// Returns the maximum number of requests in flight for this dispatcher. It can change at each turn.
    pub fn concurrency(&self) -> usize {
        self.link.share()
    }

    /// Returns whether the job was asked to stop. Requests in flight can still finish.
    pub fn is_stopping(&self) -> bool {
        self.control.stop.get() != Stop::No
    }

    /// Sends the last block and the last report. Unanswered targets stay pending. In a separate process, waits until
    /// everything is durable.
    pub fn close(mut self) -> Result<()> {
        if self.control.stop.get() != Stop::Abort {
            self.send_block(true);
        }
        self.held.clear();
        self.corrected.clear();
        let last = self.turn(0, Duration::ZERO);
        self.block_sender.close();
        if let Some(worker_process) = self.worker_process.take() {
            worker_process.wait();
        }
        self.link.end();
        last.map(drop)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_done || self.control.stop.get() != Stop::No
    }

    /// Returns the number of targets to request: one second's worth of answers, but at least one target per slot.
    pub(super) fn wanted(&self, max: usize) -> usize {
        (self.rate.per_second as usize).clamp(max.min(limits::BATCH_TARGETS_MAX), limits::BATCH_TARGETS_MAX)
    }

    pub(super) fn turn(&mut self, max: usize, patience: Duration) -> Result<TurnResult> {
        self.told_at = Instant::now();
        let mut done = std::mem::take(&mut self.done);
        done.in_flight = self.in_flight() as u64;
        done.load = self.take_load();
        done.observed.add(self.take_arrivals());
        Ok(match self.link.turn(done, max, patience)? {
            NextWork::Batch(batch) => {
                self.queue.set(batch);
                TurnResult::Targets
            }
            NextWork::Wait | NextWork::WaitUntil(_) => TurnResult::Nothing,
            NextWork::Done => {
                self.is_done = true;
                TurnResult::Nothing
            }
        })
    }

    fn take_arrivals(&self) -> Observations {
        let observed = self.arrivals.as_ref().map(|arrivals| arrivals.take()).unwrap_or_default();
        if self.link.has_many_origins() {
            // In a job with many hosts, a refusal affects only its host.
            return Observations { successes: observed.successes, ..Observations::default() };
        }
        observed
    }

    fn in_flight(&self) -> usize {
        self.running.map_or(self.held.len(), |running| running.requests)
    }

    /// Takes the load report for the concurrency search.
    fn take_load(&mut self) -> Option<Load> {
        if !self.control.finds_concurrency() || self.load_told.elapsed() < LOAD_EVERY {
            return None;
        }
        self.load_told = Instant::now();
        let share = self.link.share();
        let RunningRequests { most: in_flight, waiting, requests } = self.running.unwrap_or_default();
        self.running = Some(RunningRequests { requests, most: requests, waiting: 0 });
        let seen = self.arrivals.as_ref().map(|arrivals| arrivals.take_load()).unwrap_or_default();
        Some(Load {
            in_flight: in_flight as u32,
            // Only the engine can tell whether a request is being sent or its connection is still being opened.
            exchanging: in_flight as u32,
            // While threads and tasks start, slots are briefly empty although there are enough targets.
            is_starved: waiting == 0 && in_flight + share / IDLE_SHARE < share,
            ..seen
        })
    }

    /// Sends the block if its delay has passed or `is_due` is set.
    pub(super) fn send_block(&mut self, is_due: bool) {
        if is_due || self.block_sender.sent_at.elapsed() >= BLOCK_AFTER {
            self.block_sender.send();
        }
    }
}

impl std::fmt::Debug for Dispatcher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Dispatcher");
        shown.field("held", &self.held.len()).field("is_done", &self.is_done).finish_non_exhaustive()
    }
}

/// Result of a turn.
pub(super) enum TurnResult {
    Targets,
    Nothing,
}
