//! Access to servers: what requests show of who asks, and what is said when a server cannot show who it is.

pub(super) mod bearer;
pub(super) mod renewal;
pub(super) mod s3;
pub(super) mod tls_errors;
