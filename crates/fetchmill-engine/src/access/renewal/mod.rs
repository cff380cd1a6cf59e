//! Credentials that expire: their sources, and their renewal while a job runs.

mod command;
mod refresher;

pub(crate) use command::run_command;
pub(crate) use refresher::{
    CredentialHolder, CredentialSource, LoadedCredentials, Refresher, Renewal, stopped,
};
