//! Values and rules of fetchmill: what is asked for, what comes back, what follows from it. No I/O, no clock.
//!
//! # Layout, from the bottom up
//! - [`limits`], [`error`], [`panics`]: bounds, what stops a job, and the first panic of its threads
//! - [`text`], [`options`]: counts, dates and redacted text for people; options as rows with defaults and bounds
//! - [`origin`], [`name`], [`target`]: where requests go, names of objects, targets and the pages that they travel in
//! - [`outcome`], [`object`], [`row`]: what became of a target, a fetched object, and the row of a target
//! - [`http1`], [`cookies`], [`reply`]: bytes out and in, and what a reply is worth: confirmed, late, encoded, of which type
//! - [`source`], [`s3`]: what a page of a listing means; where buckets are, signatures, error documents
//! - [`opt_out`]: what a site permits, in its robots.txt and in its replies
//! - [`planner`], [`verdict`]: what is next, and what follows from an attempt

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
