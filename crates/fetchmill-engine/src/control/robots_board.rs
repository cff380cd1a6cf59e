//! The robots.txt of the hosts of a list (`--robots`), shared by all workers: each is asked for once. A worker takes the lock
//! when it meets a host, and not once an object.

use std::sync::{Arc, Mutex};

use fetchmill_model::limits::{ROBOTS_HOSTS_MAX, ROBOTS_RULES_BYTES_MAX};
use fetchmill_model::opt_out::robots::HostRobots;
use fetchmill_model::panics::lock;
use fetchmill_model::planner::hosts::HostId;
use fetchmill_model::planner::recent_hosts::RecentHosts;

/// See the module.
#[derive(Debug)]
pub(crate) struct RobotsBoard(Mutex<RecentHosts<RobotsEntry>>);

#[derive(Debug)]
enum RobotsEntry {
    /// A worker is asking for it.
    Asked,
    Known(Arc<HostRobots>),
}

/// What a worker finds that wants to ask a host.
#[derive(Debug)]
pub(crate) enum RobotsClaim {
    /// It asks for the file, and nobody else does until it has settled or withdrawn the claim.
    Granted,
    /// Another worker asks for it.
    Asked,
    Known(Arc<HostRobots>),
}

impl Default for RobotsBoard {
    fn default() -> Self {
        RobotsBoard(Mutex::new(RecentHosts::new(ROBOTS_HOSTS_MAX, ROBOTS_RULES_BYTES_MAX)))
    }
}

impl RobotsBoard {
    /// Claims the question for a host.
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

    /// The answer has come.
    pub(crate) fn settle(&self, host: HostId, robots: &Arc<HostRobots>) {
        lock(&self.0).insert(host, RobotsEntry::Known(Arc::clone(robots)), robots.bytes());
    }

    /// There was no answer: the next worker may ask.
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
