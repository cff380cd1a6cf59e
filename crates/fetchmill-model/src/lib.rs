//! Values and rules of fetchmill: what is asked for, what comes back, what follows from it. No I/O, no clock.
//!
//! # Layout, from the bottom up
//! - [`limits`], [`error`]: bounds, and what stops a job; [`options`]: rows with defaults and bounds
//! - [`target`], [`outcome`]: names, pages, batches; outcomes, failure kinds, tally, receipts
//! - [`entry`], [`extra_columns`], [`source_metadata`]: an entry of a list as bytes, and what a list or a listing says of it
//! - [`object`], [`row`]: a fetched object as packs store it; what one site answered, of a check
//! - [`http1`]: bytes out, bytes in; [`certainty`]: when it is certain which request a reply answers;
//!   [`patience`]: how long a reply is waited for
//! - [`source`], [`s3`]: what a page of a listing means; where buckets are, signatures, error documents
//! - [`planner`], [`verdict`]: what is next, and what follows from an attempt
//! - [`recent_hosts`], [`host_robots`]: what is known of hosts; what a host's robots.txt says of a target

pub mod answer_pattern;
pub mod body_type;
pub mod byte_range;
pub mod certainty;
pub mod content_encoding;
pub mod cookies;
pub mod count_text;
pub mod entry;
pub mod error;
pub mod expected_hash;
mod extension;
pub mod extra_columns;
pub mod failure_detail;
pub mod file_name;
pub mod header_field;
pub mod hidden_text;
pub mod host_robots;
pub mod http1;
pub mod kept_reply;
pub mod limits;
pub mod name;
pub mod object;
pub mod opt_out;
pub mod opt_out_rule;
pub mod options;
pub mod origin;
pub mod outcome;
pub mod panics;
pub mod patience;
pub mod planner;
pub mod recent_hosts;
pub mod row;
pub mod s3;
pub mod same_bodies;
pub mod skips;
pub mod source;
pub mod source_metadata;
pub mod stored_name;
pub mod sync;
pub mod target;
pub mod target_request;
pub mod time_text;
pub mod verdict;
