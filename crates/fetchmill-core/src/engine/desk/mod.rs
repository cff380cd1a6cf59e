//! A desk: where a worker whose transport is not ours gets its targets and gives its answers. Everything else about a
//! job (planning, what becomes of an answer, formats, durability) is as for the native engine.
//!
//! A desk belongs to one thread of its engine. It is asked for targets and told answers in batches: what is locked, sent
//! or written is so once a batch. It has one sink, with a writer beside it, in the process that it is in. In the job's own
//! process it talks to the job directly; in a process of its own over two sockets ([`branch`]), to a [`steward`] of
//! the job that knows what it has, and plans that again when the process dies.

mod branch;
mod hosts;
mod line;
mod post;
mod steward;
mod store;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use branch::Branch;
pub use branch::{Joining, join_job};
use hosts::Admitted;
pub(super) use hosts::HostGate;
use line::{Done, Line, OwnLine, Settled};
pub(super) use post::{Outlet, Post, close};
pub(super) use steward::{Attached, Steward, Suspects};

use super::control::{Control, Stop};
use super::options::JobOptions;
use super::s3::Places;
use super::threads::waiting_runtime;
use super::trust::distrust;
use super::worker::body::now;
use super::worker::queue::{Queue, Target};
use crate::entry::Naming;
use crate::error::{Error, Result};
use crate::http1::{RequestTemplate, RetryAfter, request_fields};
use crate::limits;
use crate::object::Facts;
use crate::origin::{OriginFields, OriginKey};
use crate::outcome::{FailureClass, FailureKind, Outcome};
use crate::planner::hosts::{Seen, seen};
use crate::planner::origin::Millis;
use crate::planner::pace::Pace;
use crate::planner::retry::{Verdict, after_failure};
use crate::planner::{Next, Retry};
use crate::sink::{FetchedBody, Keeps};
use crate::target::{Sequence, Waiting};
use crate::time_text::parse_http_date;

/// A block waits so long for more outcomes: the sink's commit window begins with it.
const BLOCK_AFTER: Duration = Duration::from_millis(50);
/// What a rate holds back is looked at again after this at the soonest: what has become due meanwhile goes at once.
const PACED_LOOK: Duration = Duration::from_millis(5);
/// Times a second that the rate of a desk is measured anew.
const RATE_EVERY: Duration = Duration::from_millis(250);

/// What a desk must know of its job.
pub(super) struct Rules {
    pub(super) naming: Naming,
    /// The only origin, when a server lists its objects itself.
    pub(super) server: Option<(OriginKey, RequestTemplate)>,
    pub(super) fields: OriginFields,
    pub(super) attempts_max: u32,
    pub(super) allow_eof_bodies: bool,
    pub(super) max_size: u64,
    /// Of this desk's requests.
    pub(super) pace: Option<Pace>,
}

impl Rules {
    /// For one of so many desks, which share the rate.
    pub(super) fn new(options: &JobOptions, desks: usize) -> Result<Self> {
        Ok(Rules {
            naming: options.naming(),
            server: options.server()?,
            fields: options.fields()?,
            attempts_max: options.attempts,
            allow_eof_bodies: options.allow_eof_bodies,
            max_size: options.max_size,
            pace: options.rate.map(|rate| Pace::new(rate / desks as f64)),
        })
    }
}

/// A target as it is handed out.
#[derive(Debug, Clone)]
pub struct Handed {
    /// Which target.
    pub sequence: Sequence,
    /// What it is stored as.
    pub name: Box<[u8]>,
    /// Where it is asked for.
    pub url: Box<str>,
    /// 1 for the first attempt.
    pub attempt: u32,
}

/// What a worker answers for a target.
#[derive(Debug, Clone, Copy)]
pub enum Answer<'a> {
    /// A reply that came to its end.
    Replied {
        /// For which target.
        sequence: Sequence,
        /// Its status.
        status: u16,
        /// Its body.
        body: &'a [u8],
        /// Whether its length was told, and that is what came.
        is_verified: bool,
        /// The fields that matter.
        fields: AnswerFields<'a>,
    },
    /// No complete reply.
    Broken {
        /// For which target.
        sequence: Sequence,
        /// Why.
        kind: FailureKind,
        /// What a person should know besides; UTF-8.
        detail: Option<&'a str>,
    },
}

