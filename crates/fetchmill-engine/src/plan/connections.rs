//! The number of requests in flight, and the settings of their connections.

use std::sync::Arc;

use super::job_plan::JobPlan;
use crate::access::s3::Access;
use crate::event_queues::processors;
use crate::request::http_options::Concurrency;
use crate::request::workers::Workers;
use fetchmill_model::error::Result;
use fetchmill_model::limits;
use fetchmill_model::planner::concurrency::ConcurrencyBounds;
use fetchmill_model::planner::hosts::HostRules;
use fetchmill_model::planner::origin::Millis;
use fetchmill_net::PoolSettings;

impl JobPlan {
    /// Returns the number of workers. Each worker has its own sink.
    pub(crate) fn worker_count(&self) -> usize {
        match self.request.workers {
            _ if self.request.lists_only() => 1,
            // Each worker needs at least one request.
            Workers::Native => {
                let most = self.only_host_limit().unwrap_or(usize::MAX).min(self.concurrency_of_hosts());
                self.machine.threads.min(most)
            }
            Workers::Dispatcher => 1,
            Workers::Processes(count) => count.max(1),
        }
    }

    /// Returns the maximum number of requests in flight for a job with many hosts. Each host has its own limit, so no
    /// search is needed.
    pub(crate) fn concurrency_of_hosts(&self) -> usize {
        self.request.concurrency_of_hosts(self.machine.concurrency)
    }

    /// Returns the bounds of the concurrency search in a job with one origin, or `None` if the user set the number.
    pub(crate) fn concurrency_bounds(&self, workers: usize) -> Option<ConcurrencyBounds> {
        let Concurrency::Auto { most } = self.machine.concurrency else { return None };
        let most = self.only_host_limit().unwrap_or(usize::MAX).min(most as usize);
        if matches!(self.request.workers, Workers::Processes(_)) && most <= workers {
            // Each process sends one request at a time, so the search starts with one process per processor.
            return Some(ConcurrencyBounds { first: processors(), least: 1, most });
        }
        let first = (limits::AUTO_CONCURRENCY_FIRST as usize).min(most);
        Some(ConcurrencyBounds { first, least: workers.min(most), most })
    }

    /// Returns the maximum number of requests in flight for a job that might have a single host. Returns `None` if the
    /// user set no limit, or if each process has its own share of the limit.
    pub(crate) fn only_host_limit(&self) -> Option<usize> {
        let request = &self.request;
        let is_routed = request.rows.is_some() || request.obeys_robots_of_hosts();
        if is_routed || matches!(request.workers, Workers::Processes(_)) {
            return None;
        }
        let limit = request.limit_per_host.filter(|limit| *limit > 0)?;
        Some(request.http.part_of_host_limit(limit) as usize)
    }

    /// Returns the rules for each host in a job with many hosts.
    pub(crate) fn host_rules(&self, workers: usize) -> HostRules {
        let http = &self.request.http;
        HostRules {
            connections: http
                .part_of_host_limit(self.request.limit_per_host.unwrap_or(limits::HOST_CONNECTIONS)),
            rate: http.rate_of_many_hosts(),
            probes: http.attempts - 1,
            dead_for: limits::HOST_DEAD_FOR.as_millis() as Millis,
            held_max: limits::HOSTS_HELD_MAX / workers,
            places: self.concurrency_of_hosts() / workers,
        }
    }

    /// Returns the connection settings that all users share.
    pub(crate) fn pool_settings(&self, store: &Arc<Access>) -> Result<PoolSettings> {
        let request = &self.request;
        // The user named this origin, so its address can be private even if its pages must lead only to public
        // addresses.
        let lists_urls = request.leads_anywhere() && request.lists_itself();
        let named = request.named_origin.clone().or_else(|| self.only_origin().filter(|_| lists_urls));
        let named = named.filter(|_| !request.http.public_only);
        let reach = (request.reach(), named);
        let settings = request.http.pool_settings(store, self.fields()?, reach, self.machine.threads)?;
        Ok(match request.rows {
            // A check does not read whole bodies, so the length of a body is not limited.
            Some(_) => PoolSettings { max_body: u64::MAX, times_phases: true, ..settings },
            None => settings,
        })
    }
}
