//! Cookies according to RFC 6265: which cookies a reply may set, and which requests get them. Cookies from a reply live
//! as long as the redirects of its target. Cookies from a file live for the whole job. This code does no I/O and has no
//! clock.

mod chain;
mod cookie;
mod file;

pub use chain::ChainCookies;
pub use cookie::{Cookie, RequestPlace};
pub use file::CookieFile;
