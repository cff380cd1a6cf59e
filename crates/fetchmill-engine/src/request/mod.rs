//! What a user asks for: options of jobs and streams, their checks, and what makes two runs the same job.
//!
//! Nothing here changes while a job runs.

pub(super) mod custom_request;
pub(super) mod http_options;
pub(super) mod job_identity;
pub(super) mod option_checks;
pub(super) mod option_reader;
pub(super) mod options;
pub(super) mod retry_failed;
pub(super) mod stop_rules;
pub(super) mod stream_options;
