//! The hosts of a worker whose robots.txt is known, with `--robots`. An unknown host first gets a single request, for
//! its robots.txt. Until this request has an answer, the host gets no other request.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use crate::control::robots_board::{RobotsBoard, RobotsClaim};
use fetchmill_model::limits::{ROBOTS_HOSTS_MAX, ROBOTS_RULES_BYTES_MAX};
use fetchmill_model::opt_out::robots::HostRobots;
use fetchmill_model::planner::hosts::HostId;
use fetchmill_model::planner::recent_hosts::RecentHosts;

/// See the module. Only the board has a lock. It is taken only when a worker first meets a host.
#[derive(Debug)]
pub(super) struct RobotsGate {
    board: Arc<RobotsBoard>,
    known: RefCell<RecentHosts<Arc<HostRobots>>>,
    /// Hosts whose robots.txt a task of this worker is requesting: at most one for each task.
    asking: RefCell<HashSet<HostId>>,
}

impl RobotsGate {
    /// Makes the gate of one of `workers` workers.
    pub(super) fn new(board: &Arc<RobotsBoard>, workers: usize) -> Self {
        let known = RecentHosts::new(ROBOTS_HOSTS_MAX / workers, ROBOTS_RULES_BYTES_MAX / workers);
        RobotsGate { board: Arc::clone(board), known: RefCell::new(known), asking: RefCell::default() }
    }

    /// Returns the robots.txt of a host. `None` if it is not known.
    pub(super) fn known(&self, host: HostId) -> Option<Arc<HostRobots>> {
        self.known.borrow_mut().get(host).cloned()
    }

    /// Whether a task of this worker is requesting the host's robots.txt.
    pub(super) fn is_asking(&self, host: HostId) -> bool {
        self.asking.borrow().contains(&host)
    }

    /// Whether the caller may continue: the host is known, or the caller may request its robots.txt. `false` if another
    /// worker requests it.
    pub(super) fn claim(&self, host: HostId) -> bool {
        match self.board.claim(host) {
            RobotsClaim::Granted => drop(self.asking.borrow_mut().insert(host)),
            RobotsClaim::Known(robots) => self.keep(host, robots),
            RobotsClaim::Asked => return false,
        }
        true
    }

    /// Notes the end of a request for robots.txt. `None` means that there was no answer. Another target will request it
    /// again.
    pub(super) fn settle(&self, host: HostId, answer: Option<HostRobots>) {
        self.asking.borrow_mut().remove(&host);
        match answer {
            Some(robots) => {
                let robots = Arc::new(robots);
                self.board.settle(host, &robots);
                self.keep(host, robots);
            }
            None => self.board.withdraw(host),
        }
    }

    fn keep(&self, host: HostId, robots: Arc<HostRobots>) {
        let bytes = robots.bytes();
        self.known.borrow_mut().insert(host, robots, bytes);
    }
}
