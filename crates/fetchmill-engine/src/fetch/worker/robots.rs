//! Requests the robots.txt files of a list's hosts, and applies them to their targets (`--robots`).

use super::held_outcomes::WorkerConnection;
use super::robots_body::RobotsBody;
use super::robots_requester::{RobotsEnd, RobotsRequest, RobotsRequester};
use super::state::Worker;
use crate::attempt::{Resumable, fulfil};
use crate::fetch::target::CurrentTarget;
use fetchmill_model::limits;
use fetchmill_model::planner::hosts::{Admission, HostId, RequestOutcome};
use fetchmill_model::planner::origin::Millis;
use fetchmill_net::Deadlines;

impl Worker {
    /// Requests the robots.txt of a target's host, so that the targets of the host can continue.
    pub(super) async fn ask_robots(
        &self,
        task: &mut WorkerConnection,
        target: &mut CurrentTarget,
        watch: &Deadlines,
    ) {
        let mut target = std::mem::take(target);
        target.asks_robots = false;
        let mut request = RobotsRequest::of(&target);
        let mut body = Resumable::new(RobotsBody::new(&self.setup.body_memory));
        let requester = RobotsRequester(self);
        fulfil(&requester, task, &mut request, &mut body, watch, None).await;
        while let Some(host) = request.take_new_host() {
            let Some(since) = self.enter_host(host, watch).await else {
                request.refuse();
                break;
            };
            fulfil(&requester, task, &mut request, &mut body, watch, None).await;
            let now = self.clock.now();
            self.waiters.leave(host, RequestOutcome::Answer, now.saturating_sub(since), now);
            self.release(host);
        }
        drop(body);
        self.take_robots(target, request.into_end());
    }

    /// Waits until the host of a redirect admits a request, and returns the time of the admission. Returns `None` if
    /// the timeout for the head expires first.
    async fn enter_host(&self, host: HostId, watch: &Deadlines) -> Option<Millis> {
        watch.rest();
        let until = self.clock.now() + watch.timeouts().head.as_millis() as Millis;
        while self.clock.now() < until && !self.supply.is_done() {
            if self.waiters.admit_at_host(host, self.clock.now()) == Admission::Go {
                return Some(self.clock.now());
            }
            tokio::time::sleep(limits::TICK).await;
        }
        None
    }

    /// Ends a request for robots.txt. The target continues, and so do the targets that waited for the file.
    fn take_robots(&self, mut target: CurrentTarget, end: RobotsEnd) {
        let (host, now) = (target.host, self.clock.now());
        match end {
            RobotsEnd::Nothing => {
                self.waiters.settle_robots(host, None);
                self.leave(&mut target, RequestOutcome::Nothing);
                self.fail_left(&target);
            }
            RobotsEnd::Unreached(failure) => {
                self.waiters.settle_robots(host, None);
                let _ = self.failed(&mut target, failure, None);
            }
            RobotsEnd::NoRoom => {
                self.waiters.settle_robots(host, None);
                let later = Admission::Later(now + limits::ROBOTS_AWAITED.as_millis() as Millis);
                self.leave(&mut target, RequestOutcome::Nothing);
                let place = self.waiters.wait_for_turn(later, &mut target, now);
                self.wait_at(place, &target, now);
            }
            RobotsEnd::Answer(robots, seen) => {
                self.waiters.settle_robots(host, Some(robots));
                let waiting = self.waiters.take_queue(host);
                self.leave(&mut target, seen);
                for mut target in std::iter::once(target).chain(waiting) {
                    if self.admit(&mut target) {
                        self.waiters.push_ready(target);
                        self.idle_connections.wake_one();
                    }
                }
            }
        }
    }
}
