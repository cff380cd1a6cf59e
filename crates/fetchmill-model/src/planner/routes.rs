//! Distributes the targets of a multi-host job to the workers that own the hosts.
//!
//! Pages are divided just before they are handed out, so the divided pages belong to the planner's window of targets.
//! The division takes 4 bytes per target of a page, plus the memory of up to
//! [`WAITING_HELD_MAX`](crate::limits::WAITING_HELD_MAX) targets that are tried again.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::hosts::HostId;
use crate::target::entry::ListEntry;
use crate::target::{Batch, Page, WaitingTarget};

/// The targets of each worker. See the module.
#[derive(Debug)]
pub(super) struct Routes {
    workers: Vec<WorkerRoute>,
    is_divided: bool,
}

#[derive(Debug, Default)]
struct WorkerRoute {
    pages: VecDeque<(Arc<Page>, Vec<u32>)>,
    retries: VecDeque<WaitingTarget>,
    targets: usize,
}

impl Routes {
    pub(super) fn new(workers: usize) -> Self {
        Routes { workers: (0..workers).map(|_| WorkerRoute::default()).collect(), is_divided: false }
    }

    /// Returns the number of targets that a worker can take.
    pub(super) fn len(&self, worker: usize) -> usize {
        self.workers[worker].targets
    }

    /// Returns the total number of targets for all workers.
    pub(super) fn total(&self) -> usize {
        self.workers.iter().map(|route| route.targets).sum()
    }

    /// Returns whether targets were divided since the last call.
    pub(super) fn take_divided(&mut self) -> bool {
        std::mem::take(&mut self.is_divided)
    }

    fn of(&mut self, entry: &[u8]) -> &mut WorkerRoute {
        let count = self.workers.len();
        &mut self.workers[HostId::of_url(ListEntry::read(entry).url).worker(count)]
    }

    /// Divides a part of a page among the workers.
    pub(super) fn add_page(&mut self, page: &Arc<Page>, range: Range<usize>) {
        self.is_divided = true;
        let mut parts: Vec<Vec<u32>> = vec![Vec::new(); self.workers.len()];
        for position in range {
            let host = HostId::of_url(ListEntry::read(page.names.get(position)).url);
            parts[host.worker(self.workers.len())].push(position as u32);
        }
        for (route, positions) in self.workers.iter_mut().zip(parts) {
            if !positions.is_empty() {
                route.targets += positions.len();
                route.pages.push_back((Arc::clone(page), positions));
            }
        }
    }

    /// Adds a target for another attempt.
    pub(super) fn add_retry(&mut self, target: WaitingTarget) {
        self.is_divided = true;
        let route = self.of(&target.name);
        route.targets += 1;
        route.retries.push_back(target);
    }

    /// Takes targets for a worker, retries first.
    pub(super) fn take(&mut self, worker: usize, max: usize) -> Option<Batch> {
        let route = &mut self.workers[worker];
        let batch = if route.retries.is_empty() {
            let (page, positions) = route.pages.front_mut()?;
            let taken: Vec<u32> = positions.drain(..positions.len().min(max)).collect();
            let (page, is_used_up) = (Arc::clone(page), positions.is_empty());
            if is_used_up {
                route.pages.pop_front();
            }
            Batch::Picked(page, taken)
        } else {
            let count = route.retries.len().min(max);
            Batch::Retries(route.retries.drain(..count).collect())
        };
        route.targets -= batch.len();
        Some(batch)
    }

    /// Takes back targets that a worker did not start.
    pub(super) fn give_back(&mut self, page: Arc<Page>, positions: Vec<u32>) {
        let Some(&first) = positions.first() else { return };
        let route = self.of(page.names.get(first as usize));
        route.targets += positions.len();
        route.pages.push_front((page, positions));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Names;

    fn page(count: usize) -> Arc<Page> {
        let mut names = Names::default();
        for number in 0..count {
            names.push(format!("https://h{}.test/{number}", number % 10).as_bytes());
        }
        Arc::new(Page::new(0, names, None))
    }

    #[test]
    fn every_host_belongs_to_one_worker_and_every_target_comes_once() {
        let mut routes = Routes::new(3);
        routes.add_page(&page(100), 10..100);

        let mut seen = Vec::new();
        for worker in 0..3 {
            while let Some(Batch::Picked(page, positions)) = routes.take(worker, 7) {
                assert!(positions.len() <= 7);
                for position in positions {
                    assert_eq!(HostId::of_url(page.names.get(position as usize)).worker(3), worker);
                    seen.push(position);
                }
            }
        }

        seen.sort_unstable();
        assert_eq!(seen, (10..100).collect::<Vec<_>>());
        assert_eq!(routes.total(), 0);
    }

    #[test]
    fn what_is_given_back_comes_first_to_the_same_worker() {
        let mut routes = Routes::new(2);
        routes.add_page(&page(100), 0..100);
        let Some(Batch::Picked(page, positions)) = routes.take(1, 5) else { panic!() };
        let left = routes.len(1);

        routes.give_back(page, positions.clone());

        assert_eq!(routes.len(1), left + 5);
        let Some(Batch::Picked(_, again)) = routes.take(1, 5) else { panic!() };
        assert_eq!(again, positions);
    }
}
