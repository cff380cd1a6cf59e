//! The values and rules of fetchmill: what to request, how to read a reply, and what to do next. This crate does no I/O
//! and has no clock.
//!
//! # Layout, from the bottom up
//! - [`limits`], [`error`], [`panics`]: bounds, errors that stop a job, and the first panic of its threads
//! - [`text`], [`options`]: counts, dates and redacted text for people; definitions of options with defaults and bounds
//! - [`origin`], [`name`], [`target`]: destinations of requests, names of objects, targets and the pages that contain
//!   them
//! - [`outcome`], [`object`], [`row`]: outcomes of targets, fetched objects, and rows of targets
//! - [`http1`], [`cookies`], [`reply`]: HTTP/1.1 bytes, cookies, and checks of replies (certainty, waiting time,
//!   encoding and body type)
//! - [`source`], [`s3`]: the meaning of listing pages; bucket addresses, signatures and error documents
//! - [`opt_out`]: what a site permits, in its robots.txt and in its replies
//! - [`planner`], [`verdict`]: what to fetch next, and what to do after an attempt

#[cfg(not(target_os = "linux"))]
compile_error!(
    "fetchmill runs on Linux only; on Windows, use WSL; elsewhere, use a container or a virtual machine"
);

pub mod cookies;
pub mod error;
pub mod http1;
pub mod limits;
pub mod name;
pub mod object;
pub mod opt_out;
pub mod options;
pub mod origin;
pub mod outcome;
pub mod panics;
pub mod planner;
pub mod reply;
pub mod row;
pub mod s3;
pub mod source;
pub mod target;
pub mod text;
pub mod verdict;
