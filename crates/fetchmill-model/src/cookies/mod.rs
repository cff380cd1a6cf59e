//! Cookies, by the rules of RFC 6265: which a reply may set, and which requests get them. Those of a reply live as long as the
//! redirects of its target, those of a file as long as the job. No I/O, no clock.

mod chain;
mod cookie;
mod file;

pub use chain::ChainCookies;
pub use cookie::{Cookie, RequestPlace};
pub use file::CookieFile;
