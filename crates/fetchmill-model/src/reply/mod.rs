//! Checks of a reply: which request it answers, how long to wait for it, how its body is encoded, and what type the
//! body is.

pub mod body_type;
pub mod certainty;
pub mod content_encoding;
pub mod patience;
