//! Hands out the targets that can be requested now.

use std::time::{Duration, Instant};

use super::dispatcher::{Dispatcher, TurnResult};
use super::host_gate::GateResult;
use super::rules::DispatchedTarget;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::error::Result;
use fetchmill_model::limits;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::target::Sequence;

/// Minimum interval between checks of targets that wait for a rate. Each check hands out all targets that are due.
const PACED_LOOK: Duration = Duration::from_millis(5);

impl Dispatcher {
    /// Returns up to `max` targets to fetch. If none are available, waits up to `patience`, and can then return an
    /// empty batch. Returns `None` if no more targets will come, or if the job was asked to stop.
    pub fn next_batch(&mut self, max: usize, patience: Duration) -> Result<Option<Vec<DispatchedTarget>>> {
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
            // Targets that wait for credentials block others only if there are many of them.
            let has_room = self.corrected.len() < max;
            if self.queue.is_empty() && self.paced.is_none() && !self.hosts.has_targets() && has_room {
                let next = self.turn(self.wanted(max), left)?;
                if matches!(next, TurnResult::Nothing) && left.is_zero() {
                    return Ok((!self.is_over()).then_some(batch));
                }
            } else {
                // The remaining targets wait for the rate or for their hosts.
                self.turn(0, Duration::ZERO)?;
                if left.is_zero() {
                    return Ok((!self.is_over()).then_some(batch));
                }
                std::thread::sleep(left.min(self.next_look()));
            }
        }
    }

    fn hand_out(&mut self, max: usize, batch: &mut Vec<DispatchedTarget>) {
        let now = self.control.clock.now();
        if self.control.plan.is_held(|| self.only(), now) {
            return self.give_back(now);
        }
        if self.paced_until.is_some_and(|until| until > Instant::now()) {
            return;
        }
        self.paced_until = None;
        if let Some(target) = self.paced.take() {
            self.hand(target, batch);
        }
        let by_hosts = self.hosts.is_needed(self.link.has_many_origins());
        self.hosts.look(now);
        while batch.len() < max {
            if let Some(wait) = self.wait_of_bytes() {
                self.paced_until = Some(Instant::now() + wait);
                return;
            }
            let Some(target) = self.next_target(by_hosts, now) else { return };
            if let Some(wait) = self.wait_of_rate() {
                self.paced_until = Some(Instant::now() + wait);
                self.paced = Some(target);
                return;
            }
            self.hand(target, batch);
        }
    }

    /// Returns the target that has not been handed out yet, if exactly one is left.
    fn only(&self) -> Option<Sequence> {
        match &self.paced {
            Some(paced) => self.queue.is_empty().then_some(paced.sequence),
            None => self.queue.only(),
        }
    }

    /// Hands unstarted targets back to the job, because the origin is in trouble. This does not count as an attempt.
    fn give_back(&mut self, now: Millis) {
        if let Some(target) = self.paced.take() {
            self.done.retries.push(target.aside(now));
        }
        let Some(batch) = self.queue.give_back() else { return };
        let Some(batch) = self.link.give_back(batch) else { return };
        self.queue.set(batch);
        let mut target = CurrentTarget::default();
        while self.queue.take(&mut target) {
            self.done.retries.push(target.aside(now));
        }
    }

    fn hand(&mut self, mut target: CurrentTarget, batch: &mut Vec<DispatchedTarget>) {
        target.credentials_generation = self.control.store.generation();
        if let Some(rate) = &self.rules.byte_rate {
            target.reserved = self.mean_body.mean().unwrap_or(0);
            rate.take(target.reserved, self.control.clock.micros());
        }
        let url = if target.at.url.is_empty() { self.url_at_server(&target) } else { target.at.url.clone() };
        batch.push(DispatchedTarget {
            sequence: target.sequence,
            name: target.name(self.rules.naming).into(),
            url: url.into(),
            attempt: target.state.attempts + 1,
        });
        self.held.insert(target.sequence, target);
    }

    /// Returns the next target that can be requested now.
    fn next_target(&mut self, by_hosts: bool, now: Millis) -> Option<CurrentTarget> {
        loop {
            let admitted = match self.hosts.take_ready() {
                Some(admitted) => admitted,
                None => match self.take(now)? {
                    target if by_hosts => self.hosts.admit(target, now),
                    target => GateResult::Go(target),
                },
            };
            match admitted {
                GateResult::Go(target) => return Some(target),
                GateResult::Held => {}
                GateResult::Aside(target, then) => self.defer(&target, then),
                GateResult::Closed(target, kind) => {
                    self.settle_other(&target, Outcome::Failed(kind), 0, 0, None);
                }
            }
        }
    }

    fn take_of_batch(&mut self) -> Option<CurrentTarget> {
        let mut target = CurrentTarget::default();
        self.queue.take(&mut target).then_some(target)
    }

    /// Takes the next target with a valid name and URL. Targets that are handed out again precede the targets of the
    /// batch.
    fn take(&mut self, now: Millis) -> Option<CurrentTarget> {
        loop {
            let mut target = match self.take_corrected(now) {
                Some(target) if target.is_located => return Some(target),
                Some(target) => target,
                None => self.take_of_batch()?,
            };
            let paths = self.block_sender.properties.names_are_paths.then_some(&self.rules.names);
            let read = target.read_entry(self.rules.naming, paths, &mut self.path, Some(&self.places));
            let has_killed = target.last_kind == Some(FailureKind::Worker)
                && target.state.attempts >= self.rules.rules.attempts_max;
            match read {
                Err(FailureKind::Credentials) if self.control.store.loading().is_some() => {
                    self.defer(
                        &target,
                        self.control.clock.now() + limits::DEFERRED_FOR.as_millis() as Millis,
                    );
                }
                Err(kind) => self.settle_other(&target, Outcome::Failed(kind), 0, 0, None),
                Ok(()) if has_killed => {
                    let detail = Some("the worker process ended during each attempt");
                    self.settle_other(&target, Outcome::Failed(FailureKind::Worker), 0, 0, detail);
                }
                Ok(()) => {
                    target.is_located = true;
                    return Some(target);
                }
            }
        }
    }

    /// Returns the delay that the job's rate, or the rate of a throttling origin, requires before the next request.
    fn wait_of_rate(&self) -> Option<Duration> {
        let paces = self.rules.pace.iter().chain(std::iter::once(&self.control.plan.origin_pace));
        let waits = paces.map(|pace| pace.reserve(self.control.clock.micros()));
        waits.max().filter(|wait| *wait > 0).map(Duration::from_micros)
    }

    /// Returns the delay that `--bwlimit` requires before the next target. A target's size is estimated as the mean
    /// size of the bodies so far. Until the first answer, only one target is in flight.
    fn wait_of_bytes(&self) -> Option<Duration> {
        let rate = self.rules.byte_rate.as_ref()?;
        if self.mean_body.mean().is_none() && !self.held.is_empty() {
            return Some(PACED_LOOK);
        }
        rate.wait(self.control.clock.micros())
    }

    /// Returns the delay until the next check of the waiting targets: one tick, or less if a request is due earlier.
    fn next_look(&self) -> Duration {
        let until_due = self.paced_until.map(|until| until.saturating_duration_since(Instant::now()));
        until_due.map_or(limits::TICK, |wait| wait.clamp(PACED_LOOK, limits::TICK))
    }

    fn url_at_server(&self, target: &CurrentTarget) -> String {
        let Some((key, template)) = &self.rules.server else { return String::new() };
        let mut path = Vec::new();
        template.write_target(target.name(self.rules.naming), &mut path);
        format!("{}{}", key.text(), String::from_utf8_lossy(&path))
    }
}
