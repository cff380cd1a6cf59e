//! The `SQLite` database: its tables, the functions that open it, and two checks. They decide which releases may read
//! it, and which run may write to it.

pub(super) mod fence;
pub(super) mod file_name;
pub(super) mod schema;
pub(super) mod sqlite_error;
pub(super) mod version;
mod wal_index;
