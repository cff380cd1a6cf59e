//! Decides whether a target can be requested if `--robots` is used for a list.

use super::state::Worker;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::opt_out::OptOut;
use fetchmill_model::opt_out::robots::{HostRobots, RobotsVerdict};
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::Outcome;
use fetchmill_model::outcome::skips::SkipReason;
use fetchmill_model::planner::hosts::RequestOutcome;

impl Worker {
    /// Returns whether the known robots.txt of the host allows a target. If it does not, finishes the target.
    pub(super) fn is_permitted(&self, target: &mut CurrentTarget) -> bool {
        let Some(robots) = self.waiters.known_robots(target.host) else { return true };
        let (outcome, why) = match verdict(&robots, &target.at.url) {
            RobotsVerdict::Allowed => return true,
            RobotsVerdict::OptedOut(OptOut { rule, evidence }) => {
                (Outcome::Skipped(SkipReason::OptedOut(rule)), evidence)
            }
            RobotsVerdict::Failed(kind, why) => (Outcome::Failed(kind), why),
        };
        self.settle_other(target, outcome, 0, 0, Some(&why));
        if let (Outcome::Skipped(_), Some((key, _))) = (outcome, OriginKey::of_url(&target.at.url)) {
            self.outcomes.note_forbidding_host(key.text());
        }
        self.leave(target, RequestOutcome::Nothing);
        false
    }
}

fn verdict(robots: &HostRobots, url: &str) -> RobotsVerdict {
    match OriginKey::of_url(url) {
        Some((key, _)) => robots.verdict(key.path_of(url).unwrap_or("/")),
        None => RobotsVerdict::Allowed,
    }
}
