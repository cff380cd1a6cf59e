//! Hosts whose robots.txt a worker has, if `--robots` is used. If the robots.txt of a host is unknown, a single request
//! fetches it first. Other requests wait for the answer.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use crate::control::robots_board::{RobotsBoard, RobotsClaim};
use fetchmill_model::limits::{ROBOTS_HOSTS_MAX, ROBOTS_RULES_BYTES_MAX};
use fetchmill_model::opt_out::robots::HostRobots;
use fetchmill_model::planner::hosts::HostId;
use fetchmill_model::planner::recent_hosts::RecentHosts;

/// Gate that applies robots.txt. See the [module documentation](self). Only the board uses a lock, which a worker takes
/// when it first meets a host.
#[derive(Debug)]
pub(super) struct RobotsGate {
    board: Arc<RobotsBoard>,
    known: RefCell<RecentHosts<Arc<HostRobots>>>,
    /// Hosts whose robots.txt is being requested by a task of this worker, at most one per task.
    asking: RefCell<HashSet<HostId>>,
}

impl RobotsGate {
    /// Creates the gate for one of `workers` workers.
    pub(super) fn new(board: &Arc<RobotsBoard>, workers: usize) -> Self {
        let known = RecentHosts::new(ROBOTS_HOSTS_MAX / workers, ROBOTS_RULES_BYTES_MAX / workers);
        RobotsGate { board: Arc::clone(board), known: RefCell::new(known), asking: RefCell::default() }
    }

    /// Returns a host's robots.txt, if known.
    pub(super) fn known(&self, host: HostId) -> Option<Arc<HostRobots>> {
        self.known.borrow_mut().get(host).cloned()
    }

    /// Returns whether a task of this worker is requesting the host's robots.txt.
    pub(super) fn is_asking(&self, host: HostId) -> bool {
        self.asking.borrow().contains(&host)
    }

    /// Returns whether the caller can continue: either the robots.txt is known, or the caller must request it. Returns
    /// `false` if another worker is requesting it.
    pub(super) fn claim(&self, host: HostId) -> bool {
        match self.board.claim(host) {
            RobotsClaim::Granted => drop(self.asking.borrow_mut().insert(host)),
            RobotsClaim::Known(robots) => self.keep(host, robots),
            RobotsClaim::Asked => return false,
        }
        true
    }

    /// Records the end of a request for robots.txt. If the request failed (`None`), another target repeats it.
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
