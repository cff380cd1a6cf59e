//! The state that the threads of a job share, grouped by purpose.

pub(super) mod block_sender;
pub(super) mod body_memory;
pub(super) mod body_meter;
pub(super) mod clock;
mod coalescing;
pub(super) mod counters;
pub(super) mod health_check_link;
pub(super) mod journal_link;
pub(super) mod list_gate;
mod pipeline;
pub(super) mod rate_wait;
mod refusals;
pub(super) mod robots_board;
mod shared_planner;
pub(super) mod stop;
mod stray_replies;
pub(super) mod telemetry;
pub(super) mod threads;
mod waits;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use self::body_meter::BodyMeter;
use self::clock::Clock;
use self::coalescing::Coalescing;
use self::counters::{Counters, Sum};
use self::health_check_link::{HealthCheckLink, OriginQuestion};
use self::journal_link::{JournalLink, JournalRequest};
use self::list_gate::ListGate;
use self::pipeline::Pipeline;
use self::refusals::{AccessRefusals, Refusal};
use self::robots_board::RobotsBoard;
use self::shared_planner::SharedPlanner;
use self::stop::{StopSignal, Wakers};
use self::stray_replies::StrayReplies;
use self::telemetry::{Search, Telemetry};
use self::waits::Waits;
use super::access::bearer::BearerTokens;
use super::access::s3::Access;
use super::plan::courtesy::{self, Courtesy};
use super::plan::job_origins::JobOrigins;
use super::plan::job_plan::JobPlan;
use super::plan::preflight::Preflight;
use super::request::workers::Workers;
use fetchmill_model::error::Error;
use fetchmill_model::limits;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::Outcome;
use fetchmill_model::outcome::same_bodies::SameBodies;
use fetchmill_model::panics::lock;
use fetchmill_model::planner::origin::{Millis, Observations};
use fetchmill_model::planner::pace::Pace;
use fetchmill_model::planner::probing::{HealthCheck, HealthStatus};
use fetchmill_model::planner::{NextWork, Planner, PlannerOptions, WorkerReport};
use fetchmill_model::text::redacted::hide_secrets;
use fetchmill_model::verdict::RetriedStatuses;

/// Denominator of `list_share`, which stores a fraction as an integer.
const LIST_SHARE_UNIT: f64 = 1e12;

/// Shared state of a job. See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Control {
    pub(super) clock: Clock,
    pub(super) stop: Arc<StopSignal>,
    pub(super) plan: SharedPlanner,
    pub(super) origins: JobOrigins,
    pub(super) journal: JournalLink,
    pub(super) health_checks: HealthCheckLink,
    /// Statuses that are retried in the same way as 503.
    pub(super) retried: RetriedStatuses,
    /// Detects that the only origin refuses every request.
    pub(super) refusals: AccessRefusals,
    pub(super) waits: Waits,
    /// State of the S3 store, if the job uses one.
    pub(super) store: Arc<Access>,
    /// Bearer tokens from a command, for requests to the source's origin.
    pub(super) tokens: Option<Arc<BearerTokens>>,
    /// Rate limit of the whole job, if any.
    pub(super) pace: Option<Pace>,
    /// The hosts' robots.txt. `None` if robots.txt is not obeyed.
    pub(super) robots: Option<Arc<RobotsBoard>>,
    /// Counter of received body bytes, if an option needs it.
    pub(super) body_meter: Option<Arc<BodyMeter>>,
    /// `None` if free space is not checked.
    pub(super) preflight: Option<Preflight>,
    pub(super) is_listing_done: AtomicBool,
    /// Number of listing pages in this run.
    pub(super) listed_pages: AtomicU64,
    /// Number of objects that the listing announces. 0 if it announces none.
    pub(super) told_total: AtomicU64,
    /// Fraction of the list read so far, in units of 1 / [`LIST_SHARE_UNIT`]. 0 means unknown.
    list_share: AtomicU64,
    /// Limits how far the list can be read.
    pub(super) list_gate: ListGate,
    finds_concurrency: bool,
    /// Concurrency limit that protects the server. It is set once: before any workers exist, or as soon as the list's
    /// server is known.
    courtesy: OnceLock<Option<Courtesy>>,
    /// Whether the server of the list determines the limit, because the engine's connections are not visible here.
    heeds_list: bool,
    pub(super) counters: Vec<Counters>,
    pub(super) telemetry: Telemetry,
    /// Unsolicited replies, which are reported at the end.
    pub(super) stray: StrayReplies,
    pub(super) pipeline: Pipeline,
    pub(super) coalescing: Coalescing,
    notices: Mutex<Vec<String>>,
    /// Most frequent body, updated by receipts.
    same_bodies: Mutex<SameBodies>,
    /// Hosts with an untrusted certificate that were already reported to the user.
    distrusted: Mutex<BTreeSet<String>>,
}

