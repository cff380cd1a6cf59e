//! A job's open journal: facts about the job (table `job`), pages with unfinished targets, and the transactions in
//! which other modules write their tables.

pub(super) mod command;
pub(super) mod identity;
pub(super) mod live;
pub(super) mod open_journal;
pub(super) mod opening;
pub(super) mod peek;
pub(super) mod rules;
