//! Text for people and for the journal.

pub mod counts;
pub mod dates;
pub mod file_name;
pub mod redacted;