impl Control {
    pub(super) fn new(
        job: &JobPlan,
        workers: usize,
        preflight: Option<Preflight>,
        to_journal: crossbeam_channel::Sender<JournalRequest>,
    ) -> Arc<Self> {
        let clock = Clock::start();
        let request = &job.request;
        let planner = PlannerOptions {
            workers,
            // Each worker has its own hosts and needs at least one slot.
            limit: job.concurrency_of_hosts().max(workers),
            host_limit: job.only_host_limit(),
            auto: job.concurrency_bounds(workers),
            commit_window: request.commit_window.as_millis() as Millis,
            give_up_after: request.give_up_after.as_millis() as Millis,
            held_max: limits::WAITING_HELD_MAX,
            seed: request.seed.unwrap_or_else(|| clock.now() ^ (u64::from(std::process::id()) << 32)),
            end: request.first,
        };
        let mut planner = Planner::new(planner);
        if (request.rows.is_some() && !request.lists_only()) || request.obeys_robots_of_hosts() {
            // In a check, a host's answers are the results, even if it is the only host. If robots.txt is obeyed, one
            // worker applies all rules of a host.
            planner.route_by_host();
        }
        let wakers = Wakers::new(workers);
        Arc::new(Control {
            clock,
            stop: StopSignal::new(clock, Arc::clone(&wakers)),
            plan: SharedPlanner::new(planner, wakers),
            // Unused if targets are only listed.
            origins: JobOrigins::new(request.rows.is_some() || request.obeys_robots_of_hosts()),
            journal: JournalLink::new(to_journal),
            health_checks: HealthCheckLink::default(),
            retried: request.http.retry_status,
            refusals: AccessRefusals::new(request.max_failed.is_some() || request.rows.is_some()),
            waits: Waits::default(),
            store: Access::new(job.s3.clone()),
            tokens: job.token_origin().map(BearerTokens::new),
            pace: request.http.rate.map(Pace::new),
            robots: request.obeys_robots_of_hosts().then(Arc::default),
            body_meter: request.meters_bodies().then(|| BodyMeter::new(clock, request.bwlimit)),
            preflight,
            is_listing_done: AtomicBool::new(false),
            listed_pages: AtomicU64::new(0),
            told_total: AtomicU64::new(0),
            list_share: AtomicU64::new(0),
            // The rows of a Parquet range are released step by step.
            list_gate: ListGate::new(request.list.row_count.is_some()),
            finds_concurrency: job.concurrency_bounds(workers).is_some(),
            courtesy: OnceLock::new(),
            heeds_list: request.workers != Workers::Native,
            // One for each worker, and one for the listing.
            counters: (0..=workers).map(|_| Counters::default()).collect(),
            telemetry: Telemetry::new(workers),
            stray: StrayReplies::default(),
            pipeline: Pipeline::new(request.pipeline),
            coalescing: Coalescing::new(request.coalesce),
            notices: Mutex::default(),
            same_bodies: Mutex::default(),
            distrusted: Mutex::default(),
        })
    }

    pub(super) fn listing_counters(&self) -> &Counters {
        &self.counters[self.counters.len() - 1]
    }

    pub(super) fn sum(&self) -> Sum {
        counters::sum(self.counters.iter())
    }

    /// Reports a worker's progress and returns its next work.
    pub(super) fn turn(&self, worker: usize, report: WorkerReport, max: usize) -> NextWork {
        let turn = self.plan.turn(worker, report, max, self.clock.now(), &self.journal);
        if let Some(asked) = turn.health_check
            && !self.health_checks.ask(OriginQuestion::Health(asked.clone()))
        {
            self.health_checked(&asked, HealthStatus::Unknown);
        }
        if self.waits.set_origin(turn.trouble) {
            self.note_waits();
        }
        if turn.is_given_up {
            self.stop.fail(Error::Temporary(
                "the server returned no valid reply within the --give-up-after time; run the same command \
                 again to resume"
                    .into(),
            ));
        }
        if turn.is_freed || matches!(turn.next, NextWork::Done) {
            self.plan.wake_all();
        }
        turn.next
    }

