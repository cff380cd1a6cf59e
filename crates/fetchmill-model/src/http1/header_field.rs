//! Rules for names and values of request header fields.

use crate::error::{Error, Result};
use crate::name;

/// Fields that define the host or the end of a message, or that ask for replies that [`crate::http1::ReplyReader`]
/// refuses.
const REFUSED_FIELDS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Returns whether a byte is allowed in a field name or a method (RFC 9110, 5.6.2).
pub fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Refuses a field that could change the meaning of a request. Errors show the field's name, never its value.
pub fn check_field(name: &str, value: &str) -> Result<()> {
    let usage = |problem: &str| {
        let name = name::for_display(name.as_bytes());
        Err(Error::Usage(format!("the header field {name} {problem}")))
    };
    if name.is_empty() || !name.bytes().all(is_token) {
        return usage("has a malformed name");
    }
    if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return usage("has control characters in its value");
    }
    if name.eq_ignore_ascii_case("range") {
        return usage("cannot be set; use --offset-column and --length-column to request parts of objects");
    }
    if REFUSED_FIELDS.iter().any(|refused| refused.eq_ignore_ascii_case(name)) {
        return usage("cannot be set");
    }
    Ok(())
}