/// Fields of a reply, as far as they were there.
#[derive(Debug, Default, Clone, Copy)]
pub struct AnswerFields<'a> {
    /// Content-Type.
    pub content_type: Option<&'a str>,
    /// `ETag`.
    pub etag: Option<&'a str>,
    /// Last-Modified.
    pub last_modified: Option<&'a str>,
    /// Retry-After.
    pub retry_after: Option<&'a str>,
}

/// See the module.
pub struct Desk {
    control: Arc<Control>,
    line: Box<dyn Line>,
    rules: Rules,
    post: Post,
    queue: Queue,
    /// Taken and not handed out: its place in the rate has not come.
    paced: Option<Target>,
    /// Handed out and not answered; as many as the engine has asked for.
    held: HashMap<Sequence, Target>,
    hosts: HostGate,
    /// The rate allows no other request before this.
    paced_until: Option<Instant>,
    done: Done,
    /// When the last turn was.
    told_at: Instant,
    rate: Rate,
    path: Vec<u8>,
    places: Places,
    is_done: bool,
    branch: Option<Branch>,
}

/// Answers a second, lately: what says how many targets are taken at once.
struct Rate {
    answers: u64,
    since: Instant,
    per_second: f64,
}

impl Rate {
    fn note(&mut self, answers: u64) {
        self.answers += answers;
        let elapsed = self.since.elapsed();
        if elapsed >= RATE_EVERY {
            let rate = self.answers as f64 / elapsed.as_secs_f64();
            self.per_second = self.per_second * 0.5 + rate * 0.5;
            (self.answers, self.since) = (0, Instant::now());
        }
    }
}

impl Desk {
    /// In the process of its job.
    pub(super) fn own(
        worker: usize,
        control: Arc<Control>,
        rules: Rules,
        hosts: HostGate,
        post: Post,
    ) -> Result<Self> {
        let line = OwnLine::new(worker, Arc::clone(&control), waiting_runtime()?);
        Ok(Self::new(control, Box::new(line), rules, hosts, post))
    }

    fn new(control: Arc<Control>, line: Box<dyn Line>, rules: Rules, hosts: HostGate, post: Post) -> Self {
        Desk {
            places: Places::new(Arc::clone(control.store())),
            control,
            line,
            rules,
            post,
            queue: Queue::default(),
            paced: None,
            held: HashMap::new(),
            hosts,
            paced_until: None,
            done: Done::default(),
            told_at: Instant::now(),
            rate: Rate { answers: 0, since: Instant::now(), per_second: 0.0 },
            path: Vec::new(),
            is_done: false,
            branch: None,
        }
    }

    /// At most `max` targets to fetch. When there are none now it waits for some, at most this long, and may give none.
    /// `None`: there will be none any more, or the job is asked to stop.
    pub fn next_batch(&mut self, max: usize, patience: Duration) -> Result<Option<Vec<Handed>>> {
        let until = Instant::now() + patience;
        let mut batch = Vec::new();
        loop {
            self.send_block(false);
            if self.is_over() {
                return Ok(None);
            }
            self.hand_out(max, &mut batch);
            let left = until.saturating_duration_since(Instant::now());
            if !batch.is_empty() || max == 0 {
                return Ok(Some(batch));
            }
            if self.queue.is_empty() && self.paced.is_none() && !self.hosts.has_targets() {
                let next = self.turn(self.wanted(max), left)?;
                if matches!(next, Got::Nothing) && left.is_zero() {
                    return Ok((!self.is_over()).then_some(batch));
                }
            } else {
                // What is here waits for its rate or its host.
                self.turn(0, Duration::ZERO)?;
                if left.is_zero() {
                    return Ok((!self.is_over()).then_some(batch));
                }
                std::thread::sleep(left.min(self.next_look()));
            }
        }
    }

