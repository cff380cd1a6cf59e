//! The `SQLite` database: its tables, how to open it, which release can read it, and which run may write it.

pub(super) mod fence;
pub(super) mod file_name;
pub(super) mod schema;
pub(super) mod sqlite_error;
pub(super) mod version;
mod wal_index;
