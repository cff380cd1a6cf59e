//! The plan of a job ([`job_plan`]), and its derivation from a request ([`planning`]). This module also checks whether
//! the job fits on the disk, and contains the job's origins and the limits that protect servers.

mod columns;
mod connections;
pub(super) mod courtesy;
pub(super) mod descriptors;
mod indexing;
mod job_identity;
pub(super) mod job_origins;
pub(super) mod job_plan;
mod known_listing;
mod memory_limits;
pub(super) mod planning;
pub(super) mod preflight;
mod restart_notice;
mod server_requests;
mod storing;