    /// Returns whether a target can get this outcome. It cannot if the server refuses everything: the job ends, and the
    /// target stays pending.
    pub(super) fn may_settle(&self, outcome: Outcome, status: u16) -> bool {
        match (outcome, status) {
            (Outcome::Failed(_), 401 | 403) => self.is_refused_alone(status),
            (Outcome::Skipped(_), _) => {
                self.refusals.note_success();
                true
            }
            _ => true,
        }
    }

    fn is_refused_alone(&self, status: u16) -> bool {
        if self.origins.are_many() {
            return true;
        }
        match self.refusals.note(status) {
            Refusal::OfTarget => true,
            Refusal::OfAll => {
                self.stop.fail(Error::Refused(refusals::describe(status)));
                false
            }
            Refusal::InDoubt => {
                let now = self.clock.now();
                match self.plan.last_fetched() {
                    Some(entry) if self.health_checks.ask(OriginQuestion::Access(entry.clone(), status)) => {
                        self.plan.pause(now + limits::ACCESS_CHECK.as_millis() as Millis, now);
                    }
                    // No thread is available for the check.
                    _ => self.refusals.go_on(),
                }
                true
            }
        }
    }

    /// Handles the result of the check that follows many refusals in a row. The check requests a previously fetched
    /// object again.
    pub(super) fn access_checked(&self, refused: u16, answered: Option<u16>) {
        if answered == Some(refused) {
            self.stop.fail(Error::Refused(refusals::describe(refused)));
        } else {
            if answered.is_some_and(|status| (200..300).contains(&status)) {
                self.notice(&format!(
                    "many targets in a row were refused ({refused}); the job continued, because the server \
                     still sends an object that was fetched earlier"
                ));
            }
            self.refusals.go_on();
        }
        self.plan.pause(0, self.clock.now());
        self.plan.wake_all();
    }

    /// Handles the result of a health check.
    pub(super) fn health_checked(&self, asked: &HealthCheck, status: HealthStatus) {
        self.plan.health_checked(asked, status, self.clock.now(), &self.journal);
        self.plan.wake_all();
    }

    /// Records why a listing page fails, and when the wait starts and ends. `None` means that the page has arrived.
    pub(super) fn note_page(&self, failing: Option<(&str, &str, Millis, Millis)>) {
        if self.waits.set_page(failing) {
            self.note_waits();
        }
    }

    /// Writes the current waits to the journal, where other programs read them.
    fn note_waits(&self) {
        self.journal
            .send(JournalRequest::Waits(serde_json::to_string(&self.waits.all()).unwrap_or_default()));
    }

    /// Passes what the listing observed about the origin to the planner.
    pub(super) fn observe_listing(&self, observed: Observations) {
        self.plan.observe_listing(observed, self.clock.now());
        if observed.successes == 0 {
            // One of the workers must check the origin.
            self.plan.wake_all();
        }
    }

    /// Returns whether the job searches for the best concurrency.
    pub(super) fn finds_concurrency(&self) -> bool {
        self.finds_concurrency && !self.origins.are_many()
    }

    /// Returns whether this is the job's only origin.
    pub(super) fn is_only_origin(&self, key: &OriginKey) -> bool {
        let is_long = || self.listing_counters().listed() >= limits::LIST_OF_ONE_ORIGIN;
        self.origins.is_only(key, || self.is_listing_done.load(Ordering::Relaxed) || is_long())
    }

