//! What this machine allows a job: processors, descriptors and address space.

use super::memory_limits::{bound_kept_memory, check_address_space};
use crate::event_queues::processors;
use crate::request::http_options::{Concurrency, HttpOptions, Resolvers};
use crate::request::options::{JobOptions, SourceOptions};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_store::sink::StoredParts;

/// Local ports that this machine gives to connections; as many as usual where it does not say so.
fn local_ports() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = text.split_whitespace().filter_map(|end| end.parse::<u64>().ok());
    match (ends.next(), ends.next()) {
        (Some(first), Some(last)) if first <= last => last - first + 1,
        _ => limits::LOCAL_PORTS,
    }
}

/// Requests that local ports allow: a part of the connections rests beside those that make requests.
fn requests_of_ports() -> u32 {
    u32::try_from(local_ports() * 2 / 3).unwrap_or(u32::MAX).max(1)
}

/// Raises the soft limit of descriptors; gives what is allowed then, none without a limit.
fn raise_descriptors() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

/// The same for streams. With a number that was given requests wait for a descriptor where there are too few; one that is
/// found out ends at a third of them: half as many connections again may rest, and the program has files of its own.
pub(crate) fn fit_stream(options: &mut HttpOptions) {
    let allowed = raise_descriptors();
    if let Concurrency::Auto { most } = &mut options.concurrency {
        *most = options.concurrency_max.unwrap_or(*most);
        let of_descriptors = allowed.map_or(u64::MAX, |allowed| allowed / 3).max(1);
        let of_descriptors = u32::try_from(of_descriptors).unwrap_or(u32::MAX);
        options.concurrency.lower_to(requests_of_ports().min(of_descriptors));
    }
}

/// Fits the options to this machine. Returns how many connections may rest beside those that make requests.
pub(crate) fn fit_machine(options: &mut JobOptions, notices: &mut Vec<String>) -> Result<usize> {
    let resting_max = fit_descriptors(options, notices)?;
    let workers = options.threads.unwrap_or_else(processors);
    check_address_space(workers)?;
    bound_kept_memory(workers);
    Ok(resting_max)
}

/// Raises the soft limit of descriptors, and lowers the number of threads and of requests to what it allows. Returns how
/// many connections may rest beside those that make requests.
fn fit_descriptors(options: &mut JobOptions, notices: &mut Vec<String>) -> Result<usize> {
    use limits::{DESCRIPTORS_A_WORKER, DESCRIPTORS_OF_NAMES, DESCRIPTORS_OF_TRANSFORM};
    use limits::{DESCRIPTORS_RESERVED, WORKER_CONNECTIONS_MIN};
    let allowed = raise_descriptors();
    let workers = options.threads.unwrap_or_else(processors).min(options.concurrency_of_hosts());
    options.threads = Some(workers);
    if let Concurrency::Auto { most } = &mut options.http.concurrency {
        *most = options.http.concurrency_max.unwrap_or(*most);
        let of_memory = limits::BATCHED_REQUESTS_MAX / options.pipeline.max(1);
        options.http.concurrency.lower_to(requests_of_ports().min(of_memory));
    }
    let Some(allowed) = allowed else {
        return Ok(limits::resting_connections(options.http.concurrency.most()));
    };
    // A body that does not fit into memory is in a file of its own while it is received.
    let each = if options.properties().keeps < StoredParts::Bodies { 1 } else { 2 };
    let left = allowed.saturating_sub(DESCRIPTORS_RESERVED);
    // Of a server that lists its own objects the only name is looked up beside the workers.
    let is_one_name = matches!(options.source, SourceOptions::Server(_)) && !options.leads_anywhere();
    let looks_up = !is_one_name && options.http.resolver != Resolvers::System;
    let transforms = if options.transform.is_some() { DESCRIPTORS_OF_TRANSFORM } else { 0 };
    let a_worker = DESCRIPTORS_A_WORKER + if looks_up { DESCRIPTORS_OF_NAMES } else { 0 } + transforms;
    if left < a_worker + each {
        return Err(Error::Usage(format!(
            "only {allowed} open files are allowed, at least {} are needed: raise the limit (ulimit -n)",
            DESCRIPTORS_RESERVED + a_worker + each
        )));
    }
    let workers_max = left / (a_worker + WORKER_CONNECTIONS_MIN * each);
    let workers = (workers as u64).min(workers_max.max(1));
    let left = left - workers * a_worker;
    // Beside those that make requests some rest; with fewer of these, more requests wait for a rest.
    let share = limits::RESTING_SHARE_MIN as u64;
    let connections = (left * share / (each * share + 1)).max(1);
    if let Concurrency::Number(number) = options.http.concurrency
        && u64::from(number) > connections
    {
        notices.push(format!(
            "--concurrency {number} lowered to {connections}: {allowed} open files are allowed (ulimit -n)"
        ));
    }
    options.http.concurrency.lower_to(connections.min(u64::from(u32::MAX)) as u32);
    options.threads = Some(workers as usize);
    let beside = left.saturating_sub(options.http.concurrency.most() as u64 * each);
    Ok(limits::resting_connections(options.http.concurrency.most()).min(beside.max(1) as usize))
}
