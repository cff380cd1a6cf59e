//! fetchmill's file server: many small objects over the list/get API, with scripted faults.
//!
//! The client is tested and measured against this server. The server also serves folders and destinations to other
//! programs. It shares no code with the client, so that a mistake in the client cannot be hidden by the same mistake in
//! the server.
//!
//! # The API
//! - `GET /list` and `GET /list?next-marker=MARKER`: `{"FileNames": ["...", ...], "NextMarker": "MARKER"}`. The last
//!   page has no marker. Markers are opaque to clients, and an unknown marker is answered with 400.
//! - `GET /get/NAME`: the bytes, or 404. Names are UTF-8 and percent-encoded, except that `/` can be left unencoded.
//! - `GET /stats`: the counters ([`Stats`]).
//!
//! All paths also accept HEAD. Connections stay open as in HTTP/1.1, and the replies to pipelined requests are sent
//! with one write. Invalid requests are rejected:
//! - A head can contain up to 16 KiB (otherwise 431).
//! - The syntax must be valid, and the request must not have a body (otherwise 400).
//! - On loopback, the host must be this machine (otherwise 421).
//!
//! A client is disconnected if it sends no request or accepts no bytes for `client_timeout`.
//!
//! # Layout, from the bottom up
//! - `hash`, `json`, `error`, `hosts`, `options`, `token_bucket`, `tls`
//! - `request` reads heads, and `reply` writes them; `stats` counts
//! - `rules` checks the faults, and `faults` decides which requests go wrong; `stray` sends unsolicited replies
//! - `content` is the trait that `synthetic` and `folder` implement
//! - `server_state` is shared by all threads; `worker` turns a parsed request (`call`) into a reply
//! - `connection` moves the bytes of a `client_stream`
//! - `scripted_reply` is the slow path of a reply, and `source` provides its body in pieces
//! - `threads` accepts connections, and `serving` serves them; `server` combines everything
//! - [`world`] is separate: a thousand hosts and their name server, for jobs over many hosts; [`s3`] is an S3 store
//!
//! # Example
//! ```
//! let options = serde_json::from_str(r#"{"content": {"synthetic": {"count": 1000000000, "size": 100}}}"#)?;
//! let server = fetchmill_server::Server::start(&options)?;
//! println!("http://{}/list", server.address());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod call;
mod client_stream;
mod connection;
mod content;
mod error;
mod faults;
mod folder;
mod hash;
mod hosts;
mod json;
mod options;
mod reply;
mod request;
mod rules;
pub mod s3;
mod scripted_reply;
mod server;
mod server_state;
mod serving;
mod source;
mod stats;
mod stray;
mod synthetic;
mod threads;
mod tls;
mod token_bucket;
mod worker;
pub mod world;

pub use content::{Body, Content, ContentError, Page, Stream};
pub use error::Error;
pub use folder::Folder;
pub use options::{ActionName, CertificateFiles, ContentOptions, Options, RetryAfter, Rule, RuleScope};
pub use server::Server;
pub use stats::Stats;
pub use synthetic::{SYNTHETIC_COUNT_MAX, Synthetic, synthetic_body};
