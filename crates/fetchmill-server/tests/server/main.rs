//! Tests of the server through a socket, with raw bytes. The server runs in this process.

mod api;
mod client;
mod delays;
mod faults;
mod folder;
mod lifetime;
mod pipelining;
