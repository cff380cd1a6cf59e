//! What a reply is worth: whose it is, how long it is waited for, how its body is encoded, and of which type it is.

pub mod body_type;
pub mod certainty;
pub mod content_encoding;
pub mod patience;
