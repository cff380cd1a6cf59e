//! Cookies (RFC 6265): which cookies a reply can set, and which requests carry them.
//!
//! Cookies set by a reply are kept until the redirects of that target end. Cookies from a file are kept for the whole
//! job. This module does no I/O and reads no clock.

mod chain;
mod cookie;
mod file;

pub use chain::ChainCookies;
pub use cookie::{Cookie, RequestPlace};
pub use file::CookieFile;
