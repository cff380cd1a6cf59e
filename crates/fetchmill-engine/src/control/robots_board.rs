//! The robots.txt files of a list's hosts (`--robots`). All workers share them, so that each file is requested only
//! once. A worker takes the lock when it meets a new host, not once per object.

use std::sync::{Arc, Mutex};

use fetchmill_model::limits::{ROBOTS_HOSTS_MAX, ROBOTS_RULES_BYTES_MAX};
use fetchmill_model::opt_out::robots::HostRobots;
use fetchmill_model::panics::lock;
use fetchmill_model::planner::hosts::HostId;
use fetchmill_model::planner::recent_hosts::RecentHosts;

/// Shared robots.txt files. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct RobotsBoard(Mutex<RecentHosts<RobotsEntry>>);

#[derive(Debug)]
enum RobotsEntry {
    /// A worker is requesting the file.
    Asked,
    Known(Arc<HostRobots>),
}

/// Answer to a worker that claims a host's file.
#[derive(Debug)]
pub(crate) enum RobotsClaim {
    /// The caller can request the file. No other worker requests it until the caller settles or withdraws the claim.
    Granted,
    /// Another worker is requesting the file.
    Asked,
    Known(Arc<HostRobots>),
}

impl Default for RobotsBoard {
    fn default() -> Self {
        RobotsBoard(Mutex::new(RecentHosts::new(ROBOTS_HOSTS_MAX, ROBOTS_RULES_BYTES_MAX)))
    }
}

impl RobotsBoard {
    /// Claims the right to request a host's file.
    pub(crate) fn claim(&self, host: HostId) -> RobotsClaim {
        let mut hosts = lock(&self.0);
        match hosts.get(host) {
            Some(RobotsEntry::Known(robots)) => return RobotsClaim::Known(Arc::clone(robots)),
            Some(RobotsEntry::Asked) => return RobotsClaim::Asked,
            None => {}
        }
        hosts.insert(host, RobotsEntry::Asked, 0);
        RobotsClaim::Granted
    }

    /// Stores the answer to a claim.
    pub(crate) fn settle(&self, host: HostId, robots: &Arc<HostRobots>) {
        lock(&self.0).insert(host, RobotsEntry::Known(Arc::clone(robots)), robots.bytes());
    }

    /// Withdraws an unanswered claim, so that another worker can request the file.
    pub(crate) fn withdraw(&self, host: HostId) {
        lock(&self.0).remove(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_asks_a_host_and_all_have_the_answer() {
        let (board, host) = (RobotsBoard::default(), HostId::from_number(7));
        assert!(matches!(board.claim(host), RobotsClaim::Granted));
        assert!(matches!(board.claim(host), RobotsClaim::Asked));

        board.withdraw(host);
        assert!(matches!(board.claim(host), RobotsClaim::Granted));

        let robots = Arc::new(HostRobots::of_reply(404, b""));
        board.settle(host, &robots);
        assert!(matches!(board.claim(host), RobotsClaim::Known(known) if known == robots));
    }
}
