//! Passes without a network: listings are written as files, and what a job would fetch is put where it would lie.
