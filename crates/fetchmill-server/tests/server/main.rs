//! The server as a client sees it: raw bytes over a socket, against a server in this process.

mod api;
mod client;
mod delays;
mod faults;
mod folder;
mod lifetime;
mod pipelining;
