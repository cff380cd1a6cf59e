//! The open journal of a job: facts of the job (table `job`), pages with unfinished targets, and the transactions in
//! which the other modules write their tables.

pub(super) mod command;
pub(super) mod identity;
pub(super) mod live;
pub(super) mod open_journal;
pub(super) mod opening;
pub(super) mod rules;
