//! Credentials that do not last: found by somebody, for a command perhaps, and replaced while a job runs.

mod command;
mod refresher;

pub(crate) use command::run_command;
pub(crate) use refresher::{
    CredentialHolder, CredentialSource, LoadedCredentials, Refresher, Renewal, stopped,
};
