//! Cookies by the rules of RFC 6265: which cookies a reply may set, and which requests get them. Cookies of a reply
//! live for the redirects of its target, cookies of a file for the whole job. This code does no I/O and has no clock.

mod chain;
mod cookie;
mod file;

pub use chain::ChainCookies;
pub use cookie::{Cookie, RequestPlace};
pub use file::CookieFile;