    /// Records the origins of these entries. If there is more than one, switches to routing by host.
    pub(super) fn note_origins<'e>(&self, entries: impl Iterator<Item = &'e [u8]>) {
        if self.origins.note(entries) {
            self.plan.route_by_host(self.clock.now());
        }
        if self.heeds_list
            && self.courtesy.get().is_none()
            && let Some(key) = self.origins.first()
        {
            self.heed_courtesy(courtesy::of_host(key.host(), None, false));
        }
    }

    /// Adds a notice, which the user sees at the end.
    pub(super) fn notice(&self, text: &str) {
        lock(&self.notices).push(hide_secrets(text).into_owned());
    }

    /// Notifies the user that one of several hosts failed certificate verification. Reports each host once, up to a
    /// maximum number of hosts.
    pub(super) fn notice_distrust(&self, key: &OriginKey, error: &Error) {
        let mut told = lock(&self.distrusted);
        if told.len() < limits::DISTRUSTED_TOLD_MAX && told.insert(key.text().to_owned()) {
            self.notice(&format!("{error}; all targets of this host fail"));
        }
    }

    /// Counts the bodies of a commit window, to find the most frequent body.
    pub(super) fn note_same_bodies(&self, bodies: &SameBodies) {
        lock(&self.same_bodies).add(bodies);
    }

    /// Removes and returns all notices.
    pub(super) fn take_notices(&self) -> Vec<String> {
        let mut notices = std::mem::take(&mut *lock(&self.notices));
        notices.extend(self.stray.notice());
        notices.extend(self.pipeline.notice());
        notices.extend(self.coalescing.notice());
        notices.extend(lock(&self.same_bodies).notice());
        notices.extend(self.concurrency_notice());
        notices
    }

    /// Returns a notice if a limit kept the concurrency down. It names the server that the limit protects.
    fn concurrency_notice(&self) -> Option<String> {
        let most = self.plan.lock().concurrency_reached()?;
        let ended = format!("--concurrency auto reached {most} in flight, the maximum");
        Some(match self.courtesy_of(most) {
            Some(courtesy) => format!(
                "{ended} for {} by default; if its owner allows more, raise --concurrency-max",
                courtesy.whom
            ),
            None => format!("{ended} that auto uses here; a higher number might be faster"),
        })
    }

    /// Returns how the concurrency was chosen.
    pub(super) fn concurrency_search(&self) -> Search {
        let planner = self.plan.lock();
        match planner.concurrency_reached() {
            _ if let Some(most) = planner.reached_host_limit() => Search::OfHost { most },
            _ if !planner.finds_concurrency() => Search::Given,
            None if planner.tries_concurrency() => Search::Trying,
            None => Search::Found,
            Some(most) => Search::AtMost { most, whom: self.courtesy_of(most).map(|courtesy| courtesy.whom) },
        }
    }

    /// Returns the limit that protects the server, if it equals `most`.
    fn courtesy_of(&self, most: usize) -> Option<Courtesy> {
        self.courtesy.get().copied().flatten().filter(|courtesy| courtesy.most as usize == most)
    }

    /// Applies the limit that protects the job's server, or no limit if `None`. Only the first call has an effect.
    pub(super) fn heed_courtesy(&self, courtesy: Option<Courtesy>) {
        let courtesy = courtesy.filter(|_| self.finds_concurrency);
        if let (Ok(()), Some(courtesy)) = (self.courtesy.set(courtesy), courtesy) {
            self.plan.lower_concurrency(courtesy.most as usize, self.clock.now());
        }
    }

    /// Applies the limit of the list's server, which is the first server that a connection reaches. `address` is `None`
    /// if a proxy is used.
    pub(super) fn heed_first_server(&self, key: &OriginKey, address: Option<SocketAddr>) {
        if self.courtesy.get().is_none() {
            self.heed_courtesy(courtesy::of_host(key.host(), address.as_ref().map(slice::from_ref), false));
        }
    }

    /// Records that the journal contains another page, and the total that the page announces.
    pub(super) fn note_listed_page(&self, total: Option<u64>) {
        self.listed_pages.fetch_add(1, Ordering::Relaxed);
        self.told_total.store(total.unwrap_or(0), Ordering::Relaxed);
    }

    /// Records the fraction of the list read so far, from 0 to 1.
    pub(super) fn note_list_share(&self, share: Option<f64>) {
        let share = share.map_or(0, |share| (share * LIST_SHARE_UNIT) as u64);
        self.list_share.store(share, Ordering::Relaxed);
    }

    /// Returns the fraction of the list read so far, or `None` if it is unknown.
    pub(super) fn list_share(&self) -> Option<f64> {
        let share = self.list_share.load(Ordering::Relaxed);
        (share > 0).then(|| share as f64 / LIST_SHARE_UNIT)
    }

    /// Waits until the planner has room for another page. Returns `false` if the job is ending.
    pub(super) fn wait_for_room(&self) -> bool {
        self.plan.wait_for_room(&self.stop)
    }

    pub(super) fn end_listing(&self) {
        self.is_listing_done.store(true, Ordering::Relaxed);
        self.plan.lock().end_listing();
        self.plan.wake_all();
    }

    /// Ends the listing, and records the error unless one was already recorded. Targets that were already listed are
    /// still fetched.
    pub(super) fn fail_listing(&self, error: Error) {
        self.stop.keep_failure(error);
        self.end_listing();
    }
}
