//! The `SQLite` database: its tables, the functions that open it, and two checks. The checks decide which releases may
//! read the database, and which run may write to it.

pub(super) mod fence;
pub(super) mod file_name;
pub(super) mod schema;
pub(super) mod sqlite_error;
pub(super) mod version;
mod wal_index;
