//! The journal of a job as it is open: facts of the job (table `job`), pages with targets that are not settled, and the
//! transactions in which the other rooms write their tables.

pub(super) mod command;
pub(super) mod identity;
pub(super) mod live;
pub(super) mod opening;
pub(super) mod rules;
pub(super) mod transactions;
