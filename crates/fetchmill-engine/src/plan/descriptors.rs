//! Adapts a job to the limits of this machine: processors, file descriptors and address space.

use super::memory_limits::{bound_kept_memory, check_address_space};
use crate::event_queues::processors;
use crate::request::http_options::{Concurrency, HttpOptions, Resolvers};
use crate::request::job_request::JobRequest;
use crate::request::source_options::SourceOptions;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_store::sink::StoredParts;

/// Returns the number of local ports for connections, or the usual default if the machine does not report it.
fn local_ports() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = text.split_whitespace().filter_map(|end| end.parse::<u64>().ok());
    match (ends.next(), ends.next()) {
        (Some(first), Some(last)) if first <= last => last - first + 1,
        _ => limits::LOCAL_PORTS,
    }
}

/// Returns how many requests the local ports allow. Some of the ports are taken by resting connections.
fn requests_of_ports() -> u32 {
    u32::try_from(local_ports() * 2 / 3).unwrap_or(u32::MAX).max(1)
}

/// Raises the soft limit on file descriptors and returns it. `None` means unlimited.
fn raise_descriptors() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

/// Raises the soft limit on file descriptors for streams and lowers `auto` to the limits of this machine. With a fixed
/// concurrency, requests wait if descriptors run out. The search stops at a third of the descriptors. Half as many
/// connections again can be resting, and the program needs some descriptors for its files.
pub(crate) fn fit_stream(options: &mut HttpOptions) {
    let allowed = raise_descriptors();
    if let Concurrency::Auto { most } = options.concurrency {
        let asked = Concurrency::Auto { most: options.concurrency_max.unwrap_or(most) };
        let of_descriptors = allowed.map_or(u64::MAX, |allowed| allowed / 3).max(1);
        let of_descriptors = u32::try_from(of_descriptors).unwrap_or(u32::MAX);
        options.concurrency = asked.lowered_to(requests_of_ports().min(of_descriptors));
    }
}

/// Share of this machine's resources that a job uses.
#[derive(Debug, Clone)]
pub(crate) struct MachineShare {
    /// Number of fetching threads.
    pub(crate) threads: usize,
    /// Maximum number of requests in flight.
    pub(crate) concurrency: Concurrency,
    /// Maximum number of resting connections, not counting connections in use.
    pub(crate) resting_max: usize,
    /// Notice that `--concurrency` was lowered, if any.
    pub(crate) notice: Option<String>,
}

impl MachineShare {
    /// Raises the soft limit on file descriptors, and reduces the request to what this machine allows.
    pub(crate) fn fit(request: &JobRequest) -> Result<Self> {
        let share = match raise_descriptors() {
            Some(allowed) => Self::of_descriptors(request, allowed)?,
            None => Self::of_processors(request),
        };
        check_address_space(share.threads)?;
        bound_kept_memory(share.threads);
        Ok(share)
    }

    /// Returns the requested share unchanged, for a worker process with a single thread.
    pub(crate) fn asked(request: &JobRequest) -> Self {
        MachineShare {
            threads: request.threads.unwrap_or(1),
            concurrency: request.http.concurrency,
            resting_max: 0,
            notice: None,
        }
    }

    /// Returns the share without a limit on descriptors.
    fn of_processors(request: &JobRequest) -> Self {
        let concurrency = fitting_concurrency(request);
        MachineShare {
            threads: wanted_threads(request),
            concurrency,
            resting_max: limits::resting_connections_of_breaks(concurrency.most()),
            notice: None,
        }
    }

    /// Returns the share for up to `allowed` descriptors. Reduces threads and requests as needed.
    fn of_descriptors(request: &JobRequest, allowed: u64) -> Result<Self> {
        let Needs { worker, connection } = Needs::of(request);
        let left = allowed.saturating_sub(limits::DESCRIPTORS_RESERVED);
        if left < worker + connection {
            return Err(Error::Usage(format!(
                "only {allowed} open files are allowed, but at least {} are needed; raise the limit (ulimit \
                 -n)",
                limits::DESCRIPTORS_RESERVED + worker + connection
            )));
        }
        let threads_max = left / (worker + limits::WORKER_CONNECTIONS_MIN * connection);
        let threads = (wanted_threads(request) as u64).min(threads_max.max(1));
        let left = left - threads * worker;
        // In addition to the connections in use, some are resting. If fewer can rest, more requests wait for the end of
        // a rest.
        let share = limits::RESTING_SHARE_MIN as u64;
        let connections = (left * share / (connection * share + 1)).max(1);
        let wanted = fitting_concurrency(request);
        let concurrency = wanted.lowered_to(connections.min(u64::from(u32::MAX)) as u32);
        let beside = left.saturating_sub(concurrency.most() as u64 * connection);
        Ok(MachineShare {
            threads: threads as usize,
            concurrency,
            resting_max: limits::resting_connections_of_breaks(concurrency.most())
                .min(beside.max(1) as usize),
            notice: lowered_notice(wanted, connections, allowed),
        })
    }
}

/// Number of file descriptors that a job needs.
struct Needs {
    /// Per worker.
    worker: u64,
    /// Per connection.
    connection: u64,
}

impl Needs {
    fn of(request: &JobRequest) -> Self {
        use limits::{DESCRIPTORS_A_WORKER, DESCRIPTORS_OF_NAMES, DESCRIPTORS_OF_TRANSFORM};
        // If a server lists its own objects, the workers do not look up its name.
        let is_one_name = matches!(request.source, SourceOptions::Server(_)) && !request.leads_anywhere();
        let looks_up = !is_one_name && request.http.resolver != Resolvers::System;
        let names = if looks_up { DESCRIPTORS_OF_NAMES } else { 0 };
        let transform = if request.transform.is_some() { DESCRIPTORS_OF_TRANSFORM } else { 0 };
        Needs {
            worker: DESCRIPTORS_A_WORKER + names + transform,
            // A body that does not fit into memory is received into a file.
            connection: if request.properties().keeps < StoredParts::Bodies { 1 } else { 2 },
        }
    }
}

/// Returns the number of threads if descriptors are unlimited: the requested number, or one per processor. There are
/// never more threads than requests in flight.
fn wanted_threads(request: &JobRequest) -> usize {
    let threads = request.threads.unwrap_or_else(processors);
    threads.min(request.concurrency_of_hosts(request.http.concurrency))
}

/// Returns the concurrency if descriptors are unlimited. Memory and local ports limit `auto`.
fn fitting_concurrency(request: &JobRequest) -> Concurrency {
    match request.http.concurrency {
        given @ Concurrency::Number(_) => given,
        Concurrency::Auto { most } => {
            let of_memory = limits::BATCHED_REQUESTS_MAX / request.pipeline.max(1);
            let asked = Concurrency::Auto { most: request.http.concurrency_max.unwrap_or(most) };
            asked.lowered_to(requests_of_ports().min(of_memory))
        }
    }
}

/// Returns a notice if the requested number exceeds `connections`.
fn lowered_notice(wanted: Concurrency, connections: u64, allowed: u64) -> Option<String> {
    match wanted {
        Concurrency::Number(number) if u64::from(number) > connections => Some(format!(
            "--concurrency {number} was lowered to {connections}, because only {allowed} open files are \
             allowed (ulimit -n)"
        )),
        _ => None,
    }
}
