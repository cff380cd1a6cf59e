//! The open journal of a job: facts about the job (table `job`), pages with unfinished targets, and transactions. The
//! other modules write their tables in these transactions.

pub(super) mod command;
pub(super) mod identity;
pub(super) mod live;
pub(super) mod open_journal;
pub(super) mod opening;
pub(super) mod peek;
pub(super) mod rules;
