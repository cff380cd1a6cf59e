//! The complete server: its content, its threads and their shutdown.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::content::Content;
use crate::error::Error;
use crate::folder::Folder;
use crate::hosts::AllowedHosts;
use crate::options::{ContentOptions, Options, refuse};
use crate::server_state::ServerState;
use crate::serving;
use crate::stats::Stats;
use crate::synthetic::Synthetic;
use crate::threads::{self, Threads};
use crate::tls;
use crate::worker::Worker;

/// A running server. It ends when it is stopped or dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<ServerState>,
    ca_pem: Option<String>,
    /// The threads end when this is dropped.
    _threads: Threads,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts to serve the content that the options name.
    pub fn start(options: &Options) -> Result<Server, Error> {
        options.check()?;
        let content: Arc<dyn Content> = match &options.content {
            None => return refuse("the content is missing; give a folder or synthetic".to_owned()),
            Some(ContentOptions::Folder(path)) => Arc::new(Folder::open(path, options.hidden)?),
            Some(ContentOptions::Synthetic { count, size }) => {
                Arc::new(Synthetic { count: *count, size: *size })
            }
        };
        Server::start_with(content, options)
    }

    /// Starts to serve the given content.
    pub fn start_with(content: Arc<dyn Content>, options: &Options) -> Result<Server, Error> {
        options.check()?;
        let mut shared = ServerState::new(content, options)?;
        let (listener, address) = threads::listen(&options.host, options.port)?;
        let (tls, ca_pem) = match &options.certificate {
            Some(files) => (Some(tls::acceptor_with(files)?), None),
            None if options.tls => tls::acceptor().map(|(tls, pem)| (Some(tls), Some(pem)))?,
            None => (None, None),
        };
        shared.hosts = AllowedHosts::of(address, &options.allow_hosts);
        let shared = Arc::new(shared);
        let serve = |position| {
            let worker = Arc::new(Worker::new(Arc::clone(&shared), position));
            let tls = tls.clone();
            move |stream| serving::serve(stream, tls.clone(), Arc::clone(&worker))
        };
        let threads = Threads::start("fetchmill-serve", options.threads, listener, serve)?;
        Ok(Server { address, shared, ca_pem, _threads: threads })
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the certificate of the authority that clients must trust, as PEM. `None` without `tls`.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// Returns the counts so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Closes all connections and waits for the threads to end.
    pub fn stop(self) {
        drop(self);
    }
}
