//! Access to servers: the credentials of requests, and the errors for servers that cannot prove their identity.

pub(super) mod bearer;
pub(super) mod renewal;
pub(super) mod s3;
pub(super) mod tls_errors;
