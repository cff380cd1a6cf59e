//! The file server of fetchmill: many small objects over the list/get API, with scripted faults.
//!
//! It is what the client is tested and measured against, and it serves folders and destinations to others. It
//! shares no code with the client, so that a mistake in one does not hide the same mistake in the other.
//!
//! # The API
//! - `GET /list` and `GET /list?next-marker=MARKER`: `{"FileNames": ["...", ...], "NextMarker": "MARKER"}`; the
//!   last page has no marker. It means nothing to clients; an unknown one is answered 400.
//! - `GET /get/NAME`: the bytes, or 404. Names are UTF-8 and percent-encoded; `/` may stay.
//! - `GET /stats`: the counters ([`Stats`]).
//!
//! HEAD works for all of them. Connections stay open as HTTP/1.1 says, and pipelined requests are answered with one
//! write. A request head has at most 16 KiB (431), no body (400), and must be well-formed (400). At loopback it must be for
//! this machine (421). A client that asks for nothing, or takes nothing, for `client_timeout` is let go.
//!
//! # Layout, from the bottom up
//! - `hash`, `json`, `error`, `hosts`, `options`
//! - `request` reads heads, `reply` writes them; `rules` checks the faults, `faults` decides which request
//!   goes wrong; `stats` counts
//! - `content` is the trait, `synthetic` and `folder` are two contents
//! - `shared` is what all threads know, `call` a request that is understood; `worker` turns it into a reply
//! - `connection` moves bytes; `scripted` is the slow way of a reply, `source` its body in pieces
//! - `threads` accept connections and serve them; `server` is the whole
//! - [`world`] is apart from all of these: a thousand hosts with their name server, for jobs over many hosts; [`s3`] is
//!   a store that speaks S3
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