    /// Takes answers; each target that was handed out is answered once. Waits while the sink is behind.
    pub fn report<'a>(&mut self, answers: impl IntoIterator<Item = Answer<'a>>) -> Result<()> {
        let mut count = 0;
        for answer in answers {
            count += 1;
            self.take_answer(answer)?;
            if self.post.block.is_full() {
                self.send_block(true);
            }
        }
        self.rate.note(count);
        self.send_block(false);
        // Others may wait for what this sets free, and the job's end for the last ones. What was seen of the origin is
        // told as often as by a native worker.
        if self.held.is_empty() || !self.done.retries.is_empty() || self.told_at.elapsed() >= limits::TICK {
            self.turn(0, Duration::ZERO)?;
        }
        Ok(())
    }

    /// The fields that the request of a target carries besides `Host`.
    pub fn fields_of(&self, url: &str) -> Result<Vec<(String, String)>> {
        let Some((key, path)) = OriginKey::of_url(url) else { return Ok(Vec::new()) };
        let fields = self.rules.fields.of(&key);
        let fields = request_fields(&fields)?;
        let signed = self.control.store().signed_fields(&key, path);
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(fields.chain(signed).collect())
    }

    /// Whether the job is asked to stop: what is in flight may be finished.
    pub fn is_stopping(&self) -> bool {
        self.control.stop() != Stop::No
    }

    /// The last block and the last turn. Targets that are not answered stay pending. In a process of its own it waits
    /// until everything is durable.
    pub fn close(mut self) -> Result<()> {
        if self.control.stop() != Stop::Abort {
            self.send_block(true);
        }
        self.held.clear();
        let last = self.turn(0, Duration::ZERO);
        self.post.close();
        if let Some(branch) = self.branch.take() {
            branch.wait();
        }
        self.line.end();
        last.map(drop)
    }

    fn is_over(&self) -> bool {
        self.is_done || self.control.stop() != Stop::No
    }

    /// What this desk answers in a second, and something for each place.
    fn wanted(&self, max: usize) -> usize {
        (self.rate.per_second as usize).clamp(max.min(limits::BATCH_TARGETS_MAX), limits::BATCH_TARGETS_MAX)
    }

    fn turn(&mut self, max: usize, patience: Duration) -> Result<Got> {
        self.told_at = Instant::now();
        let mut done = std::mem::take(&mut self.done);
        done.in_flight = self.held.len() as u64;
        Ok(match self.line.turn(done, max, patience)? {
            Next::Batch(batch) => {
                self.queue.set(batch);
                Got::Targets
            }
            Next::Wait | Next::WaitUntil(_) => Got::Nothing,
            Next::Done => {
                self.is_done = true;
                Got::Nothing
            }
        })
    }

    fn hand_out(&mut self, max: usize, batch: &mut Vec<Handed>) {
        let now = self.control.clock.now();
        if self.control.is_resting(now) || self.paced_until.is_some_and(|until| until > Instant::now()) {
            return;
        }
        self.paced_until = None;
        if let Some(target) = self.paced.take() {
            self.hand(target, batch);
        }
        let by_hosts = self.hosts.is_needed(self.line.has_many_origins());
        self.hosts.look(now);
        while batch.len() < max {
            let Some(target) = self.next_target(by_hosts, now) else { return };
            if let Some(wait) = self.wait_of_rate() {
                self.paced_until = Some(Instant::now() + wait);
                self.paced = Some(target);
                return;
            }
            self.hand(target, batch);
        }
    }

    fn hand(&mut self, mut target: Target, batch: &mut Vec<Handed>) {
        target.store_generation = self.control.store().generation();
        let url = if target.url.is_empty() { self.url_at_server(&target) } else { target.url.clone() };
        batch.push(Handed {
            sequence: target.sequence,
            name: target.name(self.rules.naming).into(),
            url: url.into(),
            attempt: target.attempts + 1,
        });
        self.held.insert(target.sequence, target);
    }

    /// The next target that may go now.
    fn next_target(&mut self, by_hosts: bool, now: Millis) -> Option<Target> {
        loop {
            let admitted = match self.hosts.take_ready() {
                Some(admitted) => admitted,
                None => match self.take()? {
                    target if by_hosts => self.hosts.admit(target, now),
                    target => Admitted::Go(target),
                },
            };
            match admitted {
                Admitted::Go(target) => return Some(target),
                Admitted::Held => {}
                Admitted::Aside(target, then) => self.put_aside(&target, then),
                Admitted::Closed(target, kind) => {
                    self.settle_other(&target, Outcome::Failed(kind), 0, 0, None);
                }
            }
        }
    }

    /// The next target of the batch whose name and URL can be used.
    fn take(&mut self) -> Option<Target> {
        loop {
            let mut target = Target::default();
            if !self.queue.take(&mut target) {
                return None;
            }
            let names_are_paths = self.post.properties.names_are_paths;
            let read =
                target.read_entry(self.rules.naming, names_are_paths, &mut self.path, Some(&self.places));
            let has_killed =
                target.last_kind == Some(FailureKind::Worker) && target.attempts >= self.rules.attempts_max;
            match read {
                Err(kind) => self.settle_other(&target, Outcome::Failed(kind), 0, 0, None),
                Ok(()) if has_killed => {
                    let detail = Some("the process that had it ended, each time");
                    self.settle_other(&target, Outcome::Failed(FailureKind::Worker), 0, 0, detail);
                }
                Ok(()) => return Some(target),
            }
        }
    }

    /// There is no room for a target here: it comes back then, without an attempt more.
    fn put_aside(&mut self, target: &Target, not_before: Millis) {
        self.done.retries.push(Retry {
            target: Waiting {
                sequence: target.sequence,
                name: target.entry.as_slice().into(),
                attempts: target.attempts,
                kind: target.last_kind.unwrap_or(FailureKind::Throttled),
                not_before: 0,
                throttled_since: target.throttled_since,
            },
            retry_after: None,
            not_before: Some(not_before),
        });
    }

    /// How long the rate of the whole job, and that of an origin that throttles, ask to wait before this request.
    fn wait_of_rate(&self) -> Option<Duration> {
        let paces = self.rules.pace.iter().chain(std::iter::once(&self.control.origin_pace));
        let waits = paces.map(|pace| pace.reserve(self.control.clock.micros()));
        waits.max().filter(|wait| *wait > 0).map(Duration::from_micros)
    }

    /// How long what is here waits before it is looked at again: sooner when the next request is due sooner.
    fn next_look(&self) -> Duration {
        let until_due = self.paced_until.map(|until| until.saturating_duration_since(Instant::now()));
        until_due.map_or(limits::TICK, |wait| wait.clamp(PACED_LOOK, limits::TICK))
    }

    fn url_at_server(&self, target: &Target) -> String {
        let Some((key, template)) = &self.rules.server else { return String::new() };
        let mut path = Vec::new();
        template.write_target(target.name(self.rules.naming), &mut path);
        format!("{}{}", key.text(), String::from_utf8_lossy(&path))
    }

    fn take_answer(&mut self, answer: Answer<'_>) -> Result<()> {
        let (Answer::Replied { sequence, .. } | Answer::Broken { sequence, .. }) = answer;
        self.done.attempts += 1;
        let Some(target) = self.held.remove(&sequence) else {
            return Err(Error::Usage(format!("target {sequence} was answered and is not being fetched")));
        };
        match answer {
            Answer::Broken { kind, detail, .. } => self.broken(&target, kind, detail),
            Answer::Replied { status, body, is_verified, fields, .. } => {
                return self.replied(&target, status, body, is_verified, fields);
            }
        }
        Ok(())
    }

    fn replied(
        &mut self,
        target: &Target,
        status: u16,
        body: &[u8],
        is_verified: bool,
        fields: AnswerFields<'_>,
    ) -> Result<()> {
        let now = self.control.clock.now();
        if target.is_of_store && self.judge(target, status, body, fields) {
            return Ok(());
        }
        match FailureKind::of_status(status) {
            Ok(Outcome::Fetched) if !is_verified && !self.rules.allow_eof_bodies => {
                let outcome = Outcome::Failed(FailureKind::UnverifiedLength);
                self.settle_other(target, outcome, status, 1, None);
            }
            Ok(Outcome::Fetched) if body.len() as u64 > self.rules.max_size => {
                self.settle_other(target, Outcome::Failed(FailureKind::BodyTooLarge), status, 1, None);
            }
            Ok(Outcome::Fetched) => self.fetched(target, status, body, fields)?,
            Ok(outcome) => self.settle_other(target, outcome, status, 1, None),
            Err(kind) => {
                let retry_after =
                    fields.retry_after.and_then(|value| RetryAfter::parse(value.as_bytes(), None));
                let retry_after = retry_after.map(|after| after.wait(now / 1000).saturating_mul(1000));
                self.failed(target, kind, status, retry_after, None);
                return Ok(());
            }
        }
        self.hosts.left(target, Seen::Answer, now);
        Ok(())
    }

    fn fetched(&mut self, target: &Target, status: u16, body: &[u8], fields: AnswerFields<'_>) -> Result<()> {
        let keeps = self.post.properties.keeps;
        let naming = self.rules.naming;
        let mut facts = Facts { status, ..Facts::default() };
        if keeps >= Keeps::Facts {
            facts.fetched_at = now();
            facts.content_type = fields.content_type.map(str::as_bytes);
            facts.etag = fields.etag.map(str::as_bytes);
            facts.last_modified = fields.last_modified.and_then(|value| parse_http_date(value.as_bytes()));
        }
        let length = body.len() as u64;
        let (name, facts, body) = if keeps >= Keeps::Bodies {
            (target.name(naming), target.facts(naming, facts), self.post.hold(target.sequence, body)?)
        } else {
            (&[][..], facts, FetchedBody::Dropped(length))
        };
        self.post.block.push_fetched(target.sequence, target.attempts + 1, name, body, &facts);
        self.done.settled.push(Settled {
            sequence: target.sequence,
            outcome: Outcome::Fetched,
            bytes: length,
        });
        self.done.observed.successes += 1;
        Ok(())
    }

    fn settle_other(
        &mut self,
        target: &Target,
        outcome: Outcome,
        status: u16,
        made: u32,
        detail: Option<&str>,
    ) {
        let mut described = target.described(self.rules.naming, outcome);
        described.detail = described.detail.or(detail.map(str::as_bytes));
        let attempts = target.attempts + made;
        self.post.block.push_other(target.sequence, outcome, status, attempts, &described);
        self.done.settled.push(Settled { sequence: target.sequence, outcome, bytes: 0 });
        let is_trouble = matches!(outcome, Outcome::Failed(kind) if kind.is_retryable());
        self.done.observed.successes += u32::from(status != 0 && !is_trouble);
    }

    fn broken(&mut self, target: &Target, kind: FailureKind, detail: Option<&str>) {
        let key = OriginKey::of_url(&target.url).map(|(key, _)| key);
        let key = key.or_else(|| self.rules.server.as_ref().map(|(key, _)| key.clone()));
        if let Some(key) = key.filter(|_| kind.is_untrusted())
            && self.control.is_only_origin(&key)
            && let Some(error) = distrust(&key, kind)
        {
            // The target stays pending: the next run may trust the server.
            self.control.fail(error);
            return;
        }
        self.failed(target, kind, 0, None, detail);
    }

    /// An attempt failed: it waits for another one, or that is its outcome.
    fn failed(
        &mut self,
        target: &Target,
        kind: FailureKind,
        status: u16,
        retry_after: Option<Millis>,
        detail: Option<&str>,
    ) {
        let now = self.control.clock.now();
        self.observe(kind, retry_after);
        let until = retry_after.map(|wait| now + wait.min(limits::RETRY_AFTER_MAX.as_millis() as Millis));
        self.hosts.left(target, seen(kind, until), now);
        let attempts_max = self.rules.attempts_max;
        match after_failure(kind, target.attempts, target.throttled_since, attempts_max, now) {
            Verdict::Final => self.settle_other(target, Outcome::Failed(kind), status, 1, detail),
            Verdict::Again { attempts, throttled_since } => self.done.retries.push(Retry {
                target: Waiting {
                    sequence: target.sequence,
                    name: target.entry.as_slice().into(),
                    attempts,
                    kind,
                    not_before: 0,
                    throttled_since,
                },
                retry_after,
                not_before: None,
            }),
        }
    }

    fn observe(&mut self, kind: FailureKind, retry_after: Option<Millis>) {
        // What a program's own function raises says nothing of an origin.
        if self.line.has_many_origins() || kind == FailureKind::Function {
            return;
        }
        let observed = &mut self.done.observed;
        match kind.class() {
            FailureClass::Transient => observed.transient += 1,
            FailureClass::Throttle => {
                observed.throttled += 1;
                let asked = retry_after.unwrap_or(0).min(limits::RETRY_AFTER_MAX.as_millis() as Millis);
                observed.retry_after = observed.retry_after.max(asked);
            }
            FailureClass::Final => {}
        }
    }

    /// Sends the block when it is time, or now.
    fn send_block(&mut self, is_due: bool) {
        if is_due || self.post.sent_at.elapsed() >= BLOCK_AFTER {
            self.post.send();
        }
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Desk");
        shown.field("held", &self.held.len()).field("is_done", &self.is_done).finish_non_exhaustive()
    }
}

/// What a turn gave.
enum Got {
    Targets,
    Nothing,
}
