//! Access to servers: credentials for requests, and errors about servers that fail certificate verification.

pub(super) mod bearer;
pub(super) mod renewal;
pub(super) mod s3;
pub(super) mod tls_errors;
