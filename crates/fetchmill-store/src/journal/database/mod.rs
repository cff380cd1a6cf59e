//! The database of `SQLite`: its tables, how it is opened, which release can read it, and which run may write it.

pub(super) mod fence;
pub(super) mod file_name;
pub(super) mod schema;
pub(super) mod sqlite_error;
pub(super) mod version;
mod wal_index;
