//! The user's request: options of jobs and streams, with their parsing and validation.
//!
//! Nothing in this module changes after parsing. The plan of a job is derived from its request.

mod cookies;
pub(super) mod custom_request;
pub(super) mod http_options;
mod item_checks;
pub(super) mod job_request;
pub(super) mod name_scheme;
mod naming;
mod option_checks;
pub(super) mod option_reader;
pub(super) mod retry_failed;
pub(super) mod rows_options;
pub(super) mod source_options;
pub(super) mod stop_rules;
pub(super) mod storing_options;
pub(super) mod stream_options;
pub(super) mod workers;
